// Measures what one large request costs the serving thread: CPU compared with a bare node server that reads the same bytes and
// with bare http-proxy-3, and the longest turn of the event loop. See README.md.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { parseArgs } from "node:util";
import { freePort } from "../support/free-port.ts";
import { here, node, root } from "./build.ts";
import { type LargeRequest, requests } from "./large/requests.ts";
import { pinned, ready, start, stopAll } from "./machine.ts";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "7" },
    only: { type: "string", default: "" },
    root: { type: "string", default: root },
    candidates: { type: "string", default: "reader,bare,gateway,turns" },
    profile: { type: "string" },
  },
});
const KEY = "gw-bench-0123456789abcdef0123";
const PIECE = 800;
/** Rounds that do not count, in which V8 compiles. */
const COLD = 2;
const TRIES = 4;

if (pinned) execFileSync("taskset", ["-pc", "1", String(process.pid)], { stdio: "ignore" });
const scratch = mkdtempSync(join(tmpdir(), "gateway-large-"));

const gatewayYaml = (port: number, admin: number, upstream: number, folder: string): string => `
listen: 127.0.0.1:${port}
admin: 127.0.0.1:${admin}
overload: { delay: off }
providers:
${[
  ["chat", "openai-chat, openai-images", "/v1"],
  ["messages", "anthropic-messages", ""],
  ["responses", "openai-responses", "/v1"],
  ["gemini", "gemini", "/v1beta"],
]
  .map(
    ([name, speaks, path]) =>
      `  ${name}: { url: "http://127.0.0.1:${upstream}${path}", credential: sk-upstream-0123456789abcdef0123456789, speaks: [${speaks}] }`,
  )
  .join("\n")}
models:
  same: { targets: ["chat:m"] }
  hear: { targets: ["chat:m"] }
  to-chat: { targets: ["chat:m"] }
  to-messages: { targets: ["messages:m"] }
  to-responses: { targets: ["responses:m"] }
  to-gemini: { targets: ["gemini:m"] }
keys: { bench: { key: ${KEY} } }
store: { ledger: "sqlite:${join(folder, "gateway.db")}", limits: memory }
`;

interface Server {
  name: string;
  port: number;
  pid: number;
  /** The port that reports its longest turn. */
  turns?: number;
}

async function launched(name: string, upstream: number): Promise<Server> {
  const folder = join(scratch, name);
  mkdirSync(folder);
  const [port, admin, turns] = [await freePort(), await freePort(), await freePort()];
  const log = join(folder, "log");
  const env = { PORT: String(port), UPSTREAM: `127.0.0.1:${upstream}`, TURNS: String(turns) };
  const isGateway = name === "gateway" || name === "turns";
  let args = [join(here, name === "bare" ? "proxies/bare.ts" : `large/${name}.ts`)];
  if (isGateway) {
    const file = join(folder, "gateway.yaml");
    writeFileSync(file, gatewayYaml(port, admin, upstream, folder));
    const manifest = JSON.parse(readFileSync(join(options.root, "package.json"), "utf8"));
    const watching = name === "turns" ? ["--import", join(here, "large/turns.ts")] : [];
    const profiling = options.profile && name === "gateway" ? ["--cpu-prof", "--cpu-prof-dir", options.profile] : [];
    args = [
      ...profiling,
      ...watching,
      ...manifest.scripts.start.split(/\bnode /, 2)[1].split(" "),
      "run",
      "--config",
      file,
    ];
  }
  const side = name === "upstream" ? "others" : "proxy";
  const child = start(side, { command: node(), args, env, ...(isGateway ? { cwd: options.root } : {}) }, log);
  await ready(name, child, port, log);
  return { name, port, pid: child.pid ?? 0, ...(name === "turns" ? { turns } : {}) };
}

/** CPU of a process's first thread in milliseconds. */
const cpu = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;

function ask(
  port: number,
  { path, headers = "Content-Type: application/json\r\n", body, writing = "whole", keyless = false }: LargeRequest,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    let text = "";
    const judge = (): void => {
      // A client without a key keeps sending.
      if (!/\r\n\r\n./s.test(text) || (keyless && socket.writableLength > 0)) return;
      socket.destroy();
      // Only the gateway requires a key.
      if (/^HTTP\/1\.1 200 /.test(text) || (keyless && /^HTTP\/1\.1 401 /.test(text))) resolve();
      else reject(new Error(text.slice(0, 600)));
    };
    socket
      .on("error", reject)
      .on("drain", judge)
      .on("close", judge)
      .on("data", (bytes: Buffer) => {
        text += bytes.toString("latin1");
        judge();
      });
    const framing = writing === "chunks" ? "Transfer-Encoding: chunked" : `Content-Length: ${body.length}`;
    const key = keyless ? "" : `Authorization: Bearer ${KEY}\r\n`;
    socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${key}${headers}${framing}\r\n\r\n`);
    if (writing === "whole") socket.write(body);
    else if (writing === "chunks") socket.write(chunked(body));
    else void segments(socket, body);
  });
}

/** Writes pieces so that the receiver gets each separately. */
async function segments(socket: ReturnType<typeof connect>, body: Buffer): Promise<void> {
  for (let at = 0; at < body.length; at += PIECE)
    if (!socket.write(body.subarray(at, at + PIECE))) await new Promise((drained) => socket.once("drain", drained));
}

const memo = new Map<Buffer, Buffer>();
function chunked(body: Buffer): Buffer {
  let made = memo.get(body);
  if (made) return made;
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += PIECE) {
    const piece = body.subarray(at, at + PIECE);
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n"));
  }
  made = Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
  memo.set(body, made);
  return made;
}

const median = (list: number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] ?? 0;

/** Returns the cost of one request in milliseconds: CPU, or the longest turn if that is reported. */
async function cost(server: Server, request: LargeRequest): Promise<number> {
  // A stalled server may have missed a deadline.
  for (let tries = 1; ; tries++) {
    if (server.turns) await longest(server.turns);
    const before = cpu(server.pid);
    try {
      await ask(server.port, request);
    } catch (error) {
      if (tries === TRIES) throw error;
      continue;
    }
    // Work after the response: the ledger, the log.
    await after(40);
    return server.turns ? longest(server.turns) : cpu(server.pid) - before;
  }
}

const longest = async (port: number): Promise<number> => {
  const told = await fetch(`http://127.0.0.1:${port}`);
  return Number(await told.text()) / 1000;
};

const runs = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));

async function main(): Promise<void> {
  const upstream = await launched("upstream", 0);
  const servers: Server[] = [];
  for (const name of options.candidates.split(",")) servers.push(await launched(name, upstream.port));
  console.log(`| milliseconds of CPU: least, median | ${servers.map(({ name }) => name).join(" | ")} |`);
  console.log(`|---|${servers.map(() => "--:").join("|")}|`);
  for (const [name, make] of Object.entries(requests)) {
    if (!options.only.split(";").some((part) => name.includes(part))) continue;
    const request = make();
    const costs = servers.map((): number[] => []);
    for (let round = -COLD; round < Number(options.rounds); round++)
      for (const [i, server] of servers.entries()) {
        const spent = await cost(server, request);
        if (round >= 0) costs[i]?.push(spent);
      }
    const cells = costs.map((list) => `${Math.min(...list).toFixed(1)} ${median(list).toFixed(1)}`);
    console.log(`| ${name} | ${cells.join(" | ")} |`);
    memo.clear();
  }
  if (!options.profile) return;
  // A profile is written when the program exits.
  for (const { pid } of servers) process.kill(pid, "SIGTERM");
  while (servers.some(({ pid }) => runs(pid))) await after(100);
}

try {
  await main();
} finally {
  stopAll();
  rmSync(scratch, { recursive: true, force: true });
}
