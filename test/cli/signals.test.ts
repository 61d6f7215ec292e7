import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { freePort } from "../support/free-port.ts";
import { startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** A process whose stop says what it was given, and waits for the second signal where it is asked to. */
const PROGRAM = `
import { untilStopped } from "${ROOT}src/cli/signals.ts";
const say = (line) => process.stdout.write(line + "\\n");
const log = { warn: (_, message) => say(message) };
const gateway = {
  async stop({ linger, signal }) {
    say("stop " + linger);
    if (process.argv[1] === "waits") await new Promise((go) => signal.addEventListener("abort", go));
    say("stopped");
  },
  reload: async ({ who, detail }) => say("reloaded by " + who + " " + detail.signal),
  ...(process.argv[1] === "workers" ? { replace: async ({ who, detail }) => say("replaced by " + who + " " + detail.signal) } : {}),
};
setInterval(() => {}, 1000);
const stopped = untilStopped(gateway, 5000, log, say, process.argv[2] ? { npm_lifecycle_event: process.argv[2] } : {});
say("up");
await stopped;
process.exit(0);`;

async function program(t: Test, mode: string, script = "") {
  const args = ["--import", `${ROOT}src/loader/register.js`, "--input-type=module", "-e", PROGRAM, mode, script];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => child.kill("SIGKILL"));
  const got = { text: "" };
  child.stdout.on("data", (bytes) => (got.text += bytes));
  await until(() => got.text.includes("up"), "the start");
  return { child, got, closed: once(child, "close") };
}

t.test("a second signal stops at once, a third changes nothing", async (t) => {
  const { child, got, closed } = await program(t, "waits");
  child.kill("SIGTERM");
  await until(() => got.text.includes("stop 5000"), "the stop");
  child.kill("SIGTERM");
  child.kill("SIGINT");
  t.same(await closed, [0, null]);
  t.match(got.text, /interrupted\n(?:.*\n)*stopped/);
});

t.test("Ctrl-C under npm start, which comes from the terminal and from npm, counts once", async (t) => {
  const { child, got, closed } = await program(t, "waits", "start");
  child.kill("SIGINT");
  await until(() => got.text.includes("stop 0"), "the stop");
  child.kill("SIGINT");
  await new Promise((more) => setTimeout(more, 500));
  t.notMatch(got.text, "interrupted\n", "npm's signal is the same one");
  child.kill("SIGINT");
  t.same(await closed, [0, null]);
  t.match(got.text, /interrupted\n(?:.*\n)*stopped/, "and a later one counts as a second");
});

t.test("a signal to npm start stops the gateway gracefully, and npm waits for that", async (t) => {
  const folder = t.testdir({
    "gateway.yaml": `listen: 127.0.0.1:0\nadmin: off\nlinger: 50ms\nwarm_up: off
providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }`,
  });
  const config = ["--config", join(folder, "gateway.yaml")];
  const child = spawn("npm", ["start", "--", "run", ...config], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"] },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const closed = once(child, "close");
  t.teardown(() => {
    try {
      process.kill(-(child.pid ?? 0), "SIGKILL");
    } catch {}
  });
  let said = "";
  child.stdout.on("data", (bytes) => (said += bytes));
  await until(() => said.includes("curl -N"), "the start");
  child.kill("SIGTERM");
  t.same(await closed, [0, null]);
  t.match(said, "SIGTERM: stopping");
  t.throws(() => process.kill(-(child.pid ?? 0), 0), { code: "ESRCH" }, "no process is left");
});

t.test("a signal during the start, after gateway.yaml was read, is handled once it serves", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { early: { from: ./early.ts } }
chains: { llm: [auth, models, early], read: [auth] }
`;
  const gateway = await startProcess(t, yaml, { files: { "early.ts": CHANGES_IN_START } });
  await until(() => /"changes":\["models.later/.test(gateway.text), "the reload");
  await until(() => gateway.text.includes("SIGUSR2 replaces workers, and there are none"), "word of SIGUSR2");
  t.equal(await gateway.end("SIGINT"), 0);
});

/** A plugin during whose first start an operator changes gateway.yaml, and sends signals. */
const CHANGES_IN_START = `
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
export default class Early {
  async start() {
    const file = "gateway.yaml";
    const text = readFileSync(file, "utf8");
    if (text.includes("later:")) return;
    writeFileSync(file, text.replace("models: {", "models: { later: { targets: [demo:echo] },"));
    for (const signal of ["SIGHUP", "SIGUSR2"]) process.kill(process.pid, signal);
    await sleep(100);
  }
  request() {}
}`;

t.test("a signal while the first steps are printed stops the gateway as any other does", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { early: { from: ./early.ts } }
chains: { llm: [auth, models, early], read: [auth] }
`;
  const gateway = await startProcess(t, yaml, { files: { "early.ts": STOPS_AT_FIRST_STEPS } });
  t.equal(await gateway.ended, 0);
  t.match(gateway.text, "SIGINT: stopping");
});

t.test(
  "a signal before all workers serve stops the gateway as any other does, and does not wait for them",
  async (t) => {
    const port = await freePort();
    const yaml = `listen: 127.0.0.1:${port}
workers: 2
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { late: { from: ./late.ts } }
chains: { llm: [auth, models, late], read: [auth] }
`;
    const gateway = await startProcess(t, yaml, {
      files: { "late.ts": STOPS_BEFORE_IT_SERVES.replace("PORT", `${port}`) },
    });
    t.equal(await gateway.ended, 0);
    t.match(gateway.text, "SIGINT: stopping");
    t.notMatch(gateway.text, "a worker");
  },
);

/** A plugin that sends the primary a signal from the second worker, which then never serves, once the first one does. */
const STOPS_BEFORE_IT_SERVES = `
import { openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
export default class Late {
  async start() {
    try {
      openSync("first", "wx");
      return;
    } catch {}
    const listens = () => fetch("http://127.0.0.1:PORT/v1/models").then(() => true, () => false);
    while (!(await listens())) await sleep(20);
    process.kill(process.ppid, "SIGINT");
    await new Promise(() => setInterval(() => {}, 1000));
  }
  request() {}
}`;

/** A plugin that sends a signal once the output says what to do with the gateway, which listens by then. */
const STOPS_AT_FIRST_STEPS = `
export default class Early {
  start() {
    const { stdout } = process;
    const write = stdout.write;
    stdout.write = (text, ...rest) => {
      const more = write.call(stdout, text, ...rest);
      if (!String(text).includes("listens on")) return more;
      stdout.write = write;
      process.kill(process.pid, "SIGINT");
      return more;
    };
  }
  request() {}
}`;

t.test("SIGHUP reloads, SIGUSR2 replaces workers, SIGTERM waits before it stops, SIGINT does not", async (t) => {
  for (const [mode, replaced, signal, linger] of [
    ["", "SIGUSR2 replaces workers, and there are none", "SIGTERM", 5000],
    ["workers", "replaced by signal SIGUSR2", "SIGINT", 0],
  ] as const) {
    const { child, got, closed } = await program(t, mode);
    child.kill("SIGHUP");
    await until(() => got.text.includes("reloaded by signal SIGHUP"), "word of SIGHUP");
    child.kill("SIGUSR2");
    await until(() => got.text.includes(replaced), "word of SIGUSR2");
    child.kill(signal);
    t.same(await closed, [0, null]);
    t.match(got.text, `stop ${linger}\nstopped`);
  }
});

t.test("SIGUSR1 opens no debugger, neither in the gateway nor in its workers, and ends nothing", async (t) => {
  const yaml = 'workers: 2\nproviders: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const gateway = await startProcess(t, yaml);
  const { pid } = gateway.child;
  const workers = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(/\s+/).map(Number);
  t.equal(workers.length, 2);
  for (const each of [...workers, pid as number]) process.kill(each, "SIGUSR1");
  for (let i = 0; i < 4; i++) t.equal((await fetch(gateway.url, { headers: { connection: "close" } })).status, 200);
  await sleep(300);
  t.notMatch(gateway.text, /debugger|inspector/i);
  t.match(await gateway.ready(), { status: 200, body: { workers: "2 of 2" } });
  t.equal(await gateway.end("SIGINT"), 0);
});
