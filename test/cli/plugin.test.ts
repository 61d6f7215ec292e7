import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { help, USAGE } from "../../src/cli/help/plugin.ts";
import { runPlugin } from "../../src/cli/plugin.ts";
import { captured } from "../support/terminal.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-plugin-"));
t.teardown(() => rmSync(folder, { recursive: true }));
const COMMAND = fileURLToPath(new URL("../../bin/model-gateway", import.meta.url));

const plugin = (...args: string[]) => captured((io) => runPlugin(args, io, ["auth", "models"]), { folder });

/** The command itself, as it is typed. */
function typed(...args: string[]) {
  const env = { PATH: process.env["PATH"] };
  const { status, stdout, stderr } = spawnSync(COMMAND, ["plugin", ...args], { cwd: folder, encoding: "utf8", env });
  return { status, text: stdout + stderr };
}

t.test("the line to paste keeps the plugins that the file's chain has already", async (t) => {
  const own = t.testdir({ "gateway.yaml": "chains: { llm: [sse, auth, mine, models, rewrite, usage] }\n" });
  const inOwn = await captured((io) => runPlugin(["new", "another"], io, []), { folder: own });
  t.match(inOwn.text, "chains: { llm: [sse, auth, mine, models, another, rewrite, usage] }");
  writeFileSync(join(own, "gateway.yaml"), "chains: { llm: [sse, *gone] }\n");
  const inBroken = await captured((io) => runPlugin(["new", "third"], io, []), { folder: own });
  t.match(inBroken.text, "chains: { llm: [sse, auth, scrub, models, limits, third, rewrite, usage] }");
});

t.test("a new plugin's own test passes as generated, and fails when the plugin does nothing", async (t) => {
  t.match(await plugin("new", "my-stamp"), {
    code: 0,
    text: /wrote plugins\/my-stamp\.ts and test\/my-stamp\.test\.ts\n\ntest it: .* plugin test test\/my-stamp\.test\.ts\n/,
  });
  t.match(readFileSync(join(folder, "plugins/my-stamp.ts"), "utf8"), /class MyStamp implements Plugin/);
  const tested = typed("test");
  t.equal(tested.status, 0, tested.text);
  t.match(tested.text, /pass 8\n/, "four protocols, whole and streamed");
  t.match(await plugin("new", "my-stamp"), { code: 1, text: /plugins\/my-stamp\.ts exists/ });
  const file = join(folder, "plugins/my-stamp.ts");
  writeFileSync(file, readFileSync(file, "utf8").replace(/head\.headers\.set\(.*\);/, ""));
  const idle = typed("test", "test/my-stamp.test.ts", "--", "--test-name-pattern=whole");
  t.equal(idle.status, 1, idle.text);
  t.match(idle.text, /fail 4\n/);
});

t.test("a folder that cannot be written is named with the reason", async (t) => {
  const own = t.testdir({ test: "a file" });
  t.match(await captured((io) => runPlugin(["new", "mine"], io, []), { folder: own }), {
    code: 1,
    text: `cannot write a plugin in ${own}: `,
  });
  if (!existsSync("/proc/self")) return;
  const ofSystem = await captured((io) => runPlugin(["new", "mine"], io, []), { folder: "/proc/none" });
  t.match(
    ofSystem,
    { code: 1, text: "cannot write a plugin in /proc/none: " },
    "where Node's own recursion never ends",
  );
});

t.test("a missing test, and an option in the wrong place, are reported", async (t) => {
  await t.rejects(plugin("test", "test/nothing.test.ts"), { message: "There is no file test/nothing.test.ts." });
  await t.rejects(plugin("test", "--watch"), {
    message: "Options of node --test follow --: plugin test -- --watch",
  });
  await t.rejects(plugin("test", "."), { message: ". is a folder; name the files in it." });
  await t.rejects(plugin("tset"), { message: 'plugin has no command "tset", did you mean "test"?' });
  await t.rejects(plugin("new"), { message: "plugin new takes one name." });
  const empty = mkdtempSync(join(tmpdir(), "gateway-plugin-"));
  t.teardown(() => rmSync(empty, { recursive: true }));
  await t.rejects(
    captured((io) => runPlugin(["test"], io, []), { folder: empty }),
    {
      message: /no test\/\*\.test\.ts in this folder: plugin new NAME writes one/,
    },
  );
});

t.test("an existing or invalid name is refused, and the plugins can be listed", async (t) => {
  t.match(await plugin("new", "auth"), { code: 1, text: /there is a plugin "auth" already/ });
  t.notOk(existsSync(join(folder, "plugins/auth.ts")));
  const { text: told } = await plugin("new", "told", "--json");
  t.match(JSON.parse(told), { name: "told", files: [/plugins\/told\.ts$/, /test\/told\.test\.ts$/] });
  await t.rejects(plugin("new", "My Plugin"), { message: /cannot be a plugin's name/ });
  for (const name of ["options", "plugin", "head", "response-exchange"]) {
    await t.rejects(plugin("new", name), { message: /which it imports/ });
    t.notOk(existsSync(join(folder, `plugins/${name}.ts`)));
  }
  await t.rejects(plugin(), { message: "plugin needs a command: new, test, list." });
  t.hasStrict(await plugin("list"), { code: 0, text: "auth\nmodels" });
  t.same(JSON.parse((await plugin("list", "--json")).text), ["auth", "models"]);
  t.match(USAGE, /docs\/plugins\.md/);
  t.match(help, /^plugin /);
});

t.test(
  "in the gateway's own checkout a test file must be named, as its own tests are not for this runner",
  async (t) => {
    const own = fileURLToPath(new URL("../..", import.meta.url));
    await t.rejects(
      captured((io) => runPlugin(["test"], io, []), { folder: own }),
      { message: /gateway's own tests.*name your plugin's test file/ },
    );
  },
);
