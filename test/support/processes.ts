import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Test } from "tap";
import { KEY } from "./key.ts";
import { START_ENV, START_FLAGS } from "./process.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A program that listens, in its own process. */
export interface Program {
  port: number;
  /** MiB now, and the maximum since the last call of \`forget\`. */
  memory(): { now: number; peak: number };
  forget(): void;
  /** CPU milliseconds used; the kernel counts in steps of ten. */
  cpu(): number;
}

/** Starts a program, and waits until it reports its port. */
export async function started(t: Test, args: readonly string[], cwd: string): Promise<Program> {
  const child: ChildProcess = spawn(process.execPath, args, { cwd, env: { PATH: process.env["PATH"], ...START_ENV } });
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "close");
  });
  let text = "";
  const port = await new Promise<number>((listening, failed) => {
    child.on("exit", () => failed(new Error(text)));
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
        const found = /127\.0\.0\.1:(\d+)\D/.exec(text);
        if (found) listening(Number(found[1]));
      });
  });
  const status = (name: string) =>
    Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) / 1024;
  return {
    port,
    memory: () => ({ now: status("VmRSS"), peak: status("VmHWM") }),
    cpu: () => {
      const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      return (Number(fields[11]) + Number(fields[12])) * 10;
    },
    forget: () => writeFileSync(`/proc/${child.pid}/clear_refs`, "5"),
  };
}

/** Starts a gateway with a model `m` of one provider. @param more lines of its gateway.yaml */
export async function ownGateway(t: Test, providers: string, more: string): Promise<Program> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-memory-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const yaml = `listen: 127.0.0.1:0
warm_up: off
admin: 127.0.0.1:0
providers: { a: { url: "${providers}", speaks: [openai-chat, openai-images], websocket: true } }
models: { m: { targets: [a:m] } }
keys: { test: { key: ${KEY} } }
store: { ledger: "sqlite:./gateway.db" }
${more}`;
  writeFileSync(join(folder, "gateway.yaml"), yaml);
  return started(t, [...START_FLAGS, "--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`, "run"], folder);
}
