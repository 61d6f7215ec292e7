/** Reasoning settings: decoded in the dialects of several vendors, encoded in OpenAI's. */
import {
  type Conversation,
  type Effort,
  type EncodeContext,
  type Fields,
  pathOfUse,
  type ReasoningConfig,
  type Setting,
  type ToolChoice,
} from "model-gateway/protocol";
import {
  effortForBudget,
  isOfFamily,
  mayReason,
  mayTakeEffort,
  reasoningPath,
  supportedEffort,
} from "../openai/request.encode.ts";
import { parseEffort } from "../openai/wire.ts";
import { thinkingSwitch } from "./support.models.ts";

/** Values that turn thinking off: DeepSeek's and Moonshot's, and Alibaba's. */
const SWITCHED_OFF = { thinking: { type: "disabled" }, enable_thinking: false } as const;

/**
 * OpenAI has no member for budgets or for whether reasoning is shown; a budget is encoded as the nearest effort. The rows have
 * functions, because the dialects add to each other, and contradict each other.
 */
export const REASONING_SETTINGS: readonly Setting[] = [
  { path: "reasoning_effort", field: "reasoning", type: "any", read: readEffort, write: writeEffort },
  ...switchSettings("thinking"),
  ...switchSettings("enable_thinking"),
  // OpenRouter's.
  {
    path: "reasoning",
    field: "reasoning",
    type: "object",
    dropsUnknown: true,
    only: "decode",
    read: readNested,
  },
  // Additional members of Google's endpoint for this protocol. [D: OpenAI compatibility of the Gemini API]
  {
    path: "extra_body",
    field: "cacheHandle",
    type: "object",
    dropsUnknown: true,
    only: "decode",
    read: readCacheHandle,
  },
  { path: "extra_body", field: "reasoning", type: "object", dropsUnknown: true, only: "decode", read: readGoogle },
];

/** Decodes an effort. An unknown value is left unread, and thus dropped: vendors have their own, like `default`. */
function readEffort(fields: Fields, name: string, { reasoning }: Conversation): ReasoningConfig | undefined {
  const effort = parseEffort(fields.members[name]);
  if (effort === undefined) return reasoning;
  fields.any(name);
  fields.declare(name, "reasoning_effort");
  return { ...reasoning, effort };
}

/** Reports whether a client requests that the model does not think. */
const isOff = ({ effort, budget }: ReasoningConfig = {}): boolean => effort === "none" || budget === 0;

/** Returns the rows of a member that turns thinking off: as it is requested, and for a tool call that is required. */
function switchSettings(path: keyof typeof SWITCHED_OFF): Setting[] {
  return [
    { path, field: "reasoning", type: "any", only: "encode", write: writeRequested },
    { path, field: "toolChoice", type: "any", only: "encode", write: writeNecessary },
  ];

  function writeRequested(reasoning: ReasoningConfig, _: Conversation, context: EncodeContext) {
    const isSwitched = mayReason(context) && thinkingSwitch(context) === path;
    return isOff(reasoning) && isSwitched ? SWITCHED_OFF[path] : undefined;
  }

  function writeNecessary(_: ToolChoice, conversation: Conversation, context: EncodeContext) {
    if (thinkingSwitch(context) !== path || !isThinkingRefused(conversation, context)) return undefined;
    if (!isOff(conversation.reasoning)) {
      const reason = "the model does not think, so that a call can be required";
      context.change(pathOfUse(conversation, "tool_choice"), reason);
    }
    return SWITCHED_OFF[path];
  }
}

/** Reports whether the vendor refuses thinking beside a conversation's tool choice. */
function isThinkingRefused({ toolChoice: choice, tools }: Conversation, context: EncodeContext): boolean {
  const isForced = choice?.mode === "required" || (choice?.mode === "named" && !choice.server);
  const isSwitched = mayReason(context) && thinkingSwitch(context) !== undefined;
  return isForced && isSwitched && tools.some(({ kind }) => kind !== "web_search");
}

function writeEffort(
  reasoning: ReasoningConfig,
  conversation: Conversation,
  context: EncodeContext,
): Effort | undefined {
  const { effort, budget } = reasoning;
  if (effort === undefined && budget === undefined) return undefined;
  // A model that does not reason refuses even the request not to.
  if (isOff(reasoning) && (!mayReason(context) || thinkingSwitch(context))) return undefined;
  // Agents of other vendors ask every model to think. What only the tables say, the vendor decides for OpenAI's clients.
  const isOwn = isOfFamily(conversation.protocol);
  const thinks = mayReason(context) || (isOwn && context.facts.thinking === undefined);
  if (!thinks || !mayTakeEffort(context) || isThinkingRefused(conversation, context)) {
    // Below 0 the model decides, as it does without an effort.
    const isLost = !thinks || effort !== undefined || (budget !== undefined && budget >= 0);
    const path = reasoningPath(conversation, effort === undefined ? "reasoning_budget" : "reasoning_effort");
    if (isLost) context.drop(path, thinks ? "This model takes no effort here" : "This model does not think");
    return undefined;
  }
  if (effort !== undefined) return supportedEffort(effort, conversation, context);
  const nearest = budget === undefined ? undefined : effortForBudget(budget, context.model);
  if (nearest !== undefined)
    context.change(
      pathOfUse(conversation, "reasoning_budget"),
      `${budget} tokens of thinking are sent as the effort ${nearest}`,
    );
  return nearest;
}

function readNested(body: Fields, name: string, conversation: Conversation): ReasoningConfig | undefined {
  const nested = body.object(name);
  if (!nested) return undefined;
  const config: ReasoningConfig = { ...readEffort(nested, "effort", conversation) };
  const budget = nested.number("max_tokens");
  if (budget !== undefined) {
    config.budget = budget;
    nested.declare("max_tokens", "reasoning_budget");
  }
  if (nested.members["exclude"] === true) {
    config.show = false;
    nested.ignore("exclude", "reasoning_summary");
  }
  const enabled = nested.members["enabled"];
  if (typeof enabled === "boolean" && config.effort === undefined && budget === undefined) {
    // OpenRouter's documentation: `enabled` alone means medium.
    config.effort = enabled ? "medium" : "none";
    nested.ignore("enabled", "reasoning_effort");
  } else nested.ignore("enabled");
  return unlessEmpty(config);
}

const unlessEmpty = (config: ReasoningConfig): ReasoningConfig | undefined =>
  Object.keys(config).length > 0 ? config : undefined;

function readCacheHandle(body: Fields, name: string): string | undefined {
  const google = body.object(name)?.object("google");
  const handle = google?.text("cached_content");
  if (handle !== undefined) google?.declare("cached_content", "cache_handle");
  google?.ignore("safety_settings", "safety");
  return handle;
}

const BUDGET = "thinking_budget";
const LEVEL = "thinking_level";

/**
 * Decodes a budget or a level, not both, and neither beside an effort, as Google requires. Thoughts are shown only on
 * request.
 */
function readGoogle(body: Fields, name: string, { reasoning }: Conversation): ReasoningConfig | undefined {
  const thinking = body.object(name)?.object("google")?.object("thinking_config");
  if (!thinking) return undefined;
  const requested = [BUDGET, LEVEL].filter((name) => thinking.has(name));
  const conflict = reasoning?.effort === undefined ? requested[1] && thinking.path(requested[1]) : "reasoning_effort";
  if (requested[0] !== undefined && conflict !== undefined) {
    thinking.refuse(requested[0], `cannot be used together with ${conflict}.`, "Send one of them.");
  }
  const config: ReasoningConfig = { ...reasoning };
  const budget = thinking.number(BUDGET);
  if (budget !== undefined) {
    config.budget = budget;
    if (budget === 0) config.effort = "none";
    thinking.declare(BUDGET, "reasoning_budget");
  }
  const level = parseEffort(thinking.text(LEVEL)?.toLowerCase());
  if (level !== undefined) {
    config.effort = level;
    thinking.declare(LEVEL, "reasoning_effort");
  } else thinking.ignore(LEVEL, "other");
  const show = thinking.flag("include_thoughts");
  if (show !== undefined) thinking.declare("include_thoughts", "reasoning_summary");
  if (show !== undefined || requested.length > 0) config.show = show ?? false;
  return unlessEmpty(config);
}
