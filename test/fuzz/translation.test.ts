import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import type { Event } from "../../src/translation/events.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { decodeWhole, encodeWhole, StreamTranslator } from "../../src/translation/translator.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { dice } from "../support/dice.ts";
import { type Digest, digest } from "../support/digest.ts";
import { randomAnswer } from "../support/random-answers.ts";
import { contextFor, sse, streamed, translationBetween, translationOf } from "../support/translations.ts";
import { accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { wronged } from "../support/wrong-values.ts";

/** Random answers for each protocol. */
const ANSWERS = 150;
/** Random streams for each decoder. */
const BROKEN = 400;
/** Answers with wrong values for each two protocols. */
const WRONG = 300;

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
  t.test(`${protocol}: its SDK accepts any answer, streamed and whole, and reads the same from both`, async (t) => {
    const faults: string[] = [];
    for (let seed = 1; seed <= ANSWERS; seed++) {
      const events = randomAnswer(seed);
      try {
        const stream = digest(protocol, await accumulated(protocol, true, sse(streamed(protocol, events))));
        const text = runAtOnce(translationOf(protocol).response.encode(events, contextFor(protocol)));
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

  t.test(`${protocol}: whatever an upstream sends, its reader ends, with one error at most`, async (t) => {
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
    t.ok(errors > BROKEN / 4, `${errors} streams were found invalid`);
  });
}

const END = new Frame("end", Buffer.alloc(0));

/** What is thrown that is no error of the gateway's own, or is but hides a slip of ours; undefined: nothing is. */
function thrown(act: () => void): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    const slip = error instanceof GatewayError ? error.cause : error;
    if (error instanceof GatewayError && !(slip instanceof TypeError)) return undefined;
    return (slip as Error).stack?.split("\n").slice(0, 4).join(" ");
  }
}

/** Frames whose values are wrong here and there, as they leave for another client. */
function crossed(from: ProtocolName, to: ProtocolName, seed: number): void {
  const cast = dice(seed);
  const translator = new StreamTranslator(translationBetween(from, to));
  const frames = streamed(from, randomAnswer(seed)).map(({ name, data }) => {
    if (data === "[DONE]" || cast(6) > 0) return { ...(name && { name }), data };
    return { ...(name && { name }), data: JSON.stringify(wronged(JSON.parse(data), cast)) };
  });
  const splitter = new SseSplitter();
  const out = splitter.push(Buffer.from(sse(frames))).flatMap((frame) => translator.stage(frame) ?? frame);
  for (const { text } of [...out, ...((translator.stage(END) as Frame[] | undefined) ?? [])])
    if (text !== undefined && text !== "[DONE]") JSON.parse(text);
}

for (const from of PROTOCOLS)
  t.test(
    `${from}: answers with wrong values reach clients of other protocols, or are reported as the provider's fault`,
    async (t) => {
      const faults = new Set<string>();
      let whole = 0;
      for (const to of PROTOCOLS.filter((each) => each !== from))
        for (let seed = 1; seed <= WRONG; seed++) {
          const body = JSON.parse(
            runAtOnce(translationOf(from).response.encode(randomAnswer(seed), contextFor(from))),
          ) as unknown;
          const bytes = Buffer.from(JSON.stringify(wronged(body, dice(seed))));
          const one = thrown(() => {
            JSON.parse(
              runAtOnce(
                encodeWhole(
                  translationBetween(from, to),
                  runAtOnce(decodeWhole(translationBetween(from, to), bytes, undefined)),
                ),
              ),
            );
            whole++;
          });
          const other = thrown(() => crossed(from, to, seed));
          for (const fault of [one, other]) if (fault !== undefined) faults.add(`to ${to}, ${seed}: ${fault}`);
        }
      t.same([...faults].slice(0, 5), []);
      t.ok(whole > WRONG / 2, `${whole} were translated`);
    },
  );

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
  const decoder = translationOf(protocol).response.decoder({ account: "them", model: "any" });
  const splitter = new SseSplitter();
  for (const frame of splitter.push(bytes)) {
    decoder.frame(frame, out);
    if (out.at(-1)?.type === "error") return out;
  }
  decoder.end(out);
  return out;
}
