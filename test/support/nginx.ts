import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import type { Test } from "tap";
import { freePort } from "./free-port.ts";
import { reportMissing } from "./missing.ts";

/** The path in Debian's package. */
const BINARY = "/usr/sbin/nginx";

/** The default configuration: HTTP/1.0 to the gateway, a connection for each request. */
export const BARE = "";
/** The same over persistent connections. */
export const KEPT = 'proxy_http_version 1.1; proxy_set_header Connection "";';

/** How a client can reach a gateway. */
export const WAYS = ["directly", "behind nginx"] as const;
/** The same and by HTTP/2, which the gateway does not speak: nginx makes HTTP/1 of it. */
export const ALL_WAYS = [...WAYS, "by HTTP/2 behind nginx"] as const;

/** Returns the port for a way; undefined without nginx. */
export async function entrance(
  t: Test,
  way: (typeof ALL_WAYS)[number],
  port: number,
  directives: string = BARE,
): Promise<number | undefined> {
  if (way === "directly") return port;
  return (await startNginx(t, port, directives, way === "behind nginx" ? "" : " http2"))?.port;
}

export interface Nginx {
  port: number;
  /** Its log, at level `warn` and above. */
  readonly uses: string;
}

/**
 * Starts a real nginx on a free port in front of a local port, stopped with the test. Undefined if nginx is not installed,
 * after skipping the test; with `GATEWAY_TEST_NGINX=required` that fails instead.
 * @param directives further directives beside `proxy_pass` in the location.
 * @param listen further parameters of `listen`: ` http2` is HTTP/2 without TLS, and nothing else.
 */
export function startNginx(t: Test, to: number, directives: string = BARE, listen = ""): Promise<Nginx | undefined> {
  const server = (port: number) => `
  access_log off;
  upstream gateway { server 127.0.0.1:${to}; keepalive 4; }
  server {
    listen 127.0.0.1:${port}${listen};
    location / { proxy_pass http://gateway; ${directives} }
  }`;
  return launch(t, server);
}

/** The same with the server block for deployments, which writes its logs into the folder. */
export function startDeployedNginx(t: Test, to: number): Promise<(Nginx & { folder: string }) | undefined> {
  return startBlock(t, "nginx/gateway.conf", (block) => block.replace("127.0.0.1:8080", `127.0.0.1:${to}`));
}

/** The same with the block for several gateways, named `gateway-1`, `gateway-2` … in it. */
export function startBalancer(t: Test, to: readonly number[]): Promise<(Nginx & { folder: string }) | undefined> {
  return startBlock(t, "compose/nginx.conf", (block) =>
    to.reduce((text, port, i) => text.replace(`gateway-${i + 1}:8080`, `127.0.0.1:${port}`), block),
  );
}

/** The same with the block for two gateways on one machine. */
export function startPair(
  t: Test,
  ports: readonly [number, number],
): Promise<(Nginx & { folder: string }) | undefined> {
  return startBlock(t, "nginx/two.conf", (block) =>
    ports.reduce((text, port, i) => text.replace(`127.0.0.1:808${i + 1}`, `127.0.0.1:${port}`), block),
  );
}

function startBlock(t: Test, file: string, placed: (block: string) => string) {
  const block = placed(readFileSync(new URL(`../../deploy/${file}`, import.meta.url), "utf8"));
  return launch(t, (port, folder) =>
    block.replace("listen 80;", `listen 127.0.0.1:${port};`).replaceAll("/var/log/nginx", folder),
  );
}

async function launch(
  t: Test,
  server: (port: number, folder: string) => string,
): Promise<(Nginx & { folder: string }) | undefined> {
  if (!existsSync(BINARY)) {
    reportMissing(t, "GATEWAY_TEST_NGINX", BINARY, "nginx-light");
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "gateway-nginx-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (let tries = 1; ; tries++) {
    const port = await freePort();
    const file = join(folder, "nginx.conf");
    writeFileSync(file, configuration(folder, server(port, folder)));
    const child = spawn(BINARY, ["-p", folder, "-c", file, "-e", "stderr"], { stdio: ["ignore", "ignore", "pipe"] });
    const nginx = { port, folder, uses: "" };
    child.stderr.setEncoding("utf8").on("data", (text: string) => (nginx.uses += text));
    if (await listens(child, port)) {
      t.teardown(() => stop(child));
      return nginx;
    }
    if (tries === 3) throw new Error(`nginx does not start: ${nginx.uses}`);
  }
}

/** One unprivileged process, with all its files in one folder. */
const configuration = (folder: string, server: string): string => `
daemon off;
master_process off;
pid ${folder}/pid;
error_log stderr warn;
events { worker_connections 16384; }
http {
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  ${server}
}
`;

/** Waits until connections are accepted; false if the process ends before. */
async function listens(child: ChildProcess, port: number): Promise<boolean> {
  while (child.exitCode === null && child.signalCode === null) {
    const socket = connect(port, "127.0.0.1");
    const connected = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (connected) return true;
    await after(5);
  }
  return false;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}
