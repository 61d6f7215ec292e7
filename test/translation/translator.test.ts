import { isDeepStrictEqual } from "node:util";
import t from "tap";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import type { GatewayError } from "../../src/core/errors.ts";
import type { TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Conversation } from "../../src/translation/conversation.ts";
import type { Event } from "../../src/translation/events.ts";
import { Framing } from "../../src/translation/framing.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { NameRestorer } from "../../src/translation/restore-names.ts";
import { runAtOnce, type Steps } from "../../src/translation/steps.ts";
import {
  decodeWhole,
  encodeWhole,
  encodeWholeAsStream,
  type ResponseTranslation,
  StreamTranslator,
} from "../../src/translation/translator.ts";
import { Frame } from "../../src/wire/frame.ts";
import { digest } from "../support/digest.ts";
import { type Content, WHOLE } from "../support/large-answers.ts";
import { randomAnswer } from "../support/random-answers.ts";
import { tried } from "../support/sample.ts";
import { SAY, SAY_ARRAY, tiny } from "../support/tiny.ts";
import { translationBetween, translationOf } from "../support/translations.ts";
import { accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const END = new Frame("end", Buffer.alloc(0));
const sse = (text: string): Frame => new Frame("event", Buffer.from(`data: ${text}\n\n`));

function tinyTranslation(operation = SAY): ResponseTranslation & { lost: string[] } {
  const lost: string[] = [];
  return {
    lost,
    from: tiny,
    to: tiny,
    operation,
    source: { account: "one", model: "m" },
    names: new ToolNames(),
    context: {
      model: "asked",
      id: "01exchange",
      created: 1,
      conversation: { turns: [] } as unknown as Conversation,
      request: {},
      seal: () => "",
      mark: (id) => id,
      remember: () => {},
      drop: (path) => lost.push(path),
    },
  };
}

/** What leaves of some lines, frame by frame, until the stage throws. */
function run(translator: StreamTranslator, lines: readonly string[]): { frames: Frame[]; error?: GatewayError } {
  const frames: Frame[] = [];
  try {
    for (const line of lines) frames.push(...((translator.stage(line === "END" ? END : sse(line)) ?? []) as Frame[]));
  } catch (error) {
    return { frames, error: error as GatewayError };
  }
  return { frames };
}

const texts = (frames: readonly Frame[]): string => frames.map(({ bytes }) => bytes.toString()).join("");

t.test("a stream becomes events with their names, then the end is passed to the stages after it", async (t) => {
  const { frames, error } = run(new StreamTranslator(tinyTranslation()), ["start:x", "hello", "end", "END"]);
  t.equal(error, undefined);
  t.equal(
    texts(frames),
    'event: start\ndata: {"type":"start","id":"x","model":"tiny-1"}\n\n' +
      'data: {"type":"open","block":0,"choice":0,"kind":"text"}\n\n' +
      'data: {"type":"text","block":0,"text":"hello"}\n\n' +
      'data: {"type":"finish","choice":0,"reason":"stop"}\n\ndata: [DONE]\n\n',
  );
  t.equal(frames.at(-1), END);
});

t.test("the output so far is available for an error that interrupts the stream", async (t) => {
  const translator = new StreamTranslator({ ...tinyTranslation(), to: responses as TranslatedProtocol });
  const finished = () => translator.framing.state.finished?.().map((item) => JSON.parse(item) as unknown);
  run(translator, ["start:x", "hello"]);
  t.same(finished(), []);
  run(translator, ["end"]);
  t.match(finished(), [{ type: "message", status: "completed", content: [{ text: "hello" }] }]);
  t.equal(new StreamTranslator(tinyTranslation()).framing.state.finished, undefined, "where nothing restores it");
});

t.test("framed as an array, the elements and the end together are JSON", async (t) => {
  t.equal(texts(run(new StreamTranslator(tinyTranslation(SAY_ARRAY)), ["start:x"]).frames)[0], "[");
  const translator = new StreamTranslator({ ...tinyTranslation(SAY_ARRAY), to: json });
  const whole = texts(run(translator, ["start:x", "hello", "end", "END"]).frames);
  t.same(
    (JSON.parse(whole) as { type: string }[]).map(({ type }) => type),
    ["start", "open", "text", "finish", "end"],
  );
  t.match(whole, /\},\r\n\{/);
});

/** Ends its streams with JSON, as a protocol framed as an array must. */
const json: typeof tiny = {
  ...tiny,
  translation: {
    ...tiny.translation,
    response: {
      ...tiny.translation.response,
      encoder: () => ({ event: (event, out) => void out.push({ data: JSON.stringify(event) }) }),
    },
  },
};

t.test("an upstream error is thrown with its message, and the state is what was sent", async (t) => {
  const translator = new StreamTranslator(tinyTranslation());
  const { frames, error } = run(translator, ["start:x", "hello", "error:529", "more"]);
  t.match(error, {
    code: "upstream_refused",
    status: 529,
    kind: "overloaded",
    message: "It said 529.",
    providerCode: "busy",
  });
  const { state } = translator.framing;
  t.equal(state.frames, frames.length);
  t.same(state.first, frames[0]?.bytes);
  t.equal(state.last, frames.at(-1));
});

t.test("content in one frame with an error is not counted as sent, since it is not", async (t) => {
  const both = { ...tiny.translation.response.decoder({ account: "", model: "" }) };
  both.frame = (_frame, out) => {
    out.push({ type: "start", id: "x", model: "m" });
    out.push({ type: "error", fault: { status: 500, kind: "internal", code: "x", message: "No." } });
  };
  const from = {
    ...tiny,
    translation: { ...tiny.translation, response: { ...tiny.translation.response, decoder: () => both } },
  };
  const translator = new StreamTranslator({ ...tinyTranslation(), from });
  t.match(run(translator, ["go"]).error, { status: 500 });
  t.same([translator.framing.state.frames, translator.framing.state.last], [0, undefined]);
});

t.test("a stream that ends before its answer does is interrupted, never finished", async (t) => {
  t.match(run(new StreamTranslator(tinyTranslation()), ["start:x", "hello", "END"]).error, {
    code: "upstream_truncated",
  });
  t.match(run(new StreamTranslator(tinyTranslation()), ["END"]).error, { code: "upstream_truncated" });
});

t.test("after the end nothing counts", async (t) => {
  const { frames, error } = run(new StreamTranslator(tinyTranslation()), [
    "start:x",
    "end",
    "more",
    "error:500",
    "END",
  ]);
  t.equal(error, undefined);
  t.match(texts(frames), /\[DONE\]\n\n$/);
});

t.test("keep-alives pass as the client's own, at most one in five seconds", async (t) => {
  let now = 0;
  const translator = new StreamTranslator(tinyTranslation(), undefined, () => now);
  const pings = () => run(translator, ["ping", "ping"]).frames.length;
  t.equal(pings(), 0);
  now = 5_000;
  t.equal(pings(), 1);
  now = 9_999;
  t.equal(pings(), 0);
  now = 10_000;
  t.equal(pings(), 1);
  t.equal(translator.framing.state.last, undefined, "they are no part of the answer");
  const array = new StreamTranslator(tinyTranslation(SAY_ARRAY), undefined, () => now);
  now = 20_000;
  t.same(run(array, ["ping"]).frames, [], "an array has no place for them");
});

t.test("what cannot be expressed is lost with a notice", async (t) => {
  const on = tinyTranslation();
  run(new StreamTranslator(on), ["start:x", "unmapped:a.b", "end", "END"]);
  t.same(on.lost, ["a.b"]);
});

t.test("a whole answer is decoded and encoded whole", async (t) => {
  const on = tinyTranslation();
  const events = runAtOnce(decodeWhole(on, Buffer.from('["start:x","ping","unmapped:a.b","hello","end"]'), undefined));
  t.same(
    events.map(({ type }) => type),
    ["start", "open", "text", "finish", "end"],
  );
  t.same(on.lost, ["a.b"]);
  t.same(JSON.parse(runAtOnce(encodeWhole(on, events))), { id: "01exchange", events });
});

t.test("a stream that comes unasked is read as a whole, and a whole answer becomes a stream", async (t) => {
  const lines = ["start:x", "hello", "end"];
  const bytes = Buffer.from(lines.map((line) => `data: ${line}\n\n`).join(""));
  const events = runAtOnce(decodeWhole(tinyTranslation(), bytes, "sse"));
  t.same(events, runAtOnce(decodeWhole(tinyTranslation(), Buffer.from(JSON.stringify(lines)), undefined)));
  const streamed = run(new StreamTranslator(tinyTranslation()), [...lines, "END"]).frames;
  t.equal(texts(runAtOnce(encodeWholeAsStream(tinyTranslation(), events, new Framing(SAY)))), texts(streamed));
  t.same(
    events,
    runAtOnce(decodeWhole(tinyTranslation(), Buffer.from("data: start:x\n\ndata: hello\n\ndata: end"), "sse")),
    "the last frame may have no end",
  );
});

t.test("a long text is several events of a stream, whose lines are shorter than 64 KiB", async (t) => {
  const text = `\u0001${"\u{1f600}\n".repeat(30_000)}`;
  const parts = [{ text }, { functionCall: { name: "write", args: { text } } }];
  const answer = JSON.stringify({ candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }] });
  for (const client of ["openai-chat", "anthropic-messages"] as const) {
    const translation = translationBetween("gemini", client);
    const { frames } = run(new StreamTranslator(translation), [answer, "END"]);
    const events = runAtOnce(decodeWhole(translation, Buffer.from(answer), undefined));
    const fromWhole = runAtOnce(encodeWholeAsStream(translation, events, new Framing(translation.operation)));
    for (const stream of [texts(frames), texts(fromWhole)]) {
      t.ok(Math.max(...stream.split("\n").map((line) => Buffer.byteLength(line))) < 64 * 1024, client);
      const got = digest(client, await accumulated(client, true, stream));
      t.ok(got.text === text && isDeepStrictEqual(got.calls[0]?.args, { text }), `${client} has all of it`);
    }
  }
});

t.test("an invalid whole answer is the provider's fault", async (t) => {
  for (const [text, code] of [
    ["<html>", "upstream_invalid"],
    ["", "upstream_invalid"],
    ['["start:x","hello"]', "upstream_truncated"],
    ['["error:503"]', "upstream_refused"],
  ] as const)
    t.throws(() => runAtOnce(decodeWhole(tinyTranslation(), Buffer.from(text), undefined)), { code }, text);
  t.throws(() => runAtOnce(decodeWhole(tinyTranslation(), Buffer.from("data: start:x\n\n"), "sse")), {
    code: "upstream_truncated",
  });
});

t.test("an endless answer is aborted: some protocols repeat all of it in their last event", async (t) => {
  const piece = "x".repeat(1024 * 1024);
  const { frames, error } = run(new StreamTranslator(tinyTranslation()), [
    "start:x",
    ...Array.from({ length: 20 }, () => piece),
    "END",
  ]);
  t.match(error, { code: "upstream_invalid", message: /longer than 16 MiB/ });
  t.ok(frames.length >= 16, "the content before it was sent");
});

t.test("endless calls count too", async (t) => {
  const calls = Array.from({ length: 200_000 }, () => "call:f");
  const { error } = run(new StreamTranslator(tinyTranslation()), ["start:x", ...calls, "END"]);
  t.match(error, { code: "upstream_invalid", message: /longer than 16 MiB/ });
});

/** Decodes and encodes a response at once: no long text is cut. */
function atOnce(from: ProtocolName, to: ProtocolName, text: string): string {
  const way = translationBetween(from, to);
  const restorer = new NameRestorer(way.names, from, way.source, way.context.id, new Set());
  const events: Event[] = [];
  for (const event of runAtOnce(way.from.translation.response.decode(Buffer.from(text), way.source))) {
    if (event.type === "error") throw new Error(event.fault.message);
    if (event.type === "unmapped") way.context.drop(event.path, "");
    else restorer.restore(event, events);
  }
  return runAtOnce(translationOf(to).response.encode(events, way.context));
}

const outcome = (translate: () => string): string => {
  try {
    return translate();
  } catch (thrown) {
    return `error: ${(thrown as Error).message}`;
  }
};

function inSteps(from: ProtocolName, to: ProtocolName, text: string): { json: string; count: number } {
  const way = translationBetween(from, to);
  let count = 0;
  const run = <Result>(steps: Steps<Result>): Result => {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
      count++;
    }
  };
  const events = run(decodeWhole(way, Buffer.from(text), undefined));
  return { json: run(encodeWhole(way, events)), count };
}

const PAIRS = PROTOCOLS.flatMap((from) => PROTOCOLS.flatMap((to) => (from === to ? [] : [[from, to] as const])));

t.test("a large response is translated in many steps, to the same bytes as at once", async (t) => {
  const args = JSON.stringify({ city: "Oslo", list: [1, 1.5, null], "a b": { c: "\n😀" } });
  const contents: Record<string, Content> = {
    "a long text": { texts: ['漢字 "quoted" \\ 😀\n'.repeat(20_000)] },
    "many texts": { texts: Array(4000).fill("Is it cold outside today, and what shall I wear?") },
    "many calls": { calls: Array(1500).fill(args) },
    "a long call": { texts: ["Wait."], calls: [JSON.stringify({ text: "😀 a\n".repeat(60_000), more: [2] }), args] },
    "long images": { texts: ["Here:"], images: Array(9).fill("QUJD".repeat(80_000)) },
    "many images": { images: Array(600).fill("QUJD".repeat(500)) },
  };
  for (const [name, content] of Object.entries(contents))
    for (const [from, to] of PAIRS) {
      const text = JSON.stringify(WHOLE[from](content));
      const { json, count } = inSteps(from, to, text);
      t.ok(json === atOnce(from, to, text), `${name}, ${from} to ${to}`);
      t.ok(
        count > 5 || (from === "anthropic-messages" && name.endsWith("images")),
        `${name}, ${from} to ${to}: ${count}`,
      );
    }
});

t.test("any large response has the same translation in steps as at once", async (t) => {
  for (let seed = 1; seed <= tried(20); seed++) {
    const events = randomAnswer(seed).map((event) =>
      event.type === "text" ? { ...event, text: event.text.repeat(1 + (seed % 5) * 20_000) } : event,
    );
    for (const [from, to] of PAIRS) {
      const text = runAtOnce(translationOf(from).response.encode(events, translationBetween(to, from).context));
      const [stepped, whole] = [outcome(() => inSteps(from, to, text).json), outcome(() => atOnce(from, to, text))];
      t.ok(stepped === whole, `${seed}: ${from} to ${to}`);
    }
  }
});
