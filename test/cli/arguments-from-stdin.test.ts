import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import t from "tap";

const at = (path: string) => new URL(`../../src/${path}`, import.meta.url);

t.test("a verb takes its arguments from standard input", async (t) => {
  const run = (args: readonly string[]) =>
    spawnSync(
      process.execPath,
      ["--import", at("loader/register.js").href, fileURLToPath(at("cli/arguments-from-stdin.ts"))],
      { input: JSON.stringify(args), encoding: "utf8", env: { ...process.env, NODE_OPTIONS: "" } },
    );
  t.match(run(["explain", "--help"]).stdout, /^usage: .* explain /);
  t.match(run(["explain", "no path"]), { status: 2, stderr: /"no path" is not a path/ });
});
