import t from "tap";
import { inWholeHours, parseSum, sumsSql, sumValues } from "../../src/store/ledger-sql.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

t.test("a span is whole weeks, whole days and hours at both ends, and the remainders of these", async (t) => {
  t.same(sumValues({ since: DAY - HOUR - 5, until: 3 * DAY + 2 * HOUR + 7, by: [] }), [
    ...[0, 0, DAY, 3 * DAY, 0, 0],
    ...[DAY - HOUR, DAY, 3 * DAY, 3 * DAY + 2 * HOUR],
    ...[DAY - HOUR - 5, DAY - HOUR, 3 * DAY + 2 * HOUR, 3 * DAY + 2 * HOUR + 7],
  ]);
  const days = { since: 6 * DAY, until: 22 * DAY };
  t.same(sumValues({ ...days, by: ["key"] }).slice(0, 6), [7 * DAY, 21 * DAY, 6 * DAY, 7 * DAY, 21 * DAY, 22 * DAY]);
  t.same(sumValues({ ...days, by: ["key", "day"] }).slice(0, 6), [0, 0, 6 * DAY, 22 * DAY, 0, 0], "weeks have no days");
  t.same(inWholeHours({ since: 5, until: HOUR + 1, by: [] }, 2 * HOUR), { since: 0, until: 2 * HOUR, by: [] });
  t.same(inWholeHours({ since: 5, until: HOUR + 1 }, 0), { since: 5, until: HOUR + 1 });
});

t.test("a query has as many values as bounds, and tables of holders only where they are needed", async (t) => {
  const column = (name: string) => name;
  const own = { isIn: column, isList: column, items: column };
  const dialect = {
    tags: "TAGS",
    texts: "TEXTS",
    join: "join",
    positions: "POSITIONS",
    insertOrder: "id",
    preaggregates: false,
    ...own,
  };
  const plain = sumsSql({ by: ["model", "day"] }, dialect);
  t.equal(plain.split("?").length - 1, sumValues({ by: [] }).length);
  t.notMatch(plain, /usage_holder|TAGS/);
  t.match(sumsSql({ by: ["group"] }, dialect), /join usage_holder/);
  t.match(sumsSql({ by: ["tag"] }, dialect), /usage_holder as h on h\.number = holder\s+TAGS/);
});

t.test("sums are numbers in any representation", async (t) => {
  const row = { g0: "fast", requests: "3", failed: 1n, tokens_in: 2, cached: 0, tokens_out: 0, reasoning: 0 };
  t.same(parseSum({ ...row, g0: "20780", g1: "fast" }, { by: ["day", "model"] }).group, ["2026-11-23", "fast"]);
  t.match(parseSum({ ...row, cost: "90071992547409930", unsettled: 0 }, { by: ["model"] }), {
    ...{ group: ["fast"], requests: 3, failed: 1, cost: Number("90071992547409930") },
  });
});
