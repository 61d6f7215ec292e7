import { spawnSync } from "node:child_process";
import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import {
  hasWaitingRows,
  isAbandoned,
  journalFile,
  journalFileNumber,
  journalFolder,
  listJournals,
  processName,
  removeFiles,
  touchJournal,
} from "../../../src/store/journal/files.ts";

/** The id of a process that has ended. */
const dead = spawnSync(process.execPath, ["-e", ""]).pid;

t.test("journals are found by their writers, their files in the order in which they were written", (t) => {
  const folder = t.testdir();
  const files = [
    journalFile(folder, "7-100-1", 10),
    journalFile(folder, "7-100-1", 9),
    journalFile(folder, "7-100-2", 1),
  ];
  for (const file of files) writeFileSync(file, "");
  writeFileSync(join(folder, "other.jsonl"), "");
  t.same(listJournals(folder), [
    { name: "7-100-1", files: [files[1], files[0]] },
    { name: "7-100-2", files: [files[2]] },
  ]);
  const [begun, living] = [`${journalFile(folder, `${dead}-5-1`, 2)}.part`, `${processName()}-1`];
  for (const file of [begun, `${journalFile(folder, living, 2)}.part`]) writeFileSync(file, "");
  const others = listJournals(folder).filter(({ name }) => !name.startsWith("7-"));
  t.same(others, [{ name: `${dead}-5-1`, files: [begun] }], "that of a process that has ended");
  t.equal(journalFileNumber(begun), 2);
  t.same(listJournals(join(folder, "none")), []);
  t.equal(journalFolder("/x/gateway.db"), "/x/gateway.db.journal");
  t.end();
});

t.test("a journal has no owner when its process has ended and it was unchanged for a while", (t) => {
  const folder = t.testdir();
  const old = new Date(Date.now() - 60_000);
  const state = (owner: string, time = old) => {
    const file = journalFile(folder, owner, 1);
    writeFileSync(file, "");
    utimesSync(file, time, time);
    return isAbandoned({ name: owner, files: [file] });
  };
  t.equal(state(`${processName()}-1`), false, "this process");
  t.equal(state(`${process.pid}-1-1`), true, "an earlier process with the same id");
  t.equal(state(`${dead}-5-1`), true);
  t.equal(state(`${dead}-5-1`, new Date()), false, "a process that is not visible from here may write to it");
  t.equal(isAbandoned({ name: `${dead}-5-1`, files: [join(folder, "none")] }), false);
  t.end();
});

t.test("a journal's times show others that its rows wait for the store; those of dead processes always do", (t) => {
  const folder = t.testdir();
  const waits = (owner: string, lag: number, at = Date.now()) => {
    const file = journalFile(folder, owner, 1);
    writeFileSync(file, "");
    touchJournal(file, at - lag, at);
    return hasWaitingRows({ name: owner, files: [file] });
  };
  t.equal(waits(`${processName()}-1`, 0), false);
  t.equal(waits(`${processName()}-1`, 4000), false, "the file that is about to be written");
  t.equal(waits(`${processName()}-1`, 6000), true);
  t.equal(waits(`${dead}-5-1`, 0), false, "a process that is not visible from here may write it");
  t.equal(waits(`${dead}-5-1`, 0, Date.now() - 60_000), true);
  t.equal(hasWaitingRows({ name: `${processName()}-1`, files: [join(folder, "none")] }), false);
  t.doesNotThrow(() => touchJournal(join(folder, "none"), 0, 0));
  t.end();
});

t.test("files are removed, by any process", (t) => {
  const folder = t.testdir({ a: "", b: "" });
  removeFiles([join(folder, "a"), join(folder, "none")]);
  t.same(readdirSync(folder), ["b"]);
  t.throws(() => removeFiles([folder]));
  t.end();
});
