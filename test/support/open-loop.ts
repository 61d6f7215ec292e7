import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Test } from "tap";

/** A load of one request per name in turn, at a fixed rate regardless of responses. */
export interface OpenLoad {
  port: number;
  path: string;
  body: string;
  /** The key of each name. */
  keys: readonly (readonly [name: string, key: string])[];
  /** Requests per second. */
  rate: number;
  seconds: number;
}

/** Times are milliseconds since the load began. */
export interface OpenAnswer {
  name: string;
  status: number;
  /** When it was due, regardless of delays, and when its response was complete. */
  due: number;
  at: number;
  /** Of a request that was not served. */
  text?: string;
  retryAfter?: string | undefined;
}

/** Sends requests from a separate process, so that neither the test nor the provider delays its clock. */
export class OpenLoop {
  private readonly child: ChildProcess;

  constructor(t: Test) {
    this.child = fork(fileURLToPath(import.meta.url), ["ask"], {
      execArgv: ["--import", fileURLToPath(new URL("../../src/loader/register.js", import.meta.url))],
      serialization: "advanced",
    });
    t.teardown(async () => {
      if (this.child.exitCode !== null) return;
      this.child.kill();
      await once(this.child, "exit");
    });
  }

  /** Resolves when all requests have been answered. */
  async ask(load: OpenLoad): Promise<OpenAnswer[]> {
    const answers = once(this.child, "message");
    this.child.send(load);
    const [found] = (await answers) as [OpenAnswer[] | string];
    if (typeof found === "string") throw new Error(found);
    return found;
  }
}

async function run({ port, path, body, keys, rate, seconds }: OpenLoad, agent: Agent): Promise<OpenAnswer[]> {
  const began = performance.now();
  const ask = ([name, key]: readonly [string, string], due: number): Promise<OpenAnswer> => {
    const { promise, resolve, reject } = Promise.withResolvers<OpenAnswer>();
    const headers = { "x-api-key": key, "content-type": "application/json", "content-length": body.length };
    const answered = (answer: IncomingMessage): void => {
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => (text += more));
      answer.on("error", reject).on("end", () => {
        const { statusCode: status = 0 } = answer;
        const found = { name, status, due, at: performance.now() - began };
        resolve(status === 200 ? found : { ...found, text, retryAfter: answer.headers["retry-after"] });
      });
    };
    request({ port, host: "127.0.0.1", path, method: "POST", headers, agent }, answered).on("error", reject).end(body);
    return promise;
  };
  const all: Promise<OpenAnswer>[] = [];
  for (let nth = 0; nth < rate * seconds; nth++) {
    const due = (nth * 1000) / rate;
    const early = due - (performance.now() - began);
    if (early > 0) await after(early);
    all.push(ask(keys[nth % keys.length] as (typeof keys)[number], due));
  }
  return Promise.all(all);
}

if (process.argv[2] === "ask" && process.send) {
  const agent = new Agent({ keepAlive: true });
  process.on("message", async (load: OpenLoad) => process.send?.(await run(load, agent).catch(String)));
}
