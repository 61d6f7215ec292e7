import { connect, createServer } from "node:net";
import t from "tap";
import { Calendar } from "../../../src/core/calendar.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import { openRedisLimiter, RedisLimiter } from "../../../src/store/redis/limiter.ts";
import { RedisServer } from "../../../src/store/redis/server.ts";
import { startReplyCutter } from "../../support/cut-replies.ts";
import { freePort } from "../../support/free-port.ts";
import { granted, START } from "../../support/limiter-contract.ts";
import { listen } from "../../support/listen.ts";
import { startRedis } from "../../support/redis.ts";
import {
  asking,
  beat,
  budget,
  die,
  noRows,
  passed,
  several,
  spent,
  test,
  written,
} from "../../support/redis-limiters.ts";
import { until } from "../../support/until.ts";

test("one process loses its connection to the server: what it spends meanwhile is reported when it is back", async (t, redis) => {
  const { limiters, clock } = await several(t, redis.url, 2);
  const [lost, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const reservation = asking(levels, 100);
  granted(await lost.reserve(reservation));
  granted(await other.reserve(asking(levels, 10)));
  clock.now += 1000;
  (lost as unknown as { handleFailure(thrown: Error): void }).handleFailure(new Error("a cut cable"));
  lost.settle(reservation.id, { tokens: 0, cost: 80 });
  const [ended, runs] = [asking(levels, 50), asking(levels, 70)];
  for (const each of [ended, runs]) granted(await lost.reserve(each));
  lost.settle(ended.id, { tokens: 0, cost: 45 });
  t.match(await spent(other, levels), { spent: 0, reserved: 110 });
  await until(() => lost.state === "ok", "it to be back");
  t.match(await spent(other, levels), { spent: 125, reserved: 80 });
  lost.settle(runs.id, { tokens: 0, cost: 1 });
  await lost.statuses([]);
  t.match(await spent(other, levels), { spent: 126, reserved: 10 });
});

test("a process knows what others run as the server is lost, by a refusal or after a heartbeat of each", async (t, redis) => {
  const { limiters } = await several(t, redis.url, 3, 3);
  const [runs, refused, idle] = limiters as [RedisLimiter, RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const all = () => Array.from({ length: 10 }, () => asking(levels, 100));
  for (const each of all()) granted(await runs.reserve(each));
  t.equal(passed([await refused.reserve(asking(levels, 100))]), 0);
  for (const limiter of [runs, idle]) await beat(limiter);
  await redis.kill();
  for (const limiter of limiters) {
    const answers = await Promise.all(all().map((each) => limiter.reserve(each)));
    t.equal(limiter.state, "apart");
    t.equal(passed(answers), 0);
  }
});

test("a server that has become a replica is left, as its address may lead to its successor by now", async (t, redis) => {
  const successor = await startRedis(t);
  if (!successor) return;
  let port = redis.port;
  let connections = 0;
  const proxy = createServer((client) => {
    connections++;
    const upstream = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      from
        .on("error", () => to.destroy())
        .on("close", () => to.destroy())
        .pipe(to);
  });
  const url = `redis://127.0.0.1:${await listen(t, proxy)}`;
  const { limiters, logged } = await several(t, url, 1);
  const [limiter] = limiters as [RedisLimiter];
  const levels = budget(1000);
  granted(await limiter.reserve(asking(levels, 100)));
  await redis.ask("REPLICAOF", "127.0.0.1", String(successor.port));
  granted(await limiter.reserve(asking(levels, 100)));
  t.equal(limiter.state, "apart");
  t.match(logged, [/READONLY/]);
  const before = connections;
  await until(() => connections > before, "another connection to the former address");
  port = successor.port;
  await until(() => limiter.state === "ok", "it to count at the successor");
  t.match(await spent(limiter, levels), { spent: 0, reserved: 200 });
});

test("the ledger's sums are asked for again after a second, in each period, and if the clock is set back", async (t, redis) => {
  const { limiters, clock, ledger } = await several(t, redis.url, 1);
  const [limiter] = limiters as [RedisLimiter];
  for (const hours of [0, 24, 48]) {
    clock.now = START + hours * 3_600_000;
    t.match(await spent(limiter, budget(1000)), { spent: 0 });
  }
  ledger.set("key:other", 70);
  clock.now -= 5000;
  t.match(await spent(limiter, budget(1000, "other")), { spent: 70 });
});

test("what was spent without a reservation while the server was unreachable counts in budgets that are added", async (t, redis) => {
  const { limiters, clock } = await several(t, redis.url, 2);
  const [lost, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000, "new");
  const unreserved = { scopes: ["key:new"], time: clock.now };
  t.match(await spent(other, levels), { spent: 0 });
  clock.now += 1000;
  (lost as unknown as { parts: { server: RedisServer } }).parts.server.disconnect();
  lost.settle("", { tokens: 0, cost: 5 }, undefined, unreserved);
  lost.sendUnreserved();
  await until(() => lost.state === "apart", "the loss to be known");
  lost.settle("", { tokens: 0, cost: 70 }, undefined, unreserved);
  lost.settle("", { tokens: 0, cost: 70 }, undefined, { scopes: ["key:new"], time: START - 86_400_000 });
  await until(() => lost.state === "ok", "it to be back");
  await lost.statuses([]);
  t.match(await spent(other, levels), { spent: 75 });
});

test("what was spent without a reservation counts once, whether the server has it and only the reply was lost, or not", async (t, redis) => {
  const proxy = await startReplyCutter(t, redis.port);
  const [direct, cuttable] = [await several(t, redis.url, 1), await several(t, `redis://127.0.0.1:${proxy.port}`, 1)];
  const [[other], [lost]] = [direct.limiters, cuttable.limiters] as [[RedisLimiter], [RedisLimiter]];
  const levels = [...budget(1000, "new"), ...budget(1000)];
  const unreserved = { scopes: ["key:new"], time: START };
  const reservation = asking(budget(1000), 100);
  granted(await lost.reserve(reservation));
  t.match(await spent(other, levels), { spent: 0 });
  for (const { clock } of [direct, cuttable]) clock.now += 1000;
  const cut = proxy.cutReplyTo("key:new");
  lost.settle(reservation.id, { tokens: 0, cost: 5 }, undefined, unreserved);
  lost.settle("", { tokens: 0, cost: 70 }, undefined, unreserved);
  lost.sendUnreserved();
  await cut;
  await until(() => lost.state === "apart", "the loss to be known");
  t.match(await spent(other, levels), { spent: 75 }, "the server has them");
  await until(() => lost.state === "ok", "it to be back");
  await lost.statuses([]);
  t.match(await spent(other, levels), { spent: 75 });
  t.match(await spent(other, budget(1000)), { spent: 5, reserved: 0 });
  (lost as unknown as { parts: { server: RedisServer } }).parts.server.disconnect();
  lost.settle("", { tokens: 0, cost: 9 }, undefined, unreserved);
  lost.sendUnreserved();
  await until(() => lost.state === "apart", "the loss to be known");
  await until(() => lost.state === "ok", "it to be back");
  await lost.statuses([]);
  t.match(await spent(other, levels), { spent: 84 }, "what the server did not get");
});

test("what was spent without a reservation is sent together, before anything else, and not lost with the server", async (t, redis) => {
  const { limiters, clock } = await several(t, redis.url, 2);
  const [busy, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(10_000, "new");
  t.match(await spent(busy, levels), { spent: 0 });
  const spend = (cost: number, once?: string) =>
    busy.settle("", { tokens: 0, cost, ...(once && { once }) }, undefined, {
      scopes: ["key:new", "all"],
      time: clock.now,
    });
  const scripts = async () =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await redis.ask("INFO", "commandstats")))?.[1]);
  const before = await scripts();
  for (let i = 0; i < 200; i++) spend(1);
  for (let i = 0; i < 2; i++) spend(300, "background answer");
  t.match(await spent(busy, levels), { spent: 500 });
  t.ok((await scripts()) - before < 20);
  t.match(await spent(other, levels), { spent: 500 });
  clock.now += 1000;
  spend(7);
  (busy as unknown as { parts: { server: RedisServer } }).parts.server.disconnect();
  await beat(busy).catch((thrown) =>
    (busy as unknown as { handleFailure(thrown: unknown): void }).handleFailure(thrown),
  );
  await until(() => busy.state === "ok", "it to be back");
  await busy.statuses([]);
  t.match(await spent(other, levels), { spent: 507 });
  spend(9);
  await busy.close();
  t.match(await spent(other, levels), { spent: 516 });
});

test("what waits to be sent when the server is lost counts once, where the ledger has its row and no later one", async (t, redis) => {
  let [cost, stored, position] = [0, 0, 0];
  const limiter = await RedisLimiter.open({
    ...{ server: await RedisServer.create(redis.url), calendar: new Calendar(), warn: () => {}, info: () => {} },
    spentSince: async () => ({ spent: new Map([["key:new", cost]]), positions: new Map([["own", stored]]) }),
    place: () => ({ journal: "own", position }),
    findCharges: noRows,
    flushLedger: written,
    clock: () => START,
  });
  t.teardown(() => limiter.close());
  position = 10;
  limiter.settle("", { tokens: 0, cost: 5 }, undefined, { scopes: ["key:new"], time: START });
  [cost, stored, position] = [5, 10, 20];
  (limiter as unknown as { handleFailure(thrown: Error): void }).handleFailure(new Error("a cut cable"));
  await until(() => limiter.state === "ok", "it to be back");
  await limiter.statuses([]);
  t.match(await spent(limiter, budget(1000, "new")), { spent: 5 });
});

test("a server that does not respond delays a request by the deadline at most, and only the first", async (t, redis) => {
  const { limiters, logged } = await several(t, redis.url, 1);
  const [limiter] = limiters as [RedisLimiter];
  const levels = budget(1000);
  granted(await limiter.reserve(asking(levels, 10)));
  redis.pause();
  const all = await Promise.all(Array.from({ length: 120 }, () => limiter.reserve(asking(levels, 10))));
  t.equal(passed(all), 99, "the remainder, for one alone");
  t.equal(limiter.state, "apart");
  t.match(logged, [/no reply within \d+ ms/]);
  redis.resume();
  await until(() => limiter.state === "ok", "it to be back");
  t.match(await spent(limiter, levels), { spent: 0, reserved: 1000 }, "nothing is reserved twice");
});

test("a request that is being reserved when the limiter stops is refused, and so is a later one", async (t, redis) => {
  const { limiters } = await several(t, redis.url, 1);
  const [limiter] = limiters as [RedisLimiter];
  const waiting = limiter.reserve(asking(budget(1000), 10));
  die(limiter);
  await t.rejects(async () => waiting, { code: "store_unavailable" });
  await t.rejects(async () => limiter.reserve(asking(budget(1000), 10)), { code: "store_unavailable" });
});

test("what a silent server may have reserved is not kept if the ledger is away too", async (t, redis) => {
  const { limiters } = await several(t, redis.url, 1, 1);
  const [limiter] = limiters as [RedisLimiter];
  const levels = budget(1000);
  t.match(await spent(limiter, levels), { reserved: 0 });
  const { parts } = limiter as unknown as { parts: { spentSince(): Promise<never> } };
  const { spentSince } = parts;
  parts.spentSince = async () => {
    throw new GatewayError("store_unavailable");
  };
  redis.pause();
  await t.rejects(async () => limiter.reserve(asking(levels, 10)), { code: "store_unavailable" });
  parts.spentSince = spentSince;
  redis.resume();
  await until(() => limiter.state === "ok", "it to be back");
  t.match(await spent(limiter, levels), { spent: 0, reserved: 0 });
});

test("a server that no longer accepts the password is reported with advice, once", async (t, redis) => {
  await redis.ask("ACL", "SETUSER", "gateway", "on", ">first", "~*", "&*", "+@all");
  const { limiters, logged } = await several(t, redis.url.replace("//", "//gateway:first@"), 1);
  const [limiter] = limiters as [RedisLimiter];
  await redis.ask("ACL", "SETUSER", "gateway", "resetpass", ">second");
  await redis.ask("CLIENT", "KILL", "USER", "gateway");
  granted(await limiter.reserve(asking(budget(1000), 10)));
  const told = () => logged.filter((line) => /asked again, and refuses: .*WRONGPASS.*set user and password/.test(line));
  await until(() => told().length > 0, "the reason");
  await redis.ask("ACL", "SETUSER", "gateway", ">first");
  await until(() => limiter.state === "ok", "it to be back");
  t.equal(told().length, 1);
  t.match(logged[0], /is unavailable/);
});

test("a server that was emptied while all are connected gets the running requests and the spending again", async (t, redis) => {
  const { limiters, ledger } = await several(t, redis.url, 2);
  const [one, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const [reservation, ended] = [asking(levels, 100), asking(levels, 100)];
  for (const each of [reservation, ended]) granted(await one.reserve(each));
  ledger.set("key:ci", 90);
  one.settle(ended.id, { tokens: 0, cost: 90 });
  await one.statuses([]);
  await redis.ask("FLUSHALL");
  granted(await other.reserve(asking(levels, 1)));
  granted(await one.reserve(asking(levels, 1)));
  t.same([one.state, other.state], ["apart", "apart"], "each keeps to its part until both have found out");
  await until(() => limiters.every(({ state }) => state === "ok"), "all to be back");
  t.match(await spent(other, levels), { spent: 90, reserved: 102 });
});

t.test("no server at the start: refused, unless the number of processes is configured", async (t) => {
  const url = `redis://:secret@127.0.0.1:${await freePort()}`;
  const logged: string[] = [];
  const parts = {
    ...{ findCharges: noRows, flushLedger: written, calendar: new Calendar() },
    ...{
      spentSince: async () => ({ spent: new Map(), positions: new Map() }),
      place: () => ({ journal: "own", position: 1 }),
    },
    ...{ warn: (message: string) => void logged.push(message), info: () => {} },
  };
  const failed = await openRedisLimiter(url, parts).catch((thrown: Error) => thrown);
  t.match((failed as Error).message, /127\.0\.0\.1:\d+ does not answer .*ECONNREFUSED.* instances: N/);
  t.notMatch((failed as Error).message, /secret/);
  const alone = await openRedisLimiter(url, { ...parts, instances: 4 });
  t.teardown(() => alone.close());
  t.match(logged, [/is unavailable .* keeps to one part in 4/]);
  const all = await Promise.all(Array.from({ length: 20 }, () => alone.reserve(asking(budget(200), 10))));
  t.equal(passed(all), 5);
});
