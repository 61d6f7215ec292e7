import type { Test } from "tap";
import messages from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../src/core/body.ts";
import type { Operation } from "../../src/core/protocol.ts";
import { requestTexts } from "../../src/core/texts.ts";
import type { EncodedFrame, ResponseContext, TranslatedProtocol } from "../../src/translation/codec.ts";
import type { Event } from "../../src/translation/events.ts";
import { Framing } from "../../src/translation/framing.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { askedIn } from "./scripted.ts";
import { type FakeUpstream, httpUpstream, type SeenRequest } from "./upstream.ts";

const PROTOCOLS = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages,
  gemini,
} as const;

/** Characters of each piece of a stream. */
const PIECE = 3;
const cut = (text: string): string[] => text.match(new RegExp(`.{1,${PIECE}}`, "gsu")) ?? [];

/** A model that repeats the user's last text in thoughts, text and a tool call. */
function* told(text: string): Generator<Exclude<Event, { type: "error" }>> {
  yield { type: "start", id: "r1", model: "x", created: 1 };
  yield { type: "open", block: 0, choice: 0, kind: "reasoning" };
  for (const piece of cut(`They wrote: ${text}`)) yield { type: "text", block: 0, text: piece };
  yield { type: "close", block: 0 };
  yield { type: "open", block: 1, choice: 0, kind: "text" };
  for (const piece of cut(`You wrote: ${text}`)) yield { type: "text", block: 1, text: piece };
  yield { type: "close", block: 1 };
  yield { type: "open", block: 2, choice: 0, kind: "tool_call", id: "call_1", name: "f" };
  for (const piece of cut(JSON.stringify({ city: text }))) yield { type: "arguments", block: 2, text: piece };
  yield { type: "close", block: 2 };
  yield { type: "finish", choice: 0, reason: "tool_calls" };
  yield { type: "usage", usage: { in: { total: 21 }, out: { total: 9 }, raw: undefined } };
  yield { type: "end" };
}

/** Starts a provider of all four protocols that repeats the user's last text in thoughts, text and a call. */
export async function repeating(t: Test): Promise<FakeUpstream & { seen: SeenRequest[] }> {
  const upstream = await httpUpstream((request, reply) => {
    const { vendor, stream } = askedIn(request);
    const protocol: TranslatedProtocol = PROTOCOLS[vendor];
    const [path = "", query = ""] = request.url.split("?");
    const [mounted = ""] = protocol.paths;
    const rest = mounted.endsWith("*") ? path.slice(mounted.length - 1) : "";
    const { operation } = protocol.locate(mounted, rest, new Query(query)) as { operation: Operation };
    const users = requestTexts(new Body([request.body], "json"), protocol, ["user"]);
    const events = [...told(users.at(-1)?.text ?? "")];
    const context = contextOf(protocol, operation, stream, request.body.toString());
    const { response } = protocol.translation;
    if (!stream) {
      reply.setHeader("content-type", "application/json").end(response.encode(events, context));
      return;
    }
    const framing = new Framing(operation);
    const encoder = response.encoder(context);
    const written: EncodedFrame[] = [];
    for (const event of events) encoder.event(event, written);
    const frames = [...framing.frames(written), ...framing.close()];
    reply.setHeader("content-type", framing.type);
    // One write per frame, so that each is a chunk.
    for (const frame of frames) reply.write(frame.bytes);
    reply.end();
  });
  t.teardown(() => upstream.close());
  return upstream;
}

function contextOf(
  protocol: TranslatedProtocol,
  operation: Operation,
  streaming: boolean,
  text: string,
): ResponseContext {
  const conversation = protocol.translation.request.decode({
    operation,
    task: "generate",
    streaming,
    text,
    headers: new HeaderList(),
    query: new Query(""),
    open: (data, kind) => ({ protocol: protocol.name, kind, data }),
    isEnvelope: () => false,
    recall: () => undefined,
  });
  const request = JSON.parse(text) as Record<string, unknown>;
  return {
    model: "x",
    id: "r1",
    created: 1,
    conversation,
    request,
    seal: ({ data }) => data,
    mark: (id) => id,
    remember: () => {},
    drop: () => {},
  };
}
