import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { maxOpenFiles, openFilesWarning } from "../../src/cli/open-files.ts";

t.test("the system's limit of open files is read, and a low one is reported", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const limits = join(folder, "limits");
  writeFileSync(
    limits,
    "Limit  Soft Limit  Hard Limit  Units\nMax open files            64                   64  files\n",
  );
  t.equal(maxOpenFiles(limits), 64);
  t.match(openFilesWarning(64), /only 64 files and connections/);
  t.equal(openFilesWarning(4096), undefined);
});

t.test("without a limit from the system, or a number, nothing is reported", async (t) => {
  t.equal(maxOpenFiles("/nowhere/limits"), undefined);
  t.equal(maxOpenFiles(fileURLToPath(import.meta.url)), undefined);
  t.equal(openFilesWarning(undefined), undefined);
});
