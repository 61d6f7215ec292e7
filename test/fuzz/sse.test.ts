/** Random event streams, cut at random, read as a parser of the standard reads them whole. */

import { createParser } from "eventsource-parser";
import t from "tap";
import type { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { type Cast, dice } from "../support/dice.ts";

const COUNT = Number(process.env["FUZZ_SSE"] ?? 10_000);

const NAMES = ["data", "data", "data", "event", "id", "retry", "", "DATA", " data", "dat", "unknown", "\ufeffdata"];
const BETWEEN = [":", ": ", ":  ", ":\t", "", " :"];
const VALUES = ["", "x", "[DONE]", '{"a":"ü \\n"}', ": ", "𝄞é", "message", "17", "a\0b", "data: a", "y".repeat(300)];
const ENDS = ["\n", "\n", "\r\n", "\r\n", "\r"];

function randomStream(random: Cast): string {
  const pick = (from: readonly string[]): string => from[random(from.length)] as string;
  // Most streams have one kind of line end.
  const only = random(10) < 7 ? pick(ENDS) : undefined;
  let stream = random(10) === 0 ? "\ufeff" : "";
  for (let lines = random(24); lines > 0; lines--)
    stream += (random(10) < 3 ? "" : pick(NAMES) + pick(BETWEEN) + pick(VALUES)) + (only ?? pick(ENDS));
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
    const random = dice(seed);
    const stream = randomStream(random);
    const bytes = Buffer.from(stream);
    const should = JSON.stringify(expected(stream));
    const some = () => Array.from({ length: 4 }, () => random(bytes.length));
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
