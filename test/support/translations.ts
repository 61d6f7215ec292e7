import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import type { EncodedFrame, ResponseContext, TranslatedProtocol, Translation } from "../../src/translation/codec.ts";
import type { Conversation } from "../../src/translation/conversation.ts";
import type { Event } from "../../src/translation/events.ts";
import type { ProtocolName } from "./vendor-sdks.ts";

export const SPOKEN: Record<ProtocolName, Protocol> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": anthropic,
  gemini,
};

/** The translation of a protocol that has one. */
export const translationOf = (name: ProtocolName): Translation => (SPOKEN[name] as TranslatedProtocol).translation;

/** A request as plain as can be. */
const plain = (protocol: string): Conversation => ({
  protocol,
  task: "generate",
  stream: true,
  turns: [{ role: "user", at: "messages.0", parts: [{ kind: "text", text: "Hi", at: "messages.0.content" }] }],
  tools: [],
  reasoning: { show: true },
  uses: [],
});

/** What a writer of answers is given when its client asked for everything that an answer can tell. */
export function wishFor(protocol: ProtocolName, more: Partial<ResponseContext> = {}): ResponseContext {
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
    remember: () => {},
    drop: () => {},
    ...more,
  };
}

/** The stream of an answer, as its client receives it. */
export function streamed(
  protocol: ProtocolName,
  events: readonly Event[],
  context = wishFor(protocol),
): EncodedFrame[] {
  const out: EncodedFrame[] = [];
  const encoder = translationOf(protocol).response.encoder(context);
  for (const event of events) if (event.type !== "error") encoder.event(event, out);
  return out;
}

/** Frames as server-sent events. */
export const sse = (frames: readonly EncodedFrame[]): string =>
  frames.map(({ name, data }) => `${name ? `event: ${name}\n` : ""}data: ${data}\n\n`).join("");
