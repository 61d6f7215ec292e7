import t from "tap";
import { parseDelimited } from "../../src/cli/delimited.ts";

const cells = (text: string) => parseDelimited(text).map((row) => row.cells);

t.test("CSV rows are parsed, including quoted fields", async (t) => {
  t.same(cells('a,b\r\n"1,234","say ""hi"""\n,x\n'), [
    ["a", "b"],
    ["1,234", 'say "hi"'],
    ["", "x"],
  ]);
});

t.test("the delimiter is the most frequent one outside quotes", async (t) => {
  t.same(cells("a;b\n1,5;2"), [
    ["a", "b"],
    ["1,5", "2"],
  ]);
  t.same(cells('a\tb\n"1,2,3,4"\t2'), [
    ["a", "b"],
    ["1,2,3,4", "2"],
  ]);
});

t.test("a byte order mark and empty lines are not cells", async (t) => {
  t.same(cells("\ufeffa,b\n\n,\n1,2"), [
    ["a", "b"],
    ["1", "2"],
  ]);
});

t.test("rows have their line number, also after a cell of several lines", async (t) => {
  t.same(
    parseDelimited('a,b\n"1\n2",x\n\n3,4').map(({ line }) => line),
    [1, 2, 5],
  );
});

t.test("an unclosed quote is reported with its line", async (t) => {
  for (const cell of ['"2', '"2""', '"2"x', '"', '"""'])
    t.throws(
      () => parseDelimited(`a,b\n1,${cell}\n`),
      { message: "line 2: a quote is not closed, or something stands behind it." },
      cell,
    );
  t.throws(() => parseDelimited(',"2'), { message: /^line 1/ });
});

t.test("a quoted cell may be as long as a file", async (t) => {
  for (const text of ["x".repeat(30e6), '""'.repeat(10e6)])
    t.equal(parseDelimited(`a,b\n1,"${text}"\n`)[1]?.cells[1]?.length, text.startsWith("x") ? 30e6 : 10e6);
});

t.test("a delimiter at the end of the file is followed by an empty cell", async (t) => {
  t.same(cells("a,b\n1,"), [
    ["a", "b"],
    ["1", ""],
  ]);
  t.same(cells(""), []);
});
