import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "tap";

/** A new folder that is there until all that was set up behind it is closed: tap's own goes without waiting for that. */
export function folderFor(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), "gateway-test-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}
