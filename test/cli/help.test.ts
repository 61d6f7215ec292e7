import { spawnSync } from "node:child_process";
import t from "tap";
import { VERBS } from "../../src/cli/verbs.ts";
import { ROOT } from "../support/processes.ts";

/** Prints the URL of every module that is loaded after it. */
const LISTING = `import { registerHooks } from "node:module";
import { writeSync } from "node:fs";
registerHooks({ load(url, context, next) { writeSync(2, url + "\\n"); return next(url, context); } });`;

/** Runs the command and returns what it prints and which modules it loads, as paths in the package. */
function loadedBy(...args: string[]): { out: string; modules: string[] } {
  const listing = `data:text/javascript,${encodeURIComponent(LISTING)}`;
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "./src/loader/register.js", "--import", listing, "src/main.ts", ...args],
    { cwd: ROOT, encoding: "utf8", env: { PATH: process.env["PATH"] } },
  );
  const modules = stderr.split("\n").flatMap((url) => /\/((?:src|plugins|node_modules)\/.*)$/.exec(url)?.[1] ?? []);
  return { out: stdout, modules };
}

/** What a help text may need besides itself: words of the command line and what was meant by others, times and amounts. */
const LIGHT =
  /^src\/(?:main|crash|cli\/(?:command-line|verbs?|help\/[\w-]+|invoice-columns)|text\/(?:format-error|key-limits|moments|table)|setup\/import-names|config\/(?:problems|suggest|units)|core\/(?:calendar|edit-distance|errors|plural|replace-secrets|shorten)|loader\/problems|store\/sqlite\/errors)\.ts$/;

/** The loader's own package, which is loaded where a module's JavaScript is not cached yet. */
const LOADER = /^node_modules\/(?:oxc-transform|@oxc-transform)\//;

t.test("the help of all verbs loads no verb's implementation, no plugin and no package", async (t) => {
  const { out, modules } = loadedBy("--help");
  for (const name of Object.keys(VERBS)) t.match(out, new RegExp(`^  ${name}\\b`, "m"));
  t.ok(modules.includes("src/main.ts") && modules.includes("src/cli/help/run.ts"), "modules are listed");
  t.same(
    modules.filter((module) => !LIGHT.test(module) && !LOADER.test(module)),
    [],
  );
});

t.test("the help of one verb loads no other verb's", async (t) => {
  const { out, modules } = loadedBy("run", "--help");
  t.match(out, /^usage: .* run /);
  t.same(
    modules.filter((module) => module.startsWith("src/cli/")),
    ["src/cli/command-line.ts", "src/cli/verb.ts", "src/cli/verbs.ts", "src/cli/help/run.ts"],
  );
  t.same(
    modules.filter((module) => !LIGHT.test(module) && !LOADER.test(module)),
    [],
  );
});
