import t, { type Test } from "tap";
import type { GatewayError } from "../../src/core/errors.ts";
import { KeyWatch } from "../../src/downstream/key-watch.ts";
import type { RunningExchange } from "../../src/downstream/running-exchanges.ts";
import type { KeyRecord } from "../../src/store/keys.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteKeys } from "../../src/store/sqlite/keys.ts";
import { until } from "../support/until.ts";

/** Exchanges of callers, and why each was ended. */
function running(callers: { id: string; name: string; group?: string; expires?: number }[]) {
  const ended: (string | undefined)[] = callers.map(() => undefined);
  const all = callers.map((caller) => ({ exchange: { caller } }) as RunningExchange);
  const end = (why: (running: RunningExchange) => GatewayError | undefined) => {
    for (const [i, each] of all.entries()) ended[i] ??= why(each)?.code;
  };
  return { ended, end };
}

t.test("requests of a key that is revoked or disabled are ended, and no others", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  const made = [await keys.create({ name: "a" }), await keys.create({ name: "b" }), await keys.create({ name: "c" })];
  const { ended, end: interruptWhere } = running(made.map(({ record }) => record));
  const watch = new KeyWatch(keys, { interruptWhere });
  await keys.revoke("a");
  await keys.disable("b");
  await keys.edit("c", { owner: "x" });
  t.same(ended, ["revoked_api_key", "disabled_api_key", undefined]);
  watch.close();
  await keys.revoke("c");
  t.equal(ended[2], undefined, "nobody watches any more");
});

t.test("requests of a group that is disabled, and of groups below it, are ended, and no others", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  const { ended, end: interruptWhere } = running(
    ["acme", "acme/research", "acme-2", undefined].map((group) => ({ id: "k", name: "k", ...(group && { group }) })),
  );
  const watch = new KeyWatch(keys, { interruptWhere });
  t.teardown(() => watch.close());
  await keys.disableGroup("acme");
  t.same(ended, ["disabled_api_key", "disabled_api_key", undefined, undefined]);
});

t.test("requests of a key that expires are ended", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const key = { id: "k", name: "k" };
  const { ended, end: interruptWhere } = running([
    { ...key, expires: Date.now() },
    { ...key, expires: Date.now() + 60_000 },
    key,
  ]);
  const watch = new KeyWatch(new SqliteKeys(database), { interruptWhere });
  t.teardown(() => watch.close());
  await until(() => ended[0] !== undefined);
  t.same(ended, ["revoked_api_key", undefined, undefined]);
});

/** Keys in memory, and a running exchange of each of these keys. */
async function watched(t: Test, names: readonly string[]) {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  const issued = await Promise.all(names.map((name) => keys.create({ name, expires: Date.now() + 60_000 })));
  const find = (key: string) => keys.callerOf(keys.find(key) as KeyRecord);
  const { ended, end } = running(issued.map(({ key }) => find(key)));
  const watch = new KeyWatch(keys, { interruptWhere: end });
  t.teardown(() => watch.close());
  return { keys, ended };
}

t.test("requests of a secret that a rotation has replaced are ended when it no longer works", async (t) => {
  const { keys, ended } = await watched(t, ["at once", "soon", "later", "other"]);
  await keys.rotate("at once", 0);
  await keys.rotate("later", 60_000);
  t.same(ended, ["revoked_api_key", undefined, undefined, undefined]);
  const rotated = Date.now();
  await keys.rotate("soon", 100);
  await until(() => ended[1] !== undefined);
  t.ok(Date.now() - rotated >= 100);
  t.same(ended, ["revoked_api_key", "revoked_api_key", undefined, undefined]);
  await keys.rotate("later", 60_000);
  t.equal(ended[2], "revoked_api_key", "a further rotation ends the older secret");
});

t.test("a rotation does not end the requests of the new secret", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  await keys.create({ name: "a" });
  const second = await keys.rotate("a", 0);
  const { ended, end: interruptWhere } = running([keys.callerOf(keys.find(second?.key ?? "") as KeyRecord)]);
  const watch = new KeyWatch(keys, { interruptWhere });
  t.teardown(() => watch.close());
  await keys.edit("a", { owner: "x" });
  t.same(ended, [undefined]);
});

t.test("requests of a key whose expiry is changed are ended by the new one", async (t) => {
  const { keys, ended } = await watched(t, ["sooner", "later"]);
  await keys.edit("sooner", { expires: Date.now() - 1 });
  await keys.edit("later", { expires: null });
  t.same(ended, ["revoked_api_key", undefined]);
  await keys.edit("later", { expires: Date.now() + 100 });
  await until(() => ended[1] !== undefined);
});

t.test("requests of a key of gateway.yaml whose expiry is changed there are ended by the new one", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const of = (expires?: number) => [{ name: "ci", key: "a-key-of-gateway-yaml", ...(expires && { expires }) }];
  const keys = new SqliteKeys(database, of());
  const caller = keys.callerOf(keys.find("a-key-of-gateway-yaml") as KeyRecord);
  const { ended, end: interruptWhere } = running([caller]);
  const watch = new KeyWatch(keys, { interruptWhere });
  t.teardown(() => watch.close());
  keys.replaceFileKeys(of(Date.now() + 60_000));
  t.same(ended, [undefined]);
  keys.replaceFileKeys(of(Date.now() - 1));
  t.same(ended, ["revoked_api_key"]);
});
