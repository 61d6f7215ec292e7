import t from "tap";
import { parseDelimited } from "../../src/cli/delimited.ts";

const cells = (text: string) => parseDelimited(text).map((row) => row.cells);

t.test("rows of CSV are read, with what quotes hold", async (t) => {
  t.same(cells('a,b\r\n"1,234","say ""hi"""\n,x\n'), [
    ["a", "b"],
    ["1,234", 'say "hi"'],
    ["", "x"],
  ]);
});

t.test("the delimiter is the one that is used most, and never one in quotes", async (t) => {
  t.same(cells("a;b\n1,5;2"), [
    ["a", "b"],
    ["1,5", "2"],
  ]);
  t.same(cells('a\tb\n"1,2,3,4"\t2'), [
    ["a", "b"],
    ["1,2,3,4", "2"],
  ]);
});

t.test("a mark at the beginning and empty lines are none of its cells", async (t) => {
  t.same(cells("\ufeffa,b\n\n,\n1,2"), [
    ["a", "b"],
    ["1", "2"],
  ]);
});

t.test("rows know their line, also behind a cell of several lines", async (t) => {
  t.same(
    parseDelimited('a,b\n"1\n2",x\n\n3,4').map(({ line }) => line),
    [1, 2, 5],
  );
});

t.test("a quote that is not closed is told by its line", async (t) => {
  t.throws(() => parseDelimited('a,b\n1,"2\n'), {
    message: "line 2: a quote is not closed, or something stands behind it.",
  });
});

t.test("a delimiter at the end of the file has an empty cell behind it", async (t) => {
  t.same(cells("a,b\n1,"), [
    ["a", "b"],
    ["1", ""],
  ]);
  t.same(cells(""), []);
});
