import { spawnSync } from "node:child_process";
import fs, {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { journalFile, listJournals, processName } from "../../../src/store/journal/files.ts";
import { Journal, lineToRow, type RowLine } from "../../../src/store/journal/journal.ts";
import type { LedgerWarn } from "../../../src/store/ledger.ts";
import { KIND_COLUMNS, USAGE_COLUMNS, type UsageRow } from "../../../src/store/ledger-row.ts";
import { canLimitDescriptors, openFiles } from "../../support/descriptors.ts";
import { until } from "../../support/until.ts";

const row = (id: string, more: Partial<UsageRow> = {}): UsageRow => ({
  kind: ["k", 200],
  values: [id, 1, null],
  ...more,
});

function open(t: Test, limits?: { full: number; memory: number }) {
  const store = join(t.testdir(), "gateway.db.journal");
  const warnings: string[] = [];
  const told: object[] = [];
  const well: string[] = [];
  const warn: LedgerWarn = (text, fields, over) => {
    if (fields) told.push(fields);
    else warnings.push(text);
    if (over) well.push(text);
  };
  const journal = new Journal(store, warn, limits);
  t.teardown(() => journal.close());
  const lines = () =>
    listJournals(journal.folder).flatMap(({ files }) =>
      files.flatMap((file) =>
        readFileSync(file, "utf8")
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => JSON.parse(line) as RowLine),
      ),
    );
  return { store, journal, warnings, lines, told, well };
}

t.test("lines of which the system takes only a part at once are written completely", (t) => {
  const { journal, lines } = open(t);
  const real = fs.writeSync;
  t.teardown(() => {
    fs.writeSync = real;
    syncBuiltinESMExports();
  });
  fs.writeSync = ((fd: number, bytes: string | Buffer, from: number = 0) =>
    real(fd, Buffer.from(bytes), from, Math.min(9, Buffer.byteLength(bytes) - from))) as typeof fs.writeSync;
  syncBuiltinESMExports();
  const rows = ["ä", "€", "😀"].map((name, at) => row(String(at), { kind: [`${name}${"x".repeat(at + 7)}`, 200] }));
  for (const each of rows) journal.end(String(each.values[0]), each);
  journal.write();
  t.same(
    lines().map((line) => lineToRow(line).kind.slice(0, 2)),
    rows.map(({ kind }) => kind),
  );
  t.equal(journal.endPosition % 2 ** 33, statSync(journalFile(journal.folder, journal.owner, 1)).size);
  t.end();
});

t.test("an entry is in a file of this process once it is written, and not before", (t) => {
  const { journal, lines } = open(t);
  journal.begin("1", row("1"));
  journal.end("1", row("1", { once: { name: "näme", duplicate: row("1") } }));
  t.same([journal.hasPending, journal.hasFile, lines()], [true, false, []]);
  journal.write();
  t.same([journal.hasPending, journal.hasFile], [false, true]);
  const file = journalFile(journal.folder, journal.owner, 1);
  t.ok(journal.owner.startsWith(`${processName()}-`));
  t.equal(statSync(file).size, journal.size);
  t.same(
    [file, journal.folder].map((path) => statSync(path).mode & 0o777),
    [0o600, 0o700],
    "nobody else may read it",
  );
  t.same(lines().map(lineToRow), [row("1"), row("1", { once: { name: "näme", duplicate: row("1") } })]);
  t.same(
    lines().map(([kind]) => kind),
    ["begun", "ended"],
  );
  t.end();
});

t.test("a line has the holder where a row has one", (t) => {
  const { journal, lines } = open(t);
  const held = row("1", { attribution: ["acme", '{"a":"b"}'] });
  const duplicate = { kind: held.kind, values: ["1", 2, null], attribution: held.attribution } as UsageRow;
  journal.begin("1", held);
  journal.end("1", { ...held, once: { name: "x", duplicate } });
  journal.write();
  t.same(lines().map(lineToRow), [held, { ...held, once: { name: "x", duplicate } }]);
  t.end();
});

t.test("after a full file another one begins, with the open entries", (t) => {
  const { journal, lines } = open(t, { full: 100, memory: 1000 });
  journal.begin("long", row("long"));
  for (const id of ["a", "b", "c"]) {
    journal.begin(id, row(id));
    journal.end(id, row(id));
    journal.write();
  }
  t.ok(journal.number >= 3);
  const last = readFileSync(journalFile(journal.folder, journal.owner, journal.number), "utf8");
  t.match(last, /^\["begun",.*"long"/);
  t.notMatch(last, /"a"/);
  t.equal(lines().filter(([kind]) => kind === "ended").length, 3);
  t.end();
});

t.test("where the open entries fill a file, the next one still begins only after as many bytes again", (t) => {
  const { journal, lines } = open(t, { full: 1000, memory: 100_000 });
  for (let i = 0; i < 100; i++) journal.begin(`open ${i}`, row(`open ${i}`));
  journal.write();
  t.equal(journal.number, 2);
  for (let i = 0; i < 50; i++) {
    journal.end(`${i}`, row(`${i}`));
    journal.write();
  }
  t.equal(journal.number, 3, "1,750 bytes");
  t.equal(lines().filter(([kind]) => kind === "ended").length, 50);
  t.end();
});

t.test("an attempt to write takes as long however many lines wait", (t) => {
  const long = row("long", { values: ["x".repeat(300), 1, null] });
  const time = (work: () => void) => {
    const began = performance.now();
    work();
    return performance.now() - began;
  };
  const attempts = Array.from({ length: 3 }, () => {
    const { journal } = open(t);
    writeFileSync(journal.folder, "in the way");
    for (let i = 0; i < 60_000; i++) journal.end(`${i}`, long);
    const attempt = time(() => journal.write());
    t.equal(journal.failures, 1);
    const lines = journal.close();
    return [attempt, time(() => Buffer.from(lines.join("")))] as const;
  });
  const [attempt, whole] = [0, 1].map((at) => Math.min(...attempts.map((times) => times[at] as number)));
  t.ok((attempt as number) < (whole as number) / 4, `${attempt} ms, and to join all lines ${whole} ms`);
  t.end();
});

t.test("lines that cannot be written wait, and are written when they can be", async (t) => {
  const { store, journal, warnings, lines, well } = open(t);
  const folder = dirname(store);
  writeFileSync(journal.folder, "in the way");
  journal.end("1", row("1"));
  journal.write();
  t.match(warnings, [/cannot be written: .*waits in memory/]);
  t.equal(journal.writable, false);
  t.match(warnings, [
    /journal in \S+\.journal cannot be written: .*free room there, or let this user write to it, before/,
  ]);
  const { where = "" } = journal.unwritten ?? {};
  t.match(journal.unwritten, { lines: 1 });
  t.ok(where.startsWith(`${journal.folder} cannot be written (`), where);
  await new Promise((more) => setTimeout(more, 5));
  t.ok(journal.failingSeconds > 0);
  journal.end("2", row("2"));
  rmSync(journal.folder);
  await until(() => journal.writable, "it to be written");
  t.same(
    lines().map((line) => lineToRow(line).values[0]),
    ["1", "2"],
  );
  t.match(warnings, [/cannot/, /being written again; 0 lines were lost/]);
  t.same(well, warnings.slice(1), "that is not an error");
  t.same([journal.unwritten, journal.failingSeconds], [undefined, 0]);
  t.same(readdirSync(folder), ["gateway.db.journal"]);
});

t.test("what a failed attempt to begin a file has left does not prevent the next one", (t) => {
  const { journal, lines } = open(t, { full: 1, memory: 1000 });
  journal.end("1", row("1"));
  mkdirSync(journal.folder, { recursive: true });
  for (const number of [1, 2]) writeFileSync(`${journalFile(journal.folder, journal.owner, number)}.part`, "left");
  journal.write();
  t.equal(journal.number, 2);
  journal.end("2", row("2"));
  journal.write();
  t.same(
    lines().map((line) => lineToRow(line).values[0]),
    ["1", "2"],
  );
  t.end();
});

t.test(
  "of lines that the disk takes in part only whole ones stay, and all are written once there is room",
  { skip: !canLimitDescriptors() && "needs prlimit" },
  async (t) => {
    const folder = t.testdir();
    const module = new URL("../../../src/store/journal/journal.ts", import.meta.url).href;
    // In a process of its own, whose files may not be longer than so many bytes, and which has just started.
    const script = `
      Object.defineProperty(performance, "now", { value: () => 1 });
      const { Journal } = await import(${JSON.stringify(module)});
      const { execFileSync } = await import("node:child_process");
      const { readdirSync, readFileSync } = await import("node:fs");
      const limit = (bytes) => execFileSync("prlimit", ["--pid", String(process.pid), "--fsize=" + bytes + ":"]);
      const journal = new Journal(${JSON.stringify(folder)}, () => {});
      const ids = () => readFileSync(${JSON.stringify(folder)} + "/" + readdirSync(${JSON.stringify(folder)})[0], "utf8")
        .split("\\n").map((line) => (line ? JSON.parse(line)[1][1][0] : ""));
      const write = (id) => {
        journal.end(id, { kind: ["k", 200], values: [id, 1, null] });
        journal.write();
      };
      write("1");
      const all = [ids()];
      limit(journal.size + 10);
      write("2");
      all.push(ids());
      limit("unlimited");
      journal.close();
      console.log(JSON.stringify([...all, ids()]));`;
    const loader = new URL("../../../src/loader/register.js", import.meta.url).href;
    const args = ["--import", loader, "--input-type=module", "--eval", script];
    const { stdout, stderr } = spawnSync(process.execPath, args, {
      encoding: "utf8",
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    t.equal(stderr, "");
    t.same(JSON.parse(stdout), [
      ["1", ""],
      ["1", ""],
      ["1", "2", ""],
    ]);
  },
);

t.test(
  "a file that cannot be begun is not kept open by the attempts",
  { skip: !canLimitDescriptors() && "needs /proc" },
  async (t) => {
    const { journal, lines } = open(t);
    const file = journalFile(journal.folder, journal.owner, 1);
    mkdirSync(file, { recursive: true });
    journal.end("1", row("1"));
    journal.write();
    t.same([journal.writable, readdirSync(journal.folder)], [false, [basename(file)]]);
    t.equal(openFiles(process.pid, `${basename(file)}.part (deleted)`), 0);
    rmdirSync(file);
    await until(() => journal.writable, "it to be written");
    t.equal(lines().length, 1);
  },
);

t.test("no two journals have one name, though processes may", (t) => {
  const [one, other] = [open(t).journal.owner, open(t).journal.owner];
  t.not(one, other);
  t.same(
    [one, other].map((owner) => owner.startsWith(`${processName()}-`)),
    [true, true],
  );
  t.end();
});

t.test("more than the memory limit in one turn of the event loop is written before its end", (t) => {
  const { journal, warnings, lines } = open(t, { full: 1_000_000, memory: 300 });
  for (let i = 0; i < 50; i++) journal.begin(`${i}`, row(`${i}`));
  journal.write();
  t.equal(lines().length, 50);
  t.same(warnings, []);
  journal.close();
  t.end();
});

t.test("memory for unwritten lines is limited: the oldest are dropped first, and that is reported", (t) => {
  const { journal, warnings, lines, told, well } = open(t, { full: 1000, memory: 300 });
  writeFileSync(journal.folder, "in the way");
  journal.end("first", row("first"));
  journal.write();
  for (let i = 0; i < 50; i++) journal.end(`${i}`, row(`${i}`));
  t.match(warnings, [/cannot be written/, /oldest lines are being lost/]);
  rmSync(journal.folder);
  journal.close();
  const ids = lines().map((line) => lineToRow(line).values[0]);
  t.equal(told.length + ids.length, 51, "each line is in the file, or was returned");
  t.same(told[0], {
    journal: [
      "ended",
      [
        ["k", 200],
        ["first", 1, null],
      ],
    ],
  });
  t.equal(ids.at(-1), "49");
  t.notOk(ids.includes("first"));
  t.match(warnings.at(-1), /written again; \d\d lines were lost/);
  t.same(well, []);
  t.end();
});

t.test("where memory for unwritten lines is full, all that fits into it is kept", (t) => {
  const { journal, lines } = open(t, { full: 1_000_000, memory: 40_000 });
  writeFileSync(journal.folder, "in the way");
  journal.end("first", row("first"));
  journal.write();
  for (let i = 10_000; i < 12_000; i++) journal.end(`${i}`, row(`${i}`));
  rmSync(journal.folder);
  journal.close();
  const bytes = lines().reduce((sum, line) => sum + JSON.stringify(line).length + 1, 0);
  t.ok(bytes > 39_000 && bytes <= 40_000, `${bytes} bytes`);
  t.notOk(journal.hasPending);
  t.end();
});

t.test("long lines behind short ones take no more memory than is allowed", (t) => {
  const { journal } = open(t, { full: 1_000_000, memory: 40_000 });
  writeFileSync(journal.folder, "in the way");
  for (let i = 0; i < 2000; i++) journal.end(`${i}`, row(`${i}`));
  for (let i = 0; i < 20; i++) journal.end("long", row("x".repeat(10_000)));
  const { lines: waiting = 0 } = journal.unwritten ?? {};
  t.equal(waiting, 3);
  rmSync(journal.folder);
  t.end();
});

t.test("lines that are more than one write wait in their order, and are written in it", (t) => {
  const { journal, lines } = open(t, { full: 100_000_000, memory: 3_500_000 });
  writeFileSync(journal.folder, "in the way");
  const ids = Array.from({ length: 400 }, (_, i) => `${i} ${"ä\u2028".repeat(5000)}`);
  for (const id of ids) journal.end(id, row(id));
  journal.write();
  const { lines: waiting = 0 } = journal.unwritten ?? {};
  t.ok(waiting > 300 && waiting < 400, `${waiting} lines`);
  rmSync(journal.folder);
  const end = journal.endPosition;
  journal.close();
  t.same(
    lines().map((line) => lineToRow(line).values[0]),
    ids.slice(-waiting),
  );
  t.equal(statSync(journalFile(journal.folder, journal.owner, 1)).size, end % 2 ** 33);
  t.end();
});

t.test("the unwritten entries of a closed journal are returned, each exchange in its last state", (t) => {
  const { journal, warnings } = open(t);
  writeFileSync(journal.folder, "in the way");
  journal.begin("ended", row("ended"));
  journal.end("ended", row("ended"));
  journal.begin("open", row("open"));
  const lost = journal.close().map((line) => JSON.parse(line) as RowLine);
  t.same(
    lost.map((line) => [line[0], lineToRow(line).values[0]]),
    [
      ["ended", "ended"],
      ["begun", "open"],
    ],
  );
  t.match(warnings.at(-1), /lost, as .*journal cannot be written: 3\. What they held follows/);
  t.same(journal.close(), []);
  t.end();
});

t.test("a line from before rows had prices is read as one without", async (t) => {
  const kind = KIND_COLUMNS.map((name) => name).slice(0, -1);
  t.same(lineToRow(["ended", [kind, ["1"]]]).kind, [...kind, ""]);
  const counted = lineToRow(["ended", [kind, ["1"]], "once", [kind, ["1"]]]).once?.duplicate;
  t.same(counted?.kind, [...kind, ""]);
});

t.test("a line from before rows had an assumed cost is read as one without", async (t) => {
  const values = USAGE_COLUMNS.map((name) => name).slice(0, -1);
  t.same(lineToRow(["ended", [[], values]]).values, [...values, null]);
  const counted = lineToRow(["ended", [[], values], "once", [[], values]]).once?.duplicate;
  t.same(counted?.values, [...values, null]);
});

t.test("a line of a later version is read without the columns that it has in addition", async (t) => {
  const [kind, values] = [KIND_COLUMNS.map((name) => name), USAGE_COLUMNS.map((name) => name)];
  t.same(
    lineToRow([
      "ended",
      [
        [...kind, "more"],
        [...values, 1, 2],
      ],
    ]),
    { kind, values },
  );
});

t.test("a journal without entries creates no file", (t) => {
  const { store, journal } = open(t);
  journal.write();
  journal.close();
  t.same(readdirSync(dirname(store)), []);
  t.end();
});

// At the same time, as both wait for the next look at the file.
t.jobs = 2;
t.test("a file that is removed or moved is written again, completely", async (t) => {
  const { journal, warnings, lines } = open(t);
  const ids = () => lines().map((line) => lineToRow(line).values[0]);
  const write = (id: string) => {
    journal.end(id, row(id));
    journal.write();
  };
  write("1");
  rmSync(journal.folder, { recursive: true });
  // Nobody has looked yet: it is written to a file that has no name.
  write("2");
  t.same(ids(), []);
  await sleep(1010);
  write("3");
  t.same(ids(), ["1", "2", "3"]);
  t.match(warnings, [/journal .*-000001\.jsonl was removed or moved/]);
  t.same(readdirSync(journal.folder), [`${journal.owner}-000001.jsonl`], "lines keep their places");
  renameSync(journal.folder, `${journal.folder}.away`);
  writeFileSync(journal.folder, "in the way");
  await sleep(1010);
  write("4");
  t.same([journal.writable, journal.hasPending], [false, true]);
  t.match(warnings, [/removed or moved/, /cannot be written: .*waits in memory/]);
  rmSync(journal.folder);
  await sleep(300);
  t.same([journal.writable, ids()], [true, ["1", "2", "3", "4"]]);
  rmSync(journal.folder, { recursive: true });
  journal.close();
  t.same(ids(), ["1", "2", "3", "4"], "the lines are read before the journal is closed");
});

t.test("an earlier copy that takes a file's place is replaced by all of the file", async (t) => {
  const { journal, lines } = open(t);
  const write = (id: string) => {
    journal.end(id, row(id));
    journal.write();
  };
  write("1");
  const file = journalFile(journal.folder, journal.owner, 1);
  copyFileSync(file, `${file}.copy`);
  write("2");
  renameSync(`${file}.copy`, file);
  await sleep(1010);
  write("3");
  t.same(
    lines().map((line) => lineToRow(line).values[0]),
    ["1", "2", "3"],
  );
  t.same([statSync(file).size, readdirSync(journal.folder).length], [journal.size, 1]);
});
