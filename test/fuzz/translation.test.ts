import t from "tap";
import type { Event } from "../../src/events.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { type Digest, digest } from "../support/digest.ts";
import { dice, randomAnswer } from "../support/random-answers.ts";
import { sse, streamed, translationOf, wishFor } from "../support/translations.ts";
import { accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** Random answers for each protocol. */
const ANSWERS = 150;
/** Random streams for each decoder. */
const BROKEN = 400;

/** Text, calls and their order as the events tell them: blocks stand in the order of opening. */
function told(events: readonly Event[]): Pick<Digest, "text" | "calls" | "order"> {
  const blocks: { kind: string; text: string; name: string }[] = [];
  for (const event of events) {
    if (event.type === "open")
      blocks.push({ kind: event.kind, text: "", name: event.kind === "tool_call" ? event.name : "" });
    if (event.type === "text" || event.type === "arguments")
      (blocks[event.block] as (typeof blocks)[number]).text += event.text;
  }
  let order = "";
  for (const { kind, text } of blocks) {
    if (kind === "text" && text !== "" && !order.endsWith("T")) order += "T";
    if (kind === "tool_call") order += "C";
  }
  return {
    text: blocks.map(({ kind, text }) => (kind === "text" ? text : "")).join(""),
    calls: blocks.flatMap(({ kind, name, text }) =>
      kind === "tool_call" ? [{ name, args: JSON.parse(text), id: "" }] : [],
    ),
    order,
  };
}

const bare = ({ text, calls, order }: Pick<Digest, "text" | "calls" | "order">, protocol: ProtocolName) => ({
  text,
  calls: calls.map(({ name, args }) => ({ name, args })),
  // Chat keeps all text before all calls.
  order: protocol === "openai-chat" ? "" : order,
});

for (const protocol of PROTOCOLS) {
  t.test(`${protocol}: its SDK takes any answer, streamed and whole, and reads the same from both`, async (t) => {
    const faults: string[] = [];
    for (let seed = 1; seed <= ANSWERS; seed++) {
      const events = randomAnswer(seed);
      try {
        const stream = digest(protocol, await accumulated(protocol, true, sse(streamed(protocol, events))));
        const text = translationOf(protocol).answer.encode(events, wishFor(protocol));
        const whole = digest(protocol, await accumulated(protocol, false, text));
        const expected = JSON.stringify(bare(told(events), protocol));
        if (JSON.stringify(bare(stream, protocol)) !== expected)
          faults.push(`${seed} streamed: ${JSON.stringify(bare(stream, protocol))} for ${expected}`);
        if (JSON.stringify(bare(whole, protocol)) !== expected)
          faults.push(`${seed} whole: ${JSON.stringify(bare(whole, protocol))} for ${expected}`);
        if (whole.finish !== stream.finish) faults.push(`${seed}: ends with ${whole.finish} and ${stream.finish}`);
      } catch (error) {
        faults.push(`${seed}: ${(error as Error).stack?.slice(0, 300)}`);
      }
    }
    t.same(faults.slice(0, 5), []);
  });

  t.test(`${protocol}: whatever comes from upstream, its reader ends, with one error at most`, async (t) => {
    const faults: string[] = [];
    let errors = 0;
    for (let seed = 1; seed <= BROKEN; seed++) {
      const events = read(protocol, damaged(protocol, seed));
      const failures = events.filter(({ type }) => type === "error").length;
      errors += failures;
      const last = events.at(-1)?.type;
      if (failures > 1 || (last !== "error" && last !== "end"))
        faults.push(`${seed}: ${failures} errors, ends with ${last}`);
    }
    t.same(faults.slice(0, 5), []);
    t.ok(errors > BROKEN / 4, `${errors} streams were found broken`);
  });
}

/** A stream of the protocol with some bytes lost, doubled, changed or made up. */
function damaged(protocol: ProtocolName, seed: number): Buffer {
  const cast = dice(seed * 7919);
  const bytes = Buffer.from(sse(streamed(protocol, randomAnswer(seed))));
  const at = cast(bytes.length);
  const to = Math.min(bytes.length, at + cast(200));
  const junk = Buffer.from(Array.from({ length: cast(40) }, () => cast(256)));
  const frame = Buffer.from(
    `\n\ndata: ${["null", "[]", "1", '{"a":', '{"type":5}', '{"choices":{}}', '{"candidates":[null]}'][cast(7)]}\n\n`,
  );
  const ways = [
    () => bytes.subarray(0, at),
    () => Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]),
    () => Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]),
    () => Buffer.concat([bytes.subarray(0, at), junk, bytes.subarray(to)]),
    () => Buffer.concat([bytes.subarray(0, at), frame, bytes.subarray(at)]),
    () => junk,
  ];
  return (ways[cast(ways.length)] as () => Buffer)();
}

function read(protocol: ProtocolName, bytes: Buffer): Event[] {
  const out: Event[] = [];
  const decoder = translationOf(protocol).answer.decoder({ account: "them", model: "any" });
  const splitter = new SseSplitter();
  for (const frame of splitter.push(bytes)) {
    decoder.frame(frame, out);
    if (out.at(-1)?.type === "error") return out;
  }
  decoder.end(out);
  return out;
}
