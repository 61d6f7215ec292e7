import { FileError, StoreUnavailableError } from "./core/errors.ts";
import type { Log } from "./core/log.ts";
import type { PriceVersion } from "./core/price-list.ts";
import type { PriceVersions } from "./store/price-versions.ts";
import { formatError } from "./text/format-error.ts";

/** Milliseconds between attempts to reach an unavailable store. */
const RETRY_DELAY = 5000;
/** Milliseconds between log lines that tell why it is still unavailable. */
const REMINDER_INTERVAL = 600_000;

/** Stores prices, as ledger rows refer to them: while the store cannot be written, once it can again, like the rows. */
export class LatePrices {
  private readonly waiting = new Map<string, PriceVersion>();
  private retry: NodeJS.Timeout | undefined;
  private closed = false;
  /** `performance.now()` of the last line in the log. */
  private loggedAt = 0;

  /**
   * @param delay milliseconds between attempts
   * @param interval milliseconds between log lines while they fail
   */
  constructor(
    private readonly versions: PriceVersions,
    private readonly log: Log,
    private readonly delay = RETRY_DELAY,
    private readonly interval = REMINDER_INTERVAL,
  ) {}

  /** @throws the store's error, unless it says that the store cannot be written for now */
  async keep(prices: readonly PriceVersion[]): Promise<void> {
    try {
      await this.versions.keep(prices);
    } catch (thrown) {
      if (!isTemporary(thrown)) throw thrown;
      this.warn(thrown);
      for (const price of prices) this.waiting.set(price.version, price);
      this.schedule();
    }
  }

  /** Ends the attempts. */
  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
  }

  private warn(thrown: unknown): void {
    this.loggedAt = performance.now();
    this.log.warn({ cause: formatError(thrown) }, "the prices of gateway.yaml cannot be stored yet");
  }

  private schedule(): void {
    if (!this.closed) this.retry ??= setTimeout(() => this.keepWaiting(), this.delay).unref();
  }

  /** Never throws. */
  private async keepWaiting(): Promise<void> {
    const prices = [...this.waiting.values()];
    let done = true;
    try {
      await this.versions.keep(prices);
    } catch (thrown) {
      done = !isTemporary(thrown);
      if (done && !this.closed)
        this.log.error({ cause: formatError(thrown) }, "prices of gateway.yaml cannot be stored");
      else if (!this.closed && performance.now() - this.loggedAt >= this.interval) this.warn(thrown);
    }
    if (done) for (const { version } of prices) this.waiting.delete(version);
    this.retry = undefined;
    if (this.waiting.size > 0) this.schedule();
  }
}

/** Reports whether a store cannot be reached, or is not allowed to write or has no room for it until somebody mends that. */
const isTemporary = (thrown: unknown): boolean =>
  thrown instanceof StoreUnavailableError || thrown instanceof FileError;
