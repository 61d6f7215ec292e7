import {
  asList,
  asObject,
  type Conversation,
  type Effort,
  type EncodeContext,
  type JsonObject,
  type ReasoningConfig,
} from "model-gateway/protocol";
import { chosenAt, forces } from "./request.encode.tools.ts";
import { BUDGETS, effortOf, pathOf } from "./words.ts";

/** How thinking is asked for. */
export interface Thought {
  thinking?: JsonObject;
  /** `output_config.effort`. */
  effort?: string;
  /** Whether the model is asked to think. */
  on: boolean;
}

const OFF: Thought = { on: false };
/** The fewest tokens for thinking. [D] */
const LEAST = 1024;

/**
 * Thinking as the model wants it asked for: by tokens, or as adaptive thinking with an effort, which is what the newest
 * models take and the default where nothing is known of the model.
 */
export function thinkingOf(
  conversation: Conversation,
  terms: EncodeContext,
  most: number,
  messages: JsonObject[],
): Thought {
  const context = conversation.reasoning;
  // To ask for thoughts to be shown is to ask for thoughts; to ask for none to be shown is not.
  if (!context || (context.effort === undefined && context.budget === undefined && !context.show && !context.summary))
    return OFF;
  const told = context.effort === undefined ? "reasoning_budget" : "reasoning_effort";
  const path = pathOf(conversation, told, "reasoning_effort", "reasoning_summary");
  const off = context.effort === "none" || (context.effort === undefined && context.budget === 0);
  const style = terms.facts.thinking ?? "adaptive";
  if (style === "none") {
    if (!off) terms.drop(path, "This model does not think");
    return OFF;
  }
  if (off) return style === "budget" ? OFF : { thinking: { type: "disabled" }, on: false };
  const thought = style === "budget" ? byTokens(conversation, terms, most, path) : adaptive(conversation, terms, path);
  if (!thought.on || !lostThinking(messages)) return thought;
  terms.change(path, LOST);
  return { on: false, ...(thought.effort === undefined ? {} : { effort: thought.effort }) };
}

function adaptive(conversation: Conversation, terms: EncodeContext, path: string): Thought {
  const effort = effortFor(conversation.reasoning ?? {}, terms, path);
  const display = displayOf(conversation);
  return {
    thinking: { type: "adaptive", ...(display === undefined ? {} : { display }) },
    ...(effort === undefined ? {} : { effort }),
    on: true,
  };
}

/** The vendor's effort; undefined where the model shall decide. */
function effortFor({ effort, budget }: ReasoningConfig, terms: EncodeContext, path: string): string | undefined {
  if (effort === undefined && (budget === undefined || budget < 0)) return undefined;
  const meant = effort ?? effortOf(budget ?? 0);
  const word = meant === "minimal" ? "low" : meant;
  if (effort === undefined) terms.change(path, `effort ${word} for ${budget} tokens`);
  else if (word !== effort) terms.change(path, `${word} is the least effort of this model`);
  return word;
}

/** Models that think by effort hide their thoughts unless asked for them. */
function displayOf({ reasoning }: Conversation): string | undefined {
  if (reasoning?.show === false) return "omitted";
  return reasoning?.show === true || reasoning?.summary !== undefined ? "summarized" : undefined;
}

function byTokens(conversation: Conversation, terms: EncodeContext, most: number, path: string): Thought {
  const context = conversation.reasoning ?? {};
  if (forces(conversation))
    terms.refuse(
      chosenAt(conversation),
      "This model cannot be made to call a tool while it thinks; let it choose, or ask for no reasoning",
    );
  const wanted = context.budget !== undefined && context.budget > 0 ? context.budget : BUDGETS[level(context.effort)];
  // Thinking counts as part of the answer, of which some has to be left for the answer itself.
  const room = Math.floor(most * 0.8);
  if (room < LEAST) {
    terms.change(path, `no thinking: it takes ${LEAST} tokens at least, of at most ${most} for the answer`);
    return OFF;
  }
  const budget = Math.min(Math.max(wanted, LEAST), room);
  if (budget !== wanted && context.effort !== "max") terms.change(path, `${budget} tokens for thinking`);
  const display = context.show === false ? { display: "omitted" } : {};
  return { thinking: { type: "enabled", budget_tokens: budget, ...display }, on: true };
}

/** The effort whose tokens are meant; where the model shall decide, the middle. */
const level = (effort: Effort | undefined): Exclude<Effort, "none"> =>
  effort === undefined || effort === "none" ? "medium" : effort;

/** What is said where thinking goes with the thoughts that it would need. */
export const LOST = "no thinking: the thoughts before the last tool calls are not in the request";

const THOUGHTS: ReadonlySet<unknown> = new Set(["thinking", "redacted_thinking"]);
const typeOf = (block: unknown): unknown => asObject(block)?.["type"];

/**
 * True in a loop of tool calls whose last turn of the assistant does not begin with its thinking: the vendor refuses to
 * think on from there.
 */
export function lostThinking(messages: readonly JsonObject[]): boolean {
  const [results, calls] = messages
    .filter(({ role }) => role !== "system")
    .slice(-2)
    .toReversed();
  if (!asList(results?.["content"]).some((block) => typeOf(block) === "tool_result")) return false;
  return calls?.["role"] === "assistant" && !THOUGHTS.has(typeOf(asList(calls["content"])[0]));
}
