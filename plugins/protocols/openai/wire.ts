import {
  type Effort,
  invalidField,
  type Media,
  ownProperty,
  type RateLimitStates,
  type Usage,
} from "model-gateway/protocol";

/** All efforts of the vendor, by their names in conversations. [S: ReasoningEffort] */
export const EFFORTS = [
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const satisfies readonly Effort[];

/** Returns the effort for an external value, if it is one. */
export const parseEffort = (value: unknown): Effort | undefined => EFFORTS.find((effort) => effort === value);

/** Service tiers by their names in all protocols. [S: the same in Chat and Responses, but for `extraTiers`] */
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
 * Returns the tier for any protocol's name of it; undefined for one that the vendor does not have.
 * @param extraTiers tiers of one protocol only: `ultrafast` is one of Responses [S]
 */
export function serviceTier(tier: string, ...extraTiers: readonly string[]): string | undefined {
  const name = tier.toLowerCase();
  return ownProperty(TIERS, name) ?? extraTiers.find((extraTier) => extraTier === name);
}

/** Other vendors' names of the tier that served a response, besides the names of requested tiers. [D: Vertex AI, Groq] */
const SERVED_TIERS: Readonly<Record<string, string>> = {
  on_demand: "default",
  on_demand_flex: "flex",
  on_demand_priority: "priority",
};

/**
 * Returns the tier that served a request, in the vendor's terms; undefined where the provider reported none that it has. Typed
 * SDKs refuse a response with any other value.
 * @param extraTiers tiers of one protocol only
 */
export function servedTier(usage: Usage | undefined, ...extraTiers: readonly string[]): string | undefined {
  const tier = usage?.tier;
  return tier === undefined
    ? undefined
    : (ownProperty(SERVED_TIERS, tier.toLowerCase()) ?? serviceTier(tier, ...extraTiers));
}

/** Media types and formats of `input_audio`; a format is decoded as its first type. */
const AUDIO_FORMATS: Readonly<Record<string, string>> = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/wave": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
};

/** Returns the format of `input_audio` for a media type; undefined for one that the vendor does not accept. [S: wav and mp3] */
export const audioFormat = (mime: string | undefined): string | undefined =>
  ownProperty(AUDIO_FORMATS, mime?.toLowerCase());

/** Returns the media type for a format of `input_audio`, also for unknown formats. */
export const audioMediaType = (format: string): string =>
  Object.entries(AUDIO_FORMATS).find(([, name]) => name === format)?.[0] ?? `audio/${format}`;

const IMAGE_DETAILS: readonly string[] = ["auto", "low", "high", "original"];

/** Reports whether the vendor has this image detail. [S] */
export const isImageDetail = (detail: string): boolean => IMAGE_DETAILS.includes(detail);

/** A `data:` URL in base64. */
interface Base64DataUrl {
  /** The media type without parameters, but for the character set of a text that is not in UTF-8; empty where there is none. */
  mime: string;
  base64: string;
  /** The whole URL before its bytes. */
  prefix: string;
}

/** Returns the content of a `data:` URL as a part's. */
export const dataUrlSource = ({ mime, base64 }: Base64DataUrl): Pick<Media, "mime" | "source"> => ({
  ...(mime !== "" && { mime }),
  source: { base64 },
});

/** Reports whether a vendor would fetch a URL. */
export const isHttpUrl = (url: string): boolean => /^https?:/i.test(url);

const DATA_URL = /^data:/i;
const BASE64_END = /;base64,$/i;

/** Maximum characters of a `data:` URL before its bytes: parameters hold at most a file's name, percent-encoded. */
const MAX_DATA_URL_PREFIX = 4096;

/** Parses a `data:` URL in base64 (RFC 2397); undefined for all others. */
export function parseDataUrl(url: string): Base64DataUrl | undefined {
  if (!DATA_URL.test(url)) return undefined;
  const prefix = url.slice(0, url.slice(0, MAX_DATA_URL_PREFIX).indexOf(",") + 1);
  if (!BASE64_END.test(prefix)) return undefined;
  return { mime: mediaType(prefix), base64: url.slice(prefix.length), prefix };
}

function mediaType(prefix: string): string {
  const [type = "", ...parameters] = prefix.slice("data:".length).split(";");
  if (!/^text\//i.test(type)) return type;
  const charset = parameters.find((each) => /^\s*charset=/i.test(each));
  return charset === undefined || /=\s*"?(?:utf-?8|us-ascii)"?\s*$/i.test(charset) ? type : `${type};${charset}`;
}

/**
 * Does the same for a client's field.
 * @throws GatewayError for a `data:` URL that is not in base64, and for one with too much before its bytes
 */
export function readDataUrl(url: string, at: string): Base64DataUrl | undefined {
  const inline = parseDataUrl(url);
  if (inline || !DATA_URL.test(url)) return inline;
  if (url.length > MAX_DATA_URL_PREFIX && !url.slice(0, MAX_DATA_URL_PREFIX).includes(","))
    throw invalidField(at, `${at} has more than ${MAX_DATA_URL_PREFIX} characters before the bytes of its data: URL.`);
  throw invalidField(at, `${at} must be in base64 where it is a data: URL.`);
}

/** Returns a `data:` URL for bytes. */
export const formatDataUrl = (mime: string, base64: string): string => `data:${mime};base64,${base64}`;

/** File name extensions that differ from the name of the type. */
const FILE_EXTENSIONS: Readonly<Record<string, string>> = {
  "text/plain": "txt",
  "text/markdown": "md",
  "text/javascript": "js",
  "audio/mpeg": "mp3",
  "image/svg+xml": "svg",
};

/** Returns a name for a file without one: the vendor requires a name with the bytes, and derives the type from its extension. */
export function defaultFilename(mime: string | undefined): string {
  const type = mime?.split(";")[0]?.trim().toLowerCase();
  return `file.${ownProperty(FILE_EXTENSIONS, type) ?? /^[\w-]+\/([a-z0-9]+)$/.exec(type ?? "")?.[1] ?? "bin"}`;
}

/** Formats a duration like the vendor: `1s`, `6m0s`, `150ms`. [D: rate limits guide] */
function formatReset(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** Headers in which the vendor, and compatible ones, report what is left of a minute. [S, D: rate limits guide] */
export const remainingRateHeaders = [
  ["requests", "x-ratelimit-remaining-requests"],
  ["tokens", "x-ratelimit-remaining-tokens"],
] as const;

/** Whole names, because a string concatenated per response would be processed again at each use. */
const REQUEST_RATE_HEADERS = [
  "x-ratelimit-limit-requests",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-reset-requests",
] as const;
const TOKEN_RATE_HEADERS = [
  "x-ratelimit-limit-tokens",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset-tokens",
] as const;

/** Returns `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`. [S, D: rate limits guide] */
export function rateHeaders({ requests, tokens }: RateLimitStates): string[] {
  const lines: string[] = [];
  if (requests) addRateHeaders(lines, REQUEST_RATE_HEADERS, requests);
  if (tokens) addRateHeaders(lines, TOKEN_RATE_HEADERS, tokens);
  return lines;
}

function addRateHeaders(
  lines: string[],
  [limitHeader, remainingHeader, resetHeader]: typeof REQUEST_RATE_HEADERS | typeof TOKEN_RATE_HEADERS,
  { limit, remaining, reset }: Required<RateLimitStates>["requests"],
): void {
  lines.push(limitHeader, String(limit), remainingHeader, String(remaining), resetHeader, formatReset(reset));
}
