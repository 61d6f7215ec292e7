import { readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import t from "tap";
import { newPartFile, removePartFile } from "../../../src/store/sqlite/part-file.ts";

t.test("each call gets a file of its own; only those of dead processes are removed", async (t) => {
  const folder = t.testdir();
  const file = join(folder, "copy.db");
  const running = newPartFile(file);
  for (const left of [running, `${file}.999999999-1-0.part`, `${file}.999999999-1-0.part-wal`, `${folder}/other.part`])
    writeFileSync(left, "x");
  const next = newPartFile(file);
  t.not(next, running);
  t.same(new Set(readdirSync(folder)), new Set([basename(running), "other.part"]));
});

t.test("a part is removed with the files that SQLite keeps beside it", async (t) => {
  const folder = t.testdir();
  const part = newPartFile(join(folder, "copy.db"));
  for (const rest of ["", "-wal", "-shm", "-journal"]) writeFileSync(part + rest, "x");
  removePartFile(part);
  t.same(readdirSync(folder), []);
});
