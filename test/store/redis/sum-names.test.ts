import t from "tap";
import { Calendar } from "../../../src/core/calendar.ts";
import type { LimitLevel } from "../../../src/core/limits.ts";
import {
  levelSumNames,
  packReservation,
  parseSumName,
  sumName,
  sumTtl,
  toDecimal,
} from "../../../src/store/redis/sum-names.ts";

const calendar = new Calendar("Europe/Berlin");
const NOON = Date.UTC(2026, 10, 18, 12);

t.test("a sum is named by its period, in the calendar's zone, and its scope", async (t) => {
  const sum = sumName("key:a:b", "day", calendar, NOON);
  t.equal(sum.name, `day:${Date.UTC(2026, 10, 17, 23)}:key:a:b`);
  t.same(parseSumName(sum.name), sum);
  t.same(parseSumName(sumName("all", "total", calendar, NOON).name), {
    name: "total:0:all",
    per: "total",
    start: 0,
    scope: "all",
  });
  t.equal(sumTtl(sum, calendar, NOON), 11 * 3_600_000 + 2 * 86_400_000, "two days longer than it lasts");
});

t.test("money is written with all its digits", async (t) => {
  t.equal(toDecimal(0), "0");
  t.equal(toDecimal(1e21), String(2n ** 62n));
  t.equal(toDecimal(2 ** 53), "9007199254740992");
  t.equal(toDecimal(0.6), "1");
  t.equal(toDecimal(Number.POSITIVE_INFINITY), String(2n ** 62n));
});

t.test("a reservation is encoded with the amounts of each level", async (t) => {
  const level: LimitLevel = {
    ...{ kind: "key", name: "ci", scope: "key:ci" },
    limits: {
      ...{ rpm: 3, tpm: 100, concurrency: 2 },
      budgets: [
        { nano: 5, per: "total", soft: true },
        { nano: 9, per: "total", soft: false },
      ],
    },
  };
  t.same(levelSumNames(level, calendar, NOON).length, 1);
  const made = packReservation(
    { id: "1", levels: [level], maximum: { tokens: 500, cost: 7 }, minimum: { tokens: 1, cost: 2 } },
    calendar,
    NOON,
  );
  t.same(JSON.parse(made), {
    maximum: [500, "7"],
    minimum: [1, "2"],
    levels: [
      [
        "key:ci",
        3,
        100,
        100,
        2,
        [
          ["total:0:key:ci", ""],
          ["total:0:key:ci", "9"],
        ],
      ],
    ],
  });
});
