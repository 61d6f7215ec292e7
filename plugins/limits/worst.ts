import type { Body, Protocol, RouteExchange, SendExchange, Translations } from "model-gateway";
import { cost, type Spending, type Usage } from "model-gateway/store";

/** What an exchange may come to, and what it comes to at least once a provider has it. */
export interface Worst {
  readonly most: Spending;
  readonly least: Spending;
}

export const NOTHING: Spending = { tokens: 0, cost: 0 };

/** Bytes of JSON for a token, at most in all but rare texts. */
const BYTES = 3;
/** Bytes of a request of which nobody asks whether it holds pictures or sounds. */
const SHORT = 4096;
/** Bytes from one look into a body to the next, and those looked at: base64 longer than both together is always met. */
const [STEP, RUN] = [1024, 48];
/** Letters, digits and what else stands in base64, by their codes; a slash may be escaped. */
const BASE64 = Uint8Array.from({ length: 256 }, (_, code) =>
  /[A-Za-z0-9+/=_-]/.test(String.fromCharCode(code)) ? 1 : 0,
);
/** Tokens of a form, which is pictures and a few words. */
const FORM = 8192;
/** Tokens of an answer where neither the request nor the model says how many there may be. */
const UNKNOWN = 4096;

/** The worst case of an exchange at the dearest of its targets. */
export function worstOf(exchange: RouteExchange | SendExchange, translations: Translations): Worst {
  const { operation, protocol, body, targets, time } = exchange;
  if (!operation.generates) return { most: NOTHING, least: NOTHING };
  const input = tokensIn(exchange, translations);
  const asked = protocol.output && askedFor(body, protocol.output);
  const tier = tierOf(body);
  let [tokens, dearest, cheapest] = [input, 0, 0];
  for (const { facts, prices } of targets) {
    const longest = Math.min(asked?.tokens ?? Number.POSITIVE_INFINITY, facts?.output ?? Number.POSITIVE_INFINITY);
    const output = asked ? (Number.isFinite(longest) ? longest : UNKNOWN) * asked.times : 0;
    tokens = Math.max(tokens, input + output);
    const price = prices?.at(time)?.price;
    if (!price) continue;
    dearest = Math.max(dearest, cost(dearestUsage(input, output, price, tier), price));
    cheapest = Math.max(cheapest, cost({ in: { total: input }, out: {}, raw: undefined }, price));
  }
  return { most: { tokens, cost: dearest }, least: { tokens: input, cost: cheapest } };
}

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
  const media = body.length > SHORT && body.pieces.some(holdsMedia);
  return (media ? translations.tokensIn(exchange) : undefined) ?? Math.ceil(body.length / BYTES);
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

/** Whether bytes may hold base64, looked at here and there: pictures are few tokens for their length, and no words. */
function holdsMedia(bytes: Buffer): boolean {
  for (let at = 0; at + RUN <= bytes.length; at += STEP) {
    let i = at;
    while (i < at + RUN && BASE64[bytes[i] as number] === 1) i++;
    if (i === at + RUN) return true;
  }
  return false;
}
