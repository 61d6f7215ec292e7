import type { HealthLimits } from "../core/marketplace.ts";
import { SlidingWindow } from "./sliding-window.ts";

/** How much a new time to the first byte counts against those before it. */
const SHARE = 0.3;
/** Milliseconds after which a time to the first byte says a third of what it said: a target that nobody asks is asked again. */
const FORGOTTEN = 30_000;

/** How long a target is left alone. */
interface OpenTime {
  /** Milliseconds of this time; 0: it is closed. */
  readonly time: number;
  /** Milliseconds until it may be asked. */
  readonly left: number;
}

/** How a target does, for people. */
export interface TargetCondition {
  /** `closed`: it is asked as usual. `open`: it is left alone. `half-open`: one request finds out whether it is well again. */
  readonly state: "closed" | "open" | "half-open";
  /** Milliseconds until it may be asked again. */
  readonly left: number;
  /** Requests that run there now. */
  readonly inFlight: number;
  /** Milliseconds to its first byte as of late; absent: nobody has asked it. */
  readonly firstByte?: number;
  /** What it answered within the window of its health limits, and how much of that failed. */
  readonly recent: { readonly requests: number; readonly failed: number };
}

/**
 * How one target does: closed (asked as usual), open (left alone), and then half-open (asked once, to see). Its clock
 * only goes forward.
 */
export class TargetHealth {
  /** Requests that run there now. */
  inFlight = 0;

  private failures = 0;
  private readonly window: SlidingWindow;
  /** Milliseconds for which it is open; 0: it is closed. */
  private openFor = 0;
  private openUntil = 0;
  /** The one request that asks whether it is well again is running. */
  private probing = false;
  private latency = 0;
  private measuredAt = 0;

  /**
   * @param clock milliseconds
   * @param changed told when it opens (with how long) and when it closes (0)
   * @param moved told whenever others shall leave it alone for another time than before
   */
  constructor(
    private readonly limits: HealthLimits,
    private readonly clock: () => number,
    private readonly changed: (openFor: number) => void,
    private readonly moved: () => void = () => {},
  ) {
    this.window = new SlidingWindow(limits.window);
  }

  private get closed(): boolean {
    return this.openFor === 0;
  }

  /** Whether it may be asked: it is closed, or it is time for a probe and none runs. */
  get usable(): boolean {
    return this.openFor === 0 || (!this.probing && this.clock() >= this.openUntil);
  }

  /** Whether its last two answers were failures, at least. */
  get failing(): boolean {
    return this.failures > 1;
  }

  /** When it may be asked again. */
  get usableAt(): number {
    return this.openUntil;
  }

  /** Milliseconds to its first byte as of late, times what runs there; 0 where nobody knows. */
  get load(): number {
    return this.latency * Math.exp((this.measuredAt - this.clock()) / FORGOTTEN) * (this.inFlight + 1);
  }

  /** For people to look at. */
  get condition(): TargetCondition {
    const now = this.clock();
    const left = this.closed ? 0 : Math.max(0, this.openUntil - now);
    const { all: requests, some: failed } = this.window.counts(now);
    return {
      state: this.closed ? "closed" : left > 0 ? "open" : "half-open",
      left,
      inFlight: this.inFlight,
      ...(this.measuredAt === 0 ? {} : { firstByte: this.latency }),
      recent: { requests, failed },
    };
  }

  /** For how long others leave it alone: while a probe runs here, until it should have told something. */
  get opening(): OpenTime {
    const until = this.probing ? this.clock() + this.openFor : this.openUntil;
    return { time: this.openFor, left: this.closed ? 0 : Math.max(0, until - this.clock()) };
  }

  /** What another process has found out of it; one that is asked here goes on to be. */
  learn({ time, left }: OpenTime): void {
    const { longest } = this.limits;
    if (time === 0) {
      this.failures = 0;
      this.window.clear();
    }
    this.openFor = Math.min(time, longest);
    this.openUntil = this.clock() + Math.min(left, longest);
    this.probing = false;
  }

  /** Somebody wants it tried at once: the next request finds out whether it is well again. */
  hurry(): void {
    const now = this.clock();
    if (this.closed || this.openUntil <= now) return;
    this.openUntil = now;
    this.moved();
  }

  /** A request goes there. */
  begin(): void {
    this.inFlight++;
    if (this.closed || this.probing || this.clock() < this.openUntil) return;
    this.probing = true;
    this.moved();
  }

  /** The request is over. @param broken the answer broke off, as the provider's fault */
  end(broken: boolean): void {
    this.inFlight--;
    if (!broken) return;
    this.window.mark(this.clock());
    if (this.closed) this.judge();
  }

  /** The request told nothing of the target: its client left, or it was refused. */
  pass(): void {
    if (!this.probing) return;
    this.probing = false;
    this.moved();
  }

  /** Its client left before it had answered. @param waited milliseconds; of one that waited longer than an answer may take it was slow */
  left(waited: number): void {
    const { slow, longest } = this.limits;
    if (slow === 0 || waited <= slow) {
      this.pass();
      return;
    }
    const now = this.clock();
    this.window.add(now);
    this.window.mark(now);
    if (this.closed) this.judge();
    else if (this.probing) this.open(Math.min(2 * this.openFor, longest));
  }

  /** It answered. @param firstByte milliseconds that took */
  succeed(firstByte: number): void {
    const now = this.clock();
    const fresh = this.measuredAt === 0 || now - this.measuredAt > FORGOTTEN;
    this.latency = fresh ? firstByte : this.latency + SHARE * (firstByte - this.latency);
    this.measuredAt = now;
    this.failures = 0;
    // Another one was on its way when it opened.
    const probe = this.probing;
    this.probing = false;
    this.window.add(now);
    const { slow } = this.limits;
    if (slow > 0 && firstByte > slow) this.window.mark(now);
    if (probe) this.close();
    else if (slow > 0 && this.closed) this.judge();
  }

  /** It failed, as the provider's fault. */
  fail(): void {
    const now = this.clock();
    this.failures++;
    this.window.add(now);
    this.window.mark(now);
    if (this.closed) this.judge();
    else if (this.probing) this.open(Math.min(2 * this.openFor, this.limits.longest));
  }

  private judge(): void {
    const { failures, errors, requests, open, longest } = this.limits;
    const { all, some } = this.window.counts(this.clock());
    const many = errors > 0 && all >= requests && some > errors * all;
    if (this.failures >= failures || many) this.open(Math.min(open, longest));
  }

  private open(time: number): void {
    this.openFor = time;
    this.openUntil = this.clock() + time;
    this.probing = false;
    this.changed(time);
    this.moved();
  }

  private close(): void {
    this.openFor = 0;
    this.window.clear();
    this.changed(0);
    this.moved();
  }
}
