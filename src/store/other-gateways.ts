/** Milliseconds between checks. A single one proves nothing: a killed gateway may look alive for a moment. */
const EVERY = 5000;

/** The warning while another gateway uses the same store and each counts limits in its own memory. */
export const COUNTED_TWICE =
  "another gateway uses the same store, and each counts limits in its own memory, so that they can be passed so many times over: set store: limits: redis://HOST for both, or stop one";

/** Checks regularly whether another gateway uses the same store, where limits would be counted twice. */
export class OtherGateways {
  private readonly timer: NodeJS.Timeout;
  private seen = 0;
  private told = false;

  /**
   * @param look whether there is another gateway
   * @param limited whether there is any limit
   * @param tell called when limits begin to be counted twice, and when they no longer are
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
    // If the store does not respond, some keys may have limits.
    const twice = this.seen > 1 && (this.told || (await this.limited().catch(() => true)));
    if (twice === this.told) return;
    this.told = twice;
    this.tell(twice);
  }
}
