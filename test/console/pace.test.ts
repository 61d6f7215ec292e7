import t from "tap";

// Written for browsers, and without types.
const {
  endOf,
  spentFirst,
}: {
  endOf: (budget: object, now: number) => number | undefined;
  spentFirst: (budgets: readonly object[]) => readonly object[];
} = await import(new URL("../../pages/console/pace.js", import.meta.url).href);

t.test("a budget's end is estimated from what was spent since its period began", async (t) => {
  const day = { limit: 100, began: 1000, resets: 11_000 };
  t.equal(endOf({ ...day, spent: 50 }, 5000), 9000, "half of it in four seconds");
  t.equal(endOf({ ...day, spent: 20 }, 5000), Number.POSITIVE_INFINITY, "it is renewed before that");
  t.equal(endOf({ ...day, spent: 0 }, 5000), Number.POSITIVE_INFINITY);
  t.equal(endOf({ limit: 100, began: 1000, spent: 20 }, 5000), 21_000, "in total: it is never renewed");
});

t.test("a spent budget has ended, and one with an unknown beginning has no estimate", async (t) => {
  t.equal(endOf({ limit: 100, spent: 100, began: 0 }, 5000), 5000);
  t.equal(endOf({ limit: 100, spent: 120 }, 5000), 5000);
  t.equal(endOf({ limit: 0, spent: 0, began: 0 }, 5000), 5000);
  t.equal(endOf({ limit: 100, spent: 10 }, 5000), undefined);
});

t.test("budgets are sorted by the share that is spent, highest first", async (t) => {
  const [little, most, none, all] = [
    { limit: 1000, spent: 100 },
    { limit: 10, spent: 9 },
    { limit: 5, spent: 0 },
    { limit: 0, spent: 0 },
  ];
  t.same(spentFirst([little, most, none, all]), [all, most, little, none]);
});
