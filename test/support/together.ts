// Several test files in one process, one after another: what they import is loaded and compiled once. Each is a test that bears its
// file's name; what it tears down is torn down before the next begins.
import { registerHooks } from "node:module";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import t, { type Test } from "tap";
import { FILES, GRACE, LONGEST, TAKEN, take } from "./several.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SCHEME = "together:";

/** What `import t from "tap"` means in a file, by its address. */
const tests = new Map<string, Test>();
Object.assign(globalThis, { together: tests });

registerHooks({
  resolve(specifier, context, next) {
    // Helpers in test/support/ keep the process's own: what they share between files ends with it.
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
  // The next one is taken when this one has ended.
  await t.test(file, { timeout: LONGEST }, async (test) => {
    // Whoever waits for this process waits as long for each file, and a little longer: a file that is late is told here, by its name.
    // 0 comes at its end: what it has left open may keep the process only as long as another file.
    const limit = (ms: number) => t.setTimeout((ms || LONGEST) + GRACE);
    const its = test.setTimeout.bind(test);
    test.setTimeout = (ms) => {
      its(ms);
      limit(ms);
    };
    limit(LONGEST);
    tests.set(url, test);
    await import(url);
  });
}
