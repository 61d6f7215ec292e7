import { setTimeout as sleep } from "node:timers/promises";
import { Calendar } from "../../../src/core/calendar.ts";
import type { ReserveResult } from "../../../src/store/limiter.ts";
import { RedisLimiter } from "../../../src/store/redis/limiter.ts";
import { RedisServer } from "../../../src/store/redis/server.ts";
import { dice } from "../../support/dice.ts";
import { granted, level, START, USD } from "../../support/limiter-contract.ts";
import {
  asking,
  beat,
  budget,
  noRows,
  passed,
  type Several,
  several,
  spent,
  test,
} from "../../support/redis-limiters.ts";
import { until } from "../../support/until.ts";

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
    for (const reservation of [early, late]) granted(await limiter.reserve(reservation));
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

test("what was spent elsewhere while nobody counted at a server is read from the ledger, also if the server kept its sums", async (t, redis) => {
  const levels = budget(1000);
  const spend = async ({ limiters: [limiter], ledger }: Several, cost: number) => {
    const asked = asking(levels, cost);
    granted(await (limiter as RedisLimiter).reserve(asked));
    ledger.set("key:ci", (ledger.get("key:ci") ?? 0) + cost);
    limiter?.settle(asked.id, { tokens: 0, cost });
  };
  const before = await several(t, redis.url, 1);
  await spend(before, 30);
  const [stopped] = before.limiters as [RedisLimiter];
  t.match(await spent(stopped, levels), { spent: 30 });
  await stopped.close();
  const after = await several(t, redis.url, 1);
  // 30 before, and 500 with limits in memory, or apart before a restart.
  after.ledger.set("key:ci", 530);
  const [limiter] = after.limiters as [RedisLimiter];
  t.match(await spent(limiter, levels), { spent: 530 });
  await spend(after, 40);
  t.match(await spent(limiter, levels), { spent: 570, reserved: 0 });
  await limiter.close();
  const behind = await several(t, redis.url, 1);
  behind.ledger.set("key:ci", 540);
  const [last] = behind.limiters as [RedisLimiter];
  t.match(await spent(last, levels), { spent: 570 }, "but not where the ledger lacks rows that the server has counted");
  const other = await several(t, redis.url, 1);
  t.match(
    await spent(other.limiters[0] as RedisLimiter, levels),
    { spent: 570 },
    "nor where another process counts there",
  );
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
  t.same(await run("look", sum), [sum, "632", "0"]);
  t.same(await redis.ask("HKEYS", `p:spent:${sum}`).then((names) => (names as string[]).sort()), ["seeded", "spent"]);
  t.ok(Number(await redis.ask("PTTL", `p:spent:${sum}`)) <= 60_000);
});

test("whatever is settled while the server is lost and comes back empty counts once, in any order of events", async (t, redis) => {
  const levels = [...budget(10 * USD), level("all", "", { budgets: [{ nano: 10 * USD, per: "total", soft: false }] })];
  for (let seed = 1; seed <= 3; seed++) {
    const next = dice(seed);
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
      const reservation = asking(levels, 2000);
      granted(await limiter.reserve(reservation));
      await sleep(next(60));
      const cost = next(1000);
      journal.end += 10 + next(90);
      journal.rows.push({ end: journal.end, cost });
      settled += cost;
      limiter.settle(reservation.id, { tokens: 0, cost });
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
    const reservation = asking(levels, 100);
    granted(await one.reserve(reservation));
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
