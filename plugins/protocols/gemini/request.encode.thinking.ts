import { defined, type Effort, type JsonObject, type ReasoningConfig } from "model-gateway/protocol";
import { shaped } from "./request.members.ts";
import type { NativeRequest } from "./request.native.ts";
import { nativeOf, pathOf, type Writing } from "./request.writing.ts";

const LEVELS: Readonly<Record<Effort, string>> = {
  none: "MINIMAL",
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
};

/** Tokens that stand for an effort: the most that still read as that effort. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1024,
  low: 4096,
  medium: 12288,
  high: 24576,
  xhigh: 24576,
  max: 24576,
};

/** More than the vendor's models take, but for the largest. [D] */
const LARGEST = BUDGETS.high;

const CLAMPED: ReadonlySet<Effort> = new Set(["xhigh", "max"]);

/** How hard to think: as tokens or as a level, never both; and whether thoughts are shown. */
export function writeThinking(writing: Writing): JsonObject | undefined {
  const { conversation, terms } = writing;
  const native = nativeOf<NativeRequest>(writing, conversation);
  const context = conversation.reasoning ?? {};
  if (native) return native.thinking && shaped(ownThinking(context), native.thinking);
  if (terms.facts.thinking === "none") {
    const wanted = context.effort !== undefined || context.budget !== undefined || context.show === true;
    if (wanted && !off(context))
      terms.drop(pathOf(writing, "reasoning_effort", pathOf(writing, "reasoning_budget", "reasoning")), UNTHINKING);
    return undefined;
  }
  const config = defined({ ...amount(context, writing), includeThoughts: shown(context) });
  return Object.keys(config).length > 0 ? config : undefined;
}

const UNTHINKING = "the model does not think before it answers";

function ownThinking({ effort, budget, show }: ReasoningConfig): JsonObject {
  const thinkingLevel = effort === undefined || budget !== undefined ? undefined : LEVELS[effort];
  return defined({ includeThoughts: show, thinkingBudget: budget, thinkingLevel });
}

const off = ({ effort, budget }: ReasoningConfig): boolean => effort === "none" || budget === 0;

/** Who asks for thinking is shown thoughts, unless they say otherwise; not to be shown any is the usual. */
function shown(context: ReasoningConfig): true | undefined {
  const { effort, budget, show, summary } = context;
  const asked = effort !== undefined || budget !== undefined || summary !== undefined;
  return !off(context) && (show ?? asked) ? true : undefined;
}

function amount(context: ReasoningConfig, writing: Writing): JsonObject {
  const { effort, budget } = context;
  const { thinking } = writing.terms.facts;
  const asLevel = thinking === "level" || thinking === "adaptive";
  if (off(context)) return asLevel ? least(writing) : { thinkingBudget: 0 };
  // -1 leaves the number to the model; an effort beside it says more.
  if (budget !== undefined && !asLevel && (budget >= 0 || effort === undefined))
    return { thinkingBudget: tokens(budget, writing) };
  if (effort !== undefined) return byEffort(effort, thinking === "budget", writing);
  if (budget === undefined || budget < 0) return {};
  const near = effortOf(budget);
  writing.terms.change(
    pathOf(writing, "reasoning_budget", "reasoning"),
    `thinking is asked for by levels there: ${budget} tokens become ${LEVELS[near]}`,
  );
  return { thinkingLevel: LEVELS[near] };
}

/** Models that think by levels always think a little. */
function least(writing: Writing): JsonObject {
  const path = pathOf(writing, "reasoning_effort", pathOf(writing, "reasoning_budget", "reasoning"));
  writing.terms.change(path, "thinking cannot be turned off there; the least is asked for");
  return { thinkingLevel: LEVELS.none };
}

function byEffort(effort: Effort, asBudget: boolean, writing: Writing): JsonObject {
  if (CLAMPED.has(effort))
    writing.terms.change(pathOf(writing, "reasoning_effort", "reasoning"), `${effort} becomes high`);
  return asBudget ? { thinkingBudget: BUDGETS[effort] } : { thinkingLevel: LEVELS[effort] };
}

function tokens(budget: number, writing: Writing): number {
  if (budget <= LARGEST) return budget;
  writing.terms.change(
    pathOf(writing, "reasoning_budget", "reasoning"),
    `${budget} tokens for thinking become ${LARGEST}, the most that all models take`,
  );
  return LARGEST;
}

/** The effort that a number of tokens stands for. */
function effortOf(budget: number): Effort {
  for (const effort of ["minimal", "low", "medium", "high"] as const) if (budget <= BUDGETS[effort]) return effort;
  return "xhigh";
}
