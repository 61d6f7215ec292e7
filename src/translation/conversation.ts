/**
 * What a request asks, in nobody's wire format. Each protocol reads its requests into this and writes its requests from
 * it. It carries meaning alone: a request whose bytes pass is never written from it.
 */
import type { Task } from "../core/protocol.ts";
import type { RawJson } from "../wire/exact.ts";
import type { Citation, Opaque } from "./events.ts";
import type { Feature } from "./features.ts";

/** A mark up to which the vendor shall keep the prompt. */
export interface CacheMark {
  /** How long, in the words of all protocols. Absent: the vendor's usual time. */
  ttl?: "5m" | "30m" | "1h" | "12h";
  /** The client's own path of the mark. */
  at?: string;
}

interface Placed {
  /** Where the client wrote it, like `messages.3.content.0`. */
  at: string;
  cache?: CacheMark;
}

/**
 * Everything one side says at a time. Results of tools stand in turns of the user. Neighbours may have the same role;
 * `joined` merges them for protocols that want turns to alternate.
 */
export interface Turn {
  role: "system" | "developer" | "user" | "assistant";
  parts: Part[];
  at: string;
  name?: string;
  /** An assistant's text is a comment on the way, or the answer. */
  phase?: string;
}

export type MediaSource =
  | { base64: string }
  | { url: string }
  /** An id that only the vendor of this protocol knows. */
  | { id: string; protocol: string }
  | { text: string };

export interface Text extends Placed {
  kind: "text";
  text: string;
  citations?: Citation[];
  opaque?: Opaque;
}

export interface Media extends Placed {
  kind: "media";
  media: "image" | "audio" | "video" | "file";
  /** Like `image/png`, as the client says; never guessed from the bytes. */
  mime?: string;
  source: MediaSource;
  filename?: string;
  /** `low`, `high`, `auto`, … */
  detail?: string;
  /** The client's own path of it. */
  detailAt?: string;
  /** Where a tool that the vendor runs made it: the names or paths that such a tool can have among the request's tools. */
  tools?: readonly string[];
  opaque?: Opaque;
}

export interface Reasoning extends Placed {
  kind: "reasoning";
  text?: string;
  summary?: string[];
  redacted?: boolean;
  opaque?: Opaque;
}

export interface Refusal extends Placed {
  kind: "refusal";
  text: string;
}

export interface ToolCall extends Placed {
  kind: "tool_call";
  id: string;
  name: string;
  namespace?: string;
  /** JSON text as it came; free text when `custom`. Empty: none. */
  arguments: string;
  custom?: boolean;
  opaque?: Opaque;
}

export interface ToolResult extends Placed {
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

/** Something only its own protocol understands: a server tool's call or result, a compaction, a new kind of block. */
export interface Foreign extends Placed {
  kind: "foreign";
  protocol: string;
  /** What it is called there, for messages. */
  name: string;
  /** Where a tool that the vendor runs made it: the names or paths that such a tool can have among the request's tools. */
  tools?: readonly string[];
  json: unknown;
}

export type Part = Text | Media | Reasoning | Refusal | ToolCall | ToolResult | Foreign;

export type Tool = { at: string; cache?: CacheMark } & (
  | {
      kind: "function";
      name: string;
      namespace?: string;
      description?: string;
      /** JSON Schema (a protocol with a dialect of its own translates); absent: no arguments. */
      parameters?: RawJson;
      strict?: boolean;
    }
  | { kind: "custom"; name: string; namespace?: string; description?: string; grammar?: unknown; grammarAt?: string }
  | {
      kind: "web_search";
      allowed?: string[];
      blocked?: string[];
      /** At most so many searches. */
      maxUses?: number;
      /** `low`, `medium`, `high`. */
      size?: string;
      location?: { city?: string; region?: string; country?: string; timezone?: string };
      /** Choices among tools do not concern it: where it was asked for, it stands beside them. */
      apart?: true;
      /** The client's own paths of its members; of one that is not here, `at`. */
      paths?: { allowed?: string; blocked?: string; maxUses?: string; size?: string; location?: string };
    }
  /** Any other tool that the vendor runs itself. */
  | { kind: "server"; protocol: string; name: string; json: unknown }
);

export type ToolChoice =
  | { mode: "auto" | "none" | "required" }
  | { mode: "named"; name: string; custom?: boolean; server?: boolean }
  | { mode: "allowed"; required: boolean; names: string[] };

/** How hard to think. */
export type Effort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

export interface ReasoningConfig {
  effort?: Effort;
  /** Tokens for thinking; -1: the model decides. */
  budget?: number;
  /** False: thoughts are not to be shown. */
  show?: boolean;
  summary?: "auto" | "concise" | "detailed";
}

export interface Format {
  kind: "text" | "json" | "schema";
  schema?: RawJson;
  name?: string;
  description?: string;
  strict?: boolean;
  /** The client's vendor keeps to every schema to the letter, without being asked. */
  holds?: true;
  /** The schema is of a string, and the answer its very text instead of JSON. */
  plain?: true;
}

/** One thing that the client said, so that nothing is lost without a word. */
export interface FeatureUse {
  feature: Feature;
  /** The client's own path of it. */
  path: string;
  /** What to do where it is refused; undefined: to remove it, or to ask another model. */
  hint?: string;
  /** What programs are told where it is refused, in the words of the client's protocol. */
  details?: Readonly<Record<string, unknown>>;
}

/** One thing that no other protocol has, put in other words when the request was read. */
export interface Changed {
  /** The client's own path of it. */
  path: string;
  why: string;
}

export interface Conversation {
  /** The protocol it was read from. */
  protocol: string;
  /** Whether to answer, or only to count the tokens of the question. */
  task: Task;
  stream: boolean;
  turns: Turn[];
  /** The client's own path of them all, for where there is none. */
  turnsAt?: string;
  tools: Tool[];
  toolChoice?: ToolChoice;
  /** False: at most one tool call an answer. */
  parallel?: boolean;
  temperature?: number;
  topP?: number;
  topK?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  seed?: number | RawJson;
  logitBias?: unknown;
  /** Number of answers. */
  choices?: number;
  maxTokens?: number;
  stop?: string[];
  reasoning?: ReasoningConfig;
  format?: Format;
  /** How many likely tokens to tell beside each token; 0: only the token's own. */
  logprobs?: number;
  verbosity?: "low" | "medium" | "high";
  /** Groups requests for the vendor's prompt cache. */
  cacheKey?: string;
  /** A mark for the whole prompt. */
  cache?: CacheMark;
  /** A cached beginning of the prompt, by the vendor's name of it. */
  cacheHandle?: string;
  /** An opaque name of the end user. */
  user?: string;
  metadata?: Record<string, string>;
  tier?: string;
  /** Keep the answer at the vendor. */
  store?: boolean;
  modalities?: string[];
  /** What a picture that is asked for is like: width to height (`16:9`), and how large it is (`2K`). */
  image?: { aspect?: string; size?: string; paths: { aspect?: string; size?: string } };
  /** Each thing the client said besides plain turns, with its path. */
  uses: FeatureUse[];
  /** What reading it changed within its meaning; whoever writes it in another protocol declares that. */
  changed?: Changed[];
}
