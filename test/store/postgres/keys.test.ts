import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { generateKey } from "../../../src/store/key-format.ts";
import type { KeyChange } from "../../../src/store/keys.ts";
import { PostgresDatabase } from "../../../src/store/postgres/database.ts";
import { PostgresKeys } from "../../../src/store/postgres/keys.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { keysContract } from "../../support/keys-contract.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";

/** Milliseconds that a question for a key may take. */
const LOOK_UP = 1_500;

const server = await startPostgres(t);

/** Keys in a new database, and views of it with connections of their own. */
async function open(t: Test) {
  if (!server) throw new Error("no PostgreSQL");
  const url = await server.database();
  const opened: PostgresKeys[] = [];
  const view = async (
    ...more: ConstructorParameters<typeof PostgresKeys> extends [unknown, ...infer R] ? R : never
  ) => {
    const { database } = await openPostgres(placeOf(url), 2);
    const keys = new PostgresKeys(database, ...more);
    opened.push(keys);
    t.teardown(async () => {
      keys.close();
      await database.close();
    });
    return keys;
  };
  return { url, view, server };
}

if (server) {
  keysContract(t, async (t) => {
    const url = await server.database();
    const { database } = await openPostgres(placeOf(url), 4);
    const made: PostgresKeys[] = [];
    t.teardown(async () => {
      for (const keys of made) keys.close();
      await database.close();
    });
    return {
      view: (fileKeys) => {
        const keys = new PostgresKeys(database, fileKeys);
        made.push(keys);
        return keys;
      },
    };
  });

  t.test("one process's cached keys are passed to a new one, for the rest of their lifetime", async (t) => {
    const { url, view } = await open(t);
    let now = 0;
    const one = await view([], () => now);
    t.equal(one.snapshot(), undefined, "not notified yet");
    const { key } = await one.create({ name: "one", models: ["a"] });
    t.match(await one.find(key), { name: "one" });
    await one.disableGroup("acme");
    now = 9 * 60_000;
    const told = JSON.parse(JSON.stringify(one.snapshot()));
    t.equal(told.age, now);
    const away = await PostgresDatabase.open({ ...placeOf(url), database: "none" }, 1);
    let later = 0;
    const other = new PostgresKeys(away, [], () => later, { poll: 3_600_000, listen: false });
    t.teardown(async () => {
      other.close();
      await away.close();
    });
    other.loadSnapshot(told);
    t.match(await other.find(key), { name: "one", models: ["a"] });
    t.equal(other.disabledGroup("acme/x"), "acme");
    later = 61_000;
    await t.rejects(async () => other.find(key), { message: /key store cannot answer/ });
  });

  t.test("a known key is found without a query, and every view is notified of its end", async (t) => {
    const { view } = await open(t);
    const [one, two] = [await view(), await view()];
    const { key, record } = await one.create({ name: "one" });
    const told: KeyChange[] = [];
    two.watch((change) => told.push(change));
    t.match(await two.find(key), { name: "one" });
    t.notOk(two.find(key) instanceof Promise, "at once and without a promise");
    await one.revoke("one");
    t.ok((await one.find(key))?.revoked, "the process that did it knows at once");
    await until(() => told.length > 0, "the news");
    t.same(told, [{ id: record.id, kind: "revoked" }]);
    t.ok((await two.find(key))?.revoked);
  });

  t.test("changes without a notification are found all the same", async (t) => {
    const { view, url } = await open(t);
    const one = await view();
    const deaf = await view([], undefined, { poll: 200, listen: false });
    const { key } = await one.create({ name: "one" });
    t.equal((await deaf.find(key))?.revoked, undefined);
    await server.ask(url, "alter table key disable trigger key_tells");
    await one.revoke("one");
    await until(async () => (await deaf.find(key))?.revoked !== undefined, "the change");
    const heard = await view([], undefined, { poll: 200, listen: true });
    const second = await one.create({ name: "two" });
    t.equal((await heard.find(second.key))?.revoked, undefined);
    await one.disable("two");
    await until(async () => (await heard.find(second.key))?.disabled !== undefined, "the change");
  });

  t.test(
    "every view is notified of a disabled group, also of keys of gateway.yaml asked for before a poll",
    async (t) => {
      const { view } = await open(t);
      const one = await view();
      const heard = await view([], undefined, { poll: 3_600_000, listen: true });
      t.equal(await heard.disabledGroup("acme"), undefined);
      const told: KeyChange[] = [];
      heard.watch((change) => told.push(change));
      await one.disableGroup("acme");
      await until(() => told.length > 0, "the notification");
      t.same(told, [{ group: "acme" }]);
      t.equal(heard.disabledGroup("acme/x"), "acme", "at once and without a promise");
      t.equal(await (await view()).disabledGroup("acme/x"), "acme");
    },
  );

  t.test(
    "a group that is disabled while the first poll runs is refused by a request that comes afterwards",
    async (t) => {
      const { view, url } = await open(t);
      const one = await view();
      const { database } = await openPostgres(placeOf(url), 2);
      // The first reply is slow.
      const [asked, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const withDeadline = database.withDeadline.bind(database);
      database.withDeadline = (deadline, work) =>
        withDeadline(deadline, (ask) =>
          work(async (text, ...values) => {
            const rows = await ask(text, ...values);
            asked.resolve();
            await late.promise;
            return rows;
          }),
        );
      const slow = new PostgresKeys(database, [], undefined, { poll: 3_600_000, listen: false });
      t.teardown(async () => {
        slow.close();
        await database.close();
      });
      const before = slow.disabledGroup("acme");
      await asked.promise;
      await one.disableGroup("acme");
      const after = slow.disabledGroup("acme/x");
      late.resolve();
      t.equal(await before, undefined);
      t.equal(await after, "acme");
    },
  );

  t.test("a listener reconnects when its connection is lost", async (t) => {
    const { view, url } = await open(t);
    const one = await view();
    const two = await view([], undefined, { poll: 3_600_000, listen: true });
    const { key } = await one.create({ name: "one" });
    t.equal((await two.find(key))?.disabled, undefined);
    const listening = "select pid from pg_stat_activity where query like 'listen%' and datname = current_database()";
    for (let i = 0; i < 3; i++) {
      await until(async () => (await server.ask(url, listening)).length === 1, "listening");
      await server.ask(url, `select pg_terminate_backend(pid) from (${listening}) as found`);
      await (i % 2 === 0 ? one.disable("one") : one.enable("one"));
      await until(async () => ((await two.find(key))?.disabled !== undefined) === (i % 2 === 0), "the change");
    }
  });

  t.test("concurrent changes are all seen, whichever commits last", async (t) => {
    const { view } = await open(t);
    const views = await Promise.all([1, 2, 3].map(() => view()));
    const made = await Promise.all(
      Array.from({ length: 30 }, (_, i) => (views[i % 3] as PostgresKeys).create({ name: `key-${i}` })),
    );
    for (const keys of views) for (const { key } of made) t.equal((await keys.find(key))?.revoked, undefined);
    await Promise.all(made.map(({ record }, i) => (views[(i + 1) % 3] as PostgresKeys).revoke(record.id)));
    for (const keys of views)
      for (const { key } of made)
        await until(async () => (await keys.find(key))?.revoked !== undefined, "every revocation");
  });

  t.test("changes are noticed where the database has lost earlier ones, as after a failover", async (t) => {
    const { view, url } = await open(t);
    const one = await view();
    const { key } = await one.create({ name: "one" });
    for (let i = 0; i < 5; i++) await one.create({ name: `key-${i}` });
    const two = await view();
    t.equal((await two.find(key))?.revoked, undefined);
    await server.ask(url, "update key_change set last = last - 3");
    await server.ask(url, "update key set revoked = 1 where name = 'one'");
    await until(async () => (await two.find(key))?.revoked === 1, "the revocation");
  });

  t.test("the same name is given once", async (t) => {
    const { view } = await open(t);
    const views = await Promise.all([1, 2, 3].map(() => view()));
    const made = await Promise.allSettled(views.map((keys) => keys.create({ name: "one" })));
    t.equal(made.filter(({ status }) => status === "fulfilled").length, 1);
    for (const one of made) if (one.status === "rejected") t.match(one.reason, { code: "invalid_field", status: 409 });
  });

  t.test("unknown keys cost one query in five seconds, and many of them share one query", async (t) => {
    const { view } = await open(t);
    const clock = { now: 1000 };
    const keys = await view([], () => clock.now);
    const database = (keys as unknown as { database: { withDeadline: (...args: unknown[]) => unknown } }).database;
    await keys.find(generateKey().key);
    let asked = 0;
    const withDeadline = database.withDeadline.bind(database);
    database.withDeadline = (...args) => {
      // The look at what has changed, every two seconds, has a deadline of its own.
      if (args[0] === LOOK_UP) asked++;
      return withDeadline(...args);
    };
    const unknown = generateKey().key;
    for (let i = 0; i < 5; i++) t.equal(await keys.find(unknown), undefined);
    t.equal(asked, 1);
    clock.now += 5001;
    t.equal(await keys.find(unknown), undefined);
    t.equal(asked, 2);
    await Promise.all(Array.from({ length: 100 }, () => keys.find(generateKey().key)));
    t.ok(asked <= 4, `${asked}`);
    for (const text of ["", "sk-x", "' or 1=1 --", `${unknown}'; drop table key; --`]) {
      t.equal(keys.find(text), undefined, "an invalid key is never queried");
    }
    t.ok(asked <= 4);
  });
}

t.test("while the database is down", async (t) => {
  const own = await startPostgres(t);
  if (!own) return;
  const { database } = await openPostgres(placeOf(await own.database()), 2);
  const clock = { now: 1000 };
  const keys = new PostgresKeys(database, [{ name: "ci", key: "a-key-of-the-operators-own-choice" }], () => clock.now);
  t.teardown(async () => {
    keys.close();
    await database.close();
  });
  const { key } = await keys.create({ name: "known" });
  t.match(await keys.find(key), { name: "known" });
  await own.kill();
  const refused = {
    code: "store_unavailable",
    status: 503,
    retryAfter: 5,
    message: /^Whether the key is right is not known, .* This is temporary/,
  };
  const unknown = generateKey().key;
  clock.now += 9 * 60_000;
  t.match(keys.find(key), { name: "known" }, "known keys continue to work");
  await t.rejects(Promise.resolve(keys.find(unknown)), refused, "an unknown one is not refused as wrong: it may exist");
  t.equal(keys.find("sk-x"), undefined, "a key of another format is still refused as such");
  clock.now += 2 * 60_000;
  await t.rejects(Promise.resolve(keys.find(key)), refused, "for ten minutes");
  t.ok(keys.find("a-key-of-the-operators-own-choice"), "keys of gateway.yaml always work");
  await own.start();
  await until(async () => {
    clock.now += 1000;
    return Promise.resolve(keys.find(key)).then(
      (found) => found?.name === "known",
      () => false,
    );
  }, "the database to be asked again");
  await keys.revoke("known");
  await own.kill();
  await t.rejects(Promise.resolve(keys.find(key)), refused, "a key revoked just before stays revoked");
  await sleep(1);
});
