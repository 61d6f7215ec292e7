import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import type { Protocol } from "../../src/protocol.ts";

const READERS: Record<string, Protocol> = Object.fromEntries(
  [anthropic, gemini, chat, responses].map((protocol) => [protocol.name, protocol]),
);

/** The counts that every protocol can tell, from a whole answer, without those that nobody told. */
export function usageOf(protocol: string, answer: unknown): Record<string, number> {
  const usage = READERS[protocol]?.usage(answer);
  if (!usage) return {};
  const written = Object.values(usage.in.write ?? {});
  const counts = {
    in: usage.in.total,
    cached: usage.in.cached,
    write: written.length === 0 ? undefined : written.reduce((sum, count) => sum + count, 0),
    out: usage.out.total,
    reasoning: usage.out.reasoning,
  };
  return Object.fromEntries(
    Object.entries(counts).filter((entry): entry is [string, number] => entry[1] !== undefined),
  );
}
