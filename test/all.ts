// npm test [-- FILE,FILE… …]: every test, or those of each list in a process of its own. Files of the folders below run several
// in a process, because each process loads and compiles the gateway anew; all others, which change their process, measure it or
// start others, run in one of their own, as `npx tap FILE` has it.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Ran, runFiles, totals } from "./support/several.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Processes at a time. */
const JOBS = 2;
/** Files of one process: few enough that both cores have something to do until the end. */
const SHARE = 25;

/** Folders whose files run together, after the first those that take longest; `test/full.sh` knows the first. */
const ROOMS = [
  "wire",
  "store/postgres",
  "golden",
  "plugins",
  "cli",
  "admin",
  "store/journal",
  "upstream",
  "config",
  "fuzz",
  "downstream",
  "translation",
  "core",
  "objects",
  "store/sqlite",
  "store",
  "console",
  "examples",
  "workers",
  "loader",
  "prices",
  "metrics",
  "alerts",
  "marketplace",
  "text",
  "life",
];
/** Those of them where only files that start no other programs do so. */
const MIXED: ReadonlySet<string> = new Set(["store", "fuzz", "workers", "life"]);
/** What a file has in it that starts other programs. */
const STARTS =
  /\b(?:startProcess|childGateway|ownGateway|startInstances|sharedServers|startPostgres|startRedis)\(|"node:child_process"/;
/** The folder that comes before all others: its files have limits of time, and the real clients run beside the last ones. */
const FIRST = "life";
/** Files in them that need a process of their own: some judge time or memory, the others are long themselves. */
const ALONE: ReadonlySet<string> = new Set([
  "test/downstream/overload.test.ts",
  "test/golden/matrix.test.ts",
  "test/golden/request-matrix.test.ts",
  "test/life/breaker.test.ts",
  "test/life/client-checklist.4-endings.test.ts",
  "test/life/console-looks.test.ts",
  "test/life/console.test.ts",
  "test/life/endings.test.ts",
  "test/life/overload.test.ts",
  "test/life/pages.test.ts",
  "test/life/reload.test.ts",
  "test/life/retry-storm.test.ts",
  "test/life/slow.test.ts",
  "test/life/translation.test.ts",
  "test/life/truncation.test.ts",
]);

/** The files of each process. */
function processes(): string[][] {
  const files = globSync("test/**/*.test.ts", { cwd: ROOT, exclude: ["test/bench/build/**"] }).sort();
  const missing = [...ALONE].filter((file) => !files.includes(file));
  if (missing.length > 0) throw new Error(`test/all.ts names files that are not there: ${missing.join(", ")}`);
  const rooms = Map.groupBy(files, (file) => {
    const room = ROOMS.find((each) => file.startsWith(`test/${each}/`));
    const starts = room !== undefined && MIXED.has(room) && STARTS.test(readFileSync(join(ROOT, file), "utf8"));
    return ALONE.has(file) || starts ? undefined : room;
  });
  const alone = (rooms.get(undefined) ?? []).map((file) => [file]);
  const shares = (room: string) => {
    const its = rooms.get(room) ?? [];
    const count = Math.ceil(its.length / SHARE);
    return Array.from({ length: count }, (_, i) => its.filter((_, at) => at % count === i));
  };
  // Others of several files last: they take much the same time, so that no core is left without work for long.
  const last = ROOMS.filter((room) => room !== FIRST).flatMap(shares);
  return [...shares(FIRST), ...alone, ...last];
}

const given = process.argv.slice(2).map((each) => each.split(","));
const waiting = given.length > 0 ? given : processes();
const all: Ran[] = [];
const job = async () => {
  for (let files = waiting.shift(); files !== undefined; files = waiting.shift()) {
    const ran = await runFiles(files);
    console.log(ran.lines.join("\n"));
    all.push(ran);
  }
};
await Promise.all(Array.from({ length: JOBS }, job));
const { text, failed } = totals(all);
console.log(text);
process.exitCode = failed === 0 ? 0 : 1;
