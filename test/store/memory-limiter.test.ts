import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import t from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import { type EarlierCounts, type LimitPart, MemoryLimiter, type SpendSince } from "../../src/store/memory-limiter.ts";
import {
  granted,
  level,
  limiterContract,
  type MakeLimiter,
  refused,
  START,
  setUp,
  spentOf,
  USD,
} from "../support/limiter-contract.ts";
import { EVERY_CASE } from "../support/sample.ts";
import { until } from "../support/until.ts";

const make: MakeLimiter = async (_, spent, { clock, calendar, warn }) =>
  new MemoryLimiter(spent, calendar, warn, clock);

const none = async () => new Map<string, number>();

const limiterOf = (spent: SpendSince, now = () => START, part?: LimitPart): MemoryLimiter =>
  new MemoryLimiter(spent, new Calendar(), () => {}, now, part);

setFlagsFromString("--expose-gc");

limiterContract(t, make);

t.test("requests of a process that died run no more, and stay reserved until the ledger has their rows", async (t) => {
  const { limiter, clock } = await setUp(t, make);
  if (!(limiter instanceof MemoryLimiter)) return;
  const reserve = (levels: readonly LimitLevel[], id: string, owner: string) =>
    limiter.reserve({ id, levels, maximum: { tokens: 0, cost: 100 }, minimum: { tokens: 0, cost: 1 } }, owner);
  const budgets = [{ nano: USD, per: "day", soft: false } as const];
  const key = [level("key", "ci", { concurrency: 9, budgets })];
  const fallback = [level("model", "second", { budgets })];
  for (const id of ["below", "above", "missing"]) await reserve(key, id, "a");
  await reserve(fallback, "above/1", "a");
  await reserve(key, "runs", "b");
  for (let i = 0; i < 2; i++) limiter.release("a");
  const counts = async () => {
    const [own, second] = await limiter.statuses([...key, ...fallback]);
    return [own?.concurrency?.remaining, own?.budgets[0], second?.budgets[0]];
  };
  t.match(await counts(), [8, { spent: 0, reserved: 400 }, { spent: 0, reserved: 100 }]);
  t.same([...limiter.orphans].sort(), ["above", "below", "missing"]);
  const row = (cost: number, model: string) => ({ tokens: 0, cost, model, provider: "up" });
  const rows = new Map([
    ["below", row(30, "first")],
    ["above", row(170, "second")],
    ["runs", row(1, "first")],
  ]);
  for (let i = 0; i < 2; i++) limiter.settleOrphans(rows);
  t.match(await counts(), [8, { spent: 200, reserved: 200 }, { spent: 170, reserved: 0 }]);
  clock.now += 600_000;
  for (let i = 0; i < 2; i++) limiter.settleOrphans(rows);
  t.match(await counts(), [8, { spent: 201, reserved: 100 }], "without a row, the least counts after ten minutes");
  limiter.settleOrphans(new Map([["missing", row(150, "first")]]));
  t.match(await counts(), [8, { spent: 350, reserved: 100 }], "a row that is late corrects it");
  t.same(limiter.orphans, []);
  const lasting = [level("key", "other", { budgets: [{ nano: USD, per: "total", soft: false }] })];
  await reserve(lasting, "unread", "a");
  limiter.release("a");
  clock.now += 86_400_000;
  limiter.settleOrphans(new Map());
  const [other] = await limiter.statuses(lasting);
  t.match(other?.budgets, [{ spent: 1, reserved: 0 }], "the least counts too if the ledger could not answer for a day");
  limiter.settleOrphans(new Map());
  t.same(limiter.orphans, [], "no row is expected after a day");
});

t.test(
  "what was spent is read again for levels that come a minute later, in another period or behind a clock set back",
  async (t) => {
    let now = Date.UTC(2026, 10, 18, 12);
    let readings = 0;
    const limiter = limiterOf(
      async () => {
        readings++;
        return new Map();
      },
      () => now,
    );
    const come = async (name: string) => {
      await limiter.statuses([level("key", name, { budgets: [{ nano: USD, per: "day", soft: false }] })]);
      return readings;
    };
    t.same([await come("a"), await come("b")], [1, 1]);
    now += 61_000;
    t.equal(await come("c"), 2);
    now -= 30_000;
    t.equal(await come("d"), 3);
    now = Date.UTC(2026, 10, 18, 23, 59, 50);
    t.equal(await come("e"), 4);
    now += 20_000;
    t.equal(await come("f"), 5);
  },
);

t.test("what was spent until midnight is not spent from a budget that is asked for then", async (t) => {
  let now = Date.UTC(2026, 10, 18, 23, 59, 59);
  const sums = Promise.withResolvers<ReadonlyMap<string, number>>();
  const limiter = limiterOf(
    () => sums.promise,
    () => now,
  );
  const statuses = limiter.statuses([level("key", "ci", { budgets: [{ nano: USD, per: "day", soft: false }] })]);
  now += 2000;
  sums.resolve(new Map([["key:ci", USD]]));
  t.match(await statuses, [{ budgets: [{ spent: 0 }] }]);
});

t.test("a request that a spent budget refuses is marked", async (t) => {
  const { reserve, limiter } = await setUp(t, make, spentOf({ "key:ci": 10 * USD }));
  const marks: unknown[] = [];
  limiter.onBudgetMark = ({ share, refused }) => marks.push([share, refused]);
  await reserve([level("key", "ci", { budgets: [{ nano: 10 * USD, per: "month", soft: false }] })], { cost: USD });
  t.same(marks, [[1, true]]);
});

t.test(
  "usage of a dead process's row that counts once is not counted again, nor if it was counted before",
  async (t) => {
    const { limiter } = await setUp(t, make);
    if (!(limiter instanceof MemoryLimiter)) return;
    const key = [level("key", "ci", { budgets: [{ nano: USD, per: "total", soft: false }] })];
    const reserve = (id: string, owner: string) =>
      limiter.reserve({ id, levels: key, maximum: { tokens: 0, cost: 100 }, minimum: { tokens: 0, cost: 1 } }, owner);
    const row = (once: string) => ({ tokens: 0, cost: 30, model: "m", provider: "up", once });
    for (const [id, owner] of ["before", "after"].flatMap((id) => [[`dead ${id}`, "a"] as const, [id, "b"] as const]))
      await reserve(id, owner);
    limiter.settle("before", { tokens: 0, cost: 30, once: "up 1" });
    limiter.release("a");
    limiter.settleOrphans(new Map(["before", "after"].map((id, i) => [`dead ${id}`, row(`up ${i + 1}`)])));
    limiter.settle("after", { tokens: 0, cost: 30, once: "up 2" });
    t.match(await limiter.statuses(key), [{ budgets: [{ spent: 60, reserved: 0 }] }]);
  },
);

t.test("earlier spending is loaded in advance, so that no request waits for it", async (t) => {
  let asked = 0;
  const spent = async () => {
    asked++;
    return new Map([["key:ci", 70]]);
  };
  const key = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
  const reserve = (limiter: MemoryLimiter) =>
    limiter.reserve({ id: "a", levels: key, maximum: { tokens: 0, cost: 100 }, minimum: { tokens: 0, cost: 0 } });
  const limiter = limiterOf(spent);
  t.ok(reserve(limiter) instanceof Promise, "it is waited for where no query was sent");
  const other = limiterOf(spent);
  await other.prepare(["day", "month"]);
  t.match(reserve(other), { grant: {} });
  t.match(await other.statuses(key), [{ budgets: [{ spent: 70, reserved: 100 }] }]);
  t.equal(asked, 3);
});

const earlier = (
  usedBetween: EarlierCounts["usedBetween"],
  countedNames: EarlierCounts["countedNames"] = async () => [],
): EarlierCounts => ({ usedBetween, countedNames });

for (const when of ["before", "after"])
  t.test(`usage that a former process counted is not counted again, ${when} its names are known`, async (t) => {
    const key = [level("key", "ci", { budgets: [{ nano: 100, per: "day", soft: false }] })];
    const limiter = limiterOf(async () => new Map([["key:ci", 30]]));
    const { promise: names, resolve } = Promise.withResolvers<string[]>();
    limiter.earlier = earlier(
      async function* () {},
      () => names,
    );
    const prepared = limiter.prepare(["day"]);
    if (when === "after") {
      resolve(["up resp_1"]);
      await prepared;
    }
    for (const [id, once] of [
      ["poll", "up resp_1"],
      ["poll/1", "up resp_1"],
      ["other", "up resp_2"],
    ] as const) {
      await limiter.reserve({ id, levels: key, maximum: { tokens: 0, cost: 0 }, minimum: { tokens: 0, cost: 0 } });
      limiter.settle(id, { tokens: 0, cost: 20, once });
    }
    resolve(["up resp_1"]);
    await prepared;
    await setImmediate();
    t.match(await limiter.statuses(key), [{ budgets: [{ spent: 50 }] }]);
  });

t.test("requests of a former process count against rates for the rest of their minute", async (t) => {
  const key = [level("key", "ci", { rpm: 3, tpm: 100 })];
  let now = START;
  const limiter = limiterOf(none, () => now);
  const scopes = ["key:ci", "all"];
  const spans: number[][] = [];
  limiter.earlier = earlier(async function* (...span) {
    spans.push(span);
    yield { time: START - 60_000, tokens: 50, scopes };
    yield { time: START - 10_000, tokens: 30, scopes };
    yield { time: START - 1000, tokens: 0, scopes: ["key:other"] };
  });
  await limiter.prepare([]);
  t.same(spans, [[START - 61_000, START]], "only those before it counts itself");
  const rates = async () =>
    (await limiter.statuses(key)).map(({ requests, tokens }) => [requests?.remaining, tokens?.remaining]);
  t.same(await rates(), [[1, 20]]);
  now += 1000;
  t.same(await rates(), [[2, 70]]);
  now += 50_000;
  t.same(await rates(), [[3, 100]]);
});

t.test("requests with rates wait until those of a former process are counted, and no others do", async (t) => {
  const limiter = limiterOf(none);
  let count = () => {};
  const counted = new Promise<void>((done) => (count = done));
  limiter.earlier = earlier(async function* () {
    await counted;
    yield { time: START, tokens: 0, scopes: ["key:ci"] };
  });
  const prepared = limiter.prepare([]);
  const reserve = (id: string, ...limits: LimitLevel["limits"][]) =>
    limiter.reserve({
      id,
      levels: limits.map((each, i) => level("key", i === 0 ? "ci" : `ci${i}`, each)),
      ...{ maximum: { tokens: 0, cost: 0 }, minimum: { tokens: 0, cost: 0 } },
    });
  t.match(reserve("a", { concurrency: 2 }), { grant: {} });
  const waiting = reserve("b", { rpm: 1 });
  const others = [reserve("tokens", { tpm: 5 }), reserve("group", { concurrency: 2 }, { rpm: 1 })];
  for (const each of [waiting, ...others]) t.ok(each instanceof Promise);
  count();
  await prepared;
  t.match(await waiting, { excess: { limit: "rpm" } });
  limiter.earlier = earlier(() => {
    throw new Error("the ledger is away");
  });
  await limiter.prepare([]);
  t.match(reserve("c", { rpm: 2 }), { grant: {} }, "unknown ones refuse nothing");
});

t.test("what is settled while a new budget's earlier spending is loaded is not missed", async (t) => {
  const ledger = new Map([["key:ci", 10]]);
  const queries: (() => void)[] = [];
  const limiter = limiterOf(() => {
    const found = new Map(ledger);
    return new Promise((resolve) => queries.push(() => resolve(found)));
  });
  const amounts = { maximum: { tokens: 0, cost: 9 }, minimum: { tokens: 0, cost: 0 } };
  await limiter.reserve({ id: "running", levels: [level("key", "ci", { rpm: 9 })], ...amounts });
  const levels = [level("key", "ci", { budgets: [{ nano: 100, per: "day", soft: false }] })];
  const statuses = limiter.statuses(levels);
  limiter.settle("running", { tokens: 0, cost: 5 });
  ledger.set("key:ci", 15);
  for (; queries.length > 0; await setImmediate()) queries.shift()?.();
  t.match(await statuses, [{ budgets: [{ spent: 15, reserved: 0 }] }]);
});

t.test("a budget that is removed and comes back in a later period counts that period's spending", async (t) => {
  const { limiter, clock, reserve } = await setUp(t, make);
  const budgets = [{ nano: USD, per: "day", soft: false } as const];
  const key = level("key", "ci", { budgets });
  limiter.settle((await reserve([key], { cost: 50 })).id, { tokens: 0, cost: 40 });
  clock.now += 86_400_000;
  limiter.settle("", { tokens: 0, cost: 30 }, undefined, { scopes: ["key:ci"], time: clock.now });
  limiter.settle((await reserve([level("key", "ci", { rpm: 9 })], { cost: 50 })).id, { tokens: 0, cost: 20 });
  t.match(await limiter.statuses([key]), [{ budgets: [{ spent: 50, reserved: 0 }] }]);
});

t.test("one of three processes that count separately keeps to its share of the remainder", async (t) => {
  const part = { instances: 3, pendingElsewhere: () => 10 };
  const limiter = limiterOf(
    async () => new Map([["key:ci", 70]]),
    () => START,
    part,
  );
  const key = [level("key", "ci", { rpm: 10, concurrency: 4, budgets: [{ nano: 200, per: "day", soft: false }] })];
  const asked = (id: string, cost: number) => ({
    id,
    levels: key,
    maximum: { tokens: 0, cost },
    minimum: { tokens: 0, cost: 0 },
  });
  limiter.adopt(asked("runs", 30), START - 1000);
  // 200 − 70 − 30 − 10 = 90 are left, of which 30 are its own.
  t.match(await limiter.reserve(asked("a", 31)), { excess: { limit: "budget", remaining: 30, allowed: 200 } });
  t.match(await limiter.reserve(asked("b", 30)), { grant: { requests: { limit: 10, remaining: 2 } } });
  t.match(await limiter.reserve(asked("c", 0)), { excess: { limit: "concurrency" } });
  limiter.settle("runs", { tokens: 0, cost: 10 });
  t.match(await limiter.reserve(asked("d", 20)), { grant: {} }, "the unused part of its share stays its own");
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 80, reserved: 50, remaining: 0 }] }]);
});

t.test("a clock that is set back to the day before and forth again forgets nothing of the day", async (t) => {
  const DAY = 86_400_000;
  const rows: { time: number; cost: number }[] = [];
  const spentSince = async (since: number) =>
    new Map([["key:ci", rows.reduce((sum, { time, cost }) => (time >= since ? sum + cost : sum), 0)]]);
  const { limiter, clock, reserve } = await setUp(t, make, spentSince);
  const key = [level("key", "ci", { budgets: [{ nano: 10, per: "day", soft: false }] })];
  const spend = async (cost: number) => {
    const made = await reserve(key, { cost });
    granted(made);
    rows.push({ time: clock.now, cost });
    limiter.settle(made.id, { tokens: 0, cost });
  };
  await spend(6);
  const running = await reserve(key, { cost: 1 });
  clock.now -= DAY;
  await spend(2);
  limiter.settle(running.id, { tokens: 0, cost: 1 });
  rows.push({ time: clock.now + DAY, cost: 1 });
  clock.now += DAY;
  t.equal(refused(await reserve(key, { cost: 4 }))?.remaining, 3);
  await spend(3);
  clock.now += DAY;
  await spend(10);
});

t.test(
  "a clock that was ahead of the next day and is set back leaves no reservation, and keeps all spending",
  async (t) => {
    let now = START;
    const ledger = new Map([["key:ci", 70]]);
    const limiter = limiterOf(
      async () => new Map(ledger),
      () => now,
    );
    const key = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
    const reserve = async (id: string, cost: number) =>
      limiter.reserve({ id, levels: key, maximum: { tokens: 0, cost }, minimum: { tokens: 0, cost: 0 } });
    t.match(await reserve("before", 10), { grant: {} });
    now = START + 86_400_000;
    t.match(await reserve("ahead", 20), { grant: {} });
    t.match(await limiter.statuses(key), [{ budgets: [{ spent: 0, reserved: 20 }] }], "another day");
    now = START + 1000;
    t.match(await reserve("back", 30), { grant: {} });
    t.match(await limiter.statuses(key), [{ budgets: [{ spent: 70, reserved: 60 }] }], "the day it is, by the ledger");
    t.match(await reserve("more", 71), { excess: { limit: "budget", remaining: 70 } });
    for (const id of ["before", "ahead", "back"]) limiter.settle(id, { tokens: 0, cost: 1 });
    t.match(await limiter.statuses(key), [{ budgets: [{ spent: 73, reserved: 0 }] }]);
  },
);

t.test("a reservation that is taken over counts in sums that are known already, until it is settled", async (t) => {
  const limiter = limiterOf(none);
  const key = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
  const asked = (id: string) => ({
    id,
    levels: key,
    maximum: { tokens: 0, cost: 50 },
    minimum: { tokens: 0, cost: 0 },
  });
  await limiter.reserve(asked("own"));
  limiter.adopt(asked("other"), START - 1000);
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 0, reserved: 100 }] }]);
  limiter.settle("other", { tokens: 0, cost: 10 });
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 10, reserved: 50 }] }]);
  limiter.adopt({ ...asked("no budget"), levels: [level("key", "ci", { concurrency: 5 })] }, START - 1000);
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 10, reserved: 50 }] }]);
  const total = [level("key", "ci", { budgets: [{ nano: 200, per: "hour", soft: false }] })];
  limiter.adopt({ ...asked("before"), levels: total }, START - 3_600_000);
  t.match(await limiter.statuses(total), [{ budgets: [{ reserved: 0 }] }], "it belongs to the hour before");
});

t.test(
  "a reservation that is taken over counts against rates from when it was made, until it is settled",
  async (t) => {
    let now = START;
    const limiter = limiterOf(none, () => now);
    const key = [level("key", "ci", { rpm: 10, tpm: 100 })];
    const maximum = { tokens: 30, cost: 0 };
    for (const id of ["one", "two"]) limiter.adopt({ id, levels: key, maximum, minimum: maximum }, START - 30_000);
    t.match(await limiter.statuses(key), [{ requests: { remaining: 8 }, tokens: { remaining: 40 } }]);
    limiter.settle("one", { tokens: 10, cost: 0 });
    t.match(await limiter.statuses(key), [{ requests: { remaining: 8 }, tokens: { remaining: 60 } }]);
    now += 31_000;
    t.match(await limiter.statuses(key), [{ requests: { remaining: 10 }, tokens: { remaining: 100 } }]);
  },
);

t.test("sums that are read again are not complete where an exchange ends meanwhile", async (t) => {
  const again = Promise.withResolvers<ReadonlyMap<string, number>>();
  const sums = new Map([["key:ci", 10]]);
  const readings = [sums, again.promise];
  const limiter = limiterOf(async () => (await readings.shift()) ?? sums);
  const key = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
  await limiter.reserve({ id: "own", levels: key, maximum: { tokens: 0, cost: 9 }, minimum: { tokens: 0, cost: 0 } });
  const reloaded = limiter.reload();
  await until(() => readings.length === 0, "the reading to begin");
  limiter.settle("own", { tokens: 0, cost: 9 });
  again.resolve(sums);
  t.equal(await reloaded, false);
  t.equal(await limiter.reload(), true);
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 19, reserved: 0 }] }]);
});

t.test("sums that are read again are not those of a reading that had begun before", async (t) => {
  const early = Promise.withResolvers<ReadonlyMap<string, number>>();
  const sums = (spent: number) => new Map([["key:ci", spent]]);
  const readings = [sums(10), early.promise, sums(75)];
  const limiter = limiterOf(async () => (await readings.shift()) ?? sums(0));
  const key = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 10 }] }]);
  const prepared = limiter.prepare(["day"]);
  const reloaded = limiter.reload();
  early.resolve(sums(10));
  await prepared;
  t.equal(await reloaded, true);
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 75 }] }]);
  readings.push(sums(75));
  await limiter.reserve({ id: "own", levels: key, maximum: { tokens: 0, cost: 9 }, minimum: { tokens: 0, cost: 0 } });
  limiter.settle("own", { tokens: 0, cost: 9 });
  await limiter.reload();
  t.match(await limiter.statuses(key), [{ budgets: [{ spent: 84 }] }], "what is not in the ledger yet is kept");
});

t.test("keys that have made no request for a minute hold no windows of their limits", async (t) => {
  const collect = runInNewContext("gc") as () => void;
  let now = START;
  const limiter = limiterOf(none, () => now);
  const use = async (count: number) => {
    for (let i = 0; i < count; i++, now += 10) {
      const levels = [level("key", `k${now}`, { rpm: 5, tpm: 1000 })];
      const reservation = { id: `r${now}`, levels, maximum: { tokens: 10, cost: 0 }, minimum: { tokens: 0, cost: 0 } };
      if (!("grant" in (await limiter.reserve(reservation)))) t.fail("it has room");
      limiter.settle(reservation.id, { tokens: 3, cost: 0 });
    }
  };
  const held = () => {
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = held();
  await use(EVERY_CASE ? 80_000 : 20_000);
  // A window has 488 bytes, and each of these keys two: 78 or 20 MB. V8 frees them in the background.
  await until(() => held() - before < 10_000_000, "the windows to be freed");
  t.pass();
});
