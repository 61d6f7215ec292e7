import {
  type Conversation,
  dropUndefined,
  type Effort,
  type EncodeContext,
  type Feature,
  type JsonObject,
  ownProperty,
  pathOfUse,
  ReasoningBudget,
  type ReasoningConfig,
} from "model-gateway/protocol";
import { isBeforeGemini3, type ProtoFields, SINCE_GEMINI_3 } from "./wire.ts";

/** How the amount of thinking is decoded and encoded, and whether thoughts are shown. */
export const thinkingConfig = { read: readThinking, write: writeThinking };

const EFFORT_BY_LEVEL: Readonly<Record<string, Effort>> = {
  MINIMAL: "minimal",
  LOW: "low",
  MEDIUM: "medium",
  HIGH: "high",
};

const LEVEL_BY_EFFORT: Readonly<Record<Effort, string>> = {
  none: "MINIMAL",
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
};

/** Maximum tokens that all of the vendor's models accept; only the largest accept more. [D] */
const MAX_THINKING_BUDGET = ReasoningBudget.tokens.high;
/** Thinking budgets in tokens, by effort. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  ...ReasoningBudget.tokens,
  xhigh: MAX_THINKING_BUDGET,
  max: MAX_THINKING_BUDGET,
};
/** Tokens: some models refuse smaller budgets. [D] */
const MIN_THINKING_BUDGET = 512;

const CLAMPED_EFFORTS: ReadonlySet<Effort> = new Set(["xhigh", "max"]);

/** Decodes a budget or a level, not both. An unspecified level means none; clients send it beside a budget. [F] */
function readThinking(config: ProtoFields, name: string): ReasoningConfig | undefined {
  const thinking = config.object(name);
  if (!thinking) return undefined;
  const show = thinking.flag("includeThoughts");
  const budget = thinking.number("thinkingBudget");
  const level = thinking.enumValue("thinkingLevel", "cosmetic");
  const effort = level === undefined ? undefined : readLevel(level, budget !== undefined, thinking);
  // Clients that do not want thoughts get none, whoever thinks.
  if (show) thinking.declare("includeThoughts", "reasoning_summary");
  if (budget !== undefined) thinking.declare("thinkingBudget", "reasoning_budget");
  if (level !== undefined) thinking.declare("thinkingLevel", "reasoning_effort");
  thinking.declareUnread();
  // Thoughts are shown only on request.
  const shown = show ?? (budget === undefined && effort === undefined ? undefined : false);
  const reasoning = dropUndefined({ show: shown, budget, effort: budget === 0 ? "none" : effort });
  return Object.keys(reasoning).length > 0 ? reasoning : undefined;
}

function readLevel(level: string, hasBudget: boolean, thinking: ProtoFields): Effort {
  if (hasBudget) thinking.refuse("thinkingBudget", "cannot be used together with thinkingLevel.", "Send one of them.");
  return (
    ownProperty(EFFORT_BY_LEVEL, level) ?? thinking.refuse("thinkingLevel", "must be MINIMAL, LOW, MEDIUM or HIGH.")
  );
}

/** Encodes the amount of thinking, in tokens or as a level but never both, and whether thoughts are shown. */
function writeThinking(
  config: ReasoningConfig,
  conversation: Conversation,
  context: EncodeContext,
): JsonObject | undefined {
  if (neverThinks(context)) {
    const requested = config.effort !== undefined || config.budget !== undefined || config.show === true;
    if (requested && !isThinkingOff(config))
      context.drop(reasoningPath(conversation), "the model does not think before it answers");
    return undefined;
  }
  const thinking = dropUndefined({
    ...thinkingAmount(config, conversation, context),
    includeThoughts: showsThoughts(config),
  });
  return Object.keys(thinking).length > 0 ? thinking : undefined;
}

/** Reports whether a model is known not to think; public tables do not list it for some of the newer ones that do. */
const neverThinks = ({ facts: { thinking, reasons }, model }: EncodeContext): boolean =>
  thinking === "none" || (thinking === undefined && reasons === false && !SINCE_GEMINI_3.test(model));

/** Returns how a model thinks; undefined where neither facts nor its name tell. Those before Gemini 3 refuse levels. [D] */
const styleOf = (context: EncodeContext): EncodeContext["facts"]["thinking"] =>
  context.facts.thinking ?? (isBeforeGemini3(context) ? "budget" : undefined);

const isThinkingOff = ({ effort, budget }: ReasoningConfig): boolean => effort === "none" || budget === 0;

/** Reports whether to show thoughts: by default if thinking was requested. Not showing them is the vendor's default. */
function showsThoughts(config: ReasoningConfig): true | undefined {
  const { effort, budget, show, summary } = config;
  const requested = effort !== undefined || budget !== undefined || summary !== undefined;
  return !isThinkingOff(config) && (show ?? requested) ? true : undefined;
}

function thinkingAmount(config: ReasoningConfig, conversation: Conversation, context: EncodeContext): JsonObject {
  const { effort, budget } = config;
  const thinking = styleOf(context);
  const usesLevels = thinking === "level" || thinking === "adaptive";
  if (isThinkingOff(config)) return leastThinking(conversation, context, usesLevels);
  // -1 lets the model choose; an effort beside it is more precise.
  if (budget !== undefined && !usesLevels && (budget >= 0 || effort === undefined))
    return { thinkingBudget: fitBudget(budget, conversation, context) };
  if (effort !== undefined) {
    if (CLAMPED_EFFORTS.has(effort)) context.change(reasoningPath(conversation), `${effort} becomes high`);
    if (thinking === "budget")
      return { thinkingBudget: fitBudget(BUDGETS[effort], conversation, context, "reasoning_effort") };
    const thinkingLevel = levelOf(effort, context.model);
    if (thinkingLevel !== LEVEL_BY_EFFORT[effort])
      context.change(reasoningPath(conversation), `${effort} becomes low, the lowest level of this model`);
    return { thinkingLevel };
  }
  // Models that take a budget refuse to show thoughts while they do not think, which some do only on request. [D]
  if (budget === undefined) return thinking === "budget" && showsThoughts(config) ? { thinkingBudget: -1 } : {};
  if (budget < 0) return {};
  const thinkingLevel = levelOf(ReasoningBudget.effortOf(budget), context.model);
  context.change(
    reasoningPath(conversation, "reasoning_budget"),
    `the model thinks by levels: ${budget} tokens become ${thinkingLevel}`,
  );
  return { thinkingLevel };
}

/** Models known to think always, and their generation. [D] */
const ALWAYS_THINKS = /(?:^|\/)gemini-(2\.5|[3-9](?:\.\d+)?)-pro(?!.*-(?:image|tts))/;

/** Returns the level of an effort. Models that think always have none below LOW. [D] */
function levelOf(effort: Effort, model: string): string {
  const level = LEVEL_BY_EFFORT[effort];
  return level === LEVEL_BY_EFFORT.minimal && ALWAYS_THINKS.test(model) ? LEVEL_BY_EFFORT.low : level;
}

/** The least that the models of generation 2.5 accept that think always. [D] */
const MIN_BUDGET_OF_PRO = 128;

/** Returns the least thinking: none, unless the model cannot disable it, as models with levels. */
function leastThinking(conversation: Conversation, context: EncodeContext, usesLevels: boolean): JsonObject {
  const generation = ALWAYS_THINKS.exec(context.model)?.[1];
  if (generation === undefined && !usesLevels) return { thinkingBudget: 0 };
  context.change(reasoningPath(conversation), "thinking cannot be disabled for this model; the minimum is requested");
  if (generation === "2.5" && !usesLevels) return { thinkingBudget: MIN_BUDGET_OF_PRO };
  return { thinkingLevel: levelOf("none", context.model) };
}

function fitBudget(
  budget: number,
  conversation: Conversation,
  context: EncodeContext,
  feature: Feature = "reasoning_budget",
): number {
  const path = reasoningPath(conversation, feature);
  const accepted = Math.min(budget, MAX_THINKING_BUDGET);
  if (accepted < budget)
    context.change(
      path,
      `${budget} tokens for thinking become ${MAX_THINKING_BUDGET}, the maximum that all models accept`,
    );
  const { maxTokens = Number.POSITIVE_INFINITY } = conversation;
  if (accepted < maxTokens) return accepted;
  // Thoughts count towards the output limit, of which some tokens must remain for the response itself.
  const available = Math.min(accepted, Math.max(MIN_THINKING_BUDGET, Math.floor(maxTokens * 0.8)));
  if (available < accepted)
    context.change(path, `${available} tokens for thinking, of at most ${maxTokens} for the answer`);
  return available;
}

/** Returns the path of the field that requested thinking. */
const reasoningPath = (conversation: Conversation, first: Feature = "reasoning_effort"): string =>
  pathOfUse(conversation, first, pathOfUse(conversation, "reasoning_budget", "reasoning"));
