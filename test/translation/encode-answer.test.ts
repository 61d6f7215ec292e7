import t from "tap";
import { loadProtocols } from "../../src/loader/discover.ts";
import { isTranslatable } from "../../src/translation/codec.ts";
import { encodeAnswer, type TimedEvent } from "../../src/translation/encode-answer.ts";
import type { Event } from "../../src/translation/events.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { Query } from "../../src/wire/query.ts";
import { SseSplitter } from "../../src/wire/sse.ts";

const EVENTS: TimedEvent[] = [
  { type: "start", id: "answer-1", model: "said" },
  { type: "open", block: 0, choice: 0, kind: "text" },
  { type: "text", block: 0, text: "Good " },
  { type: "text", block: 0, text: "morning", after: 5 },
  { type: "close", block: 0 },
  { type: "finish", choice: 0, reason: "length" },
  { type: "usage", usage: { in: { total: 3 }, out: { total: 2 }, raw: undefined } },
  { type: "end" },
];
const TURN = { role: "user", content: "Hello", parts: [{ text: "Hello" }] };
const protocols = (await loadProtocols()).filter(isTranslatable);

t.test(
  "events that are encoded decode to the same text, reason and usage, in every protocol, streamed or whole",
  async (t) => {
    t.ok(protocols.length >= 4);
    for (const protocol of protocols)
      for (const streaming of [false, true]) {
        const about = `${protocol.name}, ${streaming ? "streamed" : "whole"}`;
        const [path = ""] = protocol.paths;
        const verb = streaming ? "streamGenerateContent" : "generateContent";
        const located = protocol.locate(path, path.endsWith("*") ? `m:${verb}` : "", new Query("alt=sse"));
        if (!located) throw new Error(`${protocol.name} does not know ${path}`);
        const { operation } = located;
        const options = { stream: streaming, stream_options: { include_usage: true } };
        const body = { model: "m", max_tokens: 9, messages: [TURN], contents: [TURN], input: "Hello", ...options };
        const request = { operation, model: "m", streaming, query: new Query(), body };
        const answer = encodeAnswer(protocol, request, EVENTS, "id-1");
        t.equal(answer.frames.filter(({ after }) => after === 5).length, streaming ? 1 : 0, `${about}: its pause`);
        const bytes = Buffer.concat(answer.frames.map((frame) => Buffer.from(frame.bytes)));
        const events: Event[] = [];
        const source = { account: "a", model: "m" };
        if (streaming) {
          const array = !answer.headers["content-type"]?.startsWith("text/event-stream");
          const decoder = protocol.translation.response.decoder(source);
          for (const frame of (array ? new ArraySplitter() : new SseSplitter()).push(bytes))
            decoder.frame(frame, events);
          decoder.end(events);
        } else events.push(...runAtOnce(protocol.translation.response.decode(bytes, source)));
        t.equal(events.map((event) => (event.type === "text" ? event.text : "")).join(""), "Good morning", about);
        t.match(
          events.find(({ type }) => type === "finish"),
          { reason: "length" },
          about,
        );
        t.match(
          events.findLast(({ type }) => type === "usage"),
          { usage: { in: { total: 3 }, out: { total: 2 } } },
          about,
        );
      }
  },
);
