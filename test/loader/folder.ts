import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "tap";

/** A folder outside the checkout with these files, removed with the test. */
export function folder(t: Test, files: Record<string, string>): string {
  const made = mkdtempSync(join(tmpdir(), "gateway-plugins-"));
  t.teardown(() => rmSync(made, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(made, name, ".."), { recursive: true });
    writeFileSync(join(made, name), text);
  }
  return made;
}
