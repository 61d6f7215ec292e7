/**
 * The normal form of token counts. `in.total` includes cached and written tokens and `out.total` includes reasoning,
 * whatever the vendor's own convention; a number nobody reported is absent, never 0 (0 is a claim).
 */
export interface Usage {
  in: {
    total?: number;
    /** Read from the vendor's prompt cache. */
    cached?: number;
    /** Written to the prompt cache, by time to live. */
    write?: { "5m"?: number; "1h"?: number; "30m"?: number; "12h"?: number; unsplit?: number };
    audio?: number;
    image?: number;
    video?: number;
    document?: number;
    toolUse?: number;
  };
  out: {
    total?: number;
    reasoning?: number;
    audio?: number;
    image?: number;
    acceptedPrediction?: number;
    rejectedPrediction?: number;
  };
  /** Calls of server-side tools by the vendor's name, like `web_search_requests`. */
  serverTools?: Record<string, number>;
  /** The service tier that served it, in the vendor's word. */
  tier?: string;
  /** The vendor's own usage object. */
  raw: unknown;
}

/** Prices in USD per million tokens. */
export interface Price {
  input?: number;
  cached?: number;
  cache_write?: number;
  output?: number;
  /** USD per request. */
  request?: number;
  /** USD per image. */
  image?: number;
}

function written({ in: { write } }: Usage): number {
  return write === undefined ? 0 : Object.values(write).reduce((sum, tokens) => sum + tokens, 0);
}

/**
 * What an exchange costs at a price, in integer nano-dollars. Cached and written tokens are taken out of the input first;
 * where no price of their own is given they cost what input costs.
 */
export function cost(usage: Usage, price: Price): number {
  const write = written(usage);
  const cached = Math.min(usage.in.cached ?? 0, Math.max(0, (usage.in.total ?? 0) - write));
  const plain = Math.max(0, (usage.in.total ?? 0) - cached - write);
  const input = price.input ?? 0;
  // USD per million tokens times tokens is micro-dollars; a thousand nano-dollars make one.
  const micro =
    plain * input +
    cached * (price.cached ?? input) +
    write * (price.cache_write ?? input) +
    (usage.out.total ?? 0) * (price.output ?? 0);
  return Math.round(micro * 1000 + (price.request ?? 0) * 1e9);
}
