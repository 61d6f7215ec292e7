import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Test } from "tap";
import { KEY } from "./gateway.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const LOADER = fileURLToPath(new URL("../../src/loader/register.js", import.meta.url));

export interface ChildGateway {
  readonly port: number;
  readonly child: ChildProcess;
  /** Its output so far. */
  said(): string;
  /** How it has ended; undefined while it runs. */
  ended(): string | undefined;
}

/**
 * Starts a gateway in a separate process, killed with the test: a crash does not end the test.
 * @param yaml providers, models and more; listener, log level and key are given
 * @param limits of a shell, like `-n 256`, options of node, and keys besides the test's own
 */
export async function childGateway(
  t: Test,
  yaml: string,
  {
    ulimit = "",
    node = [],
    keys = {},
  }: { ulimit?: string; node?: readonly string[]; keys?: Record<string, string> } = {},
): Promise<ChildGateway> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-child-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const more = Object.entries(keys)
    .map(([name, key]) => `, ${name}: { key: ${key} }`)
    .join("");
  const own = `listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: { level: error }\nwarm_up: off\nkeys: { test: { key: ${KEY} }${more} }\n`;
  writeFileSync(join(folder, "gateway.yaml"), own + yaml);
  const command = [process.execPath, ...node, "--import", LOADER, MAIN, "run"];
  const limited = ulimit === "" ? command : ["bash", "-c", `ulimit ${ulimit}; exec "$@"`, "bash", ...command];
  const [program = "", ...args] = limited;
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const ended = () =>
    child.exitCode === null && child.signalCode === null ? undefined : `${child.exitCode} ${child.signalCode}`;
  t.teardown(async () => {
    if (ended() !== undefined) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (said += text));
  for (let i = 0; i < 600 && ended() === undefined; i++) {
    const port = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1];
    // The last lines of its startup output.
    if (port && /authorization: Bearer/.test(said)) return { port: Number(port), child, said: () => said, ended };
    await sleep(50);
  }
  throw new Error(`the gateway did not start: ${said}`);
}
