import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { help, run, USAGE } from "../../src/cli/plugin.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-plugin-"));
t.teardown(() => rmSync(folder, { recursive: true }));

async function plugin(...args: string[]) {
  const out: string[] = [];
  const io = { out: (line: string) => out.push(line), err: (line: string) => out.push(line), env: {}, folder };
  const code = await run(args, io, ["auth", "models"]);
  return { code, text: out.join("\n") };
}

t.test("a new plugin's own test passes as it is written, and fails when the plugin does nothing", async (t) => {
  t.match(await plugin("new", "my-stamp"), {
    code: 0,
    text: /wrote plugins\/my-stamp\.ts and test\/my-stamp\.test\.mjs/,
  });
  t.match(readFileSync(join(folder, "plugins/my-stamp.ts"), "utf8"), /class MyStamp implements Plugin/);
  const env = { PATH: process.env["PATH"] };
  const tested = () =>
    spawnSync(process.execPath, ["--test", "test/my-stamp.test.mjs"], { cwd: folder, encoding: "utf8", env });
  const { status, stdout } = tested();
  t.equal(status, 0, stdout);
  t.match(stdout, /pass 1/);
  t.match(await plugin("new", "my-stamp"), { code: 1, text: /plugins\/my-stamp\.ts exists/ });
  const file = join(folder, "plugins/my-stamp.ts");
  writeFileSync(file, readFileSync(file, "utf8").replace(/head\.headers\.set\(.*\);/, ""));
  const idle = tested();
  t.equal(idle.status, 1, idle.stdout);
  t.match(idle.stdout, /fail 1/);
});

t.test("a name that is taken or none is refused, and the plugins that there are can be listed", async (t) => {
  t.match(await plugin("new", "auth"), { code: 1, text: /there is a plugin "auth" already/ });
  t.notOk(existsSync(join(folder, "plugins/auth.ts")));
  await t.rejects(plugin("new", "My Plugin"), { message: /no name for a plugin/ });
  await t.rejects(plugin("new"), { message: /new NAME/ });
  await t.rejects(plugin(), { message: /new NAME/ });
  t.same(await plugin("list"), { code: 0, text: "auth\nmodels" });
  t.same(JSON.parse((await plugin("list", "--json")).text), ["auth", "models"]);
  t.match(USAGE, /docs\/plugins\.md/);
  t.match(help, /^plugin /);
});
