// Runs several test files in one process, one after another, so that imports are loaded and compiled once. Each file is a test
// with its name; its teardowns run before the next begins.
import { registerHooks } from "node:module";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import t, { type Test } from "tap";
import { FILES, GRACE, MAX_FILE_TIME, TAKEN, take } from "./several.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SCHEME = "together:";

/** The meaning of `import t from "tap"` in a file, by its URL. */
const tests = new Map<string, Test>();
Object.assign(globalThis, { together: tests });

registerHooks({
  resolve(specifier, context, next) {
    // Helpers in test/support/ keep the process's own `t`: what they share between files ends with it.
    if (specifier !== "tap" || !tests.has(context.parentURL ?? "")) return next(specifier, context);
    return { url: `${SCHEME}${context.parentURL}`, shortCircuit: true };
  },
  load(url, context, next) {
    if (!url.startsWith(SCHEME)) return next(url, context);
    const source = `export default globalThis.together.get(${JSON.stringify(url.slice(SCHEME.length))});`;
    return { format: "module", source, shortCircuit: true };
  },
});

const taken = process.env[TAKEN] ?? "";

for (const [i, file] of (process.env[FILES] ?? "").split("\n").entries()) {
  if (taken !== "" && !take(i, taken)) continue;
  const url = pathToFileURL(resolve(ROOT, file)).href;
  // The next file is taken when this one has ended.
  await t.test(file, { timeout: MAX_FILE_TIME }, async (test) => {
    // The parent process allows each file this long, plus a grace period, so that a late file is reported here, by its name. 0
    // comes at a file's end: what it has left open may keep the process only as long as another file.
    const limit = (ms: number) => t.setTimeout((ms || MAX_FILE_TIME) + GRACE);
    const its = test.setTimeout.bind(test);
    test.setTimeout = (ms) => {
      its(ms);
      limit(ms);
    };
    limit(MAX_FILE_TIME);
    tests.set(url, test);
    await import(url);
  });
}
