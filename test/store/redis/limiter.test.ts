import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { Calendar } from "../../../src/core/calendar.ts";
import { GatewayError } from "../../../src/core/errors.ts";
import type { LimitLevel } from "../../../src/core/limits.ts";
import type { Charge, Reservation, ReserveResult } from "../../../src/store/limiter.ts";
import { MemoryLimiter } from "../../../src/store/memory-limiter.ts";
import type { FindCharges, RowCharge } from "../../../src/store/orphan-charges.ts";
import { openRedisLimiter, RedisLimiter } from "../../../src/store/redis/limiter.ts";
import { RedisServer } from "../../../src/store/redis/server.ts";
import { startReplyCutter } from "../../support/cut-replies.ts";
import { freePort } from "../../support/free-port.ts";
import {
  granted,
  level,
  limiterContract,
  type MakeLimiter,
  refused,
  START,
  USD,
} from "../../support/limiter-contract.ts";
import { type RedisProcess, startRedis } from "../../support/redis.ts";
import { until } from "../../support/until.ts";

const redis = await startRedis(t, ["--databases", "64"]);
let database = 0;
/** What was settled is in the ledger at once. */
const written = async () => {};
const noRows: FindCharges = async () => new Map();

const make: MakeLimiter = async (t, spentSince, { clock, calendar, warn }) => {
  const server = await RedisServer.create(`${redis?.url}/${++database}`);
  const limiter = await RedisLimiter.open({
    server,
    spentSince: async (since) => ({ spent: await spentSince(since), positions: new Map() }),
    place: () => ({ journal: "own", position: 1 }),
    findCharges: noRows,
    flushLedger: written,
    calendar,
    warn,
    info: warn,
    clock,
  });
  t.teardown(async () => {
    if (limiter.state !== "ok") throw new Error("it was not the server that counted");
    await limiter.close();
  });
  return limiter;
};

interface Several {
  limiters: RedisLimiter[];
  clock: { now: number };
  /** What was logged. */
  logged: string[];
  /** What the ledger knows, by scope. */
  ledger: Map<string, number>;
  /** The rows in the ledger that processes did not live to settle, by the exchange's id. */
  rows: Map<string, RowCharge>;
}

/** Some processes at one server. @param instances as gateway.yaml says */
async function several(
  t: Test,
  url: string,
  count: number,
  instances?: number,
  writing: (i: number) => Promise<void> = written,
): Promise<Several> {
  const clock = { now: START };
  const logged: string[] = [];
  const ledger = new Map<string, number>();
  const rows = new Map<string, RowCharge>();
  const log = (message: string) => void logged.push(message);
  /** Of each process: where its rows end in its journal, and how far that is in the ledger. */
  const [ends, stored] = [Array.from({ length: count }, () => 0), Array.from({ length: count }, () => 0)];
  const positions = writing === written ? ends : stored;
  const spentSince = async () => ({
    spent: new Map(ledger),
    positions: new Map(positions.map((position, i) => [`journal${i}`, position])),
  });
  const limiters: RedisLimiter[] = [];
  for (let i = 0; i < count; i++) {
    const limiter = await RedisLimiter.open({
      ...{ server: await RedisServer.create(url), spentSince, calendar: new Calendar(), warn: log, info: log },
      findCharges: async () => rows,
      place: () => ({ journal: `journal${i}`, position: ++(ends[i] as number) }),
      async flushLedger() {
        const end = ends[i] as number;
        await writing(i);
        stored[i] = end;
      },
      clock: () => clock.now,
      ...(instances !== undefined && { instances }),
    });
    t.teardown(() => limiter.close());
    limiters.push(limiter);
  }
  return { limiters, clock, logged, ledger, rows };
}

/** A process dies: it says nothing any more. */
const beat = (limiter: RedisLimiter) => (limiter as unknown as { beat(): Promise<void> }).beat();
const die = (limiter: RedisLimiter) => (limiter as unknown as { stop(): void }).stop();
const NONE = { tokens: 0, cost: 0 };
let ids = 0;
const asking = (levels: readonly LimitLevel[], cost: number) => ({
  ...{ id: `r${++ids}`, levels, maximum: { tokens: 0, cost }, minimum: { tokens: 0, cost: 1 } },
});
const budget = (nano: number, name = "ci") => [level("key", name, { budgets: [{ nano, per: "day", soft: false }] })];
const spent = async (limiter: RedisLimiter, levels: readonly LimitLevel[]) =>
  (await limiter.statuses(levels))[0]?.budgets[0];
const passed = (all: readonly ReserveResult[]) => all.filter((each) => "grant" in each).length;

/** Always the same numbers. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const test = (name: string, body: (t: Test, redis: RedisProcess) => Promise<void>) =>
  t.test(name, async (t) => {
    const own = await startRedis(t);
    if (own) await body(t, own);
  });

if (redis) limiterContract(t, make);

test("a thousand concurrent calls on a budget for ten, from one process and from three", async (t, redis) => {
  for (const count of [1, 3]) {
    const levels = [
      ...budget(10 * USD, `k${count}`),
      level("group", `g${count}`, { budgets: [{ nano: 12 * USD, per: "month", soft: false }] }),
      level("all", "", { budgets: [{ nano: 1000 * USD, per: "total", soft: false }] }),
    ];
    const { limiters } = await several(t, redis.url, count);
    const calls = Array.from({ length: 1000 }, (_, i) => ({
      by: limiters[i % count] as RedisLimiter,
      asked: asking(levels, USD),
    }));
    const all = await Promise.all(calls.map(({ by, asked }) => by.reserve(asked)));
    t.equal(passed(all), 10);
    for (const [i, { by, asked }] of calls.entries())
      if ("grant" in (all[i] as ReserveResult)) by.settle(asked.id, { tokens: 0, cost: 0.7 * USD });
    for (const limiter of limiters) await limiter.statuses([]);
    for (const limiter of limiters) {
      t.match(await spent(limiter, levels), { spent: 7 * USD, reserved: 0 }, "all have the same sums");
      t.equal(limiter.pending, 0);
      t.equal(limiter.state, "ok");
    }
    const more = await Promise.all(calls.map(({ by }) => by.reserve(asking(levels, USD))));
    t.equal(passed(more), 3, "unused amounts are available to others");
  }
});

test("three processes at one server have the same results as one in memory, for any sequence of events", async (t, redis) => {
  for (let seed = 1; seed <= 4; seed++) {
    await redis.ask("FLUSHALL");
    const next = numbers(seed);
    const { limiters, clock } = await several(t, redis.url, 3);
    const memory = new MemoryLimiter(
      async () => new Map(),
      new Calendar(),
      () => {},
      () => clock.now,
    );
    const levels = [
      level("key", "a", { rpm: 8, tpm: 900, concurrency: 5, budgets: [{ nano: 500, per: "hour", soft: false }] }),
      level("key", "b", {
        budgets: [
          { nano: 300, per: "day", soft: true },
          { nano: 900, per: "day", soft: false },
        ],
      }),
      level("group", "g", { tpm: 2000, concurrency: 6, budgets: [{ nano: 4000, per: "total", soft: false }] }),
      level("all", "", { rpm: 30 }),
    ];
    const running: { id: string; by: RedisLimiter }[] = [];
    for (let step = 0; step < 300; step++) {
      const by = limiters[next(3)] as RedisLimiter;
      const what = next(10);
      if (what === 0) clock.now += next(40_000);
      else if (what < 6) {
        const some = levels.filter(() => next(2) === 0);
        const most = { tokens: next(400), cost: next(150) };
        const asked = { id: `${seed}-${step}`, levels: some, maximum: most, minimum: { tokens: 1, cost: 1 } };
        const [one, other] = [await by.reserve(asked), await memory.reserve(asked)];
        t.same(one, other, `${seed}: step ${step}`);
        if ("grant" in other) running.push({ id: asked.id, by });
      } else if (running.length > 0) {
        const [ended] = running.splice(next(running.length), 1) as [(typeof running)[number]];
        const charge: Charge = { tokens: next(500), cost: next(160), ...(next(3) === 0 && { once: `o${next(5)}` }) };
        const unused = next(4) === 0 ? "group:g" : undefined;
        ended.by.settle(ended.id, charge, unused);
        memory.settle(ended.id, charge, unused);
        await ended.by.statuses([]);
      }
    }
    for (const { id, by } of running) {
      by.settle(id, NONE);
      memory.settle(id, NONE);
      await by.statuses([]);
    }
    const expected = await memory.statuses(levels);
    for (const limiter of limiters) t.same(await limiter.statuses(levels), expected, `${seed}: in the end`);
    t.ok(expected.every(({ budgets }) => budgets.every(({ reserved }) => reserved === 0)));
    for (const limiter of limiters) await limiter.close();
  }
});

test("money is exact to the nano-dollar above nine million dollars, where doubles are not", async (t, redis) => {
  const { limiters } = await several(t, redis.url, 1);
  const [limiter] = limiters as [RedisLimiter];
  // Of these numbers every one is a double; their sums are not.
  const whole = 2 ** 53;
  const levels = budget(whole * 2);
  const holds = [whole, whole - 2, 1].map((cost) => asking(levels, cost));
  for (const hold of holds) granted(await limiter.reserve(hold));
  t.ok(refused(await limiter.reserve(asking(levels, 2))), "one is left");
  granted(await limiter.reserve(asking(levels, 1)));
  t.ok(refused(await limiter.reserve(asking(levels, 1))));
  for (const { id, maximum } of holds) limiter.settle(id, maximum);
  await limiter.statuses([]);
  const [name = ""] = (await redis.ask("KEYS", "*spent*")) as string[];
  t.equal(await redis.ask("HGET", name, "spent"), String(2n ** 54n - 1n));
  t.equal(await redis.ask("HGET", name, "pending"), "1");
});

test("comparisons of money agree with big integers, for amounts of all sizes", async (t, redis) => {
  const next = numbers(7);
  const amount = () => {
    const size = next(19);
    let text = "";
    for (let i = 0; i < size; i++) text += next(10);
    return BigInt(text || "0") * (next(8) === 0 ? -1n : 1n);
  };
  const server = await RedisServer.create(redis.url);
  await server.connect();
  const { text } = (await import("../../../src/store/redis/server.ts")).loadScript("settle");
  const prelude = text.slice(0, text.indexOf("-- ARGV[3]: owner"));
  const cases = Array.from({ length: 400 }, () => {
    const parts = [amount(), amount(), amount()];
    const sum = parts.reduce((all, part) => all + part, 0n);
    const limit = [sum, sum - 1n, sum + 1n, amount()][next(4)] as bigint;
    return { words: [limit, ...parts].map(String), exceeds: sum > limit };
  });
  const script = `${prelude}
    local out = {}
    for i = 3, #ARGV, 4 do out[#out + 1] = exceeds(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) and 1 or 0 end
    return out`;
  const told = await redis.ask("EVAL", script, "0", "p", "1", ...cases.flatMap(({ words }) => words));
  t.same(
    told,
    cases.map(({ exceeds }) => (exceeds ? 1 : 0)),
  );
  server.disconnect();
});

const row = (tokens: number, cost: number, model = "", provider = ""): RowCharge => ({ tokens, cost, model, provider });

test("requests of a process that died run no more, and stay reserved until the ledger has their rows", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 3);
  const [dying, other, third] = limiters as [RedisLimiter, RedisLimiter, RedisLimiter];
  const levels = [
    level("key", "ci", { tpm: 9000, concurrency: 9, budgets: [{ nano: 1000, per: "day", soft: false }] }),
  ];
  const holds = [100, 100, 100].map((cost) => ({ ...asking(levels, cost), maximum: { tokens: 50, cost } }));
  for (const hold of holds) granted(await dying.reserve(hold));
  granted(await other.reserve(asking(levels, 100)));
  die(dying);
  clock.now += 9000;
  await beat(other);
  t.match(
    await other.statuses(levels),
    [{ concurrency: { remaining: 5 }, budgets: [{ reserved: 400 }] }],
    "it may live",
  );
  clock.now += 1001;
  await beat(other);
  t.match(await other.statuses(levels), [{ concurrency: { remaining: 8 }, budgets: [{ spent: 0, reserved: 400 }] }]);
  const [below, above] = holds as [Reservation, Reservation, Reservation];
  rows.set(below.id, row(20, 30)).set(above.id, row(80, 170));
  for (const by of [third, other, third]) {
    clock.now += 3000;
    await Promise.all([other, third].map(beat));
    await until(async () => (await spent(by, levels))?.spent === 200, "their rows");
  }
  t.match(await other.statuses(levels), [
    { tokens: { remaining: 9000 - 20 - 80 - 50 }, budgets: [{ spent: 200, reserved: 200 }] },
  ]);
});

test("after the clock was set back by an hour, a process that dies is missed as soon as ever", async (t, redis) => {
  const { limiters, clock } = await several(t, redis.url, 2);
  const [dying, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = [level("key", "ci", { concurrency: 9 })];
  granted(await dying.reserve(asking(levels, 0)));
  die(dying);
  clock.now -= 3_600_000;
  await beat(other);
  t.match(await other.statuses(levels), [{ concurrency: { remaining: 8 } }], "it may live");
  clock.now += 10_001;
  await beat(other);
  t.match(await other.statuses(levels), [{ concurrency: { remaining: 9 } }]);
});

test("a request without a row counts with its minimum after ten minutes, and a row that is late corrects it", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 2);
  const [dying, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const hold = asking(levels, 100);
  granted(await dying.reserve(hold));
  die(dying);
  const wait = async (milliseconds: number) => {
    clock.now += milliseconds;
    await beat(other);
    await other.statuses([]);
  };
  await wait(10_001);
  await wait(599_999);
  t.match(await spent(other, levels), { spent: 0, reserved: 100 });
  await wait(60_000);
  await until(async () => (await spent(other, levels))?.spent === 1, "its minimum");
  t.match(await spent(other, levels), { reserved: 0 });
  rows.set(hold.id, row(0, 150));
  await wait(70_000);
  await until(async () => (await spent(other, levels))?.spent === 150, "its row");
  await wait(3_600_000);
  t.match(await spent(other, levels), { spent: 150, reserved: 0 });
});

test("the row of a dead process's fallback counts for the model and provider that served it", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 2);
  const [dying, other] = limiters as [RedisLimiter, RedisLimiter];
  const budgets = [{ nano: 1000, per: "day", soft: false } as const];
  const main = [level("key", "ci", { budgets }), level("model", "first", { budgets })];
  const own = [level("provider", "up", { budgets }), level("model", "second", { budgets })];
  const hold = asking(main, 100);
  granted(await dying.reserve(hold));
  granted(await dying.reserve({ ...asking(own, 100), id: `${hold.id}/2` }));
  die(dying);
  rows.set(hold.id, row(0, 60, "second", "up"));
  clock.now += 10_001;
  await beat(other);
  const all = [...main, ...own];
  await until(async () => (await spent(other, own))?.reserved === 0, "the row");
  t.same(
    (await other.statuses(all)).map(({ budgets }) => [budgets[0]?.spent, budgets[0]?.reserved]),
    [
      [60, 0],
      [0, 0],
      [60, 0],
      [60, 0],
    ],
  );
});

test("a process that was suspended and taken for dead reports its requests' costs afterwards", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 2);
  const [still, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const [one, two, three] = [asking(levels, 100), asking(levels, 100), asking(levels, 100)];
  for (const hold of [one, two, three]) granted(await still.reserve(hold));
  rows.set(one.id, row(0, 50));
  clock.now += 10_001;
  await beat(other);
  await until(async () => (await spent(other, levels))?.spent === 50, "a row");
  t.match(await spent(other, levels), { spent: 50, reserved: 200 });
  for (const { id } of [one, two]) still.settle(id, { tokens: 0, cost: 60 });
  await until(async () => (await spent(other, levels))?.spent === 120, "the difference, and the other one");
  await beat(still);
  t.match(await spent(other, levels), { spent: 120, reserved: 100 }, "the third one runs");
  still.settle(three.id, { tokens: 0, cost: 70 });
  await still.statuses([]);
  t.match(await spent(other, levels), { spent: 190, reserved: 0 });
});

test("usage of a dead process's row that counts once is counted once, whoever has it, and if it comes back", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 2);
  const [still, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const holds = [asking(levels, 100), asking(levels, 100), asking(levels, 100)] as const;
  for (const hold of holds) granted(await still.reserve(hold));
  const told = async (once: string) => {
    const hold = asking(levels, 100);
    granted(await other.reserve(hold));
    other.settle(hold.id, { tokens: 0, cost: 30, once });
    await other.statuses([]);
  };
  await told("up before");
  const [before, after, back] = holds;
  for (const [{ id }, once] of [
    [before, "up before"],
    [after, "up after"],
    [back, "up back"],
  ] as const)
    rows.set(id, { ...row(0, 30), once });
  for (let i = 0; i < 2; i++) {
    clock.now += 10_001;
    await beat(other);
    await until(async () => (await spent(other, levels))?.reserved === 0, "the rows");
  }
  t.match(await spent(other, levels), { spent: 90 });
  await told("up after");
  t.match(await spent(other, levels), { spent: 90 });
  for (const [hold, once] of [
    [before, "up before"],
    [back, "up back"],
  ] as const)
    still.settle(hold.id, { tokens: 0, cost: 30, once });
  await still.statuses([]);
  await still.statuses([]);
  t.match(await spent(other, levels), { spent: 90, reserved: 0 }, "it lives, and settles what was taken for dead");
});

test("the server is killed and comes back empty: each keeps to its share, and everything is restored", async (t, redis) => {
  const { limiters, logged, ledger } = await several(t, redis.url, 3);
  const levels = budget(1000);
  const scope = "key:ci";
  const settle = (limiter: RedisLimiter, id: string, cost: number) => {
    ledger.set(scope, (ledger.get(scope) ?? 0) + cost);
    limiter.settle(id, { tokens: 0, cost });
  };
  const running: [RedisLimiter, string][] = [];
  for (const limiter of limiters) {
    const [early, late] = [asking(levels, 40), asking(levels, 60)];
    for (const hold of [early, late]) granted(await limiter.reserve(hold));
    settle(limiter, early.id, 40);
    running.push([limiter, late.id]);
  }
  for (const limiter of limiters) await beat(limiter);
  // 120 are spent, 180 pending: 700 are left.
  await redis.kill();
  const apart = await Promise.all(
    limiters.map(async (limiter) => {
      const all: ReserveResult[] = [];
      const ids: string[] = [];
      for (let i = 0; i < 60; i++) {
        const asked = asking(levels, 10);
        const reserved = await limiter.reserve(asked);
        all.push(reserved);
        if ("grant" in reserved) ids.push(asked.id);
      }
      return { limiter, ids, count: passed(all) };
    }),
  );
  const sum = apart.reduce((all, { count }) => all + count, 0);
  t.ok(sum <= 70, `${sum * 10} of 700 were let in`);
  t.ok(
    apart.every(({ count }) => count >= 20 && count <= 24),
    `each its part: ${apart.map(({ count }) => count)}`,
  );
  t.same(
    limiters.map(({ state }) => state),
    ["apart", "apart", "apart"],
  );
  t.equal(logged.filter((line) => /is unavailable .* one part in 3/.test(line)).length, 3, "each logs it once");
  for (const { limiter, ids } of apart) for (const id of ids.slice(0, 10)) settle(limiter, id, 10);
  for (const [limiter, id] of running.slice(0, 2)) settle(limiter, id, 50);
  const [first] = limiters as [RedisLimiter];
  await redis.start();
  await until(() => limiters.every(({ state }) => state === "ok"), "all to be back");
  const told = () => logged.filter((line) => /all count together/.test(line)).length;
  await until(() => told() >= 3, "all to say so");
  t.equal(told(), 3);
  const pending = apart.reduce((all, { ids }) => all + (ids.length - 10) * 10, 60);
  t.match(
    await spent(first, levels),
    { spent: 120 + 300 + 100, reserved: pending },
    "from the ledger, and from running requests",
  );
  for (const { limiter, ids } of apart) for (const id of ids.slice(10)) settle(limiter, id, 10);
  settle(...(running[2] as [RedisLimiter, string]), 50);
  for (const limiter of limiters) await limiter.statuses([]);
  t.match(await spent(first, levels), { spent: ledger.get(scope), reserved: 0 });
  t.ok((ledger.get(scope) ?? 0) <= 1000);
  t.ok(limiters.every(({ pending }) => pending === 0));
});

test("spending not yet in the ledger when a server comes back empty is not forgotten, whoever queries the ledger first", async (t, redis) => {
  const rows: number[][] = [[], []];
  const slow = Promise.withResolvers<void>();
  const write = async (i: number) => {
    const waiting = rows[i] as number[];
    const count = waiting.length;
    if (count === 0) return;
    if (i === 1) await slow.promise;
    for (const cost of waiting.splice(0, count)) ledger.set("key:ci", (ledger.get("key:ci") ?? 0) + cost);
  };
  const { limiters, clock, ledger } = await several(t, redis.url, 2, 2, write);
  const levels = budget(1000);
  const spend = async (i: number, cost: number) => {
    const asked = asking(levels, cost);
    granted(await (limiters[i] as RedisLimiter).reserve(asked));
    rows[i]?.push(cost);
    limiters[i]?.settle(asked.id, { tokens: 0, cost });
  };
  const [early, late] = limiters as [RedisLimiter, RedisLimiter];
  await spend(1, 30);
  t.match(await spent(late, levels), { spent: 30 });
  await redis.kill();
  for (const [i, cost] of [40, 50].entries()) await spend(i, cost);
  await redis.start();
  await until(() => early.state === "ok", "the one whose ledger can be written");
  t.match(await spent(early, levels), { spent: 40 }, "the spending in the ledger");
  t.equal(late.state, "apart", "its own spending is not there yet");
  clock.now += 100;
  slow.resolve();
  await until(() => late.state === "ok", "the other one");
  for (const limiter of limiters) t.match(await spent(limiter, levels), { spent: 120 }, "the total");
});

test("spending reported while the ledger is queried counts if it was not in the result, and only then", async (t, redis) => {
  const server = await RedisServer.create(redis.url);
  await server.connect();
  t.teardown(() => server.disconnect());
  const sum = "day:0:key:ci";
  const run = (script: "pay" | "seed" | "look", ...args: string[]) => server.run(script, ["p:", "5000", ...args]);
  await run("pay", "a", sum, "10", "one 2000", sum, "20", "one 2001", sum, "1000", "other 9000");
  await run("pay", "a", sum, "10", "one 2000", sum, "20", "one 2001", sum, "1000", "other 9000");
  await run("seed", sum, "100", '{"one":2000,"other":9000000000000001}', "60000");
  await run("pay", "b", sum, "3", "one 1999", sum, "4", "one 2001", sum, "500", "third 1");
  await run("pay", "c", sum, "7", "other 9000000000000001", sum, "8", "other 9000000000000002");
  t.same(await run("look", sum), ["632", "0"]);
  t.same(await redis.ask("HKEYS", `p:spent:${sum}`).then((names) => (names as string[]).sort()), ["seeded", "spent"]);
  t.ok(Number(await redis.ask("PTTL", `p:spent:${sum}`)) <= 60_000);
});

test("whatever is settled while the server is lost and comes back empty counts once, in any order of events", async (t, redis) => {
  const levels = [...budget(10 * USD), level("all", "", { budgets: [{ nano: 10 * USD, per: "total", soft: false }] })];
  for (let seed = 1; seed <= 3; seed++) {
    const next = numbers(seed);
    const journals = Array.from({ length: 3 }, () => ({
      end: 0,
      rows: [] as { end: number; cost: number }[],
      stored: 0,
    }));
    let total = 0;
    const feed = (i: number, upTo = Number.POSITIVE_INFINITY) => {
      const journal = journals[i] as (typeof journals)[number];
      for (let row = journal.rows[0]; row && row.end <= upTo; row = journal.rows[0]) {
        total += row.cost;
        journal.stored = row.end;
        journal.rows.shift();
      }
    };
    let settled = 0;
    const clock = { now: START };
    const limiters: RedisLimiter[] = [];
    for (const [i, journal] of journals.entries()) {
      const limiter = await RedisLimiter.open({
        ...{ server: await RedisServer.create(redis.url), calendar: new Calendar(), warn: () => {}, info: () => {} },
        async spentSince() {
          feed(i);
          await sleep(next(3));
          const found = {
            spent: new Map(levels.map(({ scope }) => [scope, total])),
            positions: new Map(journals.map(({ stored }, at) => [`journal${at}`, stored])),
          };
          await sleep(next(20));
          return found;
        },
        place: () => ({ journal: `journal${i}`, position: journal.end }),
        findCharges: noRows,
        async flushLedger() {
          if (i === 2) await sleep(300);
          feed(i);
        },
        clock: () => clock.now,
      });
      t.teardown(() => limiter.close());
      limiters.push(limiter);
    }
    let going = true;
    const exchange = async (i: number) => {
      const [limiter, journal] = [limiters[i] as RedisLimiter, journals[i] as (typeof journals)[number]];
      const hold = asking(levels, 2000);
      granted(await limiter.reserve(hold));
      await sleep(next(60));
      const cost = next(1000);
      journal.end += 10 + next(90);
      journal.rows.push({ end: journal.end, cost });
      settled += cost;
      limiter.settle(hold.id, { tokens: 0, cost });
    };
    const traffic = Array.from({ length: 12 }, async (_, n) => {
      while (going) await exchange(n % 3);
    });
    const feeds = (async () => {
      while (going) {
        await sleep(next(12));
        // Also a part of what was written; the rows of the last process stay in its journal.
        const i = next(2);
        feed(i, next(2) === 0 ? (journals[i]?.rows[0]?.end ?? 0) : Number.POSITIVE_INFINITY);
      }
    })();
    await sleep(200);
    // Emptied, it takes part in the exchanges of those that have not noticed.
    if (seed === 3) await redis.ask("FLUSHALL");
    else {
      await redis.kill();
      await sleep(next(400));
      await redis.start();
    }
    const [first] = limiters as [RedisLimiter];
    await until(() => limiters.some(({ state }) => state === "apart"), "the loss to be known");
    await until(() => limiters.every(({ state }) => state === "ok"), "all to be back");
    await sleep(300);
    going = false;
    await Promise.all([...traffic, feeds]);
    for (const limiter of limiters) await limiter.statuses([]);
    await until(async () => (await spent(first, levels))?.reserved === 0, "the last to be reported");
    t.same(
      (await first.statuses(levels)).map(({ budgets }) => budgets[0]?.spent),
      [settled, settled],
      `seed ${seed}`,
    );
    for (const limiter of limiters) await limiter.close();
  }
});

for (const loss of ["killed", "emptied", "silent"])
  test(`a budget is not exceeded under a flood of requests while the server is ${loss} and comes back`, async (t, redis) => {
    const { limiters } = await several(t, redis.url, 3, 3);
    const levels = budget(1000);
    let reserved = 0;
    const reserve = async (limiter: RedisLimiter) => {
      if ("grant" in (await limiter.reserve(asking(levels, 10)))) reserved += 10;
    };
    for (const limiter of limiters) for (let i = 0; i < 20; i++) await reserve(limiter);
    for (const limiter of limiters) await beat(limiter);
    t.equal(reserved, 600);
    if (loss === "emptied") await redis.ask("FLUSHALL");
    else if (loss === "killed") await redis.kill();
    else redis.pause();
    let going = true;
    // The third one has nothing to do, and finds out later.
    const flood = limiters.slice(0, 2).map(async (limiter) => {
      while (going) {
        await Promise.all(Array.from({ length: 10 }, () => reserve(limiter)));
        await sleep(5);
      }
    });
    const states = () => limiters.map(({ state }) => state);
    await until(() => states().every((state) => state === "apart"), "the loss to be known to all");
    t.ok(reserved <= 600 + 2 * 134, `each its part: ${reserved}`);
    if (loss === "killed") await redis.start();
    redis.resume();
    await until(() => states().every((state) => state === "ok"), "all to be back");
    await sleep(300);
    going = false;
    await Promise.all(flood);
    t.equal(reserved, 1000, "all of it is available again, and no more");
  });

for (const format of ["the first", "another"])
  test(`gateways whose scripts have ${format} format count apart, and in budgets once they have gone`, async (t, redis) => {
    const { limiters, clock, logged, ledger } = await several(t, redis.url, 2);
    const [one, other] = limiters as [RedisLimiter, RedisLimiter];
    const levels = budget(1000);
    const hold = asking(levels, 100);
    granted(await one.reserve(hold));
    const live = async () => {
      const life = String(clock.now + 10_000);
      if (format === "another") return redis.ask("ZADD", "{gateway}:formats", life, "a later one");
      const run = /run_id:(\w{12})/.exec(String(await redis.ask("INFO", "server")))?.[1];
      return redis.ask("ZADD", `{gateway}:${run}:owners`, life, "its id");
    };
    await live();
    for (let i = 0; i < 3; i++) {
      clock.now += 2000;
      await beat(one);
    }
    t.equal(logged.filter((line) => /another version .* count apart/.test(line)).length, 1, "once");
    // What they have spent.
    ledger.set("key:ci", 300);
    t.match(await spent(other, levels), { spent: 0, reserved: 100 });
    for (let i = 0; i < 2; i++) {
      clock.now += 9000;
      await Promise.all([beat(one), beat(other)]);
    }
    t.equal(logged.filter((line) => /another version .* no more/.test(line)).length, 2);
    await until(() => limiters.every(({ state }) => state === "ok"), "all to count anew");
    for (const limiter of limiters) t.match(await spent(limiter, levels), { spent: 300, reserved: 100 });
  });

test("one process loses its connection to the server: what it spends meanwhile is reported when it is back", async (t, redis) => {
  const { limiters, clock } = await several(t, redis.url, 2);
  const [lost, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const hold = asking(levels, 100);
  granted(await lost.reserve(hold));
  granted(await other.reserve(asking(levels, 10)));
  clock.now += 1000;
  (lost as unknown as { handleFailure(thrown: Error): void }).handleFailure(new Error("a cut cable"));
  lost.settle(hold.id, { tokens: 0, cost: 80 });
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
  const hold = asking(budget(1000), 100);
  granted(await lost.reserve(hold));
  t.match(await spent(other, levels), { spent: 0 });
  for (const { clock } of [direct, cuttable]) clock.now += 1000;
  const cut = proxy.cutReplyTo("key:new");
  lost.settle(hold.id, { tokens: 0, cost: 5 }, undefined, unreserved);
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
  const [hold, ended] = [asking(levels, 100), asking(levels, 100)];
  for (const each of [hold, ended]) granted(await one.reserve(each));
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
