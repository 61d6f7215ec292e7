import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { JournalFeeder } from "../../../src/store/journal/feeder.ts";
import { journalFile } from "../../../src/store/journal/files.ts";
import type { RowLine } from "../../../src/store/journal/journal.ts";
import type { UsageRow } from "../../../src/store/ledger-row.ts";
import type { CreatedObject } from "../../../src/store/object-rows.ts";
import { until } from "../../support/until.ts";

const OWNER = "1-2-3";
const line = (kind: RowLine[0], id: string): string => `${JSON.stringify([kind, [["k"], [id]]])}\n`;

/** A store of rows that may be down. */
function feeder(t: Test) {
  const folder = join(t.testdir(), "journal");
  mkdirSync(folder);
  const waiting: UsageRow[] = [];
  const kept: unknown[] = [];
  const made: CreatedObject[] = [];
  const warnings: string[] = [];
  const store = { down: false, flushed: () => {} };
  const taker = {
    appendRow: (row: UsageRow) => void waiting.push(row),
    appendObject: (object: CreatedObject) => void made.push(object),
    flush: async () => {
      if (store.down) throw new Error("disk full");
      kept.push(...waiting.splice(0).map(({ values }) => values[0]));
      store.flushed();
    },
  };
  const warn = (message: string) => void warnings.push(message);
  const feeding = new JournalFeeder(folder, OWNER, taker, warn);
  return { folder, kept, made, store, warnings, feeder: feeding, file: journalFile(folder, OWNER, 1) };
}

t.test("lines are fed to the ledger however the file has grown, each once; incomplete lines are not", async (t) => {
  const { feeder: feeding, file, kept, warnings } = feeder(t);
  const text = ["a", "b", "ü"].map((id) => line("begun", id) + line("ended", id)).join("");
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 7) {
    appendFileSync(file, bytes.subarray(at, at + 7));
    await feeding.feed({ number: 1, size: statSync(file).size });
  }
  t.same([kept, warnings], [["a", "b", "ü"], []]);
  t.ok(await feeding.drain());
  feeding.removeJournal();
  t.notOk(existsSync(file));
});

t.test("created objects are fed to the store, those of dead processes too", async (t) => {
  const { feeder: feeding, folder, file, made, kept } = feeder(t);
  const object = { id: "file-1", provider: "up", key: "one", time: 1 };
  writeFileSync(file, `${line("ended", "a")}${JSON.stringify(["made", object])}\n`);
  await feeding.feed({ number: 1, size: statSync(file).size });
  t.same([kept, made], [["a"], [object]]);
  const dead = journalFile(folder, "999999999-1-1", 1);
  writeFileSync(dead, `${JSON.stringify(["made", { ...object, id: "file-2" }])}\n`);
  utimesSync(dead, 1, 1);
  await feeding.adopt();
  t.same(made.at(-1), { ...object, id: "file-2" });
});

t.test("requests to read that come before the next read share it, up to the last of their positions", async (t) => {
  const { feeder: feeding, file, kept } = feeder(t);
  const size = Buffer.byteLength(line("ended", "a"));
  writeFileSync(file, ["a", "b", "c"].map((id) => line("ended", id)).join(""));
  for (const lines of [1, 2, 3]) void feeding.feed({ number: 1, size: lines * size });
  t.ok(await feeding.drain());
  t.same(kept, ["a", "b", "c"]);
  t.equal(feeding.behindSince, undefined);
});

t.test("the backlog counts what is unread here, and what dead processes have left", async (t) => {
  const { feeder: feeding, folder, file, store } = feeder(t);
  t.same(feeding.backlog(), { lag: 0, oldest: 0, bytes: 0, errors: 0 });
  const bytes = Buffer.byteLength(line("ended", "a"));
  writeFileSync(file, line("ended", "a"));
  utimesSync(file, 1, 1);
  t.same(feeding.backlog(), { lag: 0, oldest: 0, bytes, errors: 0 }, "its own file may be old");
  const dead = journalFile(folder, "999999999-1-1", 1);
  writeFileSync(dead, line("ended", "a"));
  utimesSync(dead, new Date(), new Date(Date.now() - 100_000));
  const { oldest, ...rest } = feeding.backlog();
  t.same(rest, { lag: 0, bytes: 2 * bytes, errors: 0 });
  t.ok(oldest >= 100 && oldest < 200, `${oldest} s`);
  store.down = true;
  const fed = feeding.feed({ number: 1, size: bytes });
  await until(() => feeding.errors > 0, "an attempt");
  const { lag } = feeding.backlog();
  t.ok(lag > 0 && lag < 100, `${lag} s`);
  store.down = false;
  await fed;
  t.equal(feeding.backlog().lag, 0);
});

t.test("a file that was not read to its end before the feeder stopped stays", async (t) => {
  const { feeder: feeding, folder, file, kept, store } = feeder(t);
  const ids = Array.from({ length: 5 }, (_, i) => `${i}`.repeat(200_000));
  writeFileSync(file, ids.map((id) => line("ended", id)).join(""));
  writeFileSync(journalFile(folder, OWNER, 2), "");
  store.flushed = () => feeding.stop();
  await feeding.feed({ number: 2, size: 0 });
  t.ok(kept.length < ids.length);
  t.ok(existsSync(file));
});

t.test("a finished file is removed, and the next one read", async (t) => {
  const { feeder: feeding, folder, file, kept } = feeder(t);
  writeFileSync(file, line("ended", "a"));
  writeFileSync(journalFile(folder, OWNER, 2), line("ended", "b") + line("ended", "b2"));
  writeFileSync(journalFile(folder, OWNER, 3), line("ended", "c") + line("ended", "later"));
  await feeding.feed({ number: 3, size: Buffer.byteLength(line("ended", "c")) });
  t.same(kept, ["a", "b", "b2", "c"]);
  t.same(readdirSync(folder), [`${OWNER}-000003.jsonl`]);
});

t.test("a line longer than one read is read", async (t) => {
  const { feeder: feeding, file, kept } = feeder(t);
  const long = "x".repeat(1_000_000);
  writeFileSync(file, line("ended", long) + line("ended", "b"));
  await feeding.feed({ number: 1, size: statSync(file).size });
  t.same(kept, [long, "b"]);
});

t.test("the feeder waits for a store that is down, and rows that time out stay in the journal", async (t) => {
  const { feeder: feeding, file, kept, store } = feeder(t);
  writeFileSync(file, line("ended", "a"));
  store.down = true;
  const fed = feeding.feed({ number: 1, size: statSync(file).size });
  await new Promise((more) => setTimeout(more, 50));
  t.same(kept, []);
  store.down = false;
  await fed;
  t.same(kept, ["a"]);
  store.down = true;
  appendFileSync(file, line("ended", "b"));
  const given = feeding.feed({ number: 1, size: statSync(file).size });
  await new Promise((more) => setTimeout(more, 20));
  feeding.stop();
  await given;
  t.equal(await feeding.drain(), false);
  t.ok(existsSync(file));
});

t.test("journals of dead processes are fed to the ledger; unfinished exchanges are in it as begun", async (t) => {
  const { feeder: feeding, folder, kept } = feeder(t);
  const old = new Date(Date.now() - 60_000);
  const leave = (owner: string, number: number, text: string, time = old) => {
    const file = journalFile(folder, owner, number);
    writeFileSync(file, text);
    utimesSync(file, time, time);
  };
  leave("999999999-1-1", 1, line("begun", "open") + line("begun", "a") + line("ended", "a"));
  leave("999999999-1-1", 2, `${line("begun", "open")}no JSON\n${line("begun", "cut").slice(0, -4)}`);
  leave("999999998-1-1", 1, line("ended", "fresh"), new Date());
  leave(OWNER, 1, line("ended", "own"));
  await feeding.adopt();
  t.same(kept, ["a", "open"]);
  t.same(readdirSync(folder).sort(), [`${OWNER}-000001.jsonl`, "999999998-1-1-000001.jsonl"].sort());
});

t.test(
  "a file that a process had begun when it was killed is read where it is the only copy, else removed",
  async (t) => {
    const { feeder: feeding, folder, kept } = feeder(t);
    const old = new Date(Date.now() - 60_000);
    const leave = (file: string, text: string, time = old) => {
      writeFileSync(file, text);
      utimesSync(file, time, time);
    };
    leave(`${journalFile(folder, "999999999-1-1", 1)}.part`, line("ended", "only") + line("ended", "cut").slice(0, -4));
    leave(journalFile(folder, "999999998-1-1", 1), line("ended", "a"));
    leave(`${journalFile(folder, "999999998-1-1", 1)}.part`, line("ended", "a"));
    leave(`${journalFile(folder, "999999997-1-1", 1)}.part`, line("ended", "fresh"), new Date());
    await feeding.adopt();
    t.same(kept.sort(), ["a", "only"]);
    t.same(readdirSync(folder), ["999999997-1-1-000001.jsonl.part"]);
  },
);

t.test("after a jump of the clock, journals that seem untouched may be in use: they stay for a while", async (t) => {
  const { feeder: feeding, folder, kept } = feeder(t);
  const file = journalFile(folder, "999999999-1-1", 1);
  writeFileSync(file, line("ended", "a"));
  const [time, clock] = [Date.now, performance.now.bind(performance)];
  t.teardown(() => {
    Date.now = time;
    Reflect.deleteProperty(performance, "now");
  });
  await feeding.adopt();
  Date.now = () => time() + 3_600_000;
  await feeding.adopt();
  t.same([kept, existsSync(file)], [[], true]);
  performance.now = () => clock() + 3000;
  Date.now = () => time() + 3_603_000;
  await feeding.adopt();
  t.same([kept, existsSync(file)], [["a"], false]);
});

t.test("unread lines of a dead process's journal stay when the process stops", async (t) => {
  const { feeder: feeding, folder, kept, store } = feeder(t);
  const file = journalFile(folder, "999999999-1-1", 1);
  // More than is read at once.
  const ids = Array.from({ length: 5 }, (_, i) => `${i}`.repeat(200_000));
  writeFileSync(file, ids.map((id) => line("ended", id)).join(""));
  utimesSync(file, 1, 1);
  store.flushed = () => feeding.stop();
  await feeding.adopt();
  t.ok(kept.length < ids.length);
  t.ok(existsSync(file), "the rest is read by the next start");
});

t.test("a dead process's journal stays until the ledger has what was open in it too", async (t) => {
  const { feeder: feeding, folder, kept, store } = feeder(t);
  const file = journalFile(folder, "999999999-1-1", 1);
  writeFileSync(file, line("ended", "a") + line("begun", "open"));
  utimesSync(file, 1, 1);
  store.flushed = () => {
    store.down = true;
  };
  const adopted = feeding.adopt();
  await until(() => feeding.errors > 0, "an attempt");
  feeding.stop();
  await adopted;
  t.same([kept, existsSync(file)], [["a"], true]);
});

t.test("an unreadable file is not taken for an empty one: it stays, and is read once it can be", async (t) => {
  const { feeder: feeding, folder, file, kept, warnings } = feeder(t);
  // It is there and does not open, as where there is no free descriptor.
  symlinkSync(file, file);
  writeFileSync(journalFile(folder, OWNER, 2), line("ended", "b"));
  const place = { number: 2, size: statSync(journalFile(folder, OWNER, 2)).size };
  const fed = feeding.feed(place);
  await new Promise((more) => setTimeout(more, 50));
  t.same(kept, []);
  t.match(warnings, [/cannot be read: ELOOP.*stays/]);
  unlinkSync(file);
  writeFileSync(file, line("ended", "a"));
  await fed;
  t.same(kept, ["a", "b"]);
  t.equal(warnings.length, 2);
  t.ok(feeding.errors > 0);
});

t.test("the same for files of dead processes, and the others do not wait for it", async (t) => {
  const { feeder: feeding, folder, kept } = feeder(t);
  const [bad, good] = [journalFile(folder, "999999998-1-1", 1), journalFile(folder, "999999999-1-1", 1)];
  mkdirSync(bad);
  writeFileSync(good, line("ended", "a"));
  for (const file of [bad, good]) utimesSync(file, 1, 1);
  await t.rejects(feeding.adopt(), /EISDIR/);
  t.same(kept, ["a"]);
  t.same([existsSync(bad), existsSync(good)], [true, false]);
});

t.test("JSON that is not a line is skipped, and delays nothing", async (t) => {
  const { feeder: feeding, file, kept } = feeder(t);
  const bad = ["5", "{}", "[]", '["ended"]', '["ended",[1,2]]', '["ended",[[],[]],"once",7]'];
  writeFileSync(file, `${bad.join("\n")}\n${line("ended", "a")}`);
  await feeding.feed({ number: 1, size: statSync(file).size });
  t.same(kept, ["a"]);
});

t.test("the active journal shows that it has an owner", (t) => {
  const { feeder: feeding, file } = feeder(t);
  feeding.touch();
  writeFileSync(file, "");
  utimesSync(file, new Date(0), new Date(0));
  feeding.touch();
  t.ok(Date.now() - statSync(file).mtimeMs < 60_000);
  const unread = () => statSync(file).mtimeMs - statSync(file).atimeMs;
  t.equal(Math.round(unread()), 0, "and that all of it is in the store");
  feeding.behindSince = performance.now() - 9000;
  feeding.touch(performance.now() - 7000);
  t.ok(unread() >= 8999, "or since when it waits");
  feeding.behindSince = undefined;
  feeding.touch(performance.now() - 7000);
  t.ok(unread() >= 6999 && unread() < 8999, "or since when lines are in memory only");
  t.end();
});
