// Measures the cost per chunk of translating a stream, in every direction. See README.md.

import type { Event } from "../../src/translation/events.ts";
import { StreamTranslator } from "../../src/translation/translator.ts";
import { Frame } from "../../src/wire/frame.ts";
import { sse, streamed, translationBetween } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** Deltas of text in a stream, and of a tool call's arguments. */
const TEXTS = 400;
const ARGUMENTS = 60;
/** Streams per round, and rounds: the median counts. */
const STREAMS = 40;
const ROUNDS = 7;
/** Maximum cost of a translated chunk, as a multiple of one JSON.parse and JSON.stringify of it. */
const GOAL = 3;

/** Returns a response as long as an agent's turn: thoughts, text, a call. */
function answer(): Event[] {
  const events: Event[] = [{ type: "start", id: "gen-1", model: "any", created: 1790000000 }];
  events.push({ type: "open", block: 0, choice: 0, kind: "text" });
  for (let i = 0; i < TEXTS; i++) events.push({ type: "text", block: 0, text: ` word${i} "é"` });
  events.push({ type: "close", block: 0 });
  events.push({ type: "open", block: 1, choice: 0, kind: "tool_call", id: "call_1", name: "write_file" });
  events.push({ type: "arguments", block: 1, text: '{"lines":[' });
  for (let i = 0; i < ARGUMENTS; i++) events.push({ type: "arguments", block: 1, text: `${i ? "," : ""}"line ${i}"` });
  events.push({ type: "arguments", block: 1, text: "]}" });
  events.push({ type: "close", block: 1 });
  events.push({ type: "finish", choice: 0, reason: "tool_calls" });
  events.push({ type: "usage", usage: { in: { total: 100 }, out: { total: 500 }, raw: {} } }, { type: "end" });
  return events;
}

const framesOf = (protocol: ProtocolName): Buffer[] =>
  streamed(protocol, answer()).map((each) => Buffer.from(sse([each])));

/** Returns the microseconds of CPU per chunk of a stream, as the median of the rounds. */
function cost(chunks: readonly Buffer[], stream: () => (chunk: Buffer) => unknown): number {
  const samples: number[] = [];
  for (let round = 0; round < ROUNDS + 2; round++) {
    const from = process.cpuUsage();
    for (let i = 0; i < STREAMS; i++) {
      const take = stream();
      for (const chunk of chunks) take(chunk);
    }
    const { user, system } = process.cpuUsage(from);
    // The first two rounds warm up the compiler.
    if (round > 1) samples.push((user + system) / (STREAMS * chunks.length));
  }
  return samples.sort((a, b) => a - b)[samples.length >> 1] as number;
}

/** Parses and serializes a chunk once, without interpreting it. */
function parseAndStringify(chunk: Buffer): Buffer {
  const value = new Frame("event", chunk).json();
  return Buffer.from(`data: ${JSON.stringify(value)}\n\n`);
}

function translating(from: ProtocolName, to: ProtocolName): () => (chunk: Buffer) => unknown {
  return () => {
    const { stage } = new StreamTranslator(translationBetween(from, to));
    return (chunk) => stage(new Frame("event", chunk));
  };
}

/** Returns the milliseconds until the first text comes out of a translation that has never run. */
function firstToken(from: ProtocolName, to: ProtocolName, chunks: readonly Buffer[]): number {
  const began = performance.now();
  const take = translating(from, to)();
  for (const chunk of chunks) {
    const out = take(chunk);
    if (Array.isArray(out) && out.some(({ bytes }: Frame) => bytes.includes("word0"))) break;
  }
  return performance.now() - began;
}

const rows: string[] = [];
let missed = 0;
for (const from of PROTOCOLS) {
  const chunks = framesOf(from);
  const cold = PROTOCOLS.map((to) => (to === from ? 0 : firstToken(from, to, chunks)));
  const base = cost(chunks, () => parseAndStringify);
  const passing = cost(chunks, () => (chunk) => new Frame("event", chunk));
  for (const [i, to] of PROTOCOLS.entries()) {
    if (to === from) continue;
    const each = cost(chunks, translating(from, to));
    const warm = firstToken(from, to, chunks);
    if (each > GOAL * base || warm > 1) missed++;
    const cells = [passing.toFixed(2), base.toFixed(2), each.toFixed(2), `${(each / base).toFixed(2)} ×`];
    rows.push(`| ${from} → ${to} | ${cells.join(" | ")} | ${cold[i]?.toFixed(2)} | ${warm.toFixed(2)} |`);
  }
}
console.log(
  "| direction | passing, µs | parse + stringify, µs | translated, µs | ratio | first token, first stream, ms | later, ms |",
);
console.log("| --- | --: | --: | --: | --: | --: | --: |");
console.log(rows.join("\n"));
console.log(
  `\nGoals: at most ${GOAL} × parse + stringify for a chunk, 1 ms for the first token; ${missed} of ${rows.length} missed.`,
);
