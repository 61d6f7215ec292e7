import t from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { level, limiterContract, type MakeLimiter, START, setUp, USD } from "../support/limiter-contract.ts";

const make: MakeLimiter = async (_, spent, { clock, calendar, warn }) =>
  new MemoryLimiter(spent, calendar, warn, clock);

limiterContract(t, make);

t.test("what a process had reserved that died ends with the least that it came to", async (t) => {
  const { limiter } = await setUp(t, make);
  if (!(limiter instanceof MemoryLimiter)) return;
  const reserve = (levels: readonly LimitLevel[], cost: number, owner: string) =>
    limiter.reserve({ id: owner, levels, most: { tokens: 0, cost }, least: { tokens: 0, cost: 1 } }, owner);
  const key = [level("key", "ci", { concurrency: 9, budgets: [{ nano: USD, per: "day", soft: false }] })];
  await reserve(key, 100, "a");
  await reserve(key, 100, "b");
  limiter.release("a");
  const [standing] = await limiter.standings(key);
  t.match(standing, { concurrency: { left: 8 }, budgets: [{ spent: 1, reserved: 100 }] });
});

t.test("what was spent before is asked ahead, and no request waits for it then", async (t) => {
  let asked = 0;
  const spent = async () => (asked++, new Map([["key:ci", 70]]));
  const key = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
  const reserve = (limiter: MemoryLimiter) =>
    limiter.reserve({ id: "a", levels: key, most: { tokens: 0, cost: 100 }, least: { tokens: 0, cost: 0 } });
  const limiter = new MemoryLimiter(
    spent,
    new Calendar(),
    () => {},
    () => START,
  );
  t.ok(reserve(limiter) instanceof Promise, "it is waited for where nobody has asked");
  const other = new MemoryLimiter(
    spent,
    new Calendar(),
    () => {},
    () => START,
  );
  await other.prepare(["day", "month"]);
  t.match(reserve(other), { grant: {} });
  t.match(await other.standings(key), [{ budgets: [{ spent: 70, reserved: 100 }] }]);
  t.equal(asked, 3);
});

t.test("one of three processes that count apart keeps to its part of what was left", async (t) => {
  const part = { instances: 3, pendingElsewhere: () => 10 };
  const limiter = new MemoryLimiter(
    async () => new Map([["key:ci", 70]]),
    new Calendar(),
    () => {},
    () => START,
    part,
  );
  const key = [level("key", "ci", { rpm: 10, concurrency: 4, budgets: [{ nano: 200, per: "day", soft: false }] })];
  const asked = (id: string, cost: number) => ({
    id,
    levels: key,
    most: { tokens: 0, cost },
    least: { tokens: 0, cost: 0 },
  });
  limiter.adopt(asked("runs", 30), START - 1000);
  // 200 − 70 − 30 − 10 = 90 are left, of which 30 are its own.
  t.match(await limiter.reserve(asked("a", 31)), { excess: { limit: "budget", left: 30, most: 200 } });
  t.match(await limiter.reserve(asked("b", 30)), { grant: { requests: { limit: 10, left: 2 } } });
  t.match(await limiter.reserve(asked("c", 0)), { excess: { limit: "concurrency" } });
  limiter.settle("runs", { tokens: 0, cost: 10 });
  t.match(await limiter.reserve(asked("d", 20)), { grant: {} }, "what it did not need is its own");
  t.match(await limiter.standings(key), [{ budgets: [{ spent: 80, reserved: 50, left: 0 }] }]);
});
