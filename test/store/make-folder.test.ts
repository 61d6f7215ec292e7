import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { makeFolder } from "../../src/store/make-folder.ts";

t.test("a folder is made with those above it, for its owner only; one that exists stays as it is", async (t) => {
  const folder = join(t.testdir(), "a", "b", "c");
  makeFolder(folder);
  makeFolder(folder);
  for (const made of [folder, join(folder, "..")]) t.equal(statSync(made).mode & 0o777, 0o700, made);
  const own = join(folder, "own");
  mkdirSync(own, { mode: 0o755 });
  makeFolder(own);
  t.equal(statSync(own).mode & 0o777, 0o755);
  const open = join(folder, "open", "below");
  makeFolder(open, 0o755);
  for (const made of [open, join(open, "..")]) t.equal(statSync(made).mode & 0o777, 0o755 & ~process.umask(), made);
  makeFolder(".");
  makeFolder("/");
});

t.test("a folder that cannot be made is an error, also where Node's own recursion never ends", async (t) => {
  const file = join(t.testdir(), "file");
  writeFileSync(file, "");
  t.throws(() => makeFolder(file), { code: "EEXIST" });
  t.throws(() => makeFolder(join(file, "below")), { code: "ENOTDIR" });
  if (existsSync("/proc/self")) t.throws(() => makeFolder("/proc/none/below"), { code: "ENOENT", path: "/proc/none" });
});
