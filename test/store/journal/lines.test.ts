import { appendFileSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { journalFile } from "../../../src/store/journal/files.ts";
import type { RowLine } from "../../../src/store/journal/journal.ts";
import { JournalLineParser, parseJournalLine, readJournals, readLines } from "../../../src/store/journal/lines.ts";
import { journalPosition } from "../../../src/store/journal-place.ts";

const line = (kind: RowLine[0], id: string): string => `${JSON.stringify([kind, [["k"], [id]]])}\n`;

t.test("lines are read complete, from one position to another, of any length", async (t) => {
  const file = join(t.testdir(), "lines");
  t.same([...readLines(file, 0, 100)], [], "a missing file has none");
  const long = "x".repeat(700_000);
  writeFileSync(file, `a\n${long}\nb\nhalf`);
  const read = (from: number, to = Number.POSITIVE_INFINITY) =>
    [...readLines(file, from, to)].flatMap(({ lines }) => lines);
  t.same(read(0), [
    { text: "a", from: 0, to: 2 },
    { text: long, from: 2, to: long.length + 3 },
    { text: "b", from: long.length + 3, to: long.length + 5 },
  ]);
  t.same(read(long.length + 5), [], "an incomplete line is none");
  t.same(read(0, 2), [{ text: "a", from: 0, to: 2 }]);
  appendFileSync(file, "\n");
  t.same(read(long.length + 5), [{ text: "half", from: long.length + 5, to: long.length + 10 }]);
  writeFileSync(file, Buffer.from("\xff\xfe\nü\n\n", "latin1"));
  t.same(
    read(0).map(({ from, to }) => [from, to]),
    [
      [0, 3],
      [3, 5],
      [5, 6],
    ],
    "bytes are counted, not characters",
  );
  writeFileSync(file, "a\n\u00fc\u20ac\nb\n");
  t.same(
    read(0).map(({ text }) => text),
    ["a", "\u00fc\u20ac", "b"],
  );
});

const object = { id: "file-1", provider: "up", key: "one", time: 1 };

t.test("what is not a line is skipped", async (t) => {
  t.same(["", "{", '["begun"'].map(parseJournalLine), [undefined, undefined, undefined]);
  t.same(parseJournalLine(line("ended", "1")), ["ended", [["k"], ["1"]]]);
  const row = [["k"], ["1"], ["acme", ""]];
  t.same(parseJournalLine(JSON.stringify(["ended", row, "once", row])), ["ended", row, "once", row]);
  for (const damaged of [
    ["ended", [["k"], ["1"], "acme"]],
    ["ended", [["k"], "1"]],
    ["ended", row, 1, row],
    ["ended", row, "once", [["k"]]],
  ])
    t.equal(parseJournalLine(JSON.stringify(damaged)), undefined);
  t.same(parseJournalLine(JSON.stringify(["made", object])), ["made", object]);
  for (const wrong of [undefined, 1, {}, { ...object, key: 1 }, { ...object, time: "1" }, { ...object, group: null }])
    t.equal(parseJournalLine(JSON.stringify(["made", wrong])), undefined);
});

t.test("lines of exchanges that have begun can be left out, and count as read", async (t) => {
  const file = join(t.testdir(), "lines");
  const [ended, begun] = [line("ended", "a"), line("begun", "b")];
  writeFileSync(file, begun + ended + begun);
  const from = begun.length;
  t.same(
    [...readLines(file, 0, Number.POSITIVE_INFINITY, true)],
    [{ lines: [{ text: ended.trimEnd(), from, to: from + ended.length }], to: from + ended.length + begun.length }],
  );
});

t.test("lines that share cells are parsed like each alone, whatever their texts hold", async (t) => {
  const parser = new JournalLineParser();
  const odd = `x],["y],[z]]`;
  const values = ["id", 1, odd, null, 0.5];
  const lines = [["key"], [odd], ["k", 1, null]].flatMap((kind) => [
    ...[values, ["2"], [odd]].map((cells) => ["ended", [kind, cells, ["acme", ""]]]),
    ...["", odd].map((tags) => ["ended", [kind, values, [odd, tags]]]),
    ["ended", [kind, values]],
    ["begun", [kind, values, ["acme", ""]]],
    ["ended", [kind, values, ["acme", ""]], "once", [kind, values, ["acme", ""]]],
    ["made", object],
  ]);
  const texts = lines.map((each) => JSON.stringify(each));
  for (const text of [...texts, ...texts]) t.same(parser.parse(text), JSON.parse(text));
  for (const text of texts)
    for (let length = 0; length < text.length; length++) {
      const damaged = `${text.slice(0, length)}]${text.slice(length + 1)}`;
      for (const each of [text.slice(0, length), damaged]) t.same(parser.parse(each), parseJournalLine(each), each);
    }
});

t.test("the rows in journals are returned, each once, in its last state", async (t) => {
  const folder = join(t.testdir(), "journal");
  t.same(await readJournals(folder), { ended: [], open: [], objects: [] });
  mkdirSync(folder);
  writeFileSync(journalFile(folder, "1-2-3", 1), line("begun", "a") + line("begun", "b") + line("ended", "a"));
  writeFileSync(journalFile(folder, "1-2-3", 2), line("begun", "b") + line("begun", "c"));
  writeFileSync(
    journalFile(folder, "9-9-9", 1),
    `${line("ended", "d")}torn${line("ended", "c")}${JSON.stringify(["made", object])}\n`,
  );
  const { ended, open, objects } = await readJournals(folder);
  t.same(objects, [object]);
  t.same(
    ended.map(({ values }) => values[0]),
    ["a", "d"],
  );
  t.same(
    open.map(({ values }) => values[0]),
    ["b", "c"],
  );
  const bytes = (kind: RowLine[0]) => Buffer.byteLength(line(kind, "a"));
  const end = 2 * bytes("begun") + bytes("ended");
  t.same(ended[0]?.place, {
    journal: "1-2-3",
    from: journalPosition(1, 2 * bytes("begun")),
    to: journalPosition(1, end),
  });
  const behind = journalPosition(2, 2 * bytes("begun"));
  t.same(open[1]?.place, { journal: "1-2-3", from: behind, to: behind });
});

t.test("journals of very many rows are read, in many turns of the event loop", async (t) => {
  const folder = t.testdir();
  const rows = Array.from({ length: 200_000 }, (_, i) => line("begun", `${i}`));
  writeFileSync(journalFile(folder, "1-2-3", 1), rows.join("") + line("ended", "7"));
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  const { ended, open } = await readJournals(folder);
  clearInterval(timer);
  t.same([ended.length, open.length], [1, 199_999]);
  t.ok(turns > 3, `${turns} turns`);
});

t.test("of a span only its rows are read, from files that were written since it began", async (t) => {
  const folder = t.testdir();
  const at = (id: string, time: number) => `${JSON.stringify(["ended", [["k"], [id, time]]])}\n`;
  const [old, current] = [1, 2].map((number) => journalFile(folder, "1-2-3", number)) as [string, string];
  writeFileSync(old, at("cannot be", 25_000));
  utimesSync(old, 19, 19);
  writeFileSync(current, at("before", 19_999) + at("first", 20_000) + at("last", 29_999) + at("after", 30_000));
  const { ended } = await readJournals(folder, { since: 20_000, until: 30_000 });
  t.same(
    ended.map(({ values }) => values[0]),
    ["first", "last"],
  );
});
