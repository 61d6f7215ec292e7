/**
 * Cuts LiteLLM's table of models (PyPI package `litellm`, MIT) down to what the gateway reads of it, and writes the result
 * and LiteLLM's notice beside the code that reads them:
 *
 *     npm run prices                  the newest version
 *     npm run prices -- 1.109.1       that version
 *
 * Needs `pip` and `unzip`. The result is committed, so that neither a build nor a start needs the network.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractLiteLlm, type LiteLlmRow, packLiteLlm } from "../src/prices/litellm-extract.ts";

const TARGET = new URL("../src/prices/", import.meta.url);
const TABLE = "litellm/model_prices_and_context_window_backup.json";
/** Maximum bytes of the table; the wheel contains other data too. */
const MAX_TABLE_BYTES = 64 * 1024 * 1024;

const folder = mkdtempSync(join(tmpdir(), "litellm-"));
try {
  const asked = process.argv[2];
  const name = asked === undefined ? "litellm" : `litellm==${asked}`;
  execFileSync("pip", ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, name], {
    stdio: "inherit",
  });
  const wheel = readdirSync(folder).find((file) => file.endsWith(".whl"));
  const version = /^litellm-([^-]+)-/.exec(wheel ?? "")?.[1];
  if (wheel === undefined || version === undefined) throw new Error("pip has downloaded no wheel of litellm");
  const read = (path: string) =>
    execFileSync("unzip", ["-p", join(folder, wheel), path], { maxBuffer: MAX_TABLE_BYTES }).toString();
  const rows = JSON.parse(read(TABLE)) as Record<string, LiteLlmRow>;
  const { models, ...head } = packLiteLlm(extractLiteLlm(rows, version));
  const lines = models.map((each) => JSON.stringify(each));
  writeFileSync(
    new URL("litellm.json", TARGET),
    `${JSON.stringify(head).slice(0, -1)},"models":[\n${lines.join(",\n")}\n]}\n`,
  );
  writeFileSync(new URL("litellm.LICENSE", TARGET), read(`litellm-${version}.dist-info/licenses/LICENSE`));
  process.stdout.write(`litellm ${version}: ${lines.length} models\n`);
} finally {
  rmSync(folder, { recursive: true });
}
