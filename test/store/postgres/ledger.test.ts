import { randomBytes, randomUUID } from "node:crypto";
import t, { type Test } from "tap";
import { describeDifferingSums } from "../../../src/store/differing-sums.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { PostgresLedger } from "../../../src/store/postgres/ledger.ts";
import { entry, ledgerContract } from "../../support/ledger-contract.ts";
import { testPlacedSums } from "../../support/placed-sums.ts";
import { openDatabase, placeOf, startPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";

const DAY = Date.UTC(2026, 10, 20);
/** Rows of the test of many at a time. */
const MANY = Number(process.env["GATEWAY_TEST_LEDGER_ROWS"] ?? 10_000);

/** The lock of the test of slow queries, and the number of queries that wait for it. */
const LOCKED =
  "select 1 from pg_locks where mode = 'AccessExclusiveLock' and relation = 'usage_holder'::regclass and granted";
const WAITING = "select count(*) as waiting from pg_locks where relation = 'usage_holder'::regclass and not granted";

/** Together longer than an entry of an index, however they are compressed. */
const LONG_TAGS = Array.from({ length: 60 }, (_, i) => [`tag-${i}`, randomBytes(60).toString("base64")] as const);

const server = await startPostgres(t);

async function open(t: Test, own = server) {
  if (!own) throw new Error("no PostgreSQL");
  const url = await own.database();
  const warnings: string[] = [];
  const view = async () => {
    const database = await openDatabase(t, url, 3);
    return { database, ledger: new PostgresLedger(database, (text) => warnings.push(text)) };
  };
  const { database, ledger } = await view();
  const count = async () => Number((await database.query("select count(*) as rows from usage"))[0]?.["rows"]);
  /** Nothing, where all sums are those of their rows. */
  const wrong = () => describeDifferingSums(database.query, 0);
  return { url, database, ledger, warnings, view, count, wrong };
}

if (server) {
  ledgerContract(t, async (t) => {
    const { ledger, view, database, count } = await open(t);
    const ask = async (text: string) => [...(await database.query(text))].map((row) => ({ ...row }));
    return { ledger, other: (await view()).ledger, rows: count, ask };
  });

  t.test("a server that has become read-only is left, as its address may lead to its successor by now", async (t) => {
    const { url, view, count, warnings } = await open(t);
    const readOnly = (value: "on" | "off") =>
      server.ask(
        url,
        `begin read write; alter database ${new URL(url).pathname.slice(1)} set default_transaction_read_only = ${value}; commit`,
      );
    await readOnly("on");
    const { ledger } = await view();
    ledger.append(entry({ id: "row", time: DAY, cost: 5 }));
    await t.rejects(ledger.flush(), { code: "25006" });
    t.match(warnings, [/read-only transaction; name the server that can be written/]);
    // A new connection is another server's.
    await readOnly("off");
    const isFlushed = () =>
      ledger.flush().then(
        () => true,
        () => false,
      );
    await until(isFlushed, "the ledger is written again");
    t.equal(await count(), 1);
    t.match(warnings, [/read-only/, /being written again/]);
  });

  t.test("rows are in all sums, also where the database's transactions are serializable by default", async (t) => {
    const { url, ledger, view, count, wrong, warnings } = await open(t);
    const name = new URL(url).pathname.slice(1);
    await server.ask(url, `alter database ${name} set default_transaction_isolation = 'serializable'`);
    const { ledger: strict } = await view();
    for (const [at, model] of ["one", "two"].entries()) {
      const row = entryToRow(entry({ id: randomUUID(), time: DAY, model, group: model, cost: 5 }));
      strict.appendRow({ ...row, place: { journal: "1-1-1", from: 100 * at, to: 100 * (at + 1) } });
      await strict.flush();
    }
    t.equal(await count(), 2);
    t.same(await wrong(), []);
    t.match(await ledger.sums({ by: ["model"] }), [
      { group: ["one"], cost: 5 },
      { group: ["two"], cost: 5 },
    ]);
    t.same(warnings, []);
  });

  t.test("rows of keys with very long tags are stored, each holder once, and found by index", async (t) => {
    const { ledger, view, database, warnings } = await open(t);
    const long = (last: string) => ({ ...Object.fromEntries(LONG_TAGS), last });
    for (const one of [ledger, (await view()).ledger]) {
      for (const last of ["a", "b"])
        one.append(entry({ id: randomUUID(), time: DAY, group: "acme", tags: long(last), cost: 5 }));
      await one.flush();
    }
    t.match(await ledger.sums({ by: ["group"] }), [{ group: ["acme"], requests: 4, cost: 20 }]);
    t.same(await database.query("select count(*) as holders from usage_holder"), [{ holders: "3" }]);
    t.same(warnings, []);
    await database.query(
      "insert into usage_holder (group_path, tags) select 'acme', n || repeat('x', 20) from generate_series(1, 50000) as n",
    );
    await database.query("analyze usage_holder");
    const select = Reflect.get(Reflect.get(ledger, "holders") as object, "select") as string;
    const given = JSON.stringify([{ place: 0, group_path: "acme", tags: "1" }]);
    const plan = await database.query(`explain ${select.replace("?", `'${given}'`)}`);
    t.match(JSON.stringify(plan), /usage_holder_digests/);
  });

  t.test("queries of rows that take long delay neither rows nor the sums of budgets", async (t) => {
    const { ledger, view, count, warnings } = await open(t);
    const { database: holder } = await view();
    ledger.append(entry({ id: "first", time: DAY, cost: 1 }));
    await ledger.flush();
    const released = Promise.withResolvers<void>();
    const held = holder.transaction(async (ask) => {
      await ask("lock table usage_holder in access exclusive mode");
      await released.promise;
    }, 60_000);
    await until(async () => (await holder.query(LOCKED)).length > 0, "the lock is held");
    const slow = Array.from({ length: 5 }, () => ledger.search({ limit: 1 }));
    await until(async () => Number((await holder.query(WAITING))[0]?.["waiting"]) >= 2, "some of them run");
    // A new kind, whose number is looked up.
    ledger.append({ ...entry({ id: "row", time: DAY, cost: 5 }), target: "other:m" });
    await ledger.flush();
    t.match(await ledger.sums({ by: ["target"] }), [{ group: ["other:m"], cost: 5 }, { cost: 1 }]);
    released.resolve();
    await held;
    t.same(
      (await Promise.all(slow)).map((rows) => rows.length),
      [1, 1, 1, 1, 1],
    );
    t.same([await count(), warnings], [2, []]);
  });

  t.test("sums tell how far they include each journal", async (t) => {
    const { url } = await open(t);
    await testPlacedSums(t, placeOf(url), t.testdir());
  });

  t.test("concurrent writers of the same rows never deadlock, and each row counts once", async (t) => {
    const { ledger, view, count, wrong, warnings } = await open(t);
    const ledgers = [ledger, ...(await Promise.all([1, 2, 3].map(view))).map((one) => one.ledger)];
    const all = Array.from({ length: MANY }, (_, at) =>
      entry({ id: `row-${at}`, time: DAY + (at % 90) * 3_600_000, key: `k${at % 50}`, model: `m${at % 4}`, cost: at }),
    );
    for (const [i, one] of ledgers.entries()) {
      // Each in another order.
      const turned = [...all.slice((i * MANY) / 4), ...all.slice(0, (i * MANY) / 4)];
      for (const row of i % 2 === 0 ? turned : turned.reverse()) one.append(row);
    }
    await Promise.all(ledgers.map((one) => one.flush()));
    t.equal(await count(), MANY);
    t.match(await ledger.sums({ by: [] }), [{ requests: MANY, cost: (MANY * (MANY - 1)) / 2 }]);
    t.same(await wrong(), []);
    t.same(warnings, []);
  });

  t.test("sums of weeks include the rows of a gateway that writes none", async (t) => {
    const { database, ledger, wrong } = await open(t);
    const days = `insert into usage_day
      select ${DAY} + n % 3 * 86400000, 'k', 'm' || n, 'p:m', 0, 1, 0, 0, 10, 0, 5, 0, 100 from generate_series(1, 9) as n
      on conflict (day, key, model, target, holder) do update set
        requests = usage_day.requests + excluded.requests, cost = usage_day.cost + excluded.cost`;
    for (let round = 0; round < 3; round++) await database.query(days);
    t.match(await ledger.sums({ by: [] }), [{ requests: 27, cost: 2700, tokensIn: 90 }]);
    t.notMatch(await wrong(), /sums of the week/);
  });

  t.test("usage that is reported more than once counts for the first row that names it", async (t) => {
    const { ledger, view, wrong } = await open(t);
    const { ledger: other } = await view();
    const told = (id: string, once: string) => entry({ id, once, cost: 10 });
    for (const id of ["1", "2"]) ledger.append(told(id, "resp_1"));
    ledger.append(told("3", "resp_2"));
    ledger.append(entry({ id: "4", cost: 1 }));
    await ledger.flush();
    other.append(told("5", "resp_1"));
    other.append(told("1", "resp_1"));
    await other.flush();
    t.match(await ledger.sums({ by: [] }), [{ requests: 5, cost: 21 }]);
    const costs = (await ledger.recent(10)).map(({ id, cost }) => `${id} ${cost}`).sort();
    t.same(costs, ["1 10", "2 0", "3 10", "4 1", "5 0"]);
    t.same(await wrong(), []);
  });

  t.test("only a row that cannot be written by any attempt is lost, and it is reported", async (t) => {
    const { ledger, count, warnings } = await open(t);
    const good = Array.from({ length: 20 }, (_, at) => entry({ id: `good-${at}` }));
    for (const [at, one] of good.entries()) {
      ledger.append(one);
      if (at === 7) {
        const row = entryToRow(entry({ id: "bad" }));
        ledger.appendRow({ ...row, kind: row.kind.map((value, i) => (i === 5 ? null : value)) });
        ledger.appendRow(entryToRow(entry({ id: "late", time: 1e20 })));
      }
    }
    await ledger.flush();
    t.equal(await count(), 20);
    t.equal(warnings.length, 2);
    for (const text of warnings) t.match(text, /^A ledger entry is lost, for the store refuses it: /);
  });

  t.test("texts that PostgreSQL does not accept are corrected, and rows keep everything else", async (t) => {
    const { ledger } = await open(t);
    const odd = entry({ model: "a\0b\ud800", group: "g", tags: { a: "ü" }, bytes: { up: 1, down: 2 } });
    const several = entry({ attempts: [1, 2].map((at) => ({ target: "p:m", error: "x\0y", startedAt: at })), id: "s" });
    for (const one of [odd, several]) ledger.append(one);
    const found = await ledger.recent(5);
    t.match(
      found.find(({ id }) => id === odd.id),
      { ...odd, model: "a\ufffdb\ufffd" },
    );
    t.match(
      found.find(({ id }) => id === "s"),
      several,
    );
  });

  t.test("every caller of flush waits for a database that is down", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const { ledger, warnings } = await open(t, own);
    for (let at = 0; at < 50; at++) ledger.append(entry());
    await own.kill();
    for (let i = 0; i < 3; i++) await t.rejects(ledger.flush());
    t.equal(ledger.state, "waiting");
    await own.start();
    await ledger.flush();
    t.equal(ledger.state, "ok");
    t.match(await ledger.sums({ by: [] }), [{ requests: 50 }]);
    t.match(warnings, [/^The ledger cannot be written: .*Its rows wait in the journal\.$/, /written again/]);
    t.equal(warnings.length, 2);
  });

  t.test("an outage is known, and its end, while there is nothing to write", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const { ledger, warnings } = await open(t, own);
    const becomes = (state: string) =>
      until(() => {
        ledger.probe();
        return ledger.state === state;
      }, `the state "${state}"`);
    ledger.append(entry());
    await ledger.flush();
    await own.kill();
    await becomes("waiting");
    await t.rejects(ledger.flush(), "nothing to write is no proof that the database is back");
    t.match(warnings, [/^The ledger cannot be written: PostgreSQL at .*Its rows wait in the journal\.$/]);
    await own.start();
    await becomes("ok");
    t.match(warnings.slice(1), [/written again/]);
    t.equal(warnings.length, 2);
    await ledger.close();
  });

  t.test("failed questions whether the database responds do not extend the deadline of a batch", async (t) => {
    const { ledger, database } = await open(t);
    const transaction = database.transaction.bind(database);
    database.transaction = async () => {
      throw new Error("away");
    };
    ledger.probe();
    for (let i = 0; i < 3; i++) await t.rejects(ledger.flush());
    t.equal(ledger.state, "waiting");
    const deadlines: unknown[] = [];
    database.transaction = (work, deadline) => {
      deadlines.push(deadline);
      return transaction(work, deadline);
    };
    ledger.append(entry());
    await ledger.flush();
    t.ok(deadlines.includes(5000), `deadlines of ${deadlines} ms`);
  });

  t.test("no query reads tables of months in which nothing can be", async (t) => {
    const { ledger, database } = await open(t);
    for (let month = 0; month < 12; month++) ledger.append(entry({ time: Date.UTC(2026, month, 3) }));
    await ledger.flush();
    const asked: [text: string, values: readonly unknown[]][] = [];
    const within = database.withDeadline.bind(database);
    database.withDeadline = (deadline, work) =>
      within(deadline, (ask) =>
        work((text, ...values) => {
          asked.push([text, values]);
          return ask(text, ...values);
        }),
      );
    const since = Date.UTC(2026, 5, 2, 0, 30);
    await ledger.sums({ by: ["model"], since, until: since + 5 * 86_400_000 });
    for await (const _ of ledger.entries({ since, until: since + 86_400_000 }));
    for (const [text, values] of asked.filter(([text]) => /\bfrom usage\b/.test(text))) {
      const plan = await database.query(`explain ${text}`, ...(values as number[]));
      const tables = plan.flatMap((row) => String(row["QUERY PLAN"]).match(/usage_\d{4}_\d\d\b/g) ?? []);
      t.same([...new Set(tables)], ["usage_2026_06"]);
    }
    t.ok(asked.length >= 2);
  });
}
