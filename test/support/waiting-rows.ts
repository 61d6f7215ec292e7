import { mkdirSync, writeFileSync } from "node:fs";
import { journalFile, journalFolder, processName, touchJournal } from "../../src/store/journal/files.ts";

/** Leaves a journal beside a SQLite store, as a running gateway does whose rows have waited for a minute. Returns its file. */
export function leaveWaitingRows(store: string): string {
  const folder = journalFolder(store);
  mkdirSync(folder, { recursive: true });
  const file = journalFile(folder, `${processName()}-99`, 1);
  writeFileSync(file, "");
  touchJournal(file, Date.now() - 60_000, Date.now());
  return file;
}
