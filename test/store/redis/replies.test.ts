import t from "tap";
import { Calendar } from "../../../src/core/calendar.ts";
import type { LimitLevel } from "../../../src/core/limits.ts";
import { parseExcess, parseGrant, parseStatuses, ReplyReader } from "../../../src/store/redis/replies.ts";

const NOON = Date.UTC(2026, 10, 18, 12);
const calendar = new Calendar();
const levels: LimitLevel[] = [
  {
    ...{ kind: "key", name: "ci", scope: "key:ci" },
    limits: { rpm: 10, tpm: 100, concurrency: 2, budgets: [{ nano: 100, per: "day", soft: false }] },
  },
  {
    ...{ kind: "all", name: "", scope: "all" },
    limits: {
      rpm: 5,
      budgets: [
        { nano: 50, per: "total", soft: true },
        { nano: 90, per: "total", soft: false },
      ],
    },
  },
];
const reservation = { id: "1", levels, maximum: { tokens: 200, cost: 7 }, minimum: { tokens: 0, cost: 0 } };
const reader = (...values: unknown[]) => new ReplyReader(values);

t.test("a grant has the tightest limits and soft budgets, and the current value of each sum", async (t) => {
  const told: unknown[] = [];
  const words = [1, 61000, 100, 61000, "30", "5", 3, 61000, 0, 0, "45", "2"];
  const grant = parseGrant(reader(...words), reservation, calendar, NOON, ({ scope }, { per }, { spent, pending }) =>
    told.push([scope, per, spent, pending]),
  );
  t.match(grant, {
    requests: { limit: 5, remaining: 2 },
    tokens: { limit: 100, remaining: 0 },
    warnings: [/\(90 %\)/],
  });
  t.same(told, [
    ["key:ci", "day", 30, 12],
    ["all", "total", 45, 9],
  ]);
});

t.test("a refusal is the one of the memory limiter", async (t) => {
  const told: unknown[] = [];
  const excess = (...words: unknown[]) =>
    parseExcess(reader(...words), reservation, calendar, NOON, ({ scope }, { per }, { spent, pending }) =>
      told.push([scope, per, spent, pending]),
    );
  t.match(excess(0, "concurrency"), { limit: "concurrency", allowed: 2, level: { name: "ci" } });
  t.match(excess(1, "rpm", 1500), { limit: "rpm", allowed: 5, retryAfter: 1.5, level: { kind: "all" } });
  t.match(excess(0, "tpm", 40, 2000), { limit: "tpm", remaining: 60, requested: 100, retryAfter: 2 });
  t.match(excess(1, "budget", 1, "80", "5"), {
    limit: "budget",
    allowed: 90,
    remaining: 5,
    requested: 7,
    per: "total",
  });
  t.same(told, [["all", "total", 80, 5]]);
});

t.test("limit values are decoded level by level", async (t) => {
  const words = [1, 61000, 100, 61000, "30", "5", 1, 3, 61000, 0, 0, "45", "2", 4];
  t.match(parseStatuses(reader(...words), levels, calendar, NOON), [
    { requests: { remaining: 9 }, concurrency: { remaining: 1 }, budgets: [{ spent: 30, reserved: 5, remaining: 65 }] },
    { requests: { remaining: 2 }, budgets: [{ remaining: 3 }, { remaining: 43 }] },
  ]);
});
