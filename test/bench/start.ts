import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { Agent, type IncomingMessage, request } from "node:http";
import { bodyFile } from "./build.ts";
import { type CandidateName, type Running, startCandidate } from "./candidates.ts";
import { models } from "./scenarios.ts";

/** The costs of a candidate that has just started, and its later costs. */
export interface StartSample {
  /** Milliseconds from its start until it responds. */
  upMs: number;
  /** Milliseconds of the first request. */
  firstMs: number;
  /** CPU in microseconds per request, of requests 1 to 100, 100 to 500, and after 30,000. */
  first100: number;
  next400: number;
  warm: number;
}

const CONNECTIONS = 8;
/** Requests to the provider itself, before the first one that counts. */
const OWN = 500;
/** Requests after which V8 has compiled everything. */
const WARM = 30_000;

/** Returns CPU time of processes, all threads, in microseconds. */
function cpu(pids: readonly number[]): number {
  let nanoseconds = 0;
  for (const pid of pids)
    for (const thread of readdirSync(`/proc/${pid}/task`))
      nanoseconds += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  return nanoseconds / 1000;
}

/** Starts a candidate and sends it requests of 1 KB until it is warm. */
export async function measureStart(name: CandidateName, upstream: Running): Promise<StartSample> {
  const before = performance.now();
  const running = await startCandidate(name, upstream);
  const upMs = performance.now() - before;
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const body = readFileSync(bodyFile("1k"), "utf8").replace("MODEL", models[0] ?? "");
  const headers = Object.fromEntries(running.headers.map((line) => line.split(/: (.*)/).slice(0, 2)));
  const ask = async (port = running.port) => {
    const options = { host: "127.0.0.1", port, path: "/v1/chat/completions", method: "POST", agent };
    const sent = request({ ...options, headers: { ...headers, "content-type": "application/json" } }).end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    if (answer.statusCode !== 200) throw new Error(`${name} answers ${answer.statusCode}`);
    for await (const _ of answer);
  };
  const cost = async (count: number) => {
    const spent = cpu(running.pids);
    let left = count;
    const asking = async () => {
      while (left-- > 0) await ask();
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, asking));
    return (cpu(running.pids) - spent) / count;
  };
  try {
    // The client's own first requests take longer than the gateway's.
    for (let i = 0; i < OWN; i++) await ask(upstream.port);
    const asked = performance.now();
    await ask();
    const firstMs = performance.now() - asked;
    const [first100, next400] = [await cost(99), await cost(400)];
    await cost(WARM - 500);
    return { upMs, firstMs, first100, next400, warm: await cost(2000) };
  } finally {
    agent.destroy();
    await running.stop();
  }
}
