import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "tap";

/** Creates a folder that is removed after later teardowns: tap's own is removed without waiting for them. */
export function folderFor(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), "gateway-test-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}
