import t from "tap";
import { ending } from "../../../../plugins/protocols/openai-responses/stream.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { asEvent, eventsOf, recordings } from "../../../support/openai-recordings.ts";

const event = (bytes: string) => new Frame("event", Buffer.from(bytes));
const named = (type: string) => event(`event: ${type}\ndata: {"type":"${type}","response":{"id":"resp_1"}}\n\n`);

const ENDINGS = {
  "response.completed": "complete",
  "response.incomplete": "complete",
  "response.failed": "error",
  error: "error",
  "response.created": undefined,
  "response.in_progress": undefined,
  "response.output_text.delta": undefined,
  "response.output_item.done": undefined,
  "response.image_generation_call.completed": undefined,
  keepalive: undefined,
} as const;

t.test("a completed or incomplete response is whole, a failed one and an error are failures", async (t) => {
  for (const [type, expected] of Object.entries(ENDINGS)) {
    t.equal(ending(named(type)), expected, type);
    t.equal(ending(event(`event:${type}\r\ndata: {}\r\n\r\n`)), expected, `${type}, other spelling`);
    t.equal(ending(asEvent({ type, response: { id: "resp_1" } })), expected, `${type}, without its event line`);
    t.equal(ending(event(`: note\ndata: {"type":"${type}","response":{}}\n\n`)), expected, `${type} behind a comment`);
  }
});

t.test("an error object without a type is a failure too", async (t) => {
  t.equal(ending(asEvent({ error: { message: "no" } })), "error");
});

t.test("text that looks like an end is text", async (t) => {
  const delta = '"type":"response.completed","response":{},"type":"error"';
  t.equal(ending(asEvent({ type: "response.output_text.delta", delta })), undefined);
  t.equal(ending(event("event: response.completed_not\ndata: {}\n\n")), undefined);
  t.equal(ending(event("event: ")), undefined);
  t.equal(ending(event(": ping\n\n")), undefined);
  t.equal(ending(event("data: [DONE]\n\n")), undefined);
});

/** This holds a chat stream, whatever its folder says. */
const MISPLACED = "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1.stream__0";
/** These hold several responses, one after the other. */
const SEVERAL = /(azure|openai)-reasoning-encrypted-content\.1\.stream__0$/;

for (const { id, kinds, status, body } of recordings("openai-responses")) {
  if (status >= 300 || !kinds.includes("stream") || id === MISPLACED) continue;
  t.test(id, async (t) => {
    const frames = eventsOf(body);
    const endings = frames.map(ending).filter((found) => found !== undefined);
    t.same(endings, Array(SEVERAL.test(id) ? 4 : 1).fill("complete"));
    const bare = frames.map(({ text }) => ending(event(`data: ${text}\n\n`))).filter((found) => found !== undefined);
    t.same(bare, endings, "the same without event lines");
  });
}
