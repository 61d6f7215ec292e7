import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
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
