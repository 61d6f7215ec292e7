import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import {
  asObject,
  type CacheMark,
  type Conversation,
  type Effort,
  type EncodeContext,
  type JsonObject,
  type Media,
  maySearch,
  objectParameters,
  pathOfUse,
  type RawJson,
  ReasoningBudget,
  type Refusal,
  type Text,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { canEnforceSchema } from "./schema.ts";

/** Reports whether a protocol is of this family: its clients know the vendor's values, and its ids are the vendor's. */
export const isOfFamily = (protocol: string): boolean => protocol.startsWith("openai-");

/** Efforts in ascending order. */
const EFFORT_ORDER: readonly Effort[] = ["minimal", "low", "medium", "high", "xhigh", "max"];

/** Models known to accept efforts besides low, medium and high. [M] */
const EXTRA_EFFORTS: readonly (readonly [model: RegExp, efforts: readonly Effort[]])[] = [
  [/(?:^|\/)gpt-5(?:-mini|-nano)?(?:-\d{4}-\d{2}-\d{2})?$/, ["minimal"]],
  [/(?:^|\/)gpt-(?:5\.[2-9]|[6-9])/, ["xhigh"]],
];

/** Models known to reason always, which refuse the effort `none`. [D] */
const ALWAYS_REASONS =
  /(?:^|\/)(?:(?:gpt-5(?:-mini|-nano|-codex)?|o[134](?:-mini|-pro)?|gpt-oss[-:]\d+b)(?:-\d{4}-\d{2}-\d{2})?$|grok-4\.[56]|kimi-k3|muse-spark)/;

/**
 * Returns an effort that the model accepts: one from another vendor's client that the model is not known to accept becomes the
 * next one towards the middle, with a notice. Clients of these protocols send the value themselves.
 */
export function supportedEffort(effort: Effort, conversation: Conversation, context: EncodeContext): Effort {
  if (isOfFamily(conversation.protocol)) return effort;
  const acceptedEffort = nearestEffort(effort, context.model);
  if (acceptedEffort !== effort)
    context.change(
      pathOfUse(conversation, "reasoning_effort"),
      `the model is not known to accept the effort ${effort}: ${acceptedEffort} is sent`,
    );
  return acceptedEffort;
}

function nearestEffort(effort: Effort, model: string): Effort {
  const extraEfforts = EXTRA_EFFORTS.find(([name]) => name.test(model))?.[1] ?? [];
  const accepts = (candidate: Effort) =>
    candidate === "low" || candidate === "medium" || candidate === "high" || extraEfforts.includes(candidate);
  if (effort === "none" && ALWAYS_REASONS.test(model)) return EFFORT_ORDER.find(accepts) ?? effort;
  const index = EFFORT_ORDER.indexOf(effort);
  if (index < 0 || accepts(effort)) return effort;
  return (
    (index < EFFORT_ORDER.indexOf("medium")
      ? EFFORT_ORDER.slice(index)
      : EFFORT_ORDER.slice(0, index).toReversed()
    ).find(accepts) ?? effort
  );
}

/** Returns the client's path of the effort or the budget that it set, which without a number of tokens is the one that it may think. */
export const reasoningPath = (conversation: Conversation, feature: "reasoning_effort" | "reasoning_budget"): string =>
  pathOfUse(conversation, feature, pathOfUse(conversation, "reasoning_effort", feature));

/** Returns the model's effort nearest to a number of tokens; undefined where the model decides (below 0). */
export function effortForBudget(budget: number, model: string): Effort | undefined {
  return budget < 0 ? undefined : nearestEffort(ReasoningBudget.effortOf(budget), model);
}

/** Models that reason where a request sets no effort, and take function tools only in Responses then. [D] */
const REASONS_BY_DEFAULT = /(?:^|\/)gpt-(?:5[.-][6-9]|[6-9])/;

/** Models known by their names not to reason, whoever serves them. [D] */
const NEVER_REASONS = /(?:^|[/:])(?:chat)?gpt-(?:3|4|audio)/;

/** xAI's models that decide themselves how hard they reason: "Model … does not support parameter reasoningEffort". [D: issues of agents] */
const WITHOUT_EFFORT = /^grok-(?:3(?!-mini)|4-0709|4-(?:1-)?fast|4\.20(?!-multi-agent)|code|build|composer)/;

/** Reports whether a model may take an effort, where it reasons. */
export const mayTakeEffort = ({ model }: Pick<EncodeContext, "model">): boolean => !WITHOUT_EFFORT.test(model);

type TargetModel = Pick<EncodeContext, "model" | "facts" | "url">;

/** OpenAI's models, also in names of deployments and of other vendors that serve them; those that it gave away are served by others. */
const OPENAI_MODEL = /(?:^|[/:_.-])(?:chat)?gpt(?!-?oss)|(?:^|[/:])(?:o[1-9](?:[-:]|$)|codex-)/i;

/** Azure, where operators name deployments as they like; and names of other vendors' models that it serves too, short ones as words. */
const AZURE_HOST = /\.(?:openai|cognitiveservices|services\.ai)\.azure\.(?:com|us|cn)$/;
const OTHER_AZURE_MODEL =
  /deepseek|grok|llama|(?:mi(?:ni)?s|mix|codes|devs|magis)tral|cohere|kimi|qwen|jamba|(?:^|[-_.])(?:phi|command|(?:gpt)?oss)(?![a-z])/i;

/** Another vendor's models, of which the newest take no sampling settings either. [D] */
const CLAUDE = /claude/i;

/**
 * Reports whether a model is OpenAI's: by its name; because its provider takes cache marks, as OpenAI does; because
 * it takes no sampling settings, which besides Claude only OpenAI's do not; or as a deployment at Azure that has no other
 * vendor's name. Others often refuse what only OpenAI has. [D]
 */
export const isOpenaiModel = (target: TargetModel): boolean =>
  (target.facts.sampling === false && !CLAUDE.test(target.model)) ||
  target.facts.cache_marks === true ||
  isNamedOpenaiModel(target);

/** Reports whether a model is OpenAI's by its name or as a deployment at Azure: facts alone are no reason to refuse a request. */
export const isNamedOpenaiModel = (target: Pick<TargetModel, "model" | "url">): boolean =>
  OPENAI_MODEL.test(target.model) || (isAt(AZURE_HOST, target) && !OTHER_AZURE_MODEL.test(target.model));

/** Names of deployments of such models at Azure: `prod-gpt-4o`, `team_gpt4`. Elsewhere a proxy of any model may be called so. */
const DEPLOYED_NEVER_REASONS = /(?:^|[-_.])gpt-?[34]/i;

const neverReasons = (target: Pick<TargetModel, "model" | "url">): boolean =>
  NEVER_REASONS.test(target.model) || (isAt(AZURE_HOST, target) && DEPLOYED_NEVER_REASONS.test(target.model));

/** Reports whether a model may reason: whether nothing says that it does not. */
export function mayReason(target: TargetModel): boolean {
  const { thinking, reasons } = target.facts;
  return thinking === undefined ? (reasons ?? !neverReasons(target)) : thinking !== "none";
}

/** Reports whether a model reasons where a request sets no effort. */
export const reasonsByDefault = (target: TargetModel): boolean =>
  REASONS_BY_DEFAULT.test(target.model) && mayReason(target);

/** The APIs of vendors whose models others serve too, without these vendors' restrictions. */
const DEEPSEEK_HOST = /(?:^|\.)deepseek\.com$/;
const MOONSHOT_HOST = /(?:^|\.)(?:moonshot\.(?:ai|cn)|kimi\.com)$/;
const ALIBABA_HOST = /\.aliyuncs\.com$/;

const isAt = (host: RegExp, { url }: Pick<TargetModel, "url">): boolean => host.test(url?.hostname ?? "");
export const isAtDeepseek = (target: Pick<TargetModel, "url">): boolean => isAt(DEEPSEEK_HOST, target);
export const isAtMoonshot = (target: Pick<TargetModel, "url">): boolean => isAt(MOONSHOT_HOST, target);
export const isAtAlibaba = (target: Pick<TargetModel, "url">): boolean => isAt(ALIBABA_HOST, target);

/** Servers, and their models. */
type ServedModels = readonly (readonly [host: RegExp, model: RegExp])[];

/** Those that refuse every choice of tools but one: "Tool choice must be auto". [D] */
const AUTO_ONLY: ServedModels = [
  [/^(?:api\.z\.ai|open\.bigmodel\.cn)$/, /^glm-/],
  [/^api\.meta\.ai$/, /^muse-/],
];

/** Those that refuse to require a tool call, the latter because the models always think. [D] */
const WITHOUT_REQUIRED: ServedModels = [
  ...AUTO_ONLY,
  [MOONSHOT_HOST, /^kimi-k2(?:\.7|-thinking)/],
  [ALIBABA_HOST, /^qwen3\.(?:[89]|\d\d)-max/],
];

const isAmong = (models: ServedModels, target: Pick<TargetModel, "model" | "url">): boolean =>
  models.some(([host, name]) => name.test(target.model) && isAt(host, target));

/** Reports whether a tool call can be required. */
export const canRequireCall = (target: Pick<TargetModel, "model" | "url">): boolean =>
  !isAmong(WITHOUT_REQUIRED, target);

/** Reports whether the choice can only be the model's: that of no tool, or of some, is made by leaving out the others. */
export const takesOnlyAuto = (target: Pick<TargetModel, "model" | "url">): boolean => isAmong(AUTO_ONLY, target);

/** Declares that a required call is left to the model, and returns that choice. */
export function requiredCallAsAuto(conversation: Conversation, context: EncodeContext): "auto" {
  const path = pathOfUse(conversation, "tool_choice", pathOfUse(conversation, "tool_choice_allowed"));
  context.change(path, "a call cannot be required: the model decides whether to make one");
  return "auto";
}

/** Returns a conversation with only the tools that a choice allows, which is declared. */
export function withOnlyAllowed(
  conversation: Conversation,
  choice: Pick<ToolChoice & { mode: "allowed" }, "names" | "required">,
  context: EncodeContext,
): Conversation {
  const { tools, toolChoice, ...others } = conversation;
  const names = new Set(choice.names);
  const allowed = tools.filter((tool) =>
    tool.kind === "web_search" ? maySearch(conversation, tool) : names.has(tool.name),
  );
  const path = pathOfUse(conversation, toolChoice?.mode === "allowed" ? "tool_choice_allowed" : "tool_choice");
  if (!allowed.some(({ kind }) => kind !== "web_search")) {
    // No tool may be called: those of the history stay known to the model, where the vendor has such a choice.
    if (!takesOnlyAuto(context)) return conversation;
    if (tools.length > allowed.length) context.change(path, "no tools are sent: the vendor has no choice of none");
    return { ...others, tools: allowed };
  }
  context.change(path, "only the allowed tools are sent");
  for (const { at } of new Set(tools).difference(new Set(allowed))) context.change(at, "not among the allowed tools");
  return { ...others, tools: allowed, toolChoice: choice.required ? { mode: "required" } : { mode: "auto" } };
}

/** Models whose vendor takes marks for its cache, whoever serves them: "Only supported by OpenAI GPT-5.6 and newer". [D] */
const MARKED_MODEL = /(?:^|[/_-])gpt-(?:5[.-](?:[6-9]|\d\d)(?!\d)|[6-9])/;

/** Reports whether a model of Responses takes cache marks. Other servers refuse unknown members, or content in parts. */
export const takesMarks = ({ model, facts: { cache_marks } }: TargetModel): boolean =>
  cache_marks ?? MARKED_MODEL.test(model);

/** A mark's lifetime here, by the requested one; undefined is the vendor's default, 30 minutes. [S] */
const CACHE_TTLS: Readonly<Record<NonNullable<CacheMark["ttl"]>, "30m" | "12h" | undefined>> = {
  "5m": undefined,
  "30m": "30m",
  "1h": "12h",
  "12h": "12h",
};

const ttlOf = ({ ttl }: CacheMark): { ttl?: string } => {
  const wireTtl = ttl && CACHE_TTLS[ttl];
  return wireTtl ? { ttl: wireTtl } : {};
};

/** Returns `prompt_cache_breakpoint` of a part for a cache mark. */
export const cacheBreakpoint = (cache: CacheMark): JsonObject => ({ mode: "explicit", ...ttlOf(cache) });

/**
 * Returns `prompt_cache_options` for a mark on the whole prompt; undefined where none are needed: the vendor caches it by
 * default.
 */
export function promptCacheOptions(cache: CacheMark): JsonObject | undefined {
  const { ttl } = ttlOf(cache);
  return ttl === undefined ? undefined : { mode: "implicit", ttl };
}

/** Maximum length of a cache key or user name that every model accepts. [S] */
const MAX_LABEL_LENGTH = 64;

/**
 * Returns a user name or a cache key valid for the vendor: for one that is too long its SHA-256 in hex, which is as distinct,
 * with a notice.
 * @param path where the client wrote it
 */
export function fitLabel(text: string, path: string, context: EncodeContext): string {
  if (text.length <= MAX_LABEL_LENGTH) return text;
  context.change(path, `It is longer than ${MAX_LABEL_LENGTH} characters: its SHA-256 is sent`);
  return createHash("sha256").update(text).digest("hex");
}

/** The notice for a schema that the client's vendor would enforce by default. */
export const UNENFORCED_SCHEMA = "the schema is described to the model, not enforced";

/**
 * Returns a function's `strict`. The vendor refuses a strict function whose members are not all required, or that has constraints it
 * cannot enforce; another vendor's client may send one, which becomes an ordinary function, with a notice.
 */
export function strictOf(
  { strict, parameters, at }: Extract<Tool, { kind: "function" }>,
  conversation: Conversation,
  context: EncodeContext,
): boolean | undefined {
  if (!strict || isOfFamily(conversation.protocol) || canEnforceSchema(parameters?.value)) return strict;
  context.change(at, UNENFORCED_SCHEMA);
  return undefined;
}

/** Members that OpenAI's models refuse at the root of a function's parameters, and with them the request. [D] */
const ROOT_ALTERNATIVES: readonly string[] = ["oneOf", "anyOf", "allOf", "enum", "const", "not"];

/** Returns a function's parameters; for OpenAI's models, alternatives at their root are described to the model, with a notice. */
export function parametersOf(
  { parameters, at }: Extract<Tool, { kind: "function" }>,
  context: EncodeContext,
): RawJson | undefined {
  const own = parameters && objectParameters(parameters);
  if (!own || !isOpenaiModel(context)) return own;
  // Also those of an object to which the client's root only refers.
  const refused = ROOT_ALTERNATIVES.filter((name) => Object.hasOwn(asObject(own.value) ?? {}, name));
  if (refused.length === 0) return own;
  context.change(at, `not enforced, only described to the model: ${refused.join(", ")} at the root of its schema`);
  return objectParameters(own, refused);
}

/** Characters that the vendor accepts in a tool's name. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_-";
const MAX_NAME_LENGTH = 64;

/** Returns a tool's name that the vendor accepts. */
export const fitName = (tool: Parameters<EncodeContext["names"]["fitTool"]>[0], { names }: EncodeContext): string =>
  names.fitTool(tool, NAME_CHARACTERS, MAX_NAME_LENGTH);

/** Returns the text of a text file, below its name. Undefined for other files, and for bytes that are not UTF-8. */
export function textOfFile({ media, source, mime, filename }: Media): string | undefined {
  if (media !== "file") return undefined;
  const bytes = "base64" in source && mime?.startsWith("text/") ? Buffer.from(source.base64, "base64") : undefined;
  const text = "text" in source ? source.text : bytes && isUtf8(bytes) ? bytes.toString() : undefined;
  return text === undefined || filename === undefined ? text : `${filename}\n\n${text}`;
}

/** Declares the detail of a file that is sent without one. */
export function dropDetail({ detail, detailAt, at }: Media, context: EncodeContext): void {
  if (detail !== undefined && detail !== "auto") context.drop(detailAt ?? at, "a file is sent without a detail");
}

/**
 * Returns texts of the assistant's as one. Some vendors divide a text, in the middle of a sentence, where a citation begins or ends:
 * such a citation has no position in its piece.
 */
export function joinAssistantTexts(texts: readonly (Text | Refusal)[]): string {
  const isCited = (part: Text | Refusal) =>
    part.kind === "text" && part.citations?.some(({ start }) => start === undefined) === true;
  const arePieces = (a: Text | Refusal, b: Text | Refusal) => a.kind === b.kind && (isCited(a) || isCited(b));
  return texts.reduce((joined, part, i) => {
    const previous = texts[i - 1];
    return previous ? `${joined}${arePieces(previous, part) ? "" : "\n\n"}${part.text}` : part.text;
  }, "");
}

const MENTIONS_ERROR = /error|fail|exception|denied|not found/i;

/**
 * Returns the text of a failed tool result: these protocols have no error flag. Texts that do not mention an error are wrapped
 * in `{"error": …}`, all together; undefined where they do.
 */
export function errorResultText(texts: readonly string[]): string | undefined {
  if (texts.some((text) => MENTIONS_ERROR.test(text))) return undefined;
  return JSON.stringify({ error: texts.join("\n") || "The tool failed." });
}

/** Declares a prefill: a model not known to continue an assistant's turn at the end may respond with a new message. */
export function checkPrefill(conversation: Conversation, context: EncodeContext): void {
  const prefill = conversation.uses.find(({ feature }) => feature === "prefill");
  if (!prefill || context.facts.prefill) return;
  if (context.facts.prefill === false) context.refuse(prefill.path, "the model does not continue an assistant's turn");
  context.change(prefill.path, "the model may start a new message instead of continuing this one");
}
