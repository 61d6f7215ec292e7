// npm test [-- FILE,FILE… …]: every test, or those of each list in a process of its own. Files run several in a process, because
// each process loads and compiles the gateway anew; those that change their process, measure it or start others run in one of
// their own, as `npx tap FILE` has it.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Ran, runFiles, totals, whenIdle } from "./support/several.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Processes at a time, and further ones while cores are idle: most tests wait more than they work. */
const [JOBS, FURTHER] = [2, 3];
/** Files of one process: few enough that both cores have something to do until the end. */
const SHARE = 25;

/** What a file contains that needs a process of its own. */
const OWN_PROCESS = [
  // It starts others, itself or by a helper,
  /"node:child_process"/,
  /\/support\/(?:instances|killed-after|nginx|postgres|process|processes|prometheus|redis|several)\.ts"/,
  // or it changes or measures its own.
  /"node:(?:perf_hooks|v8)"|process\.(?:env\["\w+"\] = |getActiveResourcesInfo|memoryUsage)/,
];

/** Files of no folder below run together where they contain none of that. */
const OTHERS = "others";
/** These run first: some have limits of time, and the real clients run beside the last. Those of the console share a browser. */
const FIRST = ["life/console", OTHERS];
/** Folders whose files all run together, beginning with the one that takes longest; `test/full.sh` knows the second. */
const ROOMS = [
  "golden/",
  "wire/",
  // These wait most of the time: at the end cores would be idle.
  "store/journal/",
  "store/",
  "plugins/",
  "downstream/",
  "upstream/",
  "core/",
  "config/",
  "cli/",
  "console/",
  "translation/",
  "loader/",
  "objects/",
  "metrics/",
  "admin/",
  "examples/",
];
/** Files that need a process of their own all the same: the first judge how long something takes, the others are long. */
const ALONE = [
  "test/downstream/overload.test.ts",
  "test/life/breaker.test.ts",
  "test/life/interrupted.test.ts",
  "test/golden/matrix.test.ts",
  "test/golden/request-matrix.test.ts",
  "test/store/journal-place.test.ts",
  "test/store/orphan-watch.test.ts",
  "test/store/postgres/",
  "test/store/redis/limiter",
  "test/store/redis/server.test.ts",
];

/** Returns the folder with whose files a file runs; undefined: it needs a process of its own. */
function roomOf(file: string): string | undefined {
  if (ALONE.some((each) => file.startsWith(each))) return undefined;
  const room = [...FIRST, ...ROOMS].find((each) => file.startsWith(`test/${each}`));
  const text = readFileSync(join(ROOT, file), "utf8");
  return room ?? (OWN_PROCESS.some((each) => each.test(text)) ? undefined : OTHERS);
}

/** The files of each process. */
function processes(): string[][] {
  const files = globSync("test/**/*.test.ts", { cwd: ROOT, exclude: ["test/bench/build/**"] }).sort();
  const rooms = new Map(files.map((file) => [file, roomOf(file)]));
  const alone = files.filter((file) => rooms.get(file) === undefined).map((file) => [file]);
  const sharesOf = (room: string) => {
    const its = files.filter((file) => rooms.get(file) === room);
    const count = Math.ceil(its.length / SHARE);
    return Array.from({ length: count }, (_, i) => its.filter((_, at) => at % count === i));
  };
  // Folders last: their shares take much the same time, so that no core is left without work for long.
  return [...FIRST.flatMap(sharesOf), ...alone, ...ROOMS.flatMap(sharesOf)];
}

const given = process.argv.slice(2).map((each) => each.split(","));
const waiting = given.length > 0 ? given : processes();
const all: Ran[] = [];
const next = async () => {
  const ran = await runFiles(waiting.shift() ?? []);
  console.log(ran.lines.join("\n"));
  all.push(ran);
};
const job = async () => {
  while (waiting.length > 0) await next();
};
const further = new Set<Promise<void>>();
const stop = whenIdle(() => {
  if (further.size >= FURTHER || waiting.length === 0) return;
  const one: Promise<void> = next().finally(() => further.delete(one));
  further.add(one);
});
await Promise.all(Array.from({ length: JOBS }, job));
stop();
await Promise.all(further);
const { text, failed } = totals(all);
console.log(text);
process.exitCode = failed === 0 ? 0 : 1;
