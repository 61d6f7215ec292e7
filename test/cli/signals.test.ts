import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { eventually as until } from "../support/process.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** A process whose stop says what it was given, and waits for the second signal where it is asked to. */
const PROGRAM = `
import { untilStopped } from "${ROOT}src/cli/signals.ts";
const say = (line) => process.stdout.write(line + "\\n");
const log = { warn: (_, message) => say(message) };
const gateway = {
  async stop({ linger, hurry }) {
    say("stop " + linger);
    if (process.argv[1] === "waits") await new Promise((go) => hurry.addEventListener("abort", go));
    say("stopped");
  },
  reload: async () => say("reloaded"),
  ...(process.argv[1] === "workers" ? { replace: async () => say("replaced") } : {}),
};
setInterval(() => {}, 1000);
const stopped = untilStopped(gateway, 5000, log, say);
say("up");
await stopped;
process.exit(0);`;

async function program(t: Test, mode: string) {
  const args = ["--import", `${ROOT}src/loader/register.js`, "--input-type=module", "-e", PROGRAM, mode];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => child.kill("SIGKILL"));
  const got = { text: "" };
  child.stdout.on("data", (bytes) => (got.text += bytes));
  await until(() => got.text.includes("up"), "the start");
  return { child, got, closed: once(child, "close") };
}

t.test("SIGTERM lingers, SIGINT does not", async (t) => {
  for (const [signal, linger] of [
    ["SIGTERM", 5000],
    ["SIGINT", 0],
  ] as const) {
    const { child, got, closed } = await program(t, "");
    child.kill(signal);
    t.same(await closed, [0, null]);
    t.match(got.text, `stop ${linger}\nstopped`);
  }
});

t.test("a second signal hurries, a third changes nothing", async (t) => {
  const { child, got, closed } = await program(t, "waits");
  child.kill("SIGTERM");
  await until(() => got.text.includes("stop 5000"), "the stop");
  child.kill("SIGTERM");
  child.kill("SIGINT");
  t.same(await closed, [0, null]);
  t.match(got.text, /interrupted\n(?:.*\n)*stopped/);
});

t.test("SIGHUP reloads and SIGUSR2 replaces the workers, where there are any", async (t) => {
  for (const [mode, replaced] of [
    ["", "SIGUSR2 replaces workers, and there are none"],
    ["workers", "replaced"],
  ] as const) {
    const { child, got, closed } = await program(t, mode);
    child.kill("SIGHUP");
    await until(() => got.text.includes("reloaded"), "word of SIGHUP");
    child.kill("SIGUSR2");
    await until(() => got.text.includes(replaced), "word of SIGUSR2");
    child.kill("SIGINT");
    t.same(await closed, [0, null]);
  }
});
