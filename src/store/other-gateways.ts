/** Milliseconds between two looks. One alone tells nothing: what a killed gateway left may look like a live one for a moment. */
const EVERY = 5000;

/** What is told while another gateway uses the same store and each counts limits in its own memory. */
export const COUNTED_TWICE =
  "another gateway uses the same store, and each counts limits in its own memory, so that they can be passed so many times over: set store: limits: redis://HOST for both, or stop one";

/** Looks now and then whether another gateway uses the same store, where that means that limits are counted twice. */
export class OtherGateways {
  private readonly timer: NodeJS.Timeout;
  private seen = 0;
  private told = false;

  /**
   * @param look whether there is another one
   * @param limited whether there is any limit
   * @param tell told when limits begin to be counted twice, and when they no longer are
   * @param every milliseconds
   */
  constructor(
    private readonly look: () => boolean,
    private readonly limited: () => Promise<boolean>,
    private readonly tell: (twice: boolean) => void,
    every = EVERY,
  ) {
    this.timer = setInterval(() => void this.again(), every).unref();
  }

  /** Whether limits are counted twice. */
  get twice(): boolean {
    return this.told;
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private async again(): Promise<void> {
    this.seen = this.look() ? this.seen + 1 : 0;
    // While the store cannot say which keys have limits, some may.
    const twice = this.seen > 1 && (this.told || (await this.limited().catch(() => true)));
    if (twice === this.told) return;
    this.told = twice;
    this.tell(twice);
  }
}
