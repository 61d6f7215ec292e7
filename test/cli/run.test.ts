import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { fileInUse, runGateway } from "../../src/cli/run.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { captured } from "../support/terminal.ts";
import { until } from "../support/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const YAML = `listen: 127.0.0.1:0
providers: { demo: { url: "demo:" }, vendor: { url: "https://vendor.test/v1", credential: $VENDOR_KEY, speaks: [openai-chat] } }
models: { echo: { targets: [demo:echo] }, other: { targets: [vendor:x] } }
store: { ledger: "sqlite:./gateway.db" }
admin: off
linger: 50ms
warm_up: off
`;

/** @param before a gateway that has run in the same folder */
function start(t: Test, yaml: string, before?: { folder: string }, args = before ? [] : ["run"]) {
  const folder = before?.folder ?? mkdtempSync(join(tmpdir(), "gateway-run-"));
  writeFileSync(join(folder, "gateway.yaml"), yaml);
  const node = ["--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`, ...args];
  const child = spawn(process.execPath, node, { cwd: folder, env: { PATH: process.env["PATH"] } });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (more: string) => (text += more));
  t.teardown(async () => {
    if (child.exitCode === null) {
      child.kill("SIGKILL");
      await once(child, "close");
    }
    rmSync(folder, { recursive: true, force: true });
  });
  return { child, text: () => text, folder };
}

/** What is said of a start in this process, one that is over at once, and its exit code. */
function failed(t: Test, yaml: string, args: string[] = []) {
  const folder = t.testdir({ "gateway.yaml": yaml });
  return captured((io) => runGateway(args, io, { file: join(folder, "gateway.yaml"), folder }), { folder });
}

/** What the `curl` that a start prints is answered, pasted into a shell. */
async function pasted(text: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const command = /curl -N (?:.*\\\n)*.*/.exec(text)?.[0] ?? "";
  // In place of curl: each word that the shell makes of it, with a zero byte behind.
  const words = execFileSync("sh", ["-c", `curl() { printf '%s\\0' "$@"; }\n${command}`], { encoding: "utf8", env });
  const [, url = "", , first = "", , second = "", , body = ""] = words.split("\0");
  const headers = [first, second].map((line) => line.split(": ") as [string, string]);
  return (await fetch(url, { method: "POST", headers, body })).text();
}

t.test(
  "a start prints the listeners, what is enabled and disabled, the models, a key once, and a working curl command",
  async (t) => {
    const { child, text, folder } = start(t, YAML);
    await until(() => text().includes('"Hello"'));
    t.match(text(), /listens on http:\/\/127\.0\.0\.1:\d+/);
    t.match(text(), /providers +demo\n +vendor is off: VENDOR_KEY is not set/);
    t.match(text(), /file +gateway\.yaml\n/);
    t.match(text(), /models +echo\n/);
    t.match(text(), /key +gw_/);
    t.match(await pasted(text()), /Hello.*data: \[DONE\]/s);
    child.kill("SIGTERM");
    const [code] = (await once(child, "close")) as [number];
    t.equal(code, 0);
    t.match(text(), /"msg":"exchange"/, "log lines that waited are written");
    const [key = ""] = /gw_\S+/.exec(text()) ?? [];

    await t.test("a second start, on any address, prints no key again, and its curl command works too", async (t) => {
      const yaml = YAML.replace("127.0.0.1:0", "0.0.0.0:0").replace("admin: off", "admin: unix:admin.sock");
      const again = start(t, yaml, { folder });
      await until(() => again.text().includes('"Hello"'));
      t.ok(existsSync(join(folder, "admin.sock")));
      t.match(again.text(), /key +one of yours/);
      t.notMatch(again.text(), /gw_/);
      t.match(
        again.text(),
        /listens on http:\/\/0\.0\.0\.0:\d+[\s\S]*curl -N http:\/\/127\.0\.0\.1:\d+\//,
        "it names an address that can be reached",
      );
      t.match(
        await pasted(again.text(), { GATEWAY_KEY: key }),
        /Hello.*data: \[DONE\]/s,
        "with a key of the environment",
      );
      again.child.stdout.destroy();
      again.child.kill("SIGTERM");
      t.same(
        await once(again.child, "close"),
        [0, null],
        "a reader that closed the pipe does not make a stop a failure",
      );
      t.notOk(existsSync(join(folder, "admin.sock")), "the socket's file is removed by the stop");
    });
  },
);

t.test("--json prints the same in one line of JSON", async (t) => {
  const { child, text } = start(t, YAML, undefined, ["run", "--json"]);
  await until(() => text().includes("\n"));
  const line =
    text()
      .split("\n")
      .find((each) => each.startsWith('{"listen"')) ?? "{}";
  t.match(JSON.parse(line), {
    ...{ listen: /^http:\/\/127\.0\.0\.1:\d+$/, admin: null, providers: ["demo"], models: ["echo"] },
    ...{ key: /^gw_/, notes: [/VENDOR_KEY is not set/] },
  });
  t.notMatch(text(), /Try it/);
  child.kill("SIGTERM");
  t.same(await once(child, "close"), [0, null]);
});

t.test("a start that fails prints the reason in a line and exits with 1", async (t) => {
  const wrong = await failed(t, YAML.replace("demo:echo", "dmo:echo"));
  t.equal(wrong.code, 1);
  t.match(wrong.text, /gateway\.yaml:3:\d+ error: .*did you mean "demo"/);
  const taken = createServer().listen(0, "127.0.0.1");
  t.teardown(() => taken.close());
  await once(taken, "listening");
  const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
  for (const yaml of [YAML.replace("127.0.0.1:0", address), YAML.replace("admin: off", `admin: ${address}`)]) {
    const busy = start(t, yaml);
    t.same(await once(busy.child, "close"), [1, null]);
    t.match(
      busy.text(),
      /is taken: stop what listens there, or change it in gateway\.yaml, where listen: or admin: says it/,
    );
    t.notOk(existsSync(join(busy.folder, "gateway.db")), "before it makes or changes a store");
  }
});

t.test("the file in effect is named, and said to be the bundled one where a folder has none", async (t) => {
  const bundled = "/app/node_modules/model-gateway/gateway.yaml";
  t.equal(fileInUse("/app/gateway.yaml", "/app", bundled), "gateway.yaml");
  t.equal(fileInUse("/etc/gateway.yaml", "/app", bundled), "/etc/gateway.yaml");
  t.match(fileInUse(bundled, "/app", bundled), /^node_modules\/model-gateway\/gateway\.yaml {3}\(.* init\)$/);
  t.equal(fileInUse("/checkout/gateway.yaml", "/checkout", "/checkout/gateway.yaml"), "gateway.yaml");
});

t.test("a flag that does not exist is a usage error", async (t) => {
  await t.rejects(failed(t, YAML, ["--wathc"]), { constructor: UsageError, message: /--wathc/ });
});
