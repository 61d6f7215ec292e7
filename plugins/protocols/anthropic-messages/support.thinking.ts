/** Thinking settings: whether, how hard, and how much of it is shown. */
import {
  asList,
  asObject,
  type Conversation,
  type Effort,
  type EncodeContext,
  type Fields,
  type JsonObject,
  ReasoningBudget,
  type ReasoningConfig,
} from "model-gateway/protocol";
import { forcesToolCall, pathOfFirstUse } from "./support.choice.ts";

/**
 * Not rows of a settings table: tokens and efforts are converted by what the model accepts, and the encoded value depends on
 * `max_tokens` and on the messages.
 */
export const thinkingCodec = { read: readThinking, write: writeThinking };

const EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const satisfies readonly Effort[];

/** Decodes thinking from two members: `thinking` is whether, `output_config.effort` how hard. */
function readThinking(body: Fields, conversation: Conversation): void {
  const config = body.object("output_config");
  const effort = config?.oneOf("effort", EFFORTS);
  if (effort !== undefined) config?.declare("effort", "reasoning_effort");
  const thinking = body.object("thinking");
  const reasoning: ReasoningConfig = effort === undefined ? {} : { effort };
  if (thinking) readThinkingKind(body, thinking, reasoning);
  // An effort with disabled thinking applies to the response's length; only this vendor has that.
  if (effort !== undefined && reasoning.effort !== effort) config?.declare("effort", "other");
  if (Object.keys(reasoning).length > 0) conversation.reasoning = reasoning;
}

/** Reports whether a client has requested thinking, and so may get blocks of it. */
export const asksForThinking = ({ reasoning }: Conversation): boolean => reasoning?.budget !== undefined;

/** Decodes `thinking`. An unknown type only means that the model thinks. */
function readThinkingKind(body: Fields, thinking: Fields, reasoning: ReasoningConfig): void {
  const type = thinking.text("type") ?? thinking.refuse("type", "must be enabled, adaptive or disabled.");
  const budget = type === "enabled" ? thinking.number("budget_tokens") : undefined;
  if (type === "disabled") reasoning.effort = "none";
  else reasoning.budget = budget ?? -1;
  if (budget !== undefined) thinking.declare("budget_tokens", "reasoning_budget");
  else if (type !== "enabled") body.declare("thinking", "reasoning_effort");
  if (type !== "enabled" && type !== "adaptive" && type !== "disabled") thinking.declare("type", "other");
  const display = thinking.text("display");
  if (display === undefined) return;
  thinking.declare("display", "reasoning_summary");
  if (display !== "summarized" && display !== "omitted") thinking.declare("display", "other");
  reasoning.show = display !== "omitted";
}

/** The encoded thinking settings. */
interface ThinkingMembers {
  thinking?: JsonObject;
  /** `output_config.effort`. */
  effort?: string;
  /** Whether thinking is enabled. */
  thinks: boolean;
}

const NO_THINKING: ThinkingMembers = { thinks: false };
/** Minimum thinking tokens. [D] */
const MIN_THINKING_BUDGET = 1024;

/**
 * Encodes thinking in the form that the model requires: by tokens, or as adaptive thinking with an effort, which the newest
 * models take, and which is the default for unknown models.
 */
function writeThinking(
  conversation: Conversation,
  context: EncodeContext,
  maxTokens: number,
  messages: readonly JsonObject[],
): ThinkingMembers {
  const requested = conversation.reasoning;
  // A request to show thoughts implies thinking; a request to hide them does not.
  if (
    !requested ||
    (requested.effort === undefined && requested.budget === undefined && !requested.show && !requested.summary)
  )
    return NO_THINKING;
  const feature = requested.effort === undefined ? "reasoning_budget" : "reasoning_effort";
  const path = pathOfFirstUse(conversation, feature, "reasoning_effort", "reasoning_summary");
  const off = requested.effort === "none" || (requested.effort === undefined && requested.budget === 0);
  const { reasons = true, thinking: style = reasons ? "adaptive" : "none" } = context.facts;
  if (style === "none") {
    if (!off) context.drop(path, "This model does not think");
    return NO_THINKING;
  }
  if (off) return style === "budget" ? NO_THINKING : { thinking: { type: "disabled" }, thinks: false };
  if (style !== "budget") return adaptiveThinking(requested, context, path);
  return budgetThinking(conversation, context, { maxTokens, messages, path });
}

function adaptiveThinking(requested: ReasoningConfig, context: EncodeContext, path: string): ThinkingMembers {
  const effort = effortFor(requested, context, path);
  const display = displayOf(requested);
  return {
    thinking: { type: "adaptive", ...(display === undefined ? {} : { display }) },
    ...(effort === undefined ? {} : { effort }),
    thinks: true,
  };
}

/** Returns the vendor's effort; undefined where the model decides. */
function effortFor({ effort, budget }: ReasoningConfig, context: EncodeContext, path: string): string | undefined {
  if (effort === undefined && (budget === undefined || budget < 0)) return undefined;
  const targetEffort = effort ?? ReasoningBudget.effortOf(budget ?? 0);
  const wireEffort = targetEffort === "minimal" ? "low" : targetEffort;
  if (effort === undefined) context.change(path, `effort ${wireEffort} for ${budget} tokens`);
  else if (wireEffort !== effort) context.change(path, `${wireEffort} is the least effort of this model`);
  return wireEffort;
}

/** Returns `display`: models that think by effort hide their thoughts by default. */
function displayOf({ show, summary }: ReasoningConfig): string | undefined {
  if (show === false) return "omitted";
  return show === true || summary !== undefined ? "summarized" : undefined;
}

/** Tokens for each effort, where a model takes tokens only; `max` is as much as fits. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  ...ReasoningBudget.tokens,
  xhigh: 32_768,
  max: Number.MAX_SAFE_INTEGER,
};

/**
 * Encodes thinking by tokens.
 * @param options `max_tokens`, the encoded messages, and the path of the client's field for notices
 */
function budgetThinking(
  conversation: Conversation,
  context: EncodeContext,
  { maxTokens, messages, path }: { maxTokens: number; messages: readonly JsonObject[]; path: string },
): ThinkingMembers {
  const { effort, budget: requested, show } = conversation.reasoning ?? {};
  // A forced call takes precedence. Only thinking by tokens is refused with one. [D: thinking with tool use]
  if (forcesToolCall(conversation)) {
    context.change(path, "no thinking: this model cannot be made to call a tool while it thinks");
    return NO_THINKING;
  }
  // Where the model decides: medium.
  const level = effort === undefined || effort === "none" ? "medium" : effort;
  const targetBudget = requested !== undefined && requested > 0 ? requested : BUDGETS[level];
  // Thinking counts towards `max_tokens`, of which a part must remain for the response itself.
  const available = Math.floor(maxTokens * 0.8);
  if (available < MIN_THINKING_BUDGET) {
    context.change(
      path,
      `no thinking: it takes ${MIN_THINKING_BUDGET} tokens at least, of at most ${maxTokens} for the answer`,
    );
    return NO_THINKING;
  }
  const last = messages.at(-1);
  const isPrefill = last?.["role"] === "assistant" && !beginsWithThinking(last);
  if (isPrefill || isThinkingLost(messages)) {
    context.change(path, isPrefill ? PREFILLED : LOST_THINKING);
    return NO_THINKING;
  }
  const budget = Math.min(Math.max(targetBudget, MIN_THINKING_BUDGET), available);
  if (budget !== targetBudget && effort !== "max") context.change(path, `${budget} tokens for thinking`);
  const display = show === false ? { display: "omitted" } : {};
  return { thinking: { type: "enabled", budget_tokens: budget, ...display }, thinks: true };
}

/** The notice where thinking is disabled because the request ends with the beginning of the answer. [D: extended thinking] */
const PREFILLED = "no thinking: this model does not think while it continues its own turn";

/** The notice where thinking is disabled because required thoughts are missing. */
export const LOST_THINKING = "no thinking: the thoughts before the last tool calls are not in the request";

/**
 * Models that refuse an assistant's turn without its thinking while they think, as they do unasked: "The `content[].thinking` in the
 * thinking mode must be passed back to the API". [D: DeepSeek, Moonshot; issues of agents]
 */
const NEEDS_THINKING =
  /(?:^|\/)(?:deepseek-(?:reasoner|v(?:[4-9]|\d\d))|kimi-(?:for-coding|k(?:2[.p-]?(?:[5-9]|thinking)|[3-9])))/i;

/** Reports whether each turn of the assistant's needs thinking. */
export const needsThinking = ({ model }: Pick<EncodeContext, "model">): boolean => NEEDS_THINKING.test(model);

/** The APIs of these models' vendors. Other servers of them may do without. */
const DEEPSEEK_HOST = /(?:^|\.)deepseek\.com$/;
const MOONSHOT_HOST = /(?:^|\.)(?:moonshot\.(?:ai|cn)|kimi\.com)$/;

/** Reports whether a server is known to refuse a turn without thinking, so that even a client's own bytes are changed. */
export const refusesLackOfThinking = (target: Pick<EncodeContext, "model" | "url">): boolean =>
  needsThinking(target) && [DEEPSEEK_HOST, MOONSHOT_HOST].some((host) => host.test(target.url?.hostname ?? ""));

/** What stands for thinking that there was none of, or that another model did. */
export const NO_THINKING_BLOCK: JsonObject = { type: "thinking", thinking: ".", signature: "" };

const THINKING_BLOCKS: ReadonlySet<unknown> = new Set(["thinking", "redacted_thinking"]);

/** Reports whether a block is thinking, readable or not. */
export const isThinking = (block: unknown): boolean => THINKING_BLOCKS.has(typeOf(block));
const typeOf = (block: unknown): unknown => asObject(block)?.["type"];

/**
 * Reports whether a tool loop's last assistant turn does not begin with its thinking: the vendor refuses thinking by tokens from
 * there, but not adaptive thinking, where the model may call tools without thoughts. [D: adaptive thinking, validation changes]
 */
export function isThinkingLost(messages: readonly JsonObject[]): boolean {
  const [results, calls] = messages
    .filter(({ role }) => role !== "system")
    .slice(-2)
    .toReversed();
  return results !== undefined && holdsResult(results) && calls?.["role"] === "assistant" && !beginsWithThinking(calls);
}

/**
 * Reports whether no assistant turn of a tool loop at the end begins with thinking. If an earlier one does, the model itself may
 * have called the next tool without further thoughts.
 */
export function lacksThinking(messages: readonly JsonObject[]): boolean {
  if (!isThinkingLost(messages)) return false;
  const start = messages.findLastIndex((message) => message["role"] === "user" && !holdsResult(message));
  return !messages.slice(start + 1).some((message) => message["role"] === "assistant" && beginsWithThinking(message));
}

const holdsResult = ({ content }: JsonObject): boolean =>
  asList(content).some((block) => typeOf(block) === "tool_result");

const beginsWithThinking = ({ content }: JsonObject): boolean => isThinking(asList(content)[0]);
