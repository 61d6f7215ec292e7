import type { Attributes } from "@opentelemetry/api";
import type { DoneExchange } from "model-gateway";
import type { AnswerFacts } from "./answer-facts.ts";

/** Maximum characters of an exported text, and of all texts of an attribute: spans are kept until the collector has them. */
const MAX_TEXT_LENGTH = 16_384;
const MAX_TOTAL_LENGTH = 131_072;
/** Maximum bytes of a request or response that is read for its texts. */
export const MAX_READ_BYTES = 4 * 1024 * 1024;
const ROLES: Readonly<Record<string, string>> = { user: "user", tool_result: "tool" };

const textPart = (text: string) => ({ type: "text", content: text.slice(0, MAX_TEXT_LENGTH) });

/** Returns request and response texts as JSON in the conventions' format; only where the operator enables it. */
export function contentAttributes(exchange: DoneExchange, output: string | undefined, facts: AnswerFacts): Attributes {
  const texts = requestTexts(exchange);
  const system = newest(texts.filter(({ kind }) => kind === "system")).map(({ text }) => textPart(text));
  const messages = newest(texts.filter(({ kind }) => kind !== "system")).map(({ kind, text }) => ({
    role: ROLES[kind] ?? "assistant",
    parts: [textPart(text)],
  }));
  const [reason = "stop"] = facts.finishReasons;
  const answer = output ? [{ role: "assistant", parts: [textPart(output)], finish_reason: reason }] : [];
  return {
    ...(system.length > 0 && { "gen_ai.system_instructions": JSON.stringify(system) }),
    ...(messages.length > 0 && { "gen_ai.input.messages": JSON.stringify(messages) }),
    ...(answer.length > 0 && { "gen_ai.output.messages": JSON.stringify(answer) }),
  };
}

/** Returns the texts of a request; none of one that names a member twice or in other letters: readers take different ones. */
function requestTexts(exchange: DoneExchange): ReturnType<DoneExchange["texts"]> {
  try {
    return exchange.body.length > MAX_READ_BYTES ? [] : exchange.texts();
  } catch {
    return [];
  }
}

/** Returns the last texts that an attribute may hold. */
function newest<Part extends { readonly text: string }>(texts: readonly Part[]): readonly Part[] {
  let from = texts.length;
  for (let left = MAX_TOTAL_LENGTH; from > 0; from--) {
    left -= Math.min(MAX_TEXT_LENGTH, (texts[from - 1] as Part).text.length);
    if (left < 0) break;
  }
  return texts.slice(from);
}
