import t from "tap";
import { Calendar } from "../../../src/core/calendar.ts";
import type { Charge, Reservation, ReserveResult } from "../../../src/store/limiter.ts";
import { MemoryLimiter } from "../../../src/store/memory-limiter.ts";
import { RedisLimiter } from "../../../src/store/redis/limiter.ts";
import { RedisServer } from "../../../src/store/redis/server.ts";
import { dice } from "../../support/dice.ts";
import { granted, level, limiterContract, type MakeLimiter, refused, USD } from "../../support/limiter-contract.ts";
import { startRedis } from "../../support/redis.ts";
import {
  asking,
  beat,
  budget,
  die,
  NONE,
  noRows,
  passed,
  row,
  several,
  spent,
  test,
  written,
} from "../../support/redis-limiters.ts";
import { until } from "../../support/until.ts";

const redis = await startRedis(t, ["--databases", "64"]);
let database = 0;

const make: MakeLimiter = async (t, spentSince, { clock, calendar, warn }) => {
  const server = await RedisServer.create(`${redis?.url}/${++database}`);
  const limiter = await RedisLimiter.open({
    server,
    spentSince: async (since) => ({ spent: await spentSince(since), positions: new Map([["own", 1]]) }),
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
    const next = dice(seed);
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
  const reservations = [whole, whole - 2, 1].map((cost) => asking(levels, cost));
  for (const reservation of reservations) granted(await limiter.reserve(reservation));
  t.ok(refused(await limiter.reserve(asking(levels, 2))), "one is left");
  granted(await limiter.reserve(asking(levels, 1)));
  t.ok(refused(await limiter.reserve(asking(levels, 1))));
  for (const { id, maximum } of reservations) limiter.settle(id, maximum);
  await limiter.statuses([]);
  const [name = ""] = (await redis.ask("KEYS", "*spent*")) as string[];
  t.equal(await redis.ask("HGET", name, "spent"), String(2n ** 54n - 1n));
  t.equal(await redis.ask("HGET", name, "pending"), "1");
});

test("comparisons of money agree with big integers, for amounts of all sizes", async (t, redis) => {
  const next = dice(7);
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

test("requests of a process that died run no more, and stay reserved until the ledger has their rows", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 3);
  const [dying, other, third] = limiters as [RedisLimiter, RedisLimiter, RedisLimiter];
  const levels = [
    level("key", "ci", { tpm: 9000, concurrency: 9, budgets: [{ nano: 1000, per: "day", soft: false }] }),
  ];
  const reservations = [100, 100, 100].map((cost) => ({ ...asking(levels, cost), maximum: { tokens: 50, cost } }));
  for (const reservation of reservations) granted(await dying.reserve(reservation));
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
  const [below, above] = reservations as [Reservation, Reservation, Reservation];
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
  const reservation = asking(levels, 100);
  granted(await dying.reserve(reservation));
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
  rows.set(reservation.id, row(0, 150));
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
  const reservation = asking(main, 100);
  granted(await dying.reserve(reservation));
  granted(await dying.reserve({ ...asking(own, 100), id: `${reservation.id}/2` }));
  die(dying);
  rows.set(reservation.id, row(0, 60, "second", "up"));
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
  for (const reservation of [one, two, three]) granted(await still.reserve(reservation));
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

test("a process that was taken for dead reports what its requests cost in budgets that were added meanwhile", async (t, redis) => {
  const { limiters, clock, logged } = await several(t, redis.url, 2);
  const [suspended, other] = limiters as [RedisLimiter, RedisLimiter];
  const added = [level("group", "acme", { budgets: [{ nano: 1000, per: "day", soft: false }] })];
  const running = asking(budget(1000), 600);
  granted(await suspended.reserve(running));
  const { now: time } = clock;
  clock.now += 15_000;
  await beat(other);
  t.match(await spent(other, added), { spent: 0 });
  suspended.settle(running.id, { tokens: 0, cost: 250 }, undefined, { scopes: ["group:acme"], time });
  await until(async () => (await spent(other, added))?.spent === 250, "the added budget");
  t.match(await spent(other, budget(1000)), { spent: 250 });
  t.same(logged, []);
});

test("what a soft budget let through unread counts once, whether the sum that is loaded later has its row or not", async (t, redis) => {
  for (const stored of [false, true]) {
    let away = true;
    const { limiters, clock, ledger } = await several(t, redis.url, 2, undefined, stored ? written : async () => {});
    const [one, other] = limiters as [RedisLimiter, RedisLimiter];
    ledger[Symbol.iterator] = () => {
      if (away) throw new Error("it is away");
      return ledger.entries();
    };
    const soft = [level("key", `soft ${stored}`, { budgets: [{ nano: 1000, per: "day", soft: true }] })];
    const unread = asking(soft, 100);
    granted(await one.reserve(unread));
    one.settle(unread.id, { tokens: 0, cost: 60 });
    await one.statuses([]);
    if (stored) ledger.set(`key:soft ${stored}`, 60);
    away = false;
    clock.now += 2000;
    t.match(await spent(other, soft), { spent: 60, reserved: 0 }, stored ? "it has" : "it has not");
  }
});

test("usage of a dead process's row that counts once is counted once, whoever has it, and if it comes back", async (t, redis) => {
  const { limiters, clock, rows } = await several(t, redis.url, 2);
  const [still, other] = limiters as [RedisLimiter, RedisLimiter];
  const levels = budget(1000);
  const reservations = [asking(levels, 100), asking(levels, 100), asking(levels, 100)] as const;
  for (const reservation of reservations) granted(await still.reserve(reservation));
  const told = async (once: string) => {
    const reservation = asking(levels, 100);
    granted(await other.reserve(reservation));
    other.settle(reservation.id, { tokens: 0, cost: 30, once });
    await other.statuses([]);
  };
  await told("up before");
  const [before, after, back] = reservations;
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
  for (const [reservation, once] of [
    [before, "up before"],
    [back, "up back"],
  ] as const)
    still.settle(reservation.id, { tokens: 0, cost: 30, once });
  await still.statuses([]);
  await still.statuses([]);
  t.match(await spent(other, levels), { spent: 90, reserved: 0 }, "it lives, and settles what was taken for dead");
});

test("usage that counts once does for as long as vendors return a response that was generated in the background", async (t, redis) => {
  const { limiters } = await several(t, redis.url, 1);
  const [limiter] = limiters as [RedisLimiter];
  const reservation = asking(budget(1000), 100);
  granted(await limiter.reserve(reservation));
  limiter.settle(reservation.id, { tokens: 0, cost: 30, once: "up resp_1" });
  await limiter.statuses([]);
  const [name] = (await redis.ask("KEYS", "*once:up resp_1")) as [string];
  t.ok(Number(await redis.ask("PTTL", name)) > 30 * 86_400_000, "it may be fetched again a month later");
});
