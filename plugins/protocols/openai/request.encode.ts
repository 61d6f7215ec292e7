import { createHash } from "node:crypto";
import {
  type CacheMark,
  type Conversation,
  type Effort,
  type EncodeContext,
  effortOfTokens,
  type JsonObject,
  pathOfUse,
  type ToolNameMap,
} from "model-gateway/protocol";

/** Efforts from the least to the most. */
const LADDER: readonly Effort[] = ["minimal", "low", "medium", "high", "xhigh", "max"];

/** Models that are known to take efforts besides low, medium and high. [M] */
const MORE: readonly (readonly [model: RegExp, efforts: readonly Effort[]])[] = [
  [/(?:^|\/)gpt-5(?:-mini|-nano)?(?:-\d{4}-\d{2}-\d{2})?$/, ["minimal"]],
  [/(?:^|\/)gpt-(?:5\.[2-9]|[6-9])/, ["xhigh"]],
];

/**
 * The effort as the model takes it: one that another vendor's client asks for, and that the model is not known to take, is
 * the next one towards the middle, and the client is told. Clients of these protocols say the word themselves.
 */
export function knownEffort(effort: Effort, conversation: Conversation, context: EncodeContext): Effort {
  if (conversation.protocol.startsWith("openai-")) return effort;
  const taken = fitted(effort, context.model);
  if (taken !== effort)
    context.change(
      pathOfUse(conversation, "reasoning_effort"),
      `the model is not known to take the effort ${effort}: ${taken} is asked for`,
    );
  return taken;
}

function fitted(effort: Effort, model: string): Effort {
  const more = MORE.find(([name]) => name.test(model))?.[1] ?? [];
  const takes = (each: Effort) => each === "low" || each === "medium" || each === "high" || more.includes(each);
  const at = LADDER.indexOf(effort);
  if (at < 0 || takes(effort)) return effort;
  return (at < LADDER.indexOf("medium") ? LADDER.slice(at) : LADDER.slice(0, at).toReversed()).find(takes) ?? effort;
}

/** The effort of a model that a number of tokens comes nearest to; undefined where the model shall decide (below 0). */
export function effortFor(budget: number, model: string): Effort | undefined {
  return budget < 0 ? undefined : fitted(effortOfTokens(budget), model);
}

/** How long a mark holds here, by how long it was asked to hold; undefined is the vendor's usual time, 30 minutes. [S] */
const TTL: Readonly<Record<NonNullable<CacheMark["ttl"]>, "30m" | "12h" | undefined>> = {
  "5m": undefined,
  "30m": "30m",
  "1h": "12h",
  "12h": "12h",
};

const ttlOf = ({ ttl }: CacheMark): { ttl?: string } => {
  const known = ttl && TTL[ttl];
  return known ? { ttl: known } : {};
};

/** `prompt_cache_breakpoint` of a part for a mark up to which the prompt shall be kept. */
export const breakpointOf = (cache: CacheMark): JsonObject => ({ mode: "explicit", ...ttlOf(cache) });

/**
 * `prompt_cache_options` for a mark on the whole prompt; undefined where none are needed: the vendor marks it by
 * itself.
 */
export function wholeCacheOf(cache: CacheMark): JsonObject | undefined {
  const { ttl } = ttlOf(cache);
  return ttl === undefined ? undefined : { mode: "implicit", ttl };
}

/** The longest key or name of a user that every model takes. [S] */
const LONGEST_LABEL = 64;

/**
 * A name of a user or a key of a cache as the vendor takes it: of one that is too long its SHA-256 in hex, which tells
 * them apart just as well, and the client is told.
 * @param path where the client wrote it
 */
export function label(text: string, path: string, context: EncodeContext): string {
  if (text.length <= LONGEST_LABEL) return text;
  context.change(path, `It is longer than ${LONGEST_LABEL} characters: its SHA-256 is sent`);
  return createHash("sha256").update(text).digest("hex");
}

/** The notice for a schema that the client's vendor would keep to without being asked. */
export const UNENFORCED = "the model is told of the schema, not held to it";

/** What the vendor takes as a tool's name. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_-";
const LONGEST_NAME = 64;

/** A tool's name as the vendor takes it. */
export const fitName = (name: string, names: ToolNameMap): string => names.fit(name, NAME_CHARACTERS, LONGEST_NAME);

const SAYS_ERROR = /error|fail|exception|denied|not found/i;

/**
 * The text of a failed result of a tool: these protocols have no mark for an error. Texts that do not speak of one are put
 * into `{"error": …}`, all together; undefined where they do.
 */
export function failedText(texts: readonly string[]): string | undefined {
  if (texts.some((text) => SAYS_ERROR.test(text))) return undefined;
  return JSON.stringify({ error: texts.join("\n") || "The tool failed." });
}

/** A model that is not known to go on from an assistant's turn at the end may answer it with a new message. */
export function checkPrefill(conversation: Conversation, context: EncodeContext): void {
  const prefill = conversation.uses.find(({ feature }) => feature === "prefill");
  if (!prefill || context.facts.prefill) return;
  if (context.facts.prefill === false)
    context.refuse(prefill.path, "the model does not go on from an assistant's turn");
  context.change(prefill.path, "the model may start a new message instead of going on from this one");
}
