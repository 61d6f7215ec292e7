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

t.test(
  "what runs on without its primary stays reserved until it has a row, and no row counts in the sums too",
  async (t) => {
    const rows = new Map<string, RowCharge>();
    const inSums = () => [...rows.values()].reduce((sum, { cost }) => sum + cost, 0);
    const end = (id: string) => rows.set(id, { tokens: 0, cost: 30, model: "", provider: "" });
    let reads = 0;
    const limiter = new MemoryLimiter(
      () =>
        watch.readSums(async () => {
          reads++;
          // One ends before the first sums are read, and one after.
          if (reads === 1) end("a");
          const sum = inSums();
          if (reads === 1) end("b");
          return new Map([["key:ci", sum]]);
        }),
      new Calendar(),
      () => {},
    );
    const watch = new OrphanWatch(limiter, async (ids) => new Map([...rows].filter(([id]) => ids.includes(id))));
    t.teardown(() => watch.close());
    const levels = [level("key", "ci", { budgets: [{ nano: 200, per: "day", soft: false }] })];
    const maximum = { tokens: 0, cost: 40 };
    const orphaned = ["a", "b", "c"].map((id) => ({
      reservation: { id, levels, maximum, minimum: maximum },
      time: Date.now(),
    }));
    watch.adopt(orphaned);
    t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 60, reserved: 40 }] }]);
    t.ok(reads > 1);
    const busy = setInterval(() => {}, 1000);
    t.teardown(() => clearInterval(busy));
    end("c");
    await eventually(() => limiter.pending === 0, "the last row");
    t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 90, reserved: 0 }] }]);
  },
);
