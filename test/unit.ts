// npm run unit -- FOLDER…: the tests of folders of src/, plugins/ or test/ in about ten seconds. What takes longer is left out,
// or done with a part of its cases, and told; npm test does all of it.
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { runShared, totals } from "./support/several.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** What runs when no folder is named. */
const SMALL = ["core", "config", "wire"];
/** Of thousands of cases, one in so many is tried (test/support/sample.ts). */
const STRIDE = "GATEWAY_TEST_STRIDE";
const SAMPLE = 29;

/** Folders and files that run when they are named, and not with the folder that they stand in: they take longer than it may. */
const APART = [
  "cli/signals.test.ts",
  "downstream/overload.test.ts",
  "plugins/protocols/",
  "plugins/record/capture.test.ts",
  "plugins/usage",
  "store/journal/journaled-ledger.test.ts",
  "store/orphan-watch.test.ts",
  "store/postgres/",
  "store/redis/",
  "support/together.test.ts",
  "workers.test.ts",
];
/**
 * Files that take seconds, the longest of a folder first: they are begun first, so that no other core is idle while one is
 * left.
 */
const FIRST = [
  "admin/questions",
  "admin/oidc",
  "admin/explain",
  "admin/live-stream",
  "admin/api",
  "crash",
  "cli/run",
  "cli/doctor",
  "cli/plugin",
  "cli/verbs",
  "cli/store-warnings",
  "cli/first-key",
  "cli/top",
  "cli/store",
  "cli/init",
  "cli/address-warnings",
  "cli/explain",
  "cli/usage",
  "cli/connect",
  "downstream/receive-body",
  "downstream/server-stop",
  "downstream/connections",
  "downstream/form",
  "downstream/reply",
  "downstream/key-watch",
  "downstream/listener",
  "downstream/server",
  "downstream/response-writer",
  "downstream/cors",
  "downstream/parser-errors",
  "golden/sharp-cases.errors",
  "golden/compaction",
  "golden/costs",
  "golden/matrix",
  "golden/sharp-cases.http",
  "plugins/record",
  "plugins/rewrite",
  "plugins/models/continuity",
  "plugins/limits",
  "plugins/auth",
  "store/journal-place",
  "store/sqlite/ledger",
  "store/journal/journaled-owners",
  "store/sqlite/restore",
  "store/journal/journal",
  "store/spend",
  "store/ledger-search",
  "store/ledger-store",
  "store/sqlite/keys",
  "store/audit",
  "upstream/retry",
  "upstream/pass",
  "upstream/http1/pool",
  "upstream/requested-wait",
  "upstream/provider-slots",
  "upstream/first-frame",
  "upstream/received-answer",
  "upstream/non-answer",
  "upstream/request",
  "upstream/discarded-answer",
  "upstream/attempts",
];

const isApart = (file: string): boolean => APART.some((each) => file.startsWith(`test/${each}`));

/** Test files of a folder or file, named as in src/, in plugins/ or in test/. */
function filesOf(name: string): string[] {
  const place = name.replace(/^\.\//, "").replace(/^(?:src|test)\//, "");
  const plain = place.replace(/\/$/, "").replace(/(?:\.test)?\.ts$/, "");
  const folder = place.endsWith(".ts") ? [] : [`test/${plain}/**/*.test.ts`];
  const files = globSync([...folder, `test/${plain}.test.ts`], { cwd: ROOT });
  if (files.length === 0)
    throw new Error(`there are no tests of ${name}: no test/${plain}/ and no test/${plain}.test.ts`);
  return files;
}

/** A file's place among the others. */
function turn(file: string): number {
  const at = FIRST.findIndex((each) => file === `test/${each}.test.ts`);
  return at < 0 ? FIRST.length : at;
}

async function main(names: readonly string[]): Promise<number> {
  // A name that is nobody's any more is told.
  for (const each of [...APART, ...FIRST]) filesOf(each);
  const found = (names.length > 0 ? names : SMALL).map(filesOf);
  const wanted = found.flatMap((files) => (files.every(isApart) ? files : files.filter((file) => !isApart(file))));
  const files = [...new Set(wanted)].sort((a, b) => turn(a) - turn(b) || (a < b ? -1 : 1));
  const out = APART.filter((each) =>
    found.flat().some((file) => file.startsWith(`test/${each}`) && !files.includes(file)),
  );
  process.env[STRIDE] ??= String(SAMPLE);
  const cores = availableParallelism();
  const started = performance.now();
  const all = await runShared(files, cores, 3 * cores);
  const told = all.flatMap(({ lines }) => lines.filter((line) => !line.startsWith("ok ")));
  if (told.length > 0) console.log(told.join("\n"));
  if (out.length > 0) console.log(`left out, for they take longer: npm run unit -- ${out.join(" ")}`);
  if (process.env[STRIDE] !== "1")
    console.log(`of long lists of cases one in ${process.env[STRIDE]} was tried; all: ${STRIDE}=1, or npm test`);
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
