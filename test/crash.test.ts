import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { pluginInStack } from "../src/crash.ts";
import type { LoadedPlugin } from "../src/loader/instances.ts";
import { until } from "./support/until.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const KEY = "test-key-0123456789abcdef";
/** Breaks in a timer when it is asked to. */
const BREAKING = `
import { type AccessExchange } from "model-gateway";
export default class Breaking {
  access(exchange: AccessExchange) {
    if (exchange.query.get("break") !== undefined) setTimeout(() => { throw new Error("no paper left"); }, 1);
  }
}`;

/** Starts a gateway with that plugin. */
async function startBreaking(t: Test, more = "") {
  const folder = t.testdir({
    "breaking.ts": BREAKING,
    "gateway.yaml": `listen: 127.0.0.1:0
providers: { demo: { url: "demo:" } }
models: { slow: { targets: [demo:slow] }, echo: { targets: [demo:echo] } }
keys: { test: { key: ${KEY} } }
plugins: { breaking: { from: ./breaking.ts } }
chains: { llm: [sse, auth, breaking, models, rewrite, usage] }
store: { ledger: "sqlite:./gateway.db" }
admin: off
warm_up: off
${more}`,
  });
  const node = ["--import", `${ROOT}src/loader/register.js`, join(ROOT, "src/main.ts"), "run"];
  const child = spawn(process.execPath, node, { cwd: folder, env: { PATH: process.env["PATH"] } });
  t.teardown(() => child.kill("SIGKILL"));
  const closed = once(child, "close");
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  await until(() => text.includes('"Hello"'), "the start");
  const url = /curl -N (\S+)/.exec(text)?.[1] as string;
  const ask = (model: string, query = "") =>
    fetch(url + query, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "hi" }] }),
    });
  return { ask, closed, output: () => text };
}

t.test(
  "an error outside of any request ends no stream: new requests are refused, and the process exits when all have ended",
  async (t) => {
    const { ask, closed, output } = await startBreaking(t);
    const running = await ask("slow");
    await (await ask("echo", "?break=yes")).text();
    await until(() => output().includes("the gateway failed"), "the log line");
    const refused = await ask("echo", "?break=yes");
    t.equal(refused.status, 503);
    t.match(await refused.text(), /shutting down/);
    t.match(await running.text(), /long\..*data: \[DONE\]/s, "the running stream ended normally");
    t.equal((await closed)[0], 1);
    const lines = output().split("\n");
    const line = JSON.parse(lines.find((each) => each.includes("the gateway failed")) as string);
    t.match(line, {
      plugin: "breaking",
      cause: /^Error: no paper left\n/,
      msg: "the gateway failed, and stops when running requests have ended, after crash_drain at the latest",
    });
  },
);

t.test("streams that run for longer than crash_drain after such an error end with it", async (t) => {
  const { ask, closed } = await startBreaking(t, "crash_drain: 50ms\n");
  const running = await ask("slow");
  // On a busy machine the process may be gone before this one is answered.
  await ask("echo", "?break=yes").then((answer) => answer.text(), String);
  t.notMatch(await running.text().catch(String), /data: \[DONE\]/);
  t.equal((await closed)[0], 1);
});

/** A process that breaks in a promise that nobody holds, and again while what runs ends. */
const PROGRAM = `
import { stopAfterCrash } from "${ROOT}src/crash.ts";
const say = (line) => process.stdout.write(line + "\\n");
const fail = async () => {
  setTimeout(() => { throw new Error("again"); }, 1);
  setTimeout(() => { throw Object.create(null); }, 20);
  await new Promise((go) => setTimeout(go, 100));
  say("ended");
};
const log = { error: ({ cause }) => say("log " + cause.split("\\n")[0]) };
stopAfterCrash({ plugins: new Map(), fail }, log, async () => process.exit(1));
void Promise.reject(new Error("nobody looks"));`;

t.test("an unhandled rejection does the same, and further errors are logged and end nothing more", async (t) => {
  const args = ["--import", `${ROOT}src/loader/register.js`, "--input-type=module", "-e", PROGRAM];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => (said += more));
  t.equal((await once(child, "close"))[0], 1);
  t.equal(said, "log Error: nobody looks\nlog Error: again\nlog a value of type object without a text\nended\n");
});

t.test("a stack belongs to the plugin whose file, folder or package occurs first", async (t) => {
  const plugins = new Map(
    Object.entries({
      own: "/home/me/plugins/own.ts",
      other: "/home/me/plugins/other.ts",
      pack: "/home/me/node_modules/@org/pack/dist/index.js",
    }).map(([name, file]) => [name, { file } as LoadedPlugin]),
  );
  const stack = (...files: string[]): string =>
    `Error: no\n${files.map((file) => `    at f (${file}:3:7)`).join("\n")}`;
  t.equal(pluginInStack(stack("node:timers", "file:///home/me/plugins/own.ts"), plugins), "own");
  t.equal(pluginInStack(stack("/home/me/plugins/other/part.ts", "/home/me/plugins/own.ts"), plugins), "other");
  t.equal(
    pluginInStack(stack("/home/me/node_modules/zod/index.js", "/home/me/node_modules/@org/pack/lib/a.js"), plugins),
    "pack",
  );
  t.equal(pluginInStack(stack("/home/me/plugins/owner.ts", "node:net"), plugins), undefined);
  t.equal(pluginInStack("no stack", plugins), undefined);
});

t.test("a package of the gateway, or shared by several plugins, belongs to no plugin", async (t) => {
  const gateway = "/home/me/node_modules/model-gateway/";
  const plugins = new Map(
    Object.entries({
      sse: `${gateway}plugins/sse.ts`,
      limits: `${gateway}plugins/limits.ts`,
      one: "/home/me/node_modules/pair/one.js",
      two: "/home/me/node_modules/pair/two.js",
    }).map(([name, file]) => [name, { file } as LoadedPlugin]),
  );
  const found = (...files: string[]) =>
    pluginInStack(`Error: no\n${files.map((file) => `    at f (file://${file}:3:7)`).join("\n")}`, plugins, gateway);
  t.equal(found(`${gateway}src/downstream/reply.ts`), undefined);
  t.equal(found(`${gateway}src/core/chain.ts`, `${gateway}plugins/limits/window.ts`), "limits");
  t.equal(found(`${gateway}plugins/limits.ts`), "limits");
  t.equal(found("/home/me/node_modules/pair/shared.js", `${gateway}src/pipeline.ts`), undefined);
  t.equal(found("/home/me/node_modules/pair/two.js"), "two");
  const alone = new Map([["sse", { file: `${gateway}plugins/sse.ts` } as LoadedPlugin]]);
  t.equal(pluginInStack(`Error: no\n    at f (${gateway}src/main.ts:3:7)`, alone, gateway), undefined);
});

t.test("a plugin that ends the process is reported, with the place, and the process has failed", async (t) => {
  const folder = t.testdir({
    "leaves.ts": "export default class Leaves { start() { process.exit(0); } access() {} }",
    "gateway.yaml": `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { leaves: { from: ./leaves.ts } }
chains: { llm: [sse, auth, leaves, models, rewrite, usage] }
`,
  });
  const node = ["--import", `${ROOT}src/loader/register.js`, join(ROOT, "src/main.ts"), "check"];
  const child = spawn(process.execPath, node, { cwd: folder, env: { PATH: process.env["PATH"] } });
  t.teardown(() => child.kill("SIGKILL"));
  const closed = once(child, "close");
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (more: string) => (text += more));
  t.equal((await closed)[0], 1);
  t.match(text, /ended the process with process\.exit\(0\) at .*leaves\.ts/);
});
