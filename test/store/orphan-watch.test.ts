import { mock } from "node:test";
import t, { type Test } from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import type { RunningReservation } from "../../src/store/limiter.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import type { RowCharge } from "../../src/store/orphan-charges.ts";
import { OrphanWatch } from "../../src/store/orphan-watch.ts";
import { level } from "../support/limiter-contract.ts";
import { until } from "../support/until.ts";

type Parts = ConstructorParameters<typeof OrphanWatch>[1];

/** A limiter of this process and its watch, until the end of the test. @param read returns the sums of the ledger */
function watched(t: Test, parts: Partial<Parts>, read = async () => new Map<string, number>()) {
  const limiter = new MemoryLimiter(
    () => watch.readSums(read),
    new Calendar(),
    () => {},
  );
  const none = { findCharges: async () => new Map(), findOrphaned: async () => [], isShared: () => false };
  const watch = new OrphanWatch(limiter, { ...none, ...parts });
  // The watch alone does not keep a process alive.
  const busy = setInterval(() => {}, 1000);
  t.teardown(() => {
    clearInterval(busy);
    watch.close();
  });
  return { limiter, watch };
}

const levelsOf = (nano: number) => [level("key", "ci", { budgets: [{ nano, per: "day", soft: false }] })];

t.test("the rows of a dead worker are looked up until the ledger can answer and has them", async (t) => {
  const row = { tokens: 0, cost: 30, model: "", provider: "" };
  const answers = [Promise.reject(new Error("down")), new Map(), new Map<string, RowCharge>([["a", row]])];
  for (const answer of answers) Promise.resolve(answer).catch(() => {});
  const asked: (readonly string[])[] = [];
  const { limiter, watch } = watched(t, {
    async findCharges(ids) {
      asked.push(ids);
      return (await answers.shift()) ?? new Map();
    },
  });
  const levels = levelsOf(100);
  await limiter.reserve({ id: "a", levels, maximum: { tokens: 0, cost: 40 }, minimum: { tokens: 0, cost: 4 } }, "1");
  watch.release("1");
  await until(() => limiter.pending === 0, "the row");
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
    const findCharges: Parts["findCharges"] = async (ids) => new Map([...rows].filter(([id]) => ids.includes(id)));
    const { limiter } = watched(t, { findCharges, findOrphaned: async () => orphaned }, async () => {
      reads++;
      // One ends before the first sums are read, and one after.
      if (reads === 1) end("a");
      const sum = inSums();
      if (reads === 1) end("b");
      return new Map([["key:ci", sum]]);
    });
    const levels = levelsOf(200);
    const maximum = { tokens: 0, cost: 40 };
    const orphaned = ["a", "b", "c"].map((id) => ({
      reservation: { id, levels, maximum, minimum: maximum },
      time: Date.now(),
    }));
    t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 60, reserved: 40 }] }]);
    t.ok(reads > 1);
    end("c");
    await until(() => limiter.pending === 0, "the last row");
    t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 90, reserved: 0 }] }]);
  },
);

t.test("what former processes have begun meanwhile counts once they have ended", async (t) => {
  let [spent, reads, shared] = [30, 0, true];
  const { limiter } = watched(t, { isShared: () => shared }, async () => {
    reads++;
    // An exchange of this process ends during the second reading, which may lack it.
    if (reads === 2) limiter.settle("own", { tokens: 0, cost: 5 });
    return new Map([["key:ci", spent]]);
  });
  const levels = levelsOf(200);
  const maximum = { tokens: 0, cost: 40 };
  await limiter.reserve({ id: "own", levels, maximum, minimum: maximum });
  t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 30, reserved: 40 }] }]);
  spent = 75;
  shared = false;
  await until(() => reads === 3, "the sums");
  t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 75, reserved: 0 }] }]);
});

t.test("what former processes have begun counts also where exchanges end during each reading", async (t) => {
  let [spent, reads, shared] = [30, 0, true];
  const { limiter } = watched(t, { isShared: () => shared }, async () => {
    const sums = new Map([["key:ci", spent]]);
    limiter.settle(`own${reads++}`, { tokens: 0, cost: 1 });
    return sums;
  });
  const levels = levelsOf(20_000);
  const maximum = { tokens: 0, cost: 1 };
  for (let i = 0; i < 100; i++) await limiter.reserve({ id: `own${i}`, levels, maximum, minimum: maximum });
  spent = 9000;
  shared = false;
  const counted = async () => (await limiter.statuses(levels))[0]?.budgets[0]?.spent ?? 0;
  await until(async () => (await counted()) >= 9000, "what they have spent");
  t.ok((await counted()) < 9100);
});

t.test("a watch that was closed while it read asks nothing more", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.teardown(() => mock.timers.reset());
  const found = Promise.withResolvers<RunningReservation[]>();
  let asked = 0;
  const { limiter, watch } = watched(t, {
    async findCharges() {
      asked++;
      return new Map();
    },
    findOrphaned: () => found.promise,
    isShared() {
      asked++;
      return true;
    },
  });
  const levels = levelsOf(200);
  const maximum = { tokens: 0, cost: 40 };
  const statuses = limiter.statuses(levels);
  watch.close();
  found.resolve([{ reservation: { id: "a", levels, maximum, minimum: maximum }, time: Date.now() }]);
  await statuses;
  asked = 0;
  mock.timers.tick(60_000);
  t.equal(asked, 0);
});
