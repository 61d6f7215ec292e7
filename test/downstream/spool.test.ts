import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import promises, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import t from "tap";
import { Spool } from "../../src/downstream/spool.ts";

/** Puts the temporary files of a test into its own folder. */
function ownFolder(t: { testdir(): string; teardown(act: () => void): void }): string {
  const folder = t.testdir();
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = folder;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  });
  return folder;
}

t.test("what was written can be read any number of times, from a file without a name", async (t) => {
  const folder = ownFolder(t);
  const spool = await Spool.open();
  t.same(readdirSync(folder), []);
  const pieces = [randomBytes(100_000), randomBytes(1), randomBytes(70_000)];
  await spool.write(pieces.slice(0, 1));
  await spool.write(pieces.slice(1));
  t.equal(spool.length, 170_001);
  for (let times = 0; times < 2; times++)
    t.ok(Buffer.concat(await Array.fromAsync(spool.read())).equals(Buffer.concat(pieces)));
  spool.close();
  await t.rejects(spool.write(pieces));
});

t.test("a file whose name cannot be removed is closed", async (t) => {
  ownFolder(t);
  const { open, unlink } = promises;
  let file: FileHandle | undefined;
  Object.assign(promises, {
    open: async (...args: Parameters<typeof open>) => (file = await open(...args)),
    unlink: () => Promise.reject(new Error("not now")),
  });
  syncBuiltinESMExports();
  t.teardown(() => {
    Object.assign(promises, { open, unlink });
    syncBuiltinESMExports();
  });
  await t.rejects(Spool.open(), /not now/);
  t.equal(file?.fd, -1);
});
