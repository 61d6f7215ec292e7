/** Random event streams, cut at random, read as a parser of the standard reads them whole. */
import { createParser } from "eventsource-parser";
import t from "tap";
import type { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";

const COUNT = Number(process.env["FUZZ_SSE"] ?? 10_000);

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const NAMES = ["data", "data", "data", "event", "id", "retry", "", "DATA", " data", "dat", "unknown", "\ufeffdata"];
const BETWEEN = [":", ": ", ":  ", ":\t", "", " :"];
const VALUES = ["", "x", "[DONE]", '{"a":"ü \\n"}', ": ", "𝄞é", "message", "17", "a\0b", "data: a", "y".repeat(300)];
const ENDS = ["\n", "\n", "\r\n", "\r\n", "\r"];

function randomStream(random: () => number): string {
  const pick = (from: readonly string[]): string => from[Math.floor(random() * from.length)] as string;
  // Most streams have one kind of line end.
  const only = random() < 0.7 ? pick(ENDS) : undefined;
  let stream = random() < 0.1 ? "\ufeff" : "";
  for (let lines = Math.floor(random() * 24); lines > 0; lines--)
    stream += (random() < 0.3 ? "" : pick(NAMES) + pick(BETWEEN) + pick(VALUES)) + (only ?? pick(ENDS));
  // Behind it nothing is in doubt: whether a CR is all of a line end, and whether an event has ended.
  return `${stream}\n\n\ndata: end\n\n`;
}

interface ReadEvent {
  event: string;
  data: string;
}

function expected(stream: string): ReadEvent[] {
  const events: ReadEvent[] = [];
  createParser({ onEvent: ({ event, data }) => events.push({ event: event || "message", data }) }).feed(stream);
  return events;
}

function chunksOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [0, ...[...cuts].sort((one, other) => one - other), bytes.length];
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

t.test("the result is that of the standard's parser, however the stream is split, and no byte is lost", async (t) => {
  const faults: string[] = [];
  let events = 0;
  for (let seed = 0; seed < COUNT; seed++) {
    const random = numbers(seed);
    const stream = randomStream(random);
    const bytes = Buffer.from(stream);
    const should = JSON.stringify(expected(stream));
    const some = () => Array.from({ length: 4 }, () => Math.floor(random() * bytes.length));
    const each = Array.from({ length: bytes.length - 1 }, (_, i) => i + 1);
    for (const cuts of [[], some(), some(), each]) {
      const splitter = new SseSplitter();
      const frames: Frame[] = chunksOf(bytes, cuts).flatMap((chunk) => splitter.push(chunk));
      const rest = splitter.end();
      const read = frames.flatMap(({ event, text }) =>
        text === undefined ? [] : [{ event: event || "message", data: text }],
      );
      events += read.length;
      if (JSON.stringify(read) !== should || rest !== undefined)
        faults.push(
          `seed ${seed}, cut at ${cuts}: ${JSON.stringify(stream)} is ${JSON.stringify(read)}, not ${should}`,
        );
      if (!Buffer.concat(frames.map((frame) => frame.bytes)).equals(bytes)) faults.push(`seed ${seed} loses bytes`);
    }
  }
  t.same(faults.slice(0, 10), [], `${faults.length} faults`);
  t.ok(events > COUNT * 8, `${events} events were read`);
});
