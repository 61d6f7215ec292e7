import { readFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { BodyName } from "./bodies.ts";
import { bodyFile } from "./build.ts";
import type { Running } from "./candidates.ts";
import { table } from "./report.ts";
import { behaviours } from "./scenarios.ts";

interface Answer {
  status: number;
  body: string;
  /** How the response ended. */
  end: "complete" | "cut" | "timeout" | "left";
  /** When each piece arrived, in ms since the request. */
  pieces: number[];
}

interface AskOptions {
  body?: BodyName;
  /** Disconnect after so many pieces. */
  leaveAfter?: number;
  timeoutMs?: number;
}

function ask(
  running: Running,
  model: string,
  { body = "1k", leaveAfter, timeoutMs = 5000 }: AskOptions,
): Promise<Answer> {
  const bytes = Buffer.from(readFileSync(bodyFile(body), "utf8").replace('"MODEL"', JSON.stringify(model)));
  const headers: Record<string, string | number> = {
    "content-type": "application/json",
    "content-length": bytes.length,
  };
  for (const header of running.headers) {
    const [name = "", value = ""] = header.split(/: (.*)/s);
    headers[name] = value;
  }
  const answer: Answer = { status: 0, body: "", end: "cut", pieces: [] };
  const begun = performance.now();
  return new Promise((resolve) => {
    const settle = (end: Answer["end"]) => {
      clearTimeout(timer);
      answer.end = end;
      sent.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => settle("timeout"), timeoutMs);
    const to = { host: "127.0.0.1", port: running.port, method: "POST", path: "/v1/chat/completions", agent: false };
    const sent = request({ ...to, headers }, (response) => {
      answer.status = response.statusCode ?? 0;
      response.setEncoding("latin1");
      response.on("data", (piece: string) => {
        answer.body += piece;
        answer.pieces.push(performance.now() - begun);
        if (answer.pieces.length === leaveAfter) settle("left");
      });
      response.on("close", () => settle(response.complete ? "complete" : "cut"));
      response.on("error", () => settle("cut"));
    });
    sent.on("error", () => settle("cut"));
    sent.end(bytes);
  });
}

/** Removes the times that the upstream wrote into a response. */
function timeless(body: string): string {
  return body.replace(/@T[0-9a-f]{16}@/g, "@T@");
}

function meaning(body: string): string {
  const events = body.startsWith("data: ") ? body.split("\n\n").map((event) => event.slice(6)) : [body];
  const read = events.filter((event) => event.startsWith("{")).map((event) => JSON.parse(event));
  const told = read.map(({ choices, usage }) => ({ choices, usage }));
  return JSON.stringify([told, events.filter((event) => !event.startsWith("{"))]);
}

const questions: [title: string, model: string, body: BodyName][] = [
  ["1 KB", "stub-json", "1k"],
  ["30 KB", "stub-json", "30k"],
  ["1.5 MB", "stub-json", "1m5"],
  ["SSE burst", behaviours.burst, "1k-sse"],
  ["SSE paced", behaviours.paced, "30k-sse"],
];

/** The wrong answers of a candidate: another status, another meaning than the upstream's, a missing [DONE]. Ours must
 * also give the very bytes, as nothing asks it to change any. */
export async function wrongAnswers(running: Running, upstream: Running): Promise<string[]> {
  const wrong: string[] = [];
  for (const [title, model, body] of questions) {
    const expected = await ask(upstream, model, { body });
    const got = await ask(running, model, { body });
    const same = timeless(got.body) === timeless(expected.body);
    const done = body.endsWith("-sse") ? got.body.endsWith("data: [DONE]\n\n") : true;
    if (got.status !== 200 || got.end !== "complete" || !got.body) {
      wrong.push(`${title}: ${got.status} ${got.end} ${got.body.slice(0, 200)}`);
    } else if (!done) {
      wrong.push(`${title}: no [DONE]`);
    } else if (!same && running.name === "gateway") {
      wrong.push(`${title}: other bytes than the upstream's`);
    } else if (!same && meaning(timeless(got.body)) !== meaning(timeless(expected.body))) {
      wrong.push(`${title}: says something else than the upstream`);
    }
  }
  return wrong;
}

async function gone(upstream: Running): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${upstream.port}/stats`);
  return Number(/"client_gone":(\d+)/.exec(await response.text())?.[1]);
}

/** Measures the time until the upstream sees that the client has disconnected. */
async function leaving(running: Running, upstream: Running, model: string, options: AskOptions): Promise<string> {
  await sleep(300);
  const before = await gone(upstream);
  await ask(running, model, options);
  const left = performance.now();
  while (performance.now() - left < 3000) {
    if ((await gone(upstream)) > before) return `${(performance.now() - left).toFixed(0)} ms`;
    await sleep(10);
  }
  return "never (3 s)";
}

async function cutting(running: Running, model: string): Promise<string> {
  const { status, end } = await ask(running, model, { body: "1k-sse", timeoutMs: 2500 });
  return `${status} ${end}`;
}

async function behaviour(running: Running, upstream: Running): Promise<string[]> {
  const wrong = await wrongAnswers(running, upstream);
  const paced = await ask(running, behaviours.paced, { body: "30k-sse" });
  const over = (paced.pieces.at(-1) ?? 0) - (paced.pieces[0] ?? 0);
  return [
    running.name,
    wrong.join("; ") || "right",
    `${paced.pieces.length} over ${over.toFixed(0)} ms`,
    await leaving(running, upstream, behaviours.long, { body: "1k-sse", leaveAfter: 5 }),
    await leaving(running, upstream, behaviours.hangs, { timeoutMs: 500 }),
    await cutting(running, behaviours.resets),
    await cutting(running, behaviours.closes),
    String((await ask(running, "stub-json", {})).status),
  ];
}

/** Compares the candidates in normal operation, when the client disconnects and when the upstream breaks off. */
export async function behaviourTable(list: Running[], upstream: Running): Promise<string> {
  const head = ["", "answers", "pieces of 10 chunks at 30 ms", "upstream sees client leave: streaming", "hanging"];
  const lines: string[][] = [];
  for (const running of list) lines.push(await behaviour(running, upstream));
  return table([...head, "upstream resets", "upstream closes mid-chunk", "next request"], lines);
}
