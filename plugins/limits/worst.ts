import type { Body, Protocol, RouteExchange, SendExchange, Translations } from "model-gateway";
import { cost, type Spending, type Usage } from "model-gateway/store";

/** What an exchange may come to, and what it comes to at least once a provider has it. */
export interface Worst {
  readonly most: Spending;
  readonly least: Spending;
  /** Tokens of what goes in, about, and of what the request itself lets come out; 0 where it says nothing of that. */
  readonly told: number;
}

export const NOTHING: Spending = { tokens: 0, cost: 0 };

/** Bytes of JSON for a token, at most in all but rare texts. */
const BYTES = 3;
/** The same, about. */
const USUAL_BYTES = 4;
/** Bytes of a request of which nobody asks whether it holds pictures or sounds. */
const SHORT = 4096;
/** Bytes from one look into a body to the next, and those looked at: base64 longer than both together is always met. */
const [STEP, RUN] = [1024, 48];
/** Letters, digits and what else stands in base64, by their codes; a slash may be escaped. */
const BASE64 = Uint8Array.from({ length: 256 }, (_, code) =>
  /[A-Za-z0-9+/=_-]/.test(String.fromCharCode(code)) ? 1 : 0,
);
const QUOTE = 0x22;
/** Bytes around the beginning of a text in which it is seen to be a picture, as clients of Chat and Responses send one. */
const NAME = 24;
const IN_PICTURE = /"(?:image_)?url"\s*:\s*"data:image\\?\//;
/** Tokens of a picture, at most in all but the largest: as many as an estimate of the whole says. */
const PICTURE = 1600;
/** Tokens of a form, which is pictures and a few words. */
const FORM = 8192;
/** Tokens of an answer where neither the request nor the model says how many there may be. */
const UNKNOWN = 4096;

/** The worst case of an exchange at the dearest of its targets. */
export function worstOf(exchange: RouteExchange | SendExchange, translations: Translations): Worst {
  const { operation, protocol, body, targets, time } = exchange;
  if (!operation.generates) return { most: NOTHING, least: NOTHING, told: 0 };
  const input = tokensIn(exchange, translations);
  const asked = protocol.output && askedFor(body, protocol.output);
  const tier = tierOf(body);
  let [tokens, dearest, cheapest, out] = [input, 0, 0, 0];
  for (const { facts, prices } of targets) {
    const longest = Math.min(asked?.tokens ?? Number.POSITIVE_INFINITY, facts?.output ?? Number.POSITIVE_INFINITY);
    const output = asked ? (Number.isFinite(longest) ? longest : UNKNOWN) * asked.times : 0;
    tokens = Math.max(tokens, input + output);
    if (asked?.tokens !== undefined) out = Math.max(out, output);
    const price = prices?.at(time)?.price;
    if (!price) continue;
    const pictures = (asked?.times ?? 0) * Math.max(dearestOf(price.image), dearestOf(price.image_edit));
    dearest = Math.max(dearest, cost(dearestUsage(input, output, price, tier), price) + Math.ceil(pictures * NANO));
    cheapest = Math.max(cheapest, cost({ in: { total: input }, out: {}, raw: undefined }, price));
  }
  return { most: { tokens, cost: dearest }, least: { tokens: input, cost: cheapest }, told: told(input, body) + out };
}

const told = (input: number, body: Body): number => Math.min(input, Math.ceil(body.length / USUAL_BYTES));

/** Nano-dollars of a dollar. */
const NANO = 1e9;

/** USD for a picture at most. */
const dearestOf = (each: number | Readonly<Record<string, number>> = 0): number =>
  typeof each === "number" ? each : Math.max(0, ...Object.values(each));

/** Tokens of the kinds that cost most: what goes in may be written to a cache for long, what comes out may be a picture. */
function dearestUsage(
  input: number,
  output: number,
  price: Parameters<typeof cost>[1],
  tier: string | undefined,
): Usage {
  const { input: plain = 0, cache_write: short = plain, cache_write_1h: long = short, output: text = 0 } = price;
  const write = long > plain && long >= short ? { "1h": input } : short > plain ? { unsplit: input } : undefined;
  const { output_image: drawn = 0, output_audio: spoken = 0 } = price;
  const out = drawn > text && drawn >= spoken ? { image: output } : spoken > text ? { audio: output } : {};
  return {
    in: { total: input, ...(write && { write }) },
    out: { total: output, ...out },
    ...(tier === undefined ? {} : { tier }),
    raw: undefined,
  };
}

/** The service tier that a request wants. */
function tierOf(body: Body): string | undefined {
  const tier = body.member("service_tier") && body.value("service_tier");
  return tier === "priority" ? tier : undefined;
}

function tokensIn(exchange: RouteExchange | SendExchange, translations: Translations): number {
  const { body, form } = exchange;
  if (form) return FORM;
  const found = body.length > SHORT ? picturesIn(body.pieces) : { count: 0, bytes: 0 };
  // What else there may be is seen only by who reads the conversation.
  const read = found ? undefined : translations.tokensIn(exchange);
  const { count, bytes } = found ?? { count: 0, bytes: 0 };
  return read ?? Math.ceil((body.length - bytes) / BYTES) + count * PICTURE;
}

/** How many tokens a request lets come out, and how often. */
function askedFor(
  body: Body,
  { tokens, times }: NonNullable<Protocol["output"]>,
): { tokens: number | undefined; times: number } {
  const limits = tokens.map((path) => numberOf(valueAt(body, path))).filter(isCount);
  let [most, lists] = [1, 1];
  for (const path of times) {
    const value = numberOf(valueAt(body, path));
    if (isCount(value)) most = Math.max(most, value);
    // A list of numbers is one text, as tokens.
    if (Array.isArray(value) && typeof value[0] !== "number") lists *= Math.max(1, value.length);
  }
  return { tokens: limits.length > 0 ? Math.max(...limits) : undefined, times: most * lists };
}

function valueAt(body: Body, [name, ...below]: readonly (string | number)[]): unknown {
  const member = body.member(String(name));
  // A long text limits nothing.
  if (!member || (member.kind === "string" && member.end - member.start > DIGITS)) return undefined;
  let value = body.value(String(name));
  for (const step of below) value = (value as Record<string | number, unknown> | null | undefined)?.[step];
  return value;
}

/** Bytes of a number that is written as a text. */
const DIGITS = 24;

/** Some servers take a text for the number that stands in it. */
const numberOf = (value: unknown): unknown => (typeof value === "string" && value !== "" ? Number(value) : value);

const isCount = (value: unknown): value is number => typeof value === "number" && value > 0;

/** Whether bytes are base64, as far as can be seen at a place. */
function isBase64(bytes: Buffer, at: number): boolean {
  const end = Math.min(at + RUN, bytes.length);
  for (let i = at; i < end; i++) if (BASE64[bytes[i] as number] === 0) return false;
  return true;
}

/**
 * The pictures of a body, and the bytes of their base64, looked at here and there: they are few tokens for their length, and
 * no words. Undefined where there is base64 that is not for sure a picture's: a sound, a file, a text that looks like it.
 */
export function picturesIn(pieces: readonly Buffer[]): { count: number; bytes: number } | undefined {
  const found = { count: 0, bytes: 0 };
  let inside = false;
  for (const piece of pieces) {
    let at = 0;
    let from = 0;
    while (at + RUN <= piece.length || (inside && at < piece.length)) {
      if (!inside) {
        if (!isBase64(piece, at)) {
          at += STEP;
          continue;
        }
        from = piece.lastIndexOf(QUOTE, at) + 1;
        if (!IN_PICTURE.test(piece.toString("latin1", Math.max(0, from - NAME), from + NAME))) return undefined;
        found.count++;
        inside = true;
      }
      const quote = piece.indexOf(QUOTE, at);
      const end = quote < 0 ? piece.length : quote;
      for (let i = at + STEP; i + RUN < end; i += STEP) if (!isBase64(piece, i)) return undefined;
      found.bytes += end - from;
      inside = quote < 0;
      at = end + 1;
      from = at;
    }
  }
  return found;
}
