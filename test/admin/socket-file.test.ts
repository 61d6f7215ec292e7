import { existsSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { freeSocketFile, socketFileProblem } from "../../src/admin/socket-file.ts";
import { FileError } from "../../src/core/errors.ts";

t.test("a path in the place of something else cannot be a socket's", async (t) => {
  const folder = t.testdir({ "notes.txt": "text" });
  for (const [file, message] of [
    ["notes.txt", /^\S+notes\.txt is no socket: remove it, or name another file$/],
    ["notes.txt/a.sock", /^\S+ cannot be created: \S+notes\.txt is no folder$/],
    [".", /is a folder: name a file in it$/],
  ] as const) {
    const path = join(folder, file);
    t.match(socketFileProblem(path), message);
    await t.rejects(freeSocketFile(path), { constructor: FileError, message: /^admin: / });
  }
  t.ok(existsSync(join(folder, "notes.txt")), "a file of something else stays");
});

t.test("a folder may be made until the start, and not later", async (t) => {
  const folder = t.testdir({});
  t.equal(socketFileProblem(join(folder, "a.sock")), undefined);
  await freeSocketFile(join(folder, "a.sock"));
  t.equal(socketFileProblem(join(folder, "missing/a.sock")), undefined);
  const message = /^admin: the folder \S+missing does not exist: create it, or name another file$/;
  await t.rejects(freeSocketFile(join(folder, "missing/a.sock")), { constructor: FileError, message });
});
