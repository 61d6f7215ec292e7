/**
 * What only some servers of Chat take, by the names of their models. Translated requests go to vendors of all kinds, and many of them
 * refuse a member or a tool that they do not know, or ignore it.
 */
import { hash } from "node:crypto";
import { type EncodeContext, safeId } from "model-gateway/protocol";
import { canRequireCall, isAtAlibaba, isAtDeepseek, isAtMoonshot, isOpenaiModel } from "../openai/request.encode.ts";
import { SEARCH_MODEL } from "./usage.ts";

/** The part of a request's target that decides. */
export type NamedModel = Pick<EncodeContext, "model" | "facts" | "url">;

/**
 * Reports whether a model takes tools of free text: OpenAI's do from GPT-5 on, and other vendors that serve them know only functions
 * [S, D]. Azure's names of older ones may lack the dot: `gpt-35-turbo`, `gpt-41`.
 */
export const takesFreeText = ({ model }: NamedModel): boolean => /^(?:ft:)?gpt-(?:[5-9]|1\d)(?!\d)/.test(model);

/**
 * Reports whether a model takes `web_search_options`: OpenAI's search models, and Perplexity's. Others refuse them [F: "Web search
 * options not supported with this model"], or do not know them.
 */
export const takesSearchOptions = ({ model }: NamedModel): boolean =>
  SEARCH_MODEL.test(model) || /(?:^|\/)sonar/.test(model);

/** Mistral's models at Mistral, which refuses all members that it does not know. */
const MISTRAL_MODEL = /^(?:open-)?(?:mis|minis|mix|codes|devs|magis|pix|vox)tral/;

/** Reports whether a model takes a key for its prompt cache: besides OpenAI's, those of Mistral and Moonshot at themselves. [F, D] */
export const takesCacheKey = (target: NamedModel): boolean =>
  isOpenaiModel(target) || MISTRAL_MODEL.test(target.model) || target.model.startsWith("kimi-");

/** Ids of calls that Mistral's models take, whoever serves them: "must be a-z, A-Z, 0-9, with a length of 9". [D] */
const MISTRAL_CALL_ID = /^[a-zA-Z0-9]{9}$/;
const MISTRAL_TEMPLATE = /(?:^|[/_-])(?:mis|minis|mix|codes|devs|magis|pix|vox)tral/i;

/** Returns a call's id that the model takes: for Mistral's a hash of one that another provider made. */
export function fitCallId(id: string, { model }: NamedModel): string {
  if (!MISTRAL_TEMPLATE.test(model) || MISTRAL_CALL_ID.test(id)) return safeId(id, "keep");
  return hash("sha256", id).slice(0, 9);
}

/** Reports whether a model's vendor takes a user's name. [D] */
export const takesUser = ({ model }: NamedModel): boolean => !MISTRAL_MODEL.test(model);

/**
 * Models whose own templates refuse a system message between turns ("System message must be at the beginning"), or whose vendor does
 * (MiniMax: "chat content has invalid message role: system"). [D]
 */
const SYSTEM_FIRST = /qwen-?(?:3\.[5-9]|[4-9])|minimax/i;

/** Reports whether a model takes system messages between turns: Mistral's refuse them, too ("Unexpected role 'system' after …"). [D] */
export const takesLateSystem = ({ model, facts: { system_in_place } }: NamedModel): boolean =>
  system_in_place ?? !(SYSTEM_FIRST.test(model) || MISTRAL_TEMPLATE.test(model));

/** Models that refuse an assistant's message without its reasoning while they reason, as they do unasked. [D: DeepSeek, Moonshot] */
const NEEDS_REASONING =
  /(?:^|\/)(?:deepseek-(?:reasoner|v(?:[4-9]|\d\d))|kimi-(?:for-coding|k(?:2[.p-]?(?:[5-9]|thinking)|[3-9])))/i;

/** What stands for reasoning that there was none of, or that another model made: these models take any text, but none that is empty. */
export const NO_REASONING = ".";

/** Members that have a message's reasoning. */
export const REASONING_MEMBERS = ["reasoning_content", "reasoning", "reasoning_details"] as const;

/** Members of reasoning that a vendor refuses, whoever made it: "Extra inputs are not permitted", "property … is unsupported". [D] */
const REFUSED_REASONING: ReadonlyMap<string, readonly string[]> = new Map([
  ["api.mistral.ai", [...REASONING_MEMBERS]],
  ["api.groq.com", ["reasoning_content", "reasoning_details"]],
  ["api.cerebras.ai", ["reasoning_content", "reasoning_details"]],
]);

const NOTHING_REFUSED: readonly string[] = [];
/** The same by provider: each request asks for it, and a URL makes its host anew each time. */
const refusedBy = new WeakMap<URL, readonly string[]>();

/** Returns the members of reasoning that a server is known to refuse, so that even a client's own bytes are changed. */
export const refusedReasoning = ({ url }: NamedModel): readonly string[] =>
  url ? (refusedBy.get(url) ?? findRefused(url)) : NOTHING_REFUSED;

function findRefused(url: URL): readonly string[] {
  const refused = REFUSED_REASONING.get(url.hostname) ?? NOTHING_REFUSED;
  refusedBy.set(url, refused);
  return refused;
}

/** Reports whether an assistant's messages need `reasoning_content`. */
export const needsReasoning = (target: NamedModel): boolean =>
  NEEDS_REASONING.test(target.model) && refusedReasoning(target).length === 0;

/** Reports whether a server is the API of these models' vendors. Others may do without. */
const isAtVendor = (target: NamedModel): boolean => isAtDeepseek(target) || isAtMoonshot(target);

/** Reports whether a server is known to refuse messages without reasoning, so that even a client's own bytes are changed. */
export const refusesLackOfReasoning = (target: NamedModel): boolean => needsReasoning(target) && isAtVendor(target);

/** MiniMax's API, which puts reasoning into the text, in `<think>`, unless it is asked for `reasoning_details`. [D] */
const MINIMAX_HOST = /^api\.minimaxi?\.(?:com|io)$/;

/** Reports whether a server must be asked to send reasoning apart from the text. */
export const mixesReasoning = ({ url }: NamedModel): boolean => MINIMAX_HOST.test(url?.hostname ?? "");

/** Reports whether a server takes tools beside JSON: Groq refuses them ("json mode cannot be combined with tool/function calling"). [D] */
export const takesToolsWithJson = ({ url }: NamedModel): boolean => url?.hostname !== "api.groq.com";

/** Models that think unasked, of which these vendors' APIs can turn that off. Kimi K2.7 and K3 always think. [D: DeepSeek, Moonshot] */
const SWITCHED_MODEL = /^(?:deepseek-|kimi-k2\.[56])/;

/** Such models at Alibaba. Qwen Max from 3.8 on always thinks: "enable_thinking … is restricted to True". [D] */
const QWEN_SWITCHED_MODEL = /^qwen3\.(?:[5-7]-|(?:[89]|\d\d)-(?!max))/;

/**
 * Returns the member that turns thinking off, beside which there may be no effort; these APIs know no effort `none`, or ignore it. While
 * a model thinks they refuse a choice that requires a tool call. [D: DeepSeek, Moonshot, Alibaba]
 */
export function thinkingSwitch(target: NamedModel): "thinking" | "enable_thinking" | undefined {
  if (SWITCHED_MODEL.test(target.model) && isAtVendor(target)) return "thinking";
  if (QWEN_SWITCHED_MODEL.test(target.model) && isAtAlibaba(target)) return "enable_thinking";
  return undefined;
}

/** Reports whether a call of one tool can be required by its name: Kimi K3 refuses that, but not `required`. [D: Moonshot] */
export const canRequireByName = (target: NamedModel): boolean =>
  canRequireCall(target) && !(target.model.startsWith("kimi-k3") && isAtMoonshot(target));

/** Models whose vendor sets temperature and the like itself: "invalid temperature: only 1 is allowed for this model". [D: Moonshot] */
const FIXED_SAMPLING = /^kimi-k(?:2\.[5-9]|[3-9])/;

/** Reports whether a model takes other sampling settings than its vendor's. */
export const takesSampling = (target: NamedModel): boolean =>
  !(FIXED_SAMPLING.test(target.model) && isAtMoonshot(target));

/** xAI's models that refuse penalties, also of 0: "Model … does not support parameter presencePenalty". [D: issues of agents] */
const WITHOUT_PENALTIES = /^grok-(?:[4-9]|code|build)/;

/** Reports whether a model takes penalties. OpenAI's that take no sampling settings refuse them too. [D] */
export const takesPenalties = (target: NamedModel): boolean =>
  target.facts.sampling !== false && !WITHOUT_PENALTIES.test(target.model) && takesSampling(target);
