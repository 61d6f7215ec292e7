import t from "tap";
import type { Budget } from "../../src/core/limit-kinds.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import {
  budgetExcess,
  budgetStatus,
  isRepeated,
  type MutableGrant,
  markMessage,
  newBudgetMarks,
  refusalMark,
  tighterLimit,
  warnIfNearlySpent,
} from "../../src/store/limit-results.ts";

const budget = (nano: number, per: Budget["per"], soft = false): Budget => ({ nano, per, soft });
const level: LimitLevel = {
  ...{ kind: "key", name: "ci", scope: "key:ci" },
  limits: { budgets: [budget(100, "day", true), budget(200, "day"), budget(1000, "month", true)] },
};
const NOON = Date.UTC(2026, 10, 18, 12);

t.test("an exceeded budget reports the remainder, and whether a retry makes sense", async (t) => {
  const state = { spent: 30, pending: 60, end: NOON + 60_000 };
  t.match(
    budgetExcess(level, budget(100, "day"), state, 20, NOON),
    { remaining: 10, requested: 20, retryAfter: 1 },
    "others may end",
  );
  t.match(budgetExcess(level, budget(100, "day"), { ...state, spent: 90 }, 20, NOON), { remaining: 0, retryAfter: 60 });
  const never = budgetExcess(
    level,
    budget(100, "total"),
    { spent: 100, pending: 0, end: Number.POSITIVE_INFINITY },
    1,
    NOON,
  );
  t.equal(never.retryAfter, undefined);
  t.equal(never.resets, undefined);
  t.equal(
    budgetExcess(level, budget(100, "day"), state, 101, NOON).retryAfter,
    undefined,
    "it exceeds the whole budget",
  );
});

t.test("where a budget is divided, the remainder is this process's share", async (t) => {
  const state = { spent: 30, pending: 10, end: NOON };
  t.match(budgetStatus(budget(100, "day"), state, 60), { limit: 100, spent: 30, reserved: 10, remaining: 20 });
  t.match(budgetStatus(budget(100, "day"), state, 20), { remaining: 0 });
});

t.test("a soft budget is reported from 80 % on, and when it gets there and to its end", async (t) => {
  const warnings = (spent: number, soft: boolean) => {
    const grant: MutableGrant = {};
    warnIfNearlySpent(grant, level, budget(100, "day", soft), spent);
    return grant.warnings;
  };
  t.equal(warnings(79, true), undefined);
  t.match(warnings(80, true), [/80 %/]);
  t.equal(warnings(99, false), undefined, "a refusal has its own message");
  const reached = (per: Budget["per"], spent: number, before = spent - 10) =>
    newBudgetMarks(level, per, spent, before).map(({ limit, share, soft }) => [limit, share, soft]);
  t.same(reached("day", 79), []);
  t.same(reached("day", 85), [[100, 0.8, true]]);
  t.same(reached("day", 95), []);
  t.same(reached("day", 105), [[100, 1, true]]);
  t.same(reached("day", 165), [[200, 0.8, false]], "one that refuses is marked too");
  t.same(reached("month", 105), []);
  t.same(reached("day", 120, 120), [], "nothing was added");
  t.same(reached("day", 120, 0), [[100, 1, true]], "what was spent before counts");
  const [mark] = newBudgetMarks(level, "day", 85, 75);
  t.match(mark && markMessage(mark), /^The key "ci" has spent .* \(85 %\)\.$/);
});

t.test(
  "two budgets of one kind of period are one sum, and of two limits the one with less left is reported",
  async (t) => {
    t.same(
      [0, 1, 2].map((at) => isRepeated(level.limits.budgets ?? [], at)),
      [false, true, false],
    );
    const [much, little] = [10, 3].map((remaining) => ({ limit: 10, remaining, reset: 0 }));
    t.equal(tighterLimit(much, little as NonNullable<typeof little>), little);
    t.equal(tighterLimit(little, much as NonNullable<typeof much>), little);
  },
);

t.test("a refusal marks a budget with little left, and not one that the request alone exceeded", async (t) => {
  const { limits: _, ...of } = level;
  const excess = { limit: "budget", level: of, allowed: 100, requested: 50, per: "day", remaining: 0 } as const;
  t.match(refusalMark({ ...excess, remaining: 5, spent: 95 }), {
    kind: "key",
    name: "ci",
    limit: 100,
    spent: 95,
    share: 1,
    refused: true,
  });
  t.equal(refusalMark({ ...excess, remaining: 40, spent: 60 }), undefined);
  t.equal(refusalMark({ ...excess, spent: 5 }), undefined, "running requests have reserved the rest");
  t.equal(refusalMark({ ...excess, requested: 10, spent: 85 }), undefined, "there is room again when they end");
  t.equal(refusalMark({ limit: "rpm", level: of, allowed: 100, requested: 1, remaining: 0 }), undefined);
});
