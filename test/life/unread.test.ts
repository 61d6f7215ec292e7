// How a process ends whose log nobody reads.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { until } from "../support/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const YAML = `listen: 127.0.0.1:0
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
store: { ledger: "sqlite:./gateway.db" }
admin: off
linger: 50ms
warm_up: off
plugins: { p: { from: ./p.ts } }
chains: { llm: [sse, auth, p, models, rewrite, usage] }
`;

/** A gateway whose standard output is a pipe that holds 64 KiB; `take` reads what has come so far. */
function startPiped(t: Test, plugin: string) {
  const folder = mkdtempSync(join(tmpdir(), "gateway-run-"));
  writeFileSync(join(folder, "gateway.yaml"), YAML);
  writeFileSync(join(folder, "p.ts"), plugin);
  execFileSync("mkfifo", [join(folder, "out")]);
  const fd = openSync(join(folder, "out"), constants.O_RDWR | constants.O_NONBLOCK);
  const node = ["--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`, "run"];
  const child = spawn(process.execPath, node, {
    cwd: folder,
    env: { PATH: process.env["PATH"] },
    stdio: ["ignore", fd, "pipe"],
  });
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (more: string) => (errors += more));
  t.teardown(() => {
    child.kill("SIGKILL");
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });
  const bytes = Buffer.alloc(1 << 16);
  const take = () => {
    try {
      return bytes.toString("utf8", 0, readSync(fd, bytes));
    } catch {
      return "";
    }
  };
  return { child, take, errors: () => errors };
}

/** Writes more lines into the log than a pipe holds. */
const TALKER =
  'import { Log } from "model-gateway"; import { inject, injectable } from "tsyringe";' +
  "@injectable() export default class P { constructor(@inject(Log) private readonly log: Log) {} access() {}" +
  ' start() { for (let i = 0; i < 2000; i++) this.log.info({ i, pad: "x".repeat(100) }, "talk"); WHAT } }';

t.test("a process exits although nobody reads its standard output, and reports how many lines were lost", async (t) => {
  const { child, take, errors } = startPiped(t, TALKER.replace("WHAT", ""));
  await until(() => take().includes("talk"), "the first lines");
  // From here on nobody reads; the rest fills the pipe.
  await new Promise((resolve) => setTimeout(resolve, 500));
  child.kill("SIGTERM");
  t.same(await once(child, "close"), [0, null]);
  t.match(errors(), /"msg":"log lines were lost","lost":\d+/);
});

t.test("a failure does not wait for a reader either", async (t) => {
  const late = 'setTimeout(() => { throw new Error("late"); }, 200);';
  const { child, errors } = startPiped(t, TALKER.replace("WHAT", late));
  t.same(await once(child, "close"), [1, null]);
  t.match(errors(), /"msg":"log lines were lost","lost":\d+/);
});
