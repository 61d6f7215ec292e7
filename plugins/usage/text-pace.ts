/** Milliseconds and tokens of text that tell its pace: what comes at once was kept back somewhere. */
const MIN_TIME = 500;
const MIN_TOKENS = 32;
/** Tokens a second, the slowest and the fastest pace that is believed: pieces of text that came late come faster. */
const SLOWEST = 5;
const FASTEST = 400;
/** Milliseconds that a provider takes until its model generates: its checks, and reading a prompt of usual length. */
const PREPARATION = 500;

/** An exchange's clock. */
export interface ExchangeClock {
  /** Milliseconds since the exchange began. */
  readonly elapsed: number;
}

/** When the text of a stream has come, and how fast. */
export class TextPace {
  private firstAt: number | undefined;
  private firstTokens = 0;
  private lastAt = 0;
  private lastTokens = 0;

  constructor(private readonly clock: ExchangeClock) {}

  /**
   * To be called when text has come: with the first, and then every now and then.
   * @param tokens all that have come
   */
  observe(tokens: number): void {
    this.lastAt = this.clock.elapsed;
    this.lastTokens = tokens;
    if (this.firstAt !== undefined) return;
    this.firstAt = this.lastAt;
    this.firstTokens = tokens;
  }

  /**
   * Returns the tokens that a model may have generated before its text came, at the pace of its text; undefined: too little came
   * to know that.
   * @param sentAt when its provider got the request, in milliseconds since the exchange began
   */
  tokensBefore(sentAt: number): number | undefined {
    if (this.firstAt === undefined) return undefined;
    const time = this.lastAt - this.firstAt;
    const tokens = this.lastTokens - this.firstTokens;
    if (time < MIN_TIME || tokens < MIN_TOKENS) return undefined;
    const pace = Math.min(FASTEST, Math.max(SLOWEST, (tokens * 1000) / time));
    return (Math.max(0, this.firstAt - sentAt - PREPARATION) * pace) / 1000;
  }
}
