/**
 * A request, independent of any wire format. Each protocol decodes its requests into this and encodes them from it. It holds
 * only the meaning: a request that passes without translation is never encoded from it.
 */
import type { Task } from "../core/protocol.ts";
import type { RawJson } from "../wire/exact.ts";
import type { Citation, Opaque } from "./events.ts";
import type { Feature } from "./features.ts";

/** A mark up to which the vendor caches the prompt. */
export interface CacheMark {
  /** The lifetime, in values common to all protocols. Absent: the vendor's default. */
  ttl?: "5m" | "30m" | "1h" | "12h";
  /** The client's own path of the mark. */
  at?: string;
}

interface PartBase {
  /** The client's path of the part, like `messages.3.content.0`. */
  at: string;
  cache?: CacheMark;
}

/**
 * A message of one role. Tool results are in user turns. Consecutive turns may have the same role; `mergeTurns` merges them for
 * protocols whose turns must alternate.
 */
export interface Turn {
  role: "system" | "developer" | "user" | "assistant";
  parts: Part[];
  /** The client's path of it. */
  at: string;
  name?: string;
  /** Whether an assistant's text is interim commentary or the final answer. */
  phase?: string;
}

export type MediaSource =
  | { base64: string }
  | { url: string }
  /** An id that only the vendor of this protocol knows. */
  | { id: string; protocol: string }
  | { text: string };

export interface Text extends PartBase {
  kind: "text";
  text: string;
  citations?: Citation[];
  opaque?: Opaque;
}

export interface Media extends PartBase {
  kind: "media";
  media: "image" | "audio" | "video" | "file";
  /** Like `image/png`, as the client declares it; never detected from the bytes. */
  mime?: string;
  source: MediaSource;
  filename?: string;
  /** `low`, `high`, `auto`, … */
  detail?: string;
  /** The client's own path of `detail`. */
  detailAt?: string;
  /** For media made by a tool that the vendor runs: the possible names or paths of that tool among the request's tools. */
  tools?: readonly string[];
  opaque?: Opaque;
}

export interface Reasoning extends PartBase {
  kind: "reasoning";
  text?: string;
  summary?: string[];
  redacted?: boolean;
  opaque?: Opaque;
}

export interface Refusal extends PartBase {
  kind: "refusal";
  text: string;
}

export interface ToolCall extends PartBase {
  kind: "tool_call";
  id: string;
  name: string;
  namespace?: string;
  /** The original JSON text; free text when `custom`. Empty: none. */
  arguments: string;
  custom?: boolean;
  opaque?: Opaque;
}

export interface ToolResult extends PartBase {
  kind: "tool_result";
  callId: string;
  name?: string;
  /** Text and media. */
  parts: Part[];
  /** The result when it is a JSON object, as text; `parts` is then empty. */
  json?: string;
  isError?: boolean;
  custom?: boolean;
}

/** A part that only its own protocol understands: a server tool's call or result, a compaction, a new kind of block. */
export interface Foreign extends PartBase {
  kind: "foreign";
  protocol: string;
  /** Its type there, for messages. */
  name: string;
  /** For a part made by a tool that the vendor runs: the possible names or paths of that tool among the request's tools. */
  tools?: readonly string[];
  json: unknown;
}

export type Part = Text | Media | Reasoning | Refusal | ToolCall | ToolResult | Foreign;

/** `at`: the client's path of it. */
export type Tool = { at: string; cache?: CacheMark } & (
  | {
      kind: "function";
      name: string;
      namespace?: string;
      description?: string;
      /** JSON Schema (a protocol with a dialect of its own converts it); absent: no arguments. */
      parameters?: RawJson;
      strict?: boolean;
    }
  | {
      kind: "custom";
      name: string;
      namespace?: string;
      description?: string;
      /** Of the free text; absent: any. */
      grammar?: { syntax?: string; definition?: string };
      /** The client's path of it. */
      grammarAt?: string;
    }
  | {
      kind: "web_search";
      allowed?: string[];
      blocked?: string[];
      /** Maximum number of searches. */
      maxUses?: number;
      /** `low`, `medium`, `high`. */
      size?: string;
      location?: { city?: string; region?: string; country?: string; timezone?: string };
      /** True where web search was requested separately from the tools: tool choices do not apply to it. */
      apart?: true;
      /** The client's own paths of its members; for a missing one, `at`. */
      paths?: { allowed?: string; blocked?: string; maxUses?: string; size?: string; location?: string };
    }
  /** Any other tool that the vendor runs itself. */
  | { kind: "server"; protocol: string; name: string; json: unknown }
);

export type ToolChoice =
  | { mode: "auto" | "none" | "required" }
  | { mode: "named"; name: string; custom?: boolean; server?: boolean }
  | { mode: "allowed"; required: boolean; names: string[] };

/** Reasoning effort. */
export type Effort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

export interface ReasoningConfig {
  effort?: Effort;
  /** Tokens for thinking; -1: the model decides. */
  budget?: number;
  /** False: reasoning is not shown. */
  show?: boolean;
  summary?: "auto" | "concise" | "detailed";
}

export interface Format {
  kind: "text" | "json" | "schema";
  schema?: RawJson;
  name?: string;
  description?: string;
  strict?: boolean;
  /** The client's vendor enforces every schema strictly, without a setting. */
  alwaysStrict?: true;
  /** The schema is of a string, and the response is that string's text instead of JSON. */
  isPlainText?: true;
}

/** One feature that the client used, recorded so that no loss is silent. */
export interface FeatureUse {
  feature: Feature;
  /** The client's own path. */
  path: string;
  /** How to fix a refusal; undefined: by removing the field, or using another model. */
  hint?: string;
  /** Machine-readable details of a refusal, in the terms of the client's protocol. */
  details?: Readonly<Record<string, unknown>>;
}

/** A value that no other protocol has, replaced by an equivalent when the request was decoded. */
export interface DecodingChange {
  /** The client's own path. */
  path: string;
  why: string;
}

export interface Conversation {
  /** The protocol it was decoded from. */
  protocol: string;
  /** Whether to generate a response, or only to count the prompt's tokens. */
  task: Task;
  stream: boolean;
  turns: Turn[];
  /** The client's own path of the turns, for errors where there are none. */
  turnsAt?: string;
  /** The `PrefixKey` of all turns, where answers of the client's protocol are remembered by it. */
  turnsKey?: string;
  tools: Tool[];
  toolChoice?: ToolChoice;
  /** False: at most one tool call per response. */
  parallel?: boolean;
  temperature?: number;
  topP?: number;
  topK?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  seed?: number | RawJson;
  logitBias?: unknown;
  /** Number of responses. */
  choices?: number;
  maxTokens?: number;
  stop?: string[];
  reasoning?: ReasoningConfig;
  format?: Format;
  /** Number of top tokens to report for each token; 0: only the token's own likelihood. */
  logprobs?: number;
  verbosity?: "low" | "medium" | "high";
  /** Groups requests for the vendor's prompt cache. */
  cacheKey?: string;
  /** How long the vendor's prompt cache keeps the prompt, in the vendor's words. */
  cacheRetention?: string;
  /** How prompt and answer are moderated, in the vendor's form. */
  moderation?: unknown;
  /** A mark for the whole prompt. */
  cache?: CacheMark;
  /** A cached prompt prefix, by the vendor's id. */
  cacheHandle?: string;
  /** An opaque identifier of the end user. */
  user?: string;
  metadata?: Record<string, string>;
  tier?: string;
  /** Whether the vendor stores the response. */
  store?: boolean;
  modalities?: string[];
  /** Properties of a requested image: aspect ratio (`16:9`), and size (`2K`). */
  image?: { aspect?: string; size?: string; paths: { aspect?: string; size?: string } };
  /** Each feature that the client used besides plain turns, with its path. */
  uses: FeatureUse[];
  /** Changes within the meaning that decoding made; reported when the request is encoded in another protocol. */
  changed?: DecodingChange[];
}
