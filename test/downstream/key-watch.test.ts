import t from "tap";
import type { GatewayError } from "../../src/core/errors.ts";
import { KeyWatch } from "../../src/downstream/key-watch.ts";
import type { RunningExchange } from "../../src/downstream/running-exchanges.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteKeys } from "../../src/store/sqlite/keys.ts";
import { until } from "../support/until.ts";

/** Exchanges of callers, and why each was ended. */
function running(callers: { id: string; name: string; group?: string; expires?: number }[]) {
  const ended: (string | undefined)[] = callers.map(() => undefined);
  const end = (why: (running: RunningExchange) => GatewayError | undefined) => {
    for (const [i, caller] of callers.entries()) ended[i] ??= why({ exchange: { caller } } as RunningExchange)?.code;
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
