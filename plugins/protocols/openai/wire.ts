import {
  type Effort,
  entryOf,
  invalidField,
  type RateDistance,
  type RateDistances,
  type Usage,
} from "model-gateway/protocol";

/** All efforts that the vendor knows, as the vocabulary names them. [S: ReasoningEffort] */
export const EFFORTS = [
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const satisfies readonly Effort[];

/** The effort of a word from outside, if it is one. */
export const effortOf = (word: unknown): Effort | undefined => EFFORTS.find((effort) => effort === word);

/** Service tiers by all the names that protocols have for them. [S: the same in Chat and Responses, but for `more`] */
const TIERS: Readonly<Record<string, string>> = {
  auto: "auto",
  default: "default",
  standard: "default",
  standard_only: "default",
  flex: "flex",
  priority: "priority",
  scale: "scale",
  fast: "fast",
};

/**
 * The tier that a client of any protocol means; undefined for one that the vendor does not have.
 * @param more tiers that only the protocol at hand has: `ultrafast` is one of Responses [S]
 */
export function tierOf(tier: string, ...more: readonly string[]): string | undefined {
  const word = tier.toLowerCase();
  return entryOf(TIERS, word) ?? more.find((own) => own === word);
}

/** What others call the tier that served an answer, besides the names of tiers that are asked for. [D: Vertex AI, Groq] */
const SERVED: Readonly<Record<string, string>> = {
  on_demand: "default",
  on_demand_flex: "flex",
  on_demand_priority: "priority",
};

/**
 * The tier that served a request, in the vendor's word; undefined where the provider named none that it has. Typed SDKs
 * refuse an answer with any other word.
 * @param more tiers that only the protocol at hand has
 */
export function servedTier(usage: Usage | undefined, ...more: readonly string[]): string | undefined {
  const tier = usage?.tier;
  return tier === undefined ? undefined : (entryOf(SERVED, tier.toLowerCase()) ?? tierOf(tier, ...more));
}

/** Types of media as formats of `input_audio`; the first of a format is the one it is read as. */
const AUDIO: Readonly<Record<string, string>> = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/wave": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
};

/** The format of `input_audio` for a type of media; undefined for what the vendor does not take. [S: wav and mp3] */
export const audioFormat = (mime: string | undefined): string | undefined => entryOf(AUDIO, mime?.toLowerCase());

/** The type of media for a format of `input_audio`, whatever the client calls it. */
export const audioType = (format: string): string =>
  Object.entries(AUDIO).find(([, name]) => name === format)?.[0] ?? `audio/${format}`;

const DETAILS: readonly string[] = ["auto", "low", "high", "original"];

/** Whether the vendor knows a detail to look at an image with. [S] */
export const isDetail = (detail: string): boolean => DETAILS.includes(detail);

/** A `data:` URL in base64. */
export interface Inline {
  /** The type of media without its parameters; empty where there is none. */
  mime: string;
  base64: string;
  /** All of the URL before its bytes. */
  head: string;
}

/** Whether a URL is one that a vendor fetches. */
export const isFetched = (url: string): boolean => /^https?:/i.test(url);

const DATA = /^data:/i;
const BASE64 = /^data:([^;,]*)(?:;[^;,]*)*?;base64,/i;

/** The parts of a `data:` URL in base64 (RFC 2397); undefined for all else. */
export function inlineOf(url: string): Inline | undefined {
  const found = BASE64.exec(url);
  return found ? { mime: found[1] ?? "", base64: url.slice(found[0].length), head: found[0] } : undefined;
}

/** The same of a client's field. @throws GatewayError for a `data:` URL that is not in base64. */
export function readInline(url: string, at: string): Inline | undefined {
  const inline = inlineOf(url);
  if (!inline && DATA.test(url)) throw invalidField(at, `${at} must be in base64 where it is a data: URL.`);
  return inline;
}

/** A `data:` URL for bytes. */
export const dataUrl = (mime: string, base64: string): string => `data:${mime};base64,${base64}`;

/** Ends of file names that differ from the name of the type. */
const ENDINGS: Readonly<Record<string, string>> = {
  "text/plain": "txt",
  "text/markdown": "md",
  "text/javascript": "js",
  "audio/mpeg": "mp3",
  "image/svg+xml": "svg",
};

/** A name for a file that has none: the vendor wants one beside the bytes, and takes the type from its ending. */
export function filenameOf(mime: string | undefined): string {
  const type = mime?.split(";")[0]?.trim().toLowerCase();
  return `file.${entryOf(ENDINGS, type) ?? /^[\w-]+\/([a-z0-9]+)$/.exec(type ?? "")?.[1] ?? "bin"}`;
}

/** Seconds as the vendor writes them: `1s`, `6m0s`, `150ms`. [D: rate limits guide] */
function untilReset(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** Where the vendor, and those that speak as it does, tell what is left of a minute. [S, D: rate limits guide] */
export const ratesLeft = [
  ["requests", "x-ratelimit-remaining-requests"],
  ["tokens", "x-ratelimit-remaining-tokens"],
] as const;

/** Whole names: a text that is put together for each answer is looked at anew by all who send it on. */
const REQUESTS = [
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-reset-requests",
] as const;
const TOKENS = ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"] as const;

/** `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`. [S, D: rate limits guide] */
export function rateHeaders({ requests, tokens }: RateDistances): string[] {
  const lines: string[] = [];
  if (requests) addDistance(lines, REQUESTS, requests);
  if (tokens) addDistance(lines, TOKENS, tokens);
  return lines;
}

function addDistance(
  lines: string[],
  [most, remaining, until]: typeof REQUESTS | typeof TOKENS,
  { limit, left, reset }: RateDistance,
): void {
  lines.push(most, String(limit), remaining, String(left), until, untilReset(reset));
}
