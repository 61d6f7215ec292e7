import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import type { Operation, Protocol } from "../../src/core/protocol.ts";
import type { EncodedFrame, ResponseContext, TranslatedProtocol, Translation } from "../../src/translation/codec.ts";
import type { Conversation } from "../../src/translation/conversation.ts";
import type { Event } from "../../src/translation/events.ts";
import { ToolNames } from "../../src/translation/names.ts";
import type { ClientRequest } from "../../src/translation/request.ts";
import type { ResponseTranslation } from "../../src/translation/translator.ts";
import type { ProtocolName } from "./vendor-sdks.ts";

export const SPOKEN: Record<ProtocolName, Protocol> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": anthropic,
  gemini,
};

/** Returns the translation of a protocol that has one. */
export const translationOf = (name: ProtocolName): Translation => (SPOKEN[name] as TranslatedProtocol).translation;

/** Returns a minimal request. */
const plain = (protocol: string): Conversation => ({
  protocol,
  task: "generate",
  stream: true,
  turns: [{ role: "user", at: "messages.0", parts: [{ kind: "text", text: "Hi", at: "messages.0.content" }] }],
  tools: [],
  reasoning: { show: true, budget: -1 },
  uses: [],
});

/** Returns an encoder's context for a client that asked for everything a response can contain. */
export function contextFor(protocol: ProtocolName, more: Partial<ResponseContext> = {}): ResponseContext {
  return {
    model: "any",
    id: "01test",
    created: 1790000000,
    conversation: plain(protocol),
    request: {
      model: "any",
      stream: true,
      ...(protocol === "openai-chat" ? { stream_options: { include_usage: true } } : {}),
      ...(protocol === "gemini" ? { generationConfig: { thinkingConfig: { includeThoughts: true } } } : {}),
    },
    seal: ({ data }) => `gw1.${Buffer.from(data).toString("base64url")}`,
    mark: (id) => id,
    remember: () => {},
    drop: () => {},
    ...more,
  };
}

/** Returns the stream of a response, as its client receives it. */
export function streamed(
  protocol: ProtocolName,
  events: readonly Event[],
  context = contextFor(protocol),
): EncodedFrame[] {
  const out: EncodedFrame[] = [];
  const encoder = translationOf(protocol).response.encoder(context);
  for (const event of events) if (event.type !== "error") encoder.event(event, out);
  return out;
}

/** Serializes frames as server-sent events. */
export const sse = (frames: readonly EncodedFrame[]): string =>
  frames.map(({ name, data }) => `${name ? `event: ${name}\n` : ""}data: ${data}\n\n`).join("");

/** Returns the operation of a protocol's first path. */
function operationOf(name: ProtocolName, rest: string, query: URLSearchParams): Operation {
  const protocol = SPOKEN[name];
  const { operation } = protocol.locate(protocol.paths[0] as string, rest, query) ?? {};
  if (!operation) throw new Error(`${name} has no operation`);
  return operation;
}

/** Returns a request of a protocol's client, before decoding. @param text its body */
export function received(name: ProtocolName, text: string): ClientRequest {
  const query = new URLSearchParams();
  const operation = operationOf(name, "any:generateContent", query);
  return { protocol: SPOKEN[name], operation, streaming: false, text, caller: "" };
}

/** Returns the translation of a response from one protocol's vendor to another one's client. */
export function translationBetween(from: ProtocolName, to: ProtocolName): ResponseTranslation {
  return {
    from: SPOKEN[from] as TranslatedProtocol,
    to: SPOKEN[to],
    operation: operationOf(to, "any:streamGenerateContent", new URLSearchParams("alt=sse")),
    source: { account: "them", model: "theirs" },
    names: new ToolNames(),
    context: contextFor(to),
  };
}
