import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";
import type { Test } from "tap";
import type { Certificates } from "./certificates.ts";
import { freePort } from "./free-port.ts";
import { reportMissing } from "./missing.ts";

/** The paths in Debian's packages: Redis, or Valkey instead. */
const PLACES = ["/usr/bin/redis-server", "/usr/bin/valkey-server"];
const BINARY = process.env["GATEWAY_TEST_REDIS_SERVER"] ?? PLACES.find(existsSync) ?? PLACES.join(" or ");

/** A separate server without persistence. */
export interface RedisProcess {
  readonly port: number;
  readonly url: string;
  /** Kills it: its data is lost. */
  kill(): Promise<void>;
  /** Starts it again on its port, empty. */
  start(): Promise<void>;
  /** Suspends it: it does not respond, and keeps its connections. */
  pause(): void;
  resume(): void;
  /** Returns a command's reply. */
  ask(...command: string[]): Promise<unknown>;
}

/**
 * Starts a real Redis or Valkey server on a free port, stopped with the test. Undefined if it is not installed, after skipping
 * the test; with `GATEWAY_TEST_REDIS=required` that fails instead.
 * @param options of its command line
 * @param tls the only protocol on its port, with certificates that clients must have too
 */
export async function startRedis(
  t: Test,
  options: readonly string[] = [],
  tls?: Certificates,
): Promise<RedisProcess | undefined> {
  if (!existsSync(BINARY)) {
    reportMissing(t, "GATEWAY_TEST_REDIS", BINARY, "redis-server");
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "gateway-redis-"));
  let port = await freePort();
  let child: ChildProcess | undefined;
  const kill = async () => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  const start = async () => {
    const place = [...portOf(port, tls), "--bind", "127.0.0.1", "--dir", folder];
    child = spawn(BINARY, [...place, "--save", "", "--appendonly", "no", ...options], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
    for (let i = 0; i < 600 && !/Ready to accept connections/.test(output); i++) {
      if (child.exitCode !== null) throw new Error(`no ${BINARY}: ${output}`);
      await sleep(20);
    }
  };
  // Another program may take the port before the server does.
  for (let tries = 5; ; tries--)
    try {
      await start();
      break;
    } catch (error) {
      if (tries === 0 || !/Address already in use/.test(String(error))) throw error;
      port = await freePort();
    }
  t.teardown(async () => {
    await kill();
    rmSync(folder, { recursive: true, force: true });
  });
  const url = tls
    ? `rediss://127.0.0.1:${port}?cacert=${tls.authority}&cert=${tls.client.cert}&key=${tls.client.key}`
    : `redis://127.0.0.1:${port}`;
  return {
    port,
    url,
    kill,
    start,
    pause: () => child?.kill("SIGSTOP"),
    resume: () => child?.kill("SIGCONT"),
    async ask(...command) {
      const client = createClient({ url, RESP: 2 });
      client.on("error", () => {});
      await client.connect();
      try {
        return await client.sendCommand(command);
      } finally {
        client.destroy();
      }
    },
  };
}

function portOf(port: number, tls: Certificates | undefined): string[] {
  if (!tls) return ["--port", String(port)];
  const { authority, server } = tls;
  const files = ["--tls-ca-cert-file", authority, "--tls-cert-file", server.cert, "--tls-key-file", server.key];
  return ["--port", "0", "--tls-port", String(port), "--tls-auth-clients", "yes", ...files];
}
