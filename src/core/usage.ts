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
    /** Audio and images among what was read from the cache. */
    cachedAudio?: number;
    cachedImage?: number;
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
  /** Pictures of a whole answer, as it or the request tells them. */
  images?: { count: number; size?: string; quality?: string; edited?: true };
  /** Tokens of a model that a tool of the vendor draws with; they stand beside the others. */
  drawn?: { model?: string; in: Usage["in"]; out: Usage["out"] };
  /** The vendor's name of the model that served, where the vendor went on with another than the one that was asked for. */
  model?: string;
  /** What else the vendor ran for the answer, each with counts of its own that are not in those above. */
  besides?: readonly UsageBesides[];
  /** What the provider itself says that it costs, in integer nano-dollars. */
  providerCost?: number;
  /** The vendor's own usage object. */
  raw: unknown;
}

/** What a vendor ran beside an answer: another model was asked, or the conversation was summarized. */
export interface UsageBesides {
  readonly in: Usage["in"];
  readonly out: Usage["out"];
  /** The vendor's name of the model; absent: the one that served. */
  readonly model?: string;
  /** Names its price, where it is another model's. */
  readonly price?: string;
}
