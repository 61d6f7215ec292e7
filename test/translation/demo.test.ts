import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import type { DemoAnswer, Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { isTranslatable, type TranslatedProtocol } from "../../src/translation/codec.ts";
import { demoAnswer } from "../../src/translation/demo.ts";
import { demoPng } from "../../src/translation/demo-image.ts";
import type { Event } from "../../src/translation/events.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { Query } from "../../src/wire/query.ts";
import { SseSplitter } from "../../src/wire/sse.ts";

/** One turn of the user, in the words of all protocols at once. */
const TURN = { role: "user", content: "Hello there", parts: [{ text: "Hello there" }] };
const thoughts = { generationConfig: { thinkingConfig: { includeThoughts: true } }, thinking: { type: "adaptive" } };
const BODY = { model: "demo", max_tokens: 900, messages: [TURN], contents: [TURN], input: "Hello there", ...thoughts };
const SOURCE = { account: "demo", model: "demo" };

const protocols = (await loadProtocols()).filter(isTranslatable);

/** The same protocol with nothing of its own to say. */
const plain = (protocol: TranslatedProtocol): TranslatedProtocol => ({ ...protocol, demo: () => undefined });

function ask(protocol: Protocol, model: string, streaming: boolean, body: object = BODY): DemoAnswer {
  const path = protocol.paths[0] as string;
  const verb = streaming ? "streamGenerateContent" : "generateContent";
  const located = protocol.locate(path, path.endsWith("*") ? `${model}:${verb}` : "", new Query("alt=sse"));
  if (!located) throw new Error(`${protocol.name} does not know ${path}`);
  const { operation } = located;
  return demoAnswer(protocol, {
    operation,
    model,
    body: { ...body, stream: streaming },
    streaming,
  });
}

const bytesOf = ({ frames }: DemoAnswer): Buffer => Buffer.concat(frames.map(({ bytes }) => Buffer.from(bytes)));

function streamEvents({ translation, ...protocol }: TranslatedProtocol, answer: DemoAnswer): Event[] {
  const array = !answer.headers["content-type"]?.startsWith("text/event-stream");
  const splitter = array ? new ArraySplitter() : new SseSplitter();
  const decoder = translation.response.decoder(SOURCE);
  const events: Event[] = [];
  for (const frame of splitter.push(bytesOf(answer))) decoder.frame(frame, events);
  decoder.end(events);
  if (events.length === 0) throw new Error(`${protocol.name} streamed nothing`);
  return events;
}

/** What an answer says, whichever pieces it came in. */
function gist(events: readonly Event[]) {
  const kinds = new Map<number, string>();
  const texts: Record<string, string> = {};
  for (const event of events) {
    if (event.type === "open") kinds.set(event.block, event.kind);
    if (event.type !== "text" && event.type !== "arguments") continue;
    const kind = kinds.get(event.block) ?? "none";
    texts[kind] = (texts[kind] ?? "") + event.text;
  }
  const finish = events.find((event) => event.type === "finish");
  return { texts, finish: finish?.type === "finish" ? finish.reason : undefined, last: events.at(-1)?.type };
}

t.test(
  "stop sequences are applied; several answers and log probabilities are refused, at the client's own field",
  async (t) => {
    const named = (name: string) => protocols.find((protocol) => protocol.name === name) as TranslatedProtocol;
    const json = (name: string, more: object) => {
      const answer = ask(named(name), "echo", false, { ...BODY, ...more });
      return { status: answer.status, body: JSON.parse(bytesOf(answer).toString()) };
    };
    t.match(json("openai-chat", { stop: " there" }).body, {
      choices: [{ message: { content: "Hello" }, finish_reason: "stop" }],
    });
    const stopped = { content: [{ text: "Hello" }], stop_reason: "stop_sequence", stop_sequence: " there" };
    t.match(json("anthropic-messages", { stop_sequences: [" there"] }).body, stopped);
    for (const [more, param] of [
      [{ n: 2 }, "n"],
      [{ logprobs: true }, "logprobs"],
    ] as const)
      t.match(json("openai-chat", more), {
        status: 400,
        body: { error: { param, message: /the demo provider gives/ } },
      });
    t.equal(json("openai-chat", { n: 1, logprobs: false }).status, 200);
    const candidates = json("gemini", { generationConfig: { candidateCount: 2 } });
    t.match(candidates, { status: 400, body: { error: { message: /candidateCount: the demo/ } } });
  },
);

for (const protocol of protocols) {
  const own = plain(protocol);

  t.test(`${protocol.name}: the script is the same streamed and whole`, async (t) => {
    const expected = {
      echo: { texts: { text: "Hello there" }, finish: "stop" },
      reasoning: {
        texts: { reasoning: "The user wrote something. I am made to repeat it, so I do.", text: "Hello there" },
        finish: "stop",
      },
    };
    for (const [model, wanted] of Object.entries(expected)) {
      const whole = runAtOnce(protocol.translation.response.decode(bytesOf(ask(own, model, false)), SOURCE));
      t.match(gist(whole), { ...wanted, last: "end" }, `${model}, whole`);
      t.match(gist(streamEvents(protocol, ask(own, model, true))), { ...wanted, last: "end" }, `${model}, streamed`);
    }
  });

  t.test(`${protocol.name}: a stream fails and is interrupted where the model is made to`, async (t) => {
    t.equal(streamEvents(protocol, ask(own, "error-stream", true)).at(-1)?.type, "error");
    const cut = ask(own, "cut", true);
    t.ok(cut.frames.at(-1)?.cut);
    t.match(streamEvents(protocol, cut).at(-1), { type: "error", fault: { code: "upstream_truncated" } });
  });

  t.test(`${protocol.name}: refusals are in its own form`, async (t) => {
    const busy = ask(own, "error-429", false);
    t.equal(busy.status, 429);
    t.equal(busy.headers["retry-after"], "1");
    t.equal(ask(own, "unheard-of", false).status, 404);
    const wrong = ask(own, "echo", false, { model: "demo", messages: 1, contents: 1, input: 1 });
    t.equal(wrong.status, 400, bytesOf(wrong).toString());
    t.type(JSON.parse(bytesOf(wrong).toString()), "object");
  });
}

t.test("where answers can contain an image it is an additional block, after the text", async (t) => {
  const able = protocols.filter(({ name }) => /chat|responses|gemini/.test(name)) as TranslatedProtocol[];
  t.equal(able.length, 3);
  for (const protocol of able) {
    const operation = protocol.locate(protocol.paths[0] as string, "m:generateContent", new Query())?.operation;
    if (!operation) throw new GatewayError("internal");
    const asked = { operation, model: "image", body: BODY, streaming: false };
    const answer = demoAnswer(protocol, asked, { image: true });
    const events: Event[] = runAtOnce(protocol.translation.response.decode(bytesOf(answer), SOURCE));
    t.equal(gist(events).texts["text"], "Here is a picture.", protocol.name);
    const base64 = demoPng().toString("base64");
    t.match(
      events.find(({ type }) => type === "media"),
      { base64 },
      protocol.name,
    );
  }
});
