import t from "tap";
import { type BudgetMark, BudgetMarks } from "../../src/store/budget-marks.ts";

const mark = (share: number, name = "ci"): BudgetMark => ({
  ...{ kind: "key", name, per: "day", limit: 100, spent: share * 100, soft: false, share, refused: false },
});

t.test("of each budget the highest mark is kept until it is read, and no old one", async (t) => {
  let now = 0;
  const marks = new BudgetMarks(() => now);
  marks.add(mark(0.8));
  marks.add(mark(1));
  marks.add(mark(0.8));
  marks.add(mark(0.8, "other"));
  t.same(
    marks.drain().map(({ name, share }) => [name, share]),
    [
      ["ci", 1],
      ["other", 0.8],
    ],
  );
  t.same(marks.drain(), []);
  marks.add(mark(1));
  now = 60_001;
  t.same(marks.drain(), []);
});

t.test("a thousand budgets at most wait to be reported", async (t) => {
  const marks = new BudgetMarks();
  for (let i = 0; i < 1100; i++) marks.add(mark(1, `k${i}`));
  t.equal(marks.drain().length, 1000);
});
