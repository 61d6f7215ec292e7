import type { Attributes } from "@opentelemetry/api";
import type { DoneExchange } from "model-gateway";
import type { AnswerFacts } from "./answer-facts.ts";

/** Maximum characters of an exported text. */
const MAX_TEXT_LENGTH = 16_384;
const ROLES: Readonly<Record<string, string>> = { user: "user", tool_result: "tool" };

const textPart = (text: string) => ({ type: "text", content: text.slice(0, MAX_TEXT_LENGTH) });

/** Returns request and response texts as JSON in the conventions' format; only where the operator enables it. */
export function contentAttributes(exchange: DoneExchange, output: string | undefined, facts: AnswerFacts): Attributes {
  const texts = exchange.texts();
  const system = texts.filter(({ kind }) => kind === "system").map(({ text }) => textPart(text));
  const messages = texts
    .filter(({ kind }) => kind !== "system")
    .map(({ kind, text }) => ({ role: ROLES[kind] ?? "assistant", parts: [textPart(text)] }));
  const [reason = "stop"] = facts.finishReasons;
  const answer = output ? [{ role: "assistant", parts: [textPart(output)], finish_reason: reason }] : [];
  return {
    ...(system.length > 0 && { "gen_ai.system_instructions": JSON.stringify(system) }),
    ...(messages.length > 0 && { "gen_ai.input.messages": JSON.stringify(messages) }),
    ...(answer.length > 0 && { "gen_ai.output.messages": JSON.stringify(answer) }),
  };
}
