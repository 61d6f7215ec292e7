import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { freePort } from "../support/free-port.ts";
import { here, node, program, root, tools } from "./build.ts";
import { type Launch, ready, residentKb, start, stop, tree } from "./machine.ts";
import { models } from "./scenarios.ts";

export const candidateNames = ["direct", "nginx", "bare", "portkey", "gateway"] as const;
/** The measured programs: the upstream itself, the proxies to compare with, and the gateway. */
export type CandidateName = (typeof candidateNames)[number];

interface Place {
  port: number;
  /** The stub upstream's port. */
  upstream: number;
  /** A separate folder for its files. */
  folder: string;
}

interface Candidate {
  /** Headers of every request besides the usual ones. */
  headers(upstream: number): string[];
  /** How to start it; absent for the upstream. */
  launch?(place: Place): Launch;
}

/** As long as a real vendor's key. */
const VENDOR_KEY = "authorization: Bearer sk-test-0123456789abcdef0123456789abcdef0123456789abcdef";
const GATEWAY_KEY = "gw-bench-0123456789abcdef0123";

/** The default chain with everything configured: prices, a ledger, and limits too high to be reached. */
function gatewayConfig({ port, upstream, folder }: Place, admin: number): string {
  const price = "price: { input: 0.25, cached: 0.025, output: 2.00 }";
  return `
listen: 127.0.0.1:${port}
admin: 127.0.0.1:${admin}
providers:
  stub: { url: "http://127.0.0.1:${upstream}/v1", credential: sk-upstream-0123456789abcdef0123456789, speaks: [openai-chat] }
models:
${models.map((model) => `  ${model}: { targets: ["stub:${model}"], output: 64k, ${price} }`).join("\n")}
limits: { default: { rpm: 100M, tpm: 1000000M, concurrency: 100000, budget: $5_000_000/month } }
keys:
  bench: { key: ${GATEWAY_KEY} }
store:
  ledger: "sqlite:${join(folder, "gateway.db")}"
  limits: memory
`;
}

function nginx(place: Place): Launch {
  const command = program("nginx");
  if (!command) throw new Error("nginx is missing: apt-get install nginx");
  const template = readFileSync(join(here, "proxies/nginx.conf"), "utf8");
  const user = process.getuid?.() === 0 ? "user root;\n" : "";
  const text = template
    .replaceAll("FOLDER", place.folder)
    .replaceAll("UPSTREAM", String(place.upstream))
    .replaceAll("PORT", String(place.port));
  const file = join(place.folder, "nginx.conf");
  writeFileSync(file, user + text);
  return { command, args: ["-e", join(place.folder, "nginx.error.log"), "-c", file] };
}

function script(file: string, place: Place, env: Record<string, string> = {}): Launch {
  const ports = { PORT: String(place.port), UPSTREAM: `127.0.0.1:${place.upstream}` };
  return { command: node(), args: [join(here, "proxies", file)], env: { ...ports, ...env } };
}

function gateway(place: Place, admin: number): Launch {
  const file = join(place.folder, "gateway.yaml");
  writeFileSync(file, gatewayConfig(place, admin));
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
  const [variables = "", args = ""] = manifest.scripts.start.split(/\bnode /, 2);
  const env = Object.fromEntries(
    [...variables.matchAll(/(\w+)=\$\{\w+:-(\w+)\}/g)].map(([, name, value]) => [name, value]),
  );
  return { command: node(), args: [...args.split(" "), "run", "--config", file], cwd: root, env };
}

function candidates(admin: number): Record<CandidateName, Candidate> {
  const portkeyHeaders = (upstream: number) => [
    VENDOR_KEY,
    "x-portkey-provider: openai",
    `x-portkey-custom-host: http://127.0.0.1:${upstream}/v1`,
  ];
  const portkeyScript = { PORTKEY: pathToFileURL(tools.portkey).href };
  return {
    direct: { headers: () => [VENDOR_KEY] },
    nginx: { headers: () => [VENDOR_KEY], launch: nginx },
    bare: { headers: () => [VENDOR_KEY], launch: (place) => script("bare.ts", place) },
    portkey: { headers: portkeyHeaders, launch: (place) => script("portkey.ts", place, portkeyScript) },
    gateway: {
      headers: () => [`authorization: Bearer ${GATEWAY_KEY}`],
      launch: (place) => gateway(place, admin),
    },
  };
}

/** A candidate that is running. */
export interface Running {
  name: CandidateName;
  port: number;
  headers: string[];
  /** Its processes. */
  pids: number[];
  /** Resident memory before any load, in KB. */
  idleKb: number;
  stop(): Promise<void>;
}

let scratch: string | undefined;

/** Returns the folder for the candidates' files. */
function scratchFolder(): string {
  scratch ??= mkdtempSync(join(tmpdir(), "gateway-bench-"));
  return scratch;
}

/** Removes the candidates' files. */
export function removeScratch(): void {
  if (scratch) rmSync(scratch, { recursive: true, force: true });
}

/** The stub upstream, as the candidate `direct`. */
export async function startUpstream(): Promise<Running> {
  const port = await freePort();
  const log = join(scratchFolder(), "stub.log");
  const child = start("others", { command: tools.stub, args: [String(port)] }, log);
  await ready("stub", child, port, log);
  return {
    name: "direct",
    port,
    headers: [VENDOR_KEY],
    pids: tree(child.pid ?? 0),
    idleKb: 0,
    stop: () => stop(child),
  };
}

let started = 0;

/** Starts a candidate in front of the upstream and waits until it responds. */
export async function startCandidate(name: CandidateName, upstream: Running): Promise<Running> {
  const { headers, launch } = candidates(await freePort())[name];
  if (!launch) return { ...upstream, stop: async () => {} };
  const folder = join(scratchFolder(), `${name}-${++started}`);
  mkdirSync(folder);
  const port = await freePort();
  const log = join(folder, "log");
  const child = start("proxy", launch({ port, upstream: upstream.port, folder }), log);
  try {
    await ready(name, child, port, log);
  } catch (error) {
    await stop(child);
    throw error;
  }
  const pids = tree(child.pid ?? 0);
  return { name, port, headers: headers(upstream.port), pids, idleKb: residentKb(pids), stop: () => stop(child) };
}
