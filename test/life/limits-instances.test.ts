import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { startInstances } from "../support/instances.ts";
import { ask, BODY, page, passed, provider, yaml } from "../support/limited.ts";
import { type GatewayProcess } from "../support/process.ts";
import { type RedisProcess, startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";

/** Calls on a budget for ten. */
const CALLS = Number(process.env["GATEWAY_TEST_LIMITS"] ?? 300);
const HANGING = BODY.replace("{", '{"user":"hang",');

/** Gateways with one ledger, in a file that all of them write, and one server for limits. */
async function several(t: Test, budget: string, count = 3) {
  const redis = await startRedis(t);
  if (!redis) return undefined;
  const upstream = await provider(t);
  const folder = mkdtempSync(join(tmpdir(), "gateway-shared-"));
  const store = `{ ledger: "sqlite:${folder}/gateway.db", limits: "${redis.url}" }`;
  const gateways = await startInstances(t, yaml(upstream.origin, budget, "linger: off"), store, count);
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return { redis, upstream, gateways };
}

const limitsOf = async (gateway: GatewayProcess) => (await gateway.ready())?.body["limits"];
const spentOf = async (gateway: GatewayProcess) => (await page(gateway))[0]?.budgets[0];
const apart = (redis: RedisProcess, gateways: readonly GatewayProcess[]) =>
  Promise.all([
    redis.kill(),
    ...gateways.map((each) => until(async () => (await limitsOf(each)) === "apart", "it to count apart")),
  ]);

t.test("three gateways share a budget: of concurrent calls only as many pass as it covers", async (t) => {
  const setup = await several(t, "$0.10");
  if (!setup) return;
  const { gateways, upstream } = setup;
  const statuses = await Promise.all(
    Array.from({ length: CALLS }, (_, i) => ask((gateways[i % 3] as GatewayProcess).url)),
  );
  t.equal(passed(statuses), 10);
  t.equal(statuses.filter((status) => status === 429).length, CALLS - 10);
  t.equal(upstream.seen.length, 10);
  for (const gateway of gateways) {
    // What another gateway has settled reaches the server a moment after its answers.
    await until(async () => (await spentOf(gateway))?.reserved === 0, "all calls to be settled");
    t.match(await page(gateway), [
      { concurrency: { remaining: 900 }, budgets: [{ spent: 0.1, reserved: 0 }] },
      { budgets: [{ spent: 0.1, reserved: 0 }] },
    ]);
    t.equal(await limitsOf(gateway), "ok", "the server has counted");
  }
  for (const gateway of gateways) t.equal(await gateway.end(), 0);
  t.same(await setup.redis.ask("KEYS", "*holds*"), [], "nothing stays reserved");
});

t.test("a gateway that is killed leaves no reservation", async (t) => {
  const setup = await several(t, "$0.20", 2);
  if (!setup) return;
  const { gateways, upstream } = setup;
  const [dying, other] = gateways as [GatewayProcess, GatewayProcess];
  const hanging = Array.from({ length: 8 }, () => ask(dying.url, HANGING));
  await until(() => upstream.seen.length === 8, "the requests that hang");
  t.match(await spentOf(other), { spent: 0, reserved: 0.08 });
  await dying.end("SIGKILL");
  await Promise.all(hanging);
  await until(async () => (await spentOf(other))?.reserved === 0, "what it had reserved to go");
  const statuses = await Promise.all(Array.from({ length: 40 }, () => ask(other.url)));
  t.equal(passed(statuses), 20, "a request without an answer costs nothing");
});

t.test("while Redis is down each gateway enforces its share, and afterwards all count together again", async (t) => {
  const setup = await several(t, "$0.60");
  if (!setup) return;
  const { redis, gateways, upstream } = setup;
  const each = (calls: number) =>
    Promise.all(
      gateways.map(async ({ url }) => passed(await Promise.all(Array.from({ length: calls }, () => ask(url))))),
    );
  t.same(await each(5), [5, 5, 5]);
  const hanging = ask((gateways[0] as GatewayProcess).url, HANGING);
  await until(() => upstream.seen.length === 16, "the request that hangs");
  await apart(redis, gateways);
  const parts = await each(40);
  // What has just ended elsewhere may count twice then: less is let in, never more.
  t.ok(
    parts.every((part) => part >= 5 && part <= 15),
    `at most a third each of the remaining 44: ${parts}`,
  );
  for (const gateway of gateways) {
    t.equal(gateway.lines().filter(({ msg }) => /one part in 3/.test(String(msg))).length, 1, "it is logged once");
    t.equal((await gateway.ready())?.status, 200, "it serves");
  }
  await redis.start();
  for (const gateway of gateways)
    await until(async () => (await limitsOf(gateway)) === "ok", "it to count with the others");
  const spent = 15 + parts.reduce((all, part) => all + part, 0);
  for (const gateway of gateways)
    t.match(
      await spentOf(gateway),
      { spent: spent / 100, reserved: 0.01 },
      "from the ledger, and the running requests",
    );
  const rest = await each(20);
  t.equal(
    rest.reduce((all, part) => all + part, 0),
    60 - 1 - spent,
    "no more, and no less",
  );
  upstream.cut();
  await hanging;
});
