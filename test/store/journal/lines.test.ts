import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { journalFile } from "../../../src/store/journal/files.ts";
import type { RowLine } from "../../../src/store/journal/journal.ts";
import { parseJournalLine, readJournals, readLines } from "../../../src/store/journal/lines.ts";

const line = (kind: RowLine[0], id: string): string => `${JSON.stringify([kind, [["k"], [id]]])}\n`;

t.test("lines are read complete, from one position to another, of any length", async (t) => {
  const file = join(t.testdir(), "lines");
  t.same([...readLines(file, 0, 100)], [], "a missing file has none");
  const long = "x".repeat(700_000);
  writeFileSync(file, `a\n${long}\nb\nhalf`);
  const read = (from: number, to = Number.POSITIVE_INFINITY) => [...readLines(file, from, to)];
  t.equal(
    read(0)
      .map(({ text }) => text)
      .join(""),
    `a\n${long}\nb\n`,
  );
  t.equal(read(0).at(-1)?.end, long.length + 5);
  t.same(read(long.length + 5), [], "an incomplete line is none");
  t.same(read(0, 2), [{ text: "a\n", end: 2 }]);
  appendFileSync(file, "\n");
  t.same(read(long.length + 5), [{ text: "half\n", end: long.length + 10 }]);
});

const object = { id: "file-1", provider: "up", key: "one", time: 1 };

t.test("what is not a line is skipped", async (t) => {
  t.same(["", "{", '["begun"'].map(parseJournalLine), [undefined, undefined, undefined]);
  t.same(parseJournalLine(line("ended", "1")), ["ended", [["k"], ["1"]]]);
  t.same(parseJournalLine(JSON.stringify(["made", object])), ["made", object]);
  for (const wrong of [undefined, 1, {}, { ...object, key: 1 }, { ...object, time: "1" }, { ...object, group: null }])
    t.equal(parseJournalLine(JSON.stringify(["made", wrong])), undefined);
});

t.test("the rows in journals are returned, each once, in its last state", async (t) => {
  const folder = join(t.testdir(), "journal");
  t.same(readJournals(folder), { ended: [], open: [], objects: [] });
  mkdirSync(folder);
  writeFileSync(journalFile(folder, "1-2-3", 1), line("begun", "a") + line("begun", "b") + line("ended", "a"));
  writeFileSync(journalFile(folder, "1-2-3", 2), line("begun", "b") + line("begun", "c"));
  writeFileSync(
    journalFile(folder, "9-9-9", 1),
    `${line("ended", "d")}torn${line("ended", "c")}${JSON.stringify(["made", object])}\n`,
  );
  const { ended, open, objects } = readJournals(folder);
  t.same(objects, [object]);
  t.same(
    ended.map(({ values }) => values[0]),
    ["a", "d"],
  );
  t.same(
    open.map(({ values }) => values[0]),
    ["b", "c"],
  );
});
