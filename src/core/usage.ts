/**
 * Normalized token counts. `in.total` includes cached and written tokens and `out.total` includes reasoning, whatever the
 * vendor's own convention; a number that was not reported is absent, never 0 (0 is a claim).
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
    /** Audio, image and video tokens among those read from the cache. */
    cachedAudio?: number;
    cachedImage?: number;
    cachedVideo?: number;
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
  /** The service tier that was used, in the vendor's term. */
  tier?: string;
  /** Images of a complete response, as reported by it or the request. */
  images?: { count: number; size?: string; quality?: string; edited?: true };
  /** Tokens of a model that a drawing tool of the vendor uses, in addition to the others. */
  drawn?: {
    model?: string;
    in: Usage["in"];
    out: Usage["out"];
    /** Images whose tokens the vendor has not reported: usual ones stand for them until the request is looked at. */
    unreported?: number;
  };
  /** The vendor's name of the model that responded, where the vendor switched to another than the requested one. */
  model?: string;
  /** What else the vendor ran for the response, each with counts that are not included in those above. */
  besides?: readonly ExtraUsage[];
  /** The cost as reported by the provider, in integer nano-dollars. */
  providerCost?: number;
  /** The vendor's own usage object. */
  raw: unknown;
}

/** What a vendor ran in addition to a response: a request to another model, or a summary of the conversation. */
export interface ExtraUsage {
  readonly in: Usage["in"];
  readonly out: Usage["out"];
  /** The vendor's name of the model; absent: the one that responded. */
  readonly model?: string;
  /** The version of its price, where it is another model's. */
  readonly price?: string;
}

/**
 * Checks usage made by a plugin or protocol: whatever counts tokens and money relies on its numbers.
 * @throws TypeError for anything else
 */
export function checkUsage(usage: Usage): void {
  checkTokens(usage, "usage");
  const { serverTools, tier, images, drawn, besides, providerCost } = usage;
  if (serverTools !== undefined) checkCounts(serverTools, "usage.serverTools");
  if (tier !== undefined && typeof tier !== "string") throw new TypeError("usage.tier is not a text.");
  if (images !== undefined && !isCount(images?.count)) throw new TypeError("usage.images.count is not a count.");
  if (drawn !== undefined) checkTokens(drawn, "usage.drawn");
  if (drawn?.unreported !== undefined && !isCount(drawn.unreported))
    throw new TypeError("usage.drawn.unreported is not a count.");
  if (besides !== undefined) for (const each of besides) checkTokens(each, "usage.besides[]");
  if (providerCost !== undefined && typeof providerCost !== "number")
    throw new TypeError("usage.providerCost is not a number.");
}

function checkTokens(tokens: ExtraUsage, at: string): void {
  if (typeof tokens !== "object" || tokens === null) throw new TypeError(`${at} is not an object.`);
  checkCounts(tokens.in, `${at}.in`);
  checkCounts(tokens.out, `${at}.out`);
  if (tokens.model !== undefined && typeof tokens.model !== "string") throw new TypeError(`${at}.model is not a text.`);
}

function checkCounts(counts: object, at: string): void {
  if (typeof counts !== "object" || counts === null) throw new TypeError(`${at} is not an object.`);
  for (const name in counts) {
    const count = (counts as Record<string, unknown>)[name];
    if (name === "write" && count !== undefined) checkCounts(count as object, `${at}.write`);
    else if (count !== undefined && !isCount(count)) throw new TypeError(`${at}.${name} is not a count.`);
  }
}

const isCount = (value: unknown): boolean => Number.isFinite(value) && (value as number) >= 0;
