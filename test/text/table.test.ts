import t from "tap";
import {
  countNoun,
  formatCost,
  formatCsv,
  formatTable,
  formatUtc,
  groupDigits,
  numberColumns,
} from "../../src/text/table.ts";

t.test("a table has columns that no cell can leave", async (t) => {
  const lines = formatTable(
    ["NAME", ...numberColumns("COUNT"), "NOTE"],
    [
      ["a", "1", ""],
      ["ünï🗝", "1,000,000", "x"],
    ],
  );
  t.same(
    lines,
    ["NAME      COUNT  NOTE", "a             1", "ünï🗝  1,000,000  x"],
    "is in columns without a trailing space",
  );
  t.same(formatTable(["NAME"], [["a\u001b[2J\nb"]]), ["NAME", "a?[2J?b"], "lets no name move the cursor");
  t.same(formatTable(["A", "B"], [["x"]]), ["A  B", "x"], "tolerates a short row");
  t.equal(formatTable(["A"], Array(150_000).fill(["x"])).length, 150_001, "has as many rows as there are");
});

t.test("cells of CSV are quoted where they must be", async (t) => {
  t.same(
    formatCsv([
      ["a", 'b"c', "d,e"],
      ["f\ng", "", "h"],
    ]),
    ['a,"b""c","d,e"', '"f\ng",,h'],
  );
});

t.test("no cell of CSV is a spreadsheet formula, and a name that only begins like one stays unchanged", async (t) => {
  t.same(formatCsv([['=HYPERLINK("http://a")', "+cmd|' /C calc'!A0", "@SUM(1)", "-1+1|x", "\t=f(1)"]]), [
    `"'=HYPERLINK(""http://a"")",'+cmd|' /C calc'!A0,'@SUM(1),'-1+1|x,'\t=f(1)`,
  ]);
  t.same(formatCsv([["@cf/meta/llama-4", "-0.5", "a=(b)"]]), ["@cf/meta/llama-4,-0.5,a=(b)"]);
});

t.test("money has four decimals, or as many as four significant digits need", async (t) => {
  const cases: [number, string][] = [
    [0, "$0.0000"],
    [1_000_000_000, "$1.0000"],
    [1_204_500_000_000, "$1,204.5000"],
    [12_345_678_900, "$12.3457"],
    [123_456_789, "$0.1235"],
    [31_250, "$0.00003125"],
    [1_234_567, "$0.001235"],
    [1, "$0.000000001"],
    [-2_500_000_000, "-$2.5000"],
  ];
  for (const [nano, text] of cases) t.equal(formatCost(nano), text);
});

t.test("counts are grouped and named, times are in UTC", async (t) => {
  t.equal(groupDigits(1_234_567), "1,234,567");
  t.equal(groupDigits(0), "0");
  t.same([countNoun(1, "row"), countNoun(1200, "row")], ["1 row", "1,200 rows"]);
  t.equal(formatUtc(Date.UTC(2026, 10, 21, 12, 54, 3, 999)), "2026-11-21 12:54:03Z");
});
