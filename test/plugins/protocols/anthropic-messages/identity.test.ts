import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import type { EncodedFrame } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import type { Frame } from "../../../../src/wire/frame.ts";
import { SseSplitter } from "../../../../src/wire/sse.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { dice } from "../../../support/random-answers.ts";
import { recorded } from "../../../support/recorded.ts";
import { shared } from "../../../support/shared.ts";
import { exactly, withUnheardOf } from "../unheard-of.ts";
import { context, question, read, SOURCE, sse, streamed, translation, write } from "./speaking.ts";

const answers = recorded("anthropic").filter(({ status }) => status < 300);
const skip = answers.length === 0 && "the recordings are absent";
/** Two recordings in one file: behind the first answer a second one begins. */
const SPLICED = "anthropic/vercel-ai__anthropic.anthropic-tool-search-deferred-regex.stream__0";
/** Sent to be refused: a message is not an object. The vendor answered 400, too. */
const WRONG = "anthropic/dd-trace-py__cassettes.anthropic_completion_error__0";
/** Streams that are cut at every byte; larger ones are cut at random. */
const SMALL = 3_000;

const NATIVE = { ...SOURCE, native: true };
const verbatim = () => context({ seal: ({ data }) => data });

function framesOf(pieces: Iterable<Buffer>): Frame[] {
  const splitter = new SseSplitter();
  const frames = [...pieces].flatMap((piece) => splitter.push(piece));
  return frames.filter((frame) => frame.text !== undefined);
}

const told = (frames: readonly Frame[]) => frames.map((frame) => ({ name: frame.event, data: frame.json() }));
const written = (out: readonly EncodedFrame[]) =>
  out.map(({ name, data }) => ({ name, data: JSON.parse(data) as JsonObject }));

function throughEvents(frames: readonly Frame[]): { events: Event[]; out: EncodedFrame[] } {
  const events: Event[] = [];
  const decoder = translation.response.decoder(NATIVE);
  for (const frame of frames) decoder.frame(frame, events);
  decoder.end(events);
  return { events, out: streamed(events, verbatim()) };
}

t.test("a recorded stream is the same behind the events", { skip }, async (t) => {
  const streams = answers.filter(({ id, kinds }) => kinds.includes("stream") && id !== SPLICED);
  t.ok(streams.length > 100, `${streams.length} streams`);
  for (const { id, body } of streams) {
    const frames = framesOf([Buffer.from(body)]);
    const { events, out } = throughEvents(frames);
    const broken = events.at(-1)?.type === "error" ? 1 : 0;
    t.strictSame(written(out), told(frames).slice(0, frames.length - broken), id);
  }
});

t.test("of two answers in one stream the first one counts", { skip }, async (t) => {
  const { body } = answers.find(({ id }) => id === SPLICED) ?? { body: "" };
  const frames = framesOf([Buffer.from(body)]);
  const first = frames.findIndex(({ event }) => event === "message_stop") + 1;
  t.strictSame(written(throughEvents(frames).out), told(frames.slice(0, first)));
});

t.test("chunks may be cut anywhere", { skip }, async (t) => {
  const streams = answers.filter(({ kinds }) => kinds.includes("stream"));
  const small = streams.filter(({ body }) => body.length < SMALL).slice(0, 12);
  for (const { id, body } of small) {
    const bytes = Buffer.from(body);
    const expected = sse(throughEvents(framesOf([bytes])).out);
    const same = [...bytes.keys()].every((at) => {
      const cut = framesOf([bytes.subarray(0, at), bytes.subarray(at)]);
      return sse(throughEvents(cut).out) === expected;
    });
    t.ok(same, id);
  }
  for (const [i, { id, body }] of streams.entries()) {
    const bytes = Buffer.from(body);
    const cast = dice(i + 1);
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const to = at + 1 + cast(cast(3) === 0 ? 5 : 700);
      pieces.push(bytes.subarray(at, to));
      at = to;
    }
    t.equal(sse(throughEvents(framesOf(pieces)).out), sse(throughEvents(framesOf([bytes])).out), id);
  }
});

t.test("a recorded message is the same behind the events", { skip }, async (t) => {
  const messages = answers.filter(({ kinds }) => !kinds.includes("stream"));
  t.ok(messages.length > 250, `${messages.length} messages`);
  for (const { id, body } of messages) {
    const events = translation.response.decode(body, NATIVE);
    t.strictSame(JSON.parse(translation.response.encode(events, verbatim())), JSON.parse(body), id);
  }
});

t.test("without the source's own forms a recorded answer still says the same", { skip }, async (t) => {
  const bare = ({ content, stop_reason, usage }: JsonObject) => ({
    content: (content as JsonObject[])
      .filter(({ type, text }) => KINDS.has(type) && text !== "")
      .map(({ caller: _, citations, ...block }) => ({
        ...block,
        cited: (citations as unknown[] | undefined)?.length ?? 0,
      })),
    stop_reason,
    tokens: [usage].map((told) => TOKENS.map((name) => (told as JsonObject)[name] ?? null)),
  });
  for (const { id, kinds, body } of answers.filter(({ kinds }) => !kinds.includes("stream"))) {
    const events = translation.response.decode(body, SOURCE);
    const again = JSON.parse(translation.response.encode(events, verbatim())) as JsonObject;
    if (STOPS.has((JSON.parse(body) as JsonObject)["stop_reason"]))
      t.strictSame(bare(again), bare(JSON.parse(body)), id);
    else t.pass(`${id} ends with ${kinds}`);
  }
});

const KINDS: ReadonlySet<unknown> = new Set(["text", "thinking", "redacted_thinking", "tool_use"]);
const TOKENS = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
const STOPS: ReadonlySet<unknown> = new Set(["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]);

t.test("the numbers of a message do not come from the vendor's own usage", async (t) => {
  const body = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], stop_reason: "end_turn" };
  const events = translation.response.decode(
    JSON.stringify({ ...body, usage: { input_tokens: 3, output_tokens: 4 } }),
    NATIVE,
  );
  for (const event of events) if ("usage" in event && event.usage) event.usage.out.total = 40;
  t.match(JSON.parse(translation.response.encode(events, verbatim())), {
    usage: { input_tokens: 3, output_tokens: 40 },
  });
});

/** The recorded requests, as JSON. */
function requests(): { id: string; body: JsonObject; count: boolean }[] {
  const root = shared("recordings");
  if (!root) return [];
  const lines = readFileSync(join(root, "index.jsonl"), "utf8").trim().split("\n");
  const ids = lines.map((line) => (JSON.parse(line) as { id: string }).id);
  return ids
    .filter((id) => /^anthropic(-count-tokens)?\//.test(id))
    .flatMap((id) => {
      const { request } = JSON.parse(readFileSync(join(root, `${id}.json`), "utf8")) as {
        request?: { body?: JsonObject };
      };
      return request?.body ? [{ id, body: request.body, count: id.startsWith("anthropic-count") }] : [];
    });
}

t.test("a recorded request is the same behind the conversation", { skip }, async (t) => {
  const found = requests();
  t.ok(found.length > 350, `${found.length} requests`);
  for (const { id, body, count } of found) {
    if (id === WRONG) continue;
    const {
      body: again,
      dropped,
      changed,
    } = write(read(body, { native: true, task: count ? "count" : "generate" }), {}, String(body["model"]));
    t.strictSame(again, body, id);
    t.strictSame([dropped, changed], [[], []], `${id} loses nothing`);
  }
});

/** A request as it is written again, when one part of it is gone. */
function withoutPart(body: JsonObject, at: string): JsonObject {
  const asked = read(body, { native: true });
  for (const turn of asked.turns) turn.parts = turn.parts.filter((part) => part.at !== at);
  return write(asked, {}, "claude", true).body;
}

t.test("odd requests are the same behind the conversation, too", async (t) => {
  const result = { type: "tool_result", tool_use_id: "functions.f:0" };
  const odd = question({
    system: [],
    tools: [
      {
        type: "web_search_20260318",
        name: "web_search",
        max_uses: null,
        user_location: { type: "approximate", city: "Ulm" },
      },
      {
        type: "web_search_20250305",
        name: "web_search",
        user_location: { type: "approximate", city: "Ulm", region: null },
      },
      { type: "custom", name: "a.b", input_schema: {}, strict: false, input_examples: [{}] },
      { type: "bash_20250124", name: "bash" },
    ],
    stop_sequences: [],
    stream: false,
    top_k: null,
    cache_control: { type: "ephemeral", ttl: "5m" },
    output_config: { effort: "unheard", task_budget: { type: "tokens", total: 5 } },
    tool_choice: { type: "tool", name: "a.b", disable_parallel_tool_use: false, more: 1 },
    metadata: {},
    messages: [
      { role: "user", content: "" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "", signature: "" },
          { type: "thinking", thinking: "no signature" },
          { type: "tool_use", id: "functions.f:0", name: "a.b", input: {}, caller: { type: "direct" } },
        ],
      },
      {
        role: "user",
        id: 7,
        content: [
          result,
          { ...result, content: null },
          { ...result, content: [{ type: "tool_reference", tool_name: "x" }], is_error: false },
          { type: "document", source: { type: "content", content: "one" }, context: "c", citations: { enabled: true } },
          { type: "document", source: { type: "text", media_type: "text/csv", data: "a,b" } },
          { type: "document", source: { type: "content", content: [{ type: "image", source: {} }] } },
          { type: "image", source: { type: "base64", media_type: "image/bmp", data: "Qk0" } },
          { type: "image", source: { type: "url", url: "gs://b/i" } },
          {
            type: "search_result",
            title: "T",
            source: "s",
            content: [
              { type: "text", text: "a" },
              { type: "text", text: "" },
            ],
          },
          { type: "text", text: " ", cache_control: { type: "ephemeral", ttl: "7d", scope: "global" } },
          { type: "brand_new", x: [1] },
        ],
      },
    ],
  });
  t.strictSame(write(read(odd, { native: true })).body, odd);
});

t.test("words and numbers that only a later version of the protocol has are the same, too", async (t) => {
  const big = "12345678901234567890";
  const ask = (more: string) => `{"model":"claude","max_tokens":${big},"messages":[],${more}}`;
  const texts = [
    `"temperature":${big},"thinking":{"type":"enabled","budget_tokens":${big}},"system":null`,
    '"thinking":{"type":"adaptive","budget_tokens":5},"output_config":{"effort":5,"format":{"type":"grammar"}}',
    '"thinking":{"display":"as poetry"},"tool_choice":{"type":"auto","name":"f"},"stream":"yes"',
    '"thinking":"enabled","tool_choice":{"type":"often","disable_parallel_tool_use":true},"metadata":"m"',
    '"output_config":"x","service_tier":5,"stop_sequences":["a",1],"cache_control":"x","tool_choice":"any"',
    '"output_config":{"format":{"type":"json_schema","schema":{},"name":"n"}},"output_format":{"type":"x"}',
    '"metadata":{"user_id":7},"__proto__":{"a":1},"output_format":{"type":"json_schema","schema":{"a":1},"name":"n"}',
    '"tools":[{"name":"f","input_schema":{},"strict":"yes","description":7,"__proto__":1}]',
    '"tools":[{"type":"web_search_1","allowed_domains":"a","blocked_domains":[1],"max_uses":"3","user_location":{"city":1}}]',
  ];
  const blocks = [
    '{"type":"image","source":{"type":"base64","data":"aGk="},"title":"T","citations":{"enabled":true}}',
    '{"type":"image","source":{"type":"text","data":"x"}},{"type":"image"},{"type":"document","source":"x"}',
    '{"type":"document","source":{"type":"text","data":"x"},"title":7,"citations":"x"}',
    '{"type":"document","source":{"type":"url","url":"https://d","media_type":"a/b","data":"x"}}',
    '{"type":"document","source":{"type":"file","file_id":"f","media_type":"a/b","__proto__":1}}',
    '{"type":"document","source":{"type":"content","content":[],"more":1}}',
    '{"type":"text","text":"x","citations":"x","cache_control":"x"},{"type":"text","text":"x","citations":[1]}',
    '{"type":"tool_result","tool_use_id":"a","is_error":"yes"},{"type":"thinking","thinking":"x","signature":7}',
  ];
  const turns = blocks.map((block) => `"messages":[{"role":"user","content":[${block}],"__proto__":1}]`);
  for (const text of [...texts, ...turns].map(ask)) t.equal(exactly(again(text)), exactly(text));
});

/** A request read and written again, as text. */
const again = (text: string, task: "generate" | "count" = "generate", model?: string): string =>
  write(read(text, { native: true, task }), {}, model).text;

t.test("members that nobody has heard of are the same at every place", async (t) => {
  const some = requests().filter(({ id }, n) => id !== WRONG && n % 4 === 0);
  const own = JSON.parse(CLIENT_BODIES["anthropic-messages"].body) as JsonObject;
  const all = [...Array.from({ length: 40 }, () => ({ body: own, count: false })), ...some];
  for (const [n, { body, count }] of all.entries()) {
    const text = withUnheardOf(JSON.stringify(body), dice(n + 1));
    const is = again(text, count ? "count" : "generate", String(body["model"]));
    t.equal(exactly(is), exactly(text), `${n}`);
  }
});

t.test("a part that is gone leaves the rest as it was", async (t) => {
  const thought = { type: "thinking", thinking: "Hm.", signature: "gw1.of-another" };
  const call = { type: "tool_use", id: "a", name: "f", input: { x: 1 } };
  const body = (thinking: JsonObject, ...content: JsonObject[]) =>
    question({
      thinking,
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "ok" }] },
      ],
    });
  const adaptive = { type: "adaptive", display: "omitted" };
  t.strictSame(withoutPart(body(adaptive, thought, call), "messages.1.content.0"), body(adaptive, call));
  const { thinking: _, ...off } = body({}, call);
  t.strictSame(withoutPart(body({ type: "enabled", budget_tokens: 2000 }, thought, call), "messages.1.content.0"), off);
});

t.test("only features that the table of fields has are said", { skip }, async (t) => {
  const known = new Set(translation.request.fields.map(([, feature]) => feature));
  for (const { id, body, count } of requests().filter(({ id }) => id !== WRONG))
    for (const { feature, path } of read(body, { task: count ? "count" : "generate" }).uses)
      t.ok(known.has(feature), `${id}: ${path} ${feature}`);
});
