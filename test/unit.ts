// npm run unit -- FOLDER…: the tests of folders of src/, plugins/ or test/, all in as many processes as there are cores.
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { runFiles, totals } from "./support/several.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** What runs when no folder is named. */
const SMALL = ["core", "config", "wire"];

/** Test files of a folder or file, named as in src/, in plugins/ or in test/. */
function filesOf(name: string): string[] {
  const place = name.replace(/^\.\//, "").replace(/^(?:src|test)\//, "");
  const plain = place.replace(/\/$/, "").replace(/(?:\.test)?\.ts$/, "");
  const files = globSync([`test/${plain}/**/*.test.ts`, `test/${plain}.test.ts`], { cwd: ROOT });
  if (files.length === 0)
    throw new Error(`there are no tests of ${name}: no test/${plain}/ and no test/${plain}.test.ts`);
  return files;
}

async function main(names: readonly string[]): Promise<number> {
  const files = [...new Set((names.length > 0 ? names : SMALL).flatMap(filesOf))].sort();
  const processes = Math.min(availableParallelism(), files.length);
  const shares = Array.from({ length: processes }, (_, i) => files.filter((_, at) => at % processes === i));
  const started = performance.now();
  const all = await Promise.all(shares.map((files) => runFiles(files, true)));
  const told = all.flatMap(({ lines }) => lines.filter((line) => !line.startsWith("ok ")));
  if (told.length > 0) console.log(told.join("\n"));
  const { text, failed } = totals(all);
  console.log(`${files.length} files in ${((performance.now() - started) / 1000).toFixed(1)} s\n${text}`);
  return failed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (thrown) {
  console.error((thrown as Error).message);
  process.exitCode = 2;
}
