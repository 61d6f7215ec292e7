import t from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import type { RowCharge } from "../../src/store/orphan-charges.ts";
import { OrphanWatch } from "../../src/workers/orphan-watch.ts";
import { level } from "../support/limiter-contract.ts";
import { eventually } from "../support/process.ts";

t.test("the rows of a dead worker are looked up until the ledger can answer and has them", async (t) => {
  const limiter = new MemoryLimiter(
    async () => new Map(),
    new Calendar(),
    () => {},
  );
  const levels = [level("key", "ci", { budgets: [{ nano: 100, per: "day", soft: false }] })];
  await limiter.reserve({ id: "a", levels, maximum: { tokens: 0, cost: 40 }, minimum: { tokens: 0, cost: 4 } }, "1");
  const row = { tokens: 0, cost: 30, model: "", provider: "" };
  const answers = [Promise.reject(new Error("down")), new Map(), new Map<string, RowCharge>([["a", row]])];
  for (const answer of answers) Promise.resolve(answer).catch(() => {});
  const asked: (readonly string[])[] = [];
  const watch = new OrphanWatch(limiter, async (ids) => {
    asked.push(ids);
    return (await answers.shift()) ?? new Map();
  });
  t.teardown(() => watch.close());
  watch.release("1");
  // The watch alone does not keep a process alive.
  const busy = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(busy));
  await eventually(() => limiter.pending === 0, "the row");
  t.same(asked, [["a"], ["a"], ["a"]]);
  t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 30, reserved: 0 }] }]);
});
