import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import type { Head } from "../../src/core/head.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import type { Stage } from "../../src/core/stage.ts";
import { ResponseStream } from "../../src/downstream/response-stream.ts";
import { ResponseWriter } from "../../src/downstream/response-writer.ts";
import { StreamTranslator } from "../../src/translation/translator.ts";
import type { UpstreamAnswer } from "../../src/upstream/received-answer.ts";
import { Frame } from "../../src/wire/frame.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { gathered } from "../support/gathered.ts";
import { translationBetween } from "../support/translations.ts";

type Framing = Exclude<Head["framing"], undefined> | "none";

/** Keeps what is written instead of sending it; takes no more while `full`. */
class Recorder extends ResponseWriter {
  readonly writes: (readonly Buffer[])[] = [];
  /** What is called when the client has caught up, and when it has read nothing for too long; undefined: nobody waits. */
  waits: { drained: () => void; stalled: () => void } | undefined;
  full = false;
  ended = 0;

  override write(pieces: readonly Buffer[]): boolean {
    this.writes.push(pieces);
    return !this.full;
  }

  override awaitDrain(drained: () => void, stalled: () => void): () => void {
    if (this.waits) throw new Error("two waits at once");
    const end = () => {
      this.waits = undefined;
    };
    const ending = (act: () => void) => () => {
      end();
      act();
    };
    this.waits = { drained: ending(drained), stalled: ending(stalled) };
    return end;
  }

  override end(): void {
    this.ended++;
  }

  get text(): string {
    return Buffer.concat(this.writes.flat()).toString("latin1");
  }
}

/** A flow between a hand-made upstream and a recorder. */
function flowing(
  stages: readonly Stage[] = [],
  framing: Framing = "sse",
  exchange = newExchange(),
  more: Pick<UpstreamAnswer, "redact"> = {},
  translated?: Head["translated"],
) {
  const output = new Recorder(undefined as never);
  const seen = { destroyed: 0, resumed: 0, settled: [] as unknown[] };
  const head: Head = { status: 200, headers: new HeaderList(), framing: framing === "none" ? undefined : framing };
  if (translated) head.translated = translated;
  const upstream: UpstreamAnswer = {
    head,
    read() {},
    resume: () => void seen.resumed++,
    destroy: () => void seen.destroyed++,
    terminal: ({ text }) => text === "[DONE]",
    ...more,
  };
  const flow = new ResponseStream(exchange, upstream, stages, output, {
    done: () => void seen.settled.push("done"),
    fail: (error) => void seen.settled.push(error),
  });
  return { flow, output, seen, exchange };
}

const newExchange = (more: Partial<ExchangeStart> = {}): Exchange => {
  const operation = { name: "any", framing: "sse" };
  return new Exchange({ id: "one", arrivedAt: performance.now(), operation, ...more } as ExchangeStart);
};
const event = (text: string): Buffer => Buffer.from(`data: ${text}\n\n`);
const frame = (text: string): Frame => new Frame("event", event(text));

/** What leaves when a stream comes cut at every `step` bytes. */
function passed(stream: Buffer, step: number, stages: () => Stage[], framing: Framing = "sse"): string {
  const { flow, output } = flowing(stages(), framing);
  for (let at = 0; at < stream.length; at += step) flow.chunk(stream.subarray(at, at + step));
  flow.end();
  return output.text;
}

const looking: Stage = () => {};
const same: Stage = (frame) => frame;

for (const [framing, text] of [
  ["sse", "data: 1\n\nevent: x\r\ndata: 2\r\n\r\n: note\n\n"],
  ["array", '[{"a":1}\n,\n{"b":[2]}]'],
  ["none", '{"whole":true}'],
] as const) {
  t.test(`${framing}: a chunk whose frames are unchanged is sent as the very buffer that arrived`, async (t) => {
    for (const stages of [[], [looking], [same, looking]]) {
      const { flow, output, exchange } = flowing(stages, framing);
      const chunk = Buffer.from(text);
      t.ok(flow.chunk(chunk));
      t.equal(output.writes.length, 1);
      t.equal(output.writes[0]?.length, 1);
      t.equal(output.writes[0]?.[0], chunk);
      t.equal(exchange.written, chunk.length);
    }
  });
}

t.test("frames of one chunk are sent in one write, also when one of them was changed", async (t) => {
  const { flow, output } = flowing([(each) => (each.text === "2" ? frame("two") : each)]);
  flow.chunk(Buffer.concat([event("1"), event("2"), event("3")]));
  t.equal(output.writes.length, 1);
  t.equal(output.text, `${event("1")}${event("two")}${event("3")}`);
});

t.test("nothing of an incomplete frame is sent before it is complete", async (t) => {
  const { flow, output, exchange } = flowing();
  t.ok(flow.chunk(Buffer.from("data: 1\n\ndata: ha")));
  t.equal(output.text, "data: 1\n\n");
  const { firstByte } = exchange;
  t.ok(flow.chunk(Buffer.from("lf")));
  t.equal(output.writes.length, 1, "nothing is written for a chunk that completes no frame");
  flow.chunk(Buffer.from("\n\ndata: 3"));
  t.equal(output.text, "data: 1\n\ndata: half\n\n");
  flow.end();
  t.equal(output.text, "data: 1\n\ndata: half\n\ndata: 3", "and the remainder with the end");
  t.equal(exchange.written, output.text.length);
  t.equal(exchange.firstByte, firstByte);
});

t.test("a frame completed from buffered bytes is not taken for a chunk that happens to have its length", async (t) => {
  const pairs: [string, string, string][] = [
    ["data: 1", "\n\ndata: 2", "data: 1\n\n"],
    ["data: 1\n", "\ndata: 2\n", "data: 1\n\n"],
    ["data: 1\n\nda", "ta: 2\n\nda", "data: 1\n\ndata: 2\n\n"],
    ["data", ": 1\n\ndata: 2\n\ndata", "data: 1\n\ndata: 2\n\n"],
  ];
  for (const stages of [[], [looking]])
    for (const [before, chunk, out] of pairs) {
      const { flow, output } = flowing(stages);
      flow.chunk(Buffer.from(before));
      flow.chunk(Buffer.from(chunk));
      t.equal(output.text, out);
      flow.end();
      t.equal(output.text, before + chunk);
    }
});

t.test("a replaced frame of the same length is sent with its new content", async (t) => {
  const { flow, output } = flowing([(each) => (each.kind === "end" ? each : frame("b"))]);
  flow.chunk(event("a"));
  t.equal(output.text, "data: b\n\n");
});

t.test("stages may drop, replace and split frames; frames from one stage pass only the stages after it", async (t) => {
  const seen: string[] = [];
  const note =
    (name: string): Stage =>
    ({ kind, text }) =>
      void seen.push(`${name} ${text ?? kind}`);
  const stages: Stage[] = [
    note("first"),
    ({ text }) => (text === "drop" ? [] : text === "split" ? [frame("s1"), frame("s2")] : undefined),
    note("second"),
    (each) => (each.text === "s1" ? frame("replaced") : each),
    note("third"),
  ];
  const { flow, output } = flowing(stages);
  flow.chunk(Buffer.concat([event("drop"), event("split"), event("stay")]));
  flow.end();
  t.equal(output.text, `${event("replaced")}${event("s2")}${event("stay")}`);
  t.same(seen, [
    ...["first drop"],
    ...["first split", "second s1", "third replaced", "second s2", "third s2"],
    ...["first stay", "second stay", "third stay"],
    ...["first end", "second end", "third end"],
  ]);
});

t.test("a chunk whose frames are all dropped causes no write", async (t) => {
  const { flow, output, exchange } = flowing([() => []]);
  t.ok(flow.chunk(event("1")));
  t.same([output.writes, exchange.written, exchange.firstByte], [[], 0, undefined]);
});

t.test("a stage may add frames at the end, which later stages see", async (t) => {
  const seen: (string | undefined)[] = [];
  const {
    flow,
    output,
    seen: upstream,
  } = flowing([
    (each) => (each.kind === "end" ? [frame("bye"), each] : each),
    ({ kind, text }) => void seen.push(text ?? kind),
  ]);
  flow.chunk(event("hi"));
  flow.end();
  t.equal(output.text, "data: hi\n\ndata: bye\n\n");
  t.same(seen, ["hi", "bye", "end"]);
  t.equal(output.ended, 1);
  t.same(upstream.settled, ["done"]);
});

t.test("a stage may return very many frames at the end, which it has collected", async (t) => {
  const collected = Array.from({ length: 200_000 }, (_, i) => frame(`${i}`));
  const collecting: Stage = ({ kind }) => (kind === "end" ? collected : []);
  const { flow, output, seen } = flowing([collecting]);
  flow.chunk(event("1"));
  flow.end();
  t.same(seen.settled, ["done"]);
  t.equal(output.writes.flat().length, collected.length);
});

t.test("chunks of a response that is no stream pass the stages as they arrive", async (t) => {
  const { flow, output } = flowing(
    [(each) => (each.kind === "piece" ? new Frame("piece", Buffer.from(each.bytes.toString().toUpperCase())) : each)],
    "none",
  );
  flow.chunk(Buffer.from("ab"));
  t.equal(output.text, "AB");
  flow.chunk(Buffer.from("c"));
  flow.end();
  t.equal(output.text, "ABC");
});

/** Drops every second event, doubles every third. */
const picky = (): Stage[] => {
  let nth = 0;
  const drop: Stage = (each) => (each.kind !== "end" && nth++ % 2 === 1 ? [] : each);
  let kept = 0;
  const double: Stage = (each) => (each.kind !== "end" && kept++ % 3 === 2 ? [each, each] : each);
  return [drop, double];
};

const LINE_ENDS = ["\n", "\r\n", "\r"];
const STREAMS: [string, Framing, string][] = [
  ...LINE_ENDS.map((end): [string, Framing, string] => [
    `events whose lines end in ${JSON.stringify(end)}`,
    "sse",
    Array.from({ length: 9 }, (_, i) => `event: e${i}${end}data: ${"x".repeat(i * 7)}${end}${end}`).join(""),
  ]),
  [
    "events behind a byte order mark, the last one not whole",
    "sse",
    "\xef\xbb\xbfdata: 1\n\ndata: 2\n\n: 3\n\ndata: 4",
  ],
  ["array elements", "array", '[{"a":"]}"}\n,\n{"b":[1,2]},\r\n"three" , 4, {"five":{}}\n]\n'],
];

for (const [name, framing, text] of STREAMS) {
  const stream = Buffer.from(text, "latin1");

  gathered(t, `${name}: what nobody touches leaves byte for byte, however it is cut`, async (t) => {
    for (const stages of [() => [], () => [looking, same]])
      for (let step = 1; step <= stream.length; step++) t.equal(passed(stream, step, stages, framing), text);
  });

  gathered(t, `${name}: what stages make of them does not depend on how they are cut`, async (t) => {
    const whole = passed(stream, stream.length, picky, framing);
    t.not(whole, text);
    for (let step = 1; step < stream.length; step++) t.equal(passed(stream, step, picky, framing), whole);
  });
}

t.test("a stage that throws fails the flow once and destroys the upstream", async (t) => {
  const error = new GatewayError("plugin_failed");
  const bad: Stage = ({ text }) => {
    if (text === "2") throw error;
  };
  const { flow, output, seen, exchange } = flowing([bad]);
  flow.chunk(event("1"));
  t.notOk(flow.chunk(Buffer.concat([event("1"), event("2")])));
  t.same(seen, { destroyed: 1, resumed: 0, settled: [error] });
  t.equal(seen.settled[0], error);
  t.equal(output.text, "data: 1\n\ndata: 1\n\n", "the frames before the one at which it threw are sent");
  t.notOk(exchange.push(Buffer.from("x")));
  flow.fail(new GatewayError("upstream_truncated"));
  exchange.abort();
  t.equal(seen.destroyed, 1);
  t.equal(seen.settled.length, 1);
  t.equal(output.ended, 0, "the response does not look complete");
});

t.test("a stage that throws at the end fails the flow too", async (t) => {
  const error = new GatewayError("upstream_truncated");
  const { flow, output, seen } = flowing([
    ({ kind }) => {
      if (kind === "end") throw error;
    },
  ]);
  flow.chunk(event("1"));
  flow.end();
  t.equal(seen.settled.length, 1);
  t.equal(seen.settled[0], error);
  t.equal(output.ended, 0);
});

t.test("a frame that is too large fails the flow", async (t) => {
  const { flow, seen } = flowing();
  t.notOk(flow.chunk(Buffer.alloc((16 << 20) + 1, "x")));
  t.match(seen, { destroyed: 1, settled: [{ code: "upstream_invalid", cause: { message: /larger than/ } }] });
  const exchange = newExchange();
  exchange.answerer = { name: "cache", index: 0, origin: "cache.answer", deadline: 0 };
  const own = flowing([], "sse", exchange);
  t.notOk(own.flow.chunk(Buffer.alloc((16 << 20) + 1, "x")));
  t.match(own.seen.settled, [{ code: "plugin_failed", origin: "cache.answer" }], "or the plugin that gave it");
});

t.test("the flow fails with the upstream's own error", async (t) => {
  const error = new GatewayError("upstream_timeout");
  const { flow, seen } = flowing();
  flow.fail(error);
  t.equal(seen.settled[0], error);
  t.equal(seen.destroyed, 1);
});

t.test("a client that disconnects ends the flow as client_gone and destroys the upstream, once", async (t) => {
  const { flow, seen, exchange } = flowing();
  flow.chunk(event("1"));
  exchange.abort();
  flow.fail(new GatewayError("client_gone"));
  t.match(seen, { destroyed: 1, settled: [{ code: "client_gone" }] });
  t.equal(seen.settled.length, 1);
});

t.test("a client that disconnected before the flow began ends it in the same way", async (t) => {
  const exchange = newExchange();
  exchange.abort();
  const { flow, seen } = flowing([], "sse", exchange);
  t.match(seen, { destroyed: 1, settled: [{ code: "client_gone" }] });
  flow.fail(new GatewayError("client_gone"));
  t.equal(seen.settled.length, 1);
  t.notOk(exchange.push(Buffer.from("x")));
});

t.test("a client that disconnects after the end changes nothing", async (t) => {
  const { flow, seen, exchange } = flowing();
  flow.end();
  exchange.abort();
  t.same(seen, { destroyed: 0, resumed: 0, settled: ["done"] });
});

t.test(
  "a frame can be inserted between two frames of the response, only into a stream and until it ends",
  async (t) => {
    const { flow, output, exchange } = flowing();
    flow.chunk(Buffer.from("data: 1\n\ndata: ha"));
    exchange.push(Buffer.from(": ping\n\n"));
    flow.chunk(Buffer.from("lf\n\n"));
    t.equal(output.text, "data: 1\n\n: ping\n\ndata: half\n\n");
    t.equal(exchange.written, output.text.length);
    flow.end();
    t.notOk(exchange.push(Buffer.from("x")));
    t.notOk(flowing([], "none").exchange.push(Buffer.from("x")));
  },
);

t.test("a slow client pauses the upstream until it has caught up", async (t) => {
  const { flow, output, seen, exchange } = flowing();
  output.full = true;
  t.notOk(flow.chunk(event("1")));
  exchange.push(Buffer.from(": ping\n\n"));
  t.equal(seen.resumed, 0);
  output.full = false;
  output.waits?.drained();
  t.equal(seen.resumed, 1);
  t.ok(flow.chunk(event("2")));
  output.full = true;
  t.notOk(flow.chunk(event("3")));
  t.ok(output.waits);
  flow.end();
  t.notOk(output.waits, "an answer that has ended waits for nothing");
  t.equal(seen.resumed, 1);
  t.same(seen.settled, ["done"]);
});

t.test("while a client reads nothing, frames that are kept keep no other part of what was read", async (t) => {
  const seen: Frame[] = [];
  const { flow, output } = flowing([(each) => void seen.push(each)]);
  const texts = ["1", "2".repeat(2000), "3", "4"];
  const chunk = Buffer.concat(texts.map(event));
  flow.chunk(chunk);
  const kept = () => seen.slice(-2).map(({ bytes }) => bytes.buffer.byteLength);
  t.same(kept(), [chunk.buffer.byteLength, chunk.buffer.byteLength]);
  output.full = true;
  flow.chunk(chunk);
  t.same(kept(), [9, 9]);
  t.same(
    seen.map(({ text }) => text),
    [...texts, ...texts],
  );
  flow.end();
});

t.test("a client that reads nothing is disconnected", async (t) => {
  const { flow, output, seen } = flowing();
  output.full = true;
  flow.chunk(event("1"));
  output.waits?.drained();
  flow.chunk(event("2"));
  t.same(seen.settled, []);
  output.waits?.stalled();
  t.match(seen, { destroyed: 1, resumed: 1, settled: [{ code: "client_gone" }] });
});

t.test("a client that has left is not waited for", async (t) => {
  const { flow, output, seen, exchange } = flowing();
  output.full = true;
  flow.chunk(event("1"));
  exchange.drain = true;
  exchange.abort();
  t.notOk(output.waits);
  t.equal(seen.resumed, 1);
});

t.test("an error in a stream of events is an event, although an array was asked for", async (t) => {
  const exchange = newExchange({ operation: { name: "any", framing: "array" } as Operation });
  t.equal(flowing([], "sse", exchange).flow.state.operation.framing, "sse");
  t.equal(flowing([], "array", exchange).flow.state.operation.framing, "array");
});

t.test("what the translation makes of an incomplete last event is sent before the error", async (t) => {
  const translator = new StreamTranslator(translationBetween("openai-chat", "gemini"));
  const { flow, output, seen } = flowing(
    [translator.stage],
    "sse",
    newExchange(),
    {},
    { framing: "sse", state: translator.framing.state },
  );
  flow.chunk(event('{"choices":[{"index":0,"delta":{"content":""}}]}'));
  flow.chunk(Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"the last words"}}]}\n'));
  flow.end();
  t.match(output.text, "the last words");
  t.match(seen.settled, [{ code: "upstream_truncated" }]);
});

t.test("the state holds what an error in the middle of the stream needs", async (t) => {
  const { flow } = flowing();
  t.match(flow.state, { frames: 0, first: undefined, last: undefined });
  flow.chunk(Buffer.concat([event("1"), event("2")]));
  flow.chunk(event("3"));
  t.equal(flow.state.frames, 3);
  t.equal(flow.state.first?.toString(), "data: 1\n\n");
  t.equal(flow.state.first?.buffer.byteLength, 9, "it keeps no other memory alive as long as the stream");
  t.equal(flow.state.last?.text, "3");
});

t.test(
  "after the terminal event a response is complete, however the upstream ends; a partial event after it is dropped",
  async (t) => {
    const { flow, output, seen } = flowing();
    flow.chunk(event("a"));
    flow.chunk(Buffer.concat([event("[DONE]"), Buffer.from("data: [DO")]));
    flow.fail(new GatewayError("upstream_truncated"));
    t.equal(output.text, `${event("a")}${event("[DONE]")}`);
    t.same([output.ended, seen.settled], [1, ["done"]]);
    flow.fail(new GatewayError("upstream_truncated"));
    t.same(seen.settled, ["done"], "once");

    const other = flowing();
    other.flow.chunk(Buffer.concat([event("[DONE]"), event("more")]));
    other.flow.fail(new GatewayError("upstream_truncated"));
    t.same([other.output.ended, other.seen.settled.length], [0, 1]);
    t.match(other.seen.settled[0], { code: "upstream_truncated" });
  },
);

for (const [framing, before, told, behind] of [
  ["sse", "data: {}\n\n", 'data: {"error":"SECRET is wrong"}\n\n', "data: 2\n\n"],
  ["array", "[{}", ',{"error":"SECRET is wrong"}', ",{}]"],
] as const)
  t.test(`${framing}: an error is cleaned however it is split, also where its chunks share their memory`, async (t) => {
    const stream = before + told + behind;
    const redact = ({ kind, bytes }: Frame) => new Frame(kind, Buffer.from(bytes.toString().replace("SECRET", "***")));
    for (let first = 0; first < stream.length; first++)
      for (const length of [1, 7, 20, stream.length]) {
        const { flow, output } = flowing([], framing, newExchange(), { redact });
        const second = first + length;
        // Short texts come from one memory of Node's.
        for (const text of [stream.slice(0, first), stream.slice(first, second), stream.slice(second)])
          if (text !== "") flow.chunk(Buffer.from(text));
        flow.end();
        if (output.text !== stream.replace("SECRET", "***")) t.fail(`split at ${first} and ${second}: ${output.text}`);
      }
  });

t.test("a stream that has ended except for its usage is read on for that alone, and for a limited time", async (t) => {
  const ending = ({ text }: Frame) => (text === "end" ? "complete" : undefined);
  const asked = () => newExchange({ protocol: { ending } as unknown as Protocol });
  for (const [frames, told, reads] of [
    [["1"], undefined, false],
    [["1", "end"], undefined, true],
    [["1", "end"], 3, false],
    [["1", "end", "[DONE]"], undefined, false],
  ] as const) {
    const { flow, seen, exchange } = flowing([], "sse", asked());
    for (const text of frames) flow.chunk(event(text));
    if (told !== undefined) exchange.usage = { in: {}, out: { total: told }, raw: undefined };
    exchange.drain = "end";
    exchange.abort();
    t.same([seen.destroyed, seen.resumed], reads ? [0, 1] : [1, 0], `${frames} ${told}`);
    t.equal(seen.settled.length, reads ? 0 : 1);
    if (!reads) continue;
    t.equal(flow.chunk(Buffer.alloc(1000, " ")), true);
    t.equal(flow.chunk(Buffer.alloc(70_000, " ")), false, "exceeding the limit ends it");
    t.match(seen, { destroyed: 1, settled: [{ code: "client_gone" }] });
  }
  const telling: Stage = ({ text }) => {
    if (text === "usage") exchange.usage = { in: {}, out: { total: 3 }, raw: undefined };
  };
  const { flow, seen, exchange } = flowing([telling], "sse", asked());
  flow.chunk(event("end"));
  exchange.drain = "end";
  exchange.abort();
  t.equal(flow.chunk(event("usage")), false, "and so does the usage");
  t.match(seen, { destroyed: 1, settled: [{ code: "client_gone" }] });
});

t.test("after a large chunk that has taken long other requests get a turn", async (t) => {
  const slow: Stage = () => {
    const began = performance.now();
    while (performance.now() - began < 10);
  };
  const { flow, output, seen } = flowing([slow]);
  t.equal(flow.chunk(event("1")), true, "a small one needs none");
  const large = event("1".repeat(20_000));
  t.equal(flow.chunk(large), false, "the upstream waits");
  t.equal(output.text.length, event("1").length + large.length, "all of it has been sent");
  t.equal(seen.resumed, 0);
  await new Promise(setImmediate);
  t.equal(seen.resumed, 1);
  flow.chunk(large);
  flow.fail(new GatewayError("upstream_truncated"));
  await new Promise(setImmediate);
  t.equal(seen.resumed, 1, "not once it is over");
});
