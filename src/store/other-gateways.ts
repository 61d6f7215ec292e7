/** Milliseconds between checks. A single one proves nothing: a killed gateway may look alive for a moment. */
const CHECK_INTERVAL = 5000;

/** The warning while another gateway uses the same store and each counts limits in its own memory. */
export const COUNTED_TWICE =
  "another gateway uses the same store, and each counts limits in its own memory, so that they can be passed so many times over: set store: limits: redis://HOST for both, or stop one";

/** Checks regularly whether another gateway uses the same store, where limits would be counted twice. */
export class OtherGatewayWatch {
  private readonly timer: NodeJS.Timeout;
  private timesSeen = 0;
  private reportedTwice = false;

  /**
   * @param hasOther whether there is another gateway
   * @param hasLimits whether there is any limit
   * @param onChange called when limits begin to be counted twice, and when they no longer are
   * @param every milliseconds
   */
  constructor(
    private readonly hasOther: () => boolean,
    private readonly hasLimits: () => Promise<boolean>,
    private readonly onChange: (twice: boolean) => void,
    every = CHECK_INTERVAL,
  ) {
    this.timer = setInterval(() => void this.check(), every).unref();
  }

  /** Whether limits are counted twice. */
  get isCountedTwice(): boolean {
    return this.reportedTwice;
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private async check(): Promise<void> {
    this.timesSeen = this.hasOther() ? this.timesSeen + 1 : 0;
    // If the store does not respond, some keys may have limits.
    const twice = this.timesSeen > 1 && (this.reportedTwice || (await this.hasLimits().catch(() => true)));
    if (twice === this.reportedTwice) return;
    this.reportedTwice = twice;
    this.onChange(twice);
  }
}
