import { join } from "node:path";
import { crc32 } from "node:zlib";
import t from "tap";
import { generateKey, isValidKey } from "../../src/store/key-format.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteKeys } from "../../src/store/sqlite/keys.ts";

/** Keys of each kind; times are judged only where this is set, on a quiet machine. */
const CALLS = Number(process.env["GATEWAY_TEST_KEY_TIMING"] ?? 0);
const ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** The id of one key with the secret of another, and a checksum that is right. */
function wrongSecret(id: string): string {
  const body = generateKey()
    .key.replace(/^gw_\w{10}/, `gw_${id}`)
    .slice(0, -6);
  let rest = crc32(body);
  let sum = "";
  for (let place = 0; place < 6; place++) {
    sum = ALPHABET[rest % 62] + sum;
    rest = Math.floor(rest / 62);
  }
  return body + sum;
}

/** Welch's t of two samples without their slowest twentieth, which collections and other processes make. */
function welch(one: readonly number[], other: readonly number[]): number {
  const [a, b] = [one, other].map((times) => {
    const kept = times.toSorted((x, y) => x - y).slice(0, Math.ceil(times.length * 0.95));
    const mean = kept.reduce((sum, time) => sum + time, 0) / kept.length;
    const variance = kept.reduce((sum, time) => sum + (time - mean) ** 2, 0) / (kept.length - 1);
    return { mean, error: variance / kept.length };
  }) as [{ mean: number; error: number }, { mean: number; error: number }];
  return (a.mean - b.mean) / Math.sqrt(a.error + b.error);
}

t.test("a wrong secret for an existing id is refused as an unknown id is, and takes as long", async (t) => {
  const database = new SqliteDatabase(join(t.testdir(), "gateway.db"));
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  const ids = await Promise.all(
    Array.from({ length: 50 }, async (_, i) => (await keys.create({ name: `k${i}` })).record.id),
  );
  const nobodys = ids.map(() => generateKey().id);
  const times: [number[], number[]] = [[], []];
  let found = 0;
  for (let i = 0; i < Math.max(CALLS, 200); i++) {
    const asked = [ids, nobodys].map((each) => wrongSecret(each[i % each.length] as string));
    if (!asked.every(isValidKey)) t.fail(`not the format of keys: ${asked}`);
    // Now one goes first, now the other.
    for (const kind of i % 2 === 0 ? [0, 1] : [1, 0]) {
      const start = process.hrtime.bigint();
      if (keys.find(asked[kind] as string) !== undefined) found++;
      times[kind as 0 | 1].push(Number(process.hrtime.bigint() - start));
    }
  }
  t.equal(found, 0);
  const score = welch(...times);
  t.comment(`${times[0].length} calls each: t = ${score.toFixed(2)}`);
  if (CALLS > 0) t.ok(Math.abs(score) < 4.5, `t = ${score}`);
});
