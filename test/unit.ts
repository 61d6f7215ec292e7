// npm run unit -- FOLDER…: the tests of folders of src/, plugins/ or test/, several files in a process. `npm test` gives each file
// a process of its own, which takes four times as long.
import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import Summary from "./support/reporter.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const REGISTER = new URL("../src/loader/register.js", import.meta.url).href;
/** Tells a process which files are its own; not by its arguments, which name the folders of `t.testdir`. */
const SHARE = "GATEWAY_UNIT_FILES";
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

/** Runs files in one process; prints what failed. */
async function share(files: readonly string[]): Promise<{ passed: number; failed: number }> {
  const summary = new Summary();
  const node = ["--import", REGISTER, fileURLToPath(import.meta.url)];
  const child = spawn(process.execPath, node, {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TAP_TIMEOUT: "600", [SHARE]: files.join(",") },
  });
  let said = "";
  for await (const text of child.stdout.pipe(summary)) said += text;
  const lines = said.split("\n").slice(0, -3);
  const told = lines.filter((line) => !line.startsWith("ok "));
  if (told.length > 0) console.log(told.join("\n"));
  const failed = /(\d+) failed\n$/.exec(said)?.[1];
  return { passed: summary.count.passed, failed: Number(failed) };
}

async function main(names: readonly string[]): Promise<number> {
  const files = [...new Set((names.length > 0 ? names : SMALL).flatMap(filesOf))].sort();
  const processes = Math.min(availableParallelism(), files.length);
  const shares = Array.from({ length: processes }, (_, i) => files.filter((_, at) => at % processes === i));
  const started = performance.now();
  const results = await Promise.all(shares.map(share));
  const sum = (what: "passed" | "failed") => results.reduce((total, result) => total + result[what], 0);
  console.log(`${files.length} files in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
  return sum("failed") === 0 ? 0 : 1;
}

const mine = process.env[SHARE];
if (mine) for (const file of mine.split(",")) await import(pathToFileURL(resolve(ROOT, file)).href);
else
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (thrown) {
    console.error((thrown as Error).message);
    process.exitCode = 2;
  }
