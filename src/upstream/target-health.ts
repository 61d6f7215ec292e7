import type { HealthLimits } from "../core/marketplace.ts";
import { SlidingWindow } from "./sliding-window.ts";

/** Weight of a new time to first byte in the moving average. */
const LATENCY_WEIGHT = 0.3;
/** Milliseconds after which a measured time to first byte counts a third: a target that got no requests is tried again. */
const LATENCY_DECAY = 30_000;
/** Milliseconds that count as the time to first byte of a target that sends nothing but errors. */
const UNANSWERED_LATENCY = 60_000;

/**
 * Milliseconds after which the answer of a probe counts as a success for now, although it still runs: streams may take minutes, and
 * one request at a time is not enough for a target that has recovered.
 */
const MAX_TRIAL = 5000;

/** For how long a target is open. */
interface OpenTime {
  /** Milliseconds of the current open period; 0: the target is closed. */
  readonly time: number;
  /** Milliseconds until it may be used. */
  readonly remaining: number;
}

/** The condition of a target, for the console. */
export interface TargetCondition {
  /** `closed`: used as usual. `open`: not used. `half-open`: one request probes whether it is healthy again. */
  readonly state: "closed" | "open" | "half-open";
  /** Milliseconds until it may be used again. */
  readonly remaining: number;
  /** Requests in flight. */
  readonly inFlight: number;
  /** Recent milliseconds to the first byte; absent: no request has been measured. */
  readonly firstByte?: number;
  /** Responses within the window of its health limits, and how many of them failed. */
  readonly recent: { readonly requests: number; readonly failed: number };
}

/** Remembers the caller of the last request of a kind, and when the last one of another caller was. */
class LastCallers {
  /** Undefined: no caller's request was the cause, or there was none. */
  last: string | undefined;
  private lastAt = Number.NEGATIVE_INFINITY;
  private otherAt = Number.NEGATIVE_INFINITY;

  record(caller: string | undefined, now: number): void {
    if (caller !== this.last) this.otherAt = this.lastAt;
    this.last = caller;
    this.lastAt = now;
  }

  /** Reports whether nobody but the last caller has been recorded since a time. */
  isOnlySince(time: number): boolean {
    return this.otherAt < time;
  }
}

/**
 * Circuit breaker of one target: closed (used as usual), open (not used), then half-open (probed with one request). Its clock is
 * monotonic. Requests are numbered: while it is half-open only the probe, and requests that began after it, tell whether the target
 * has recovered.
 */
export class TargetHealth {
  /** Requests in flight. */
  inFlight = 0;

  /** The number of the latest request. */
  private lastRequest = 0;
  private failures = 0;
  private readonly callers = new LastCallers();
  /** Callers whose requests failed. */
  private readonly failedCallers = new LastCallers();
  private readonly window: SlidingWindow;
  /** Milliseconds of the open period; 0: it is closed. */
  private openFor = 0;
  private openUntil = 0;
  /** The number of the half-open probe that is running; 0: none is. */
  private probe = 0;
  /** Time until which the probe's answer, whose head has come, is waited for; 0: it has not come. */
  private trialUntil = 0;
  private latency = 0;
  private measuredAt = 0;
  /** Whether a response was no error. */
  private hasAnswered = false;

  /**
   * @param clock milliseconds
   * @param onStateChange called when it opens (with the duration) and when it closes (0)
   * @param onOpenTimeChange called whenever other processes have to change how long they leave it alone
   */
  constructor(
    private readonly limits: HealthLimits,
    private readonly clock: () => number,
    private readonly onStateChange: (openFor: number) => void,
    private readonly onOpenTimeChange: () => void = () => {},
  ) {
    this.window = new SlidingWindow(limits.window);
  }

  private get closed(): boolean {
    return this.openFor === 0;
  }

  /** Whether it may be used: it is closed, or a probe is due and none runs, or the answer of one has run for long. */
  get isUsable(): boolean {
    if (this.closed) return true;
    const now = this.clock();
    return this.probe > 0 ? this.isTrialOver(now) : now >= this.openUntil;
  }

  /** Reports whether a probe runs, and a request is it or began after it. */
  private isInTrial(request: number): boolean {
    return this.probe > 0 && request >= this.probe;
  }

  private isTrialOver(now: number): boolean {
    return this.trialUntil > 0 && now >= this.trialUntil;
  }

  /** Whether at least its last two requests failed. */
  get isFailing(): boolean {
    return this.failures > 1;
  }

  /** Time at which it may be used again. */
  get usableAt(): number {
    return this.openUntil;
  }

  /** Recent milliseconds to its first byte, times requests in flight plus one; 0 where unknown. */
  get load(): number {
    return this.latency * Math.exp((this.measuredAt - this.clock()) / LATENCY_DECAY) * (this.inFlight + 1);
  }

  /** A snapshot for the console. */
  get condition(): TargetCondition {
    const now = this.clock();
    const remaining = this.closed ? 0 : Math.max(0, this.openUntil - now);
    const { total: requests, marked: failed } = this.window.counts(now);
    return {
      state: this.closed ? "closed" : remaining > 0 ? "open" : "half-open",
      remaining,
      inFlight: this.inFlight,
      ...(this.hasAnswered ? { firstByte: this.latency } : {}),
      recent: { requests, failed },
    };
  }

  /** For how long other processes leave it alone: while a probe runs here, for one open period, in which the probe should end. */
  get openTime(): OpenTime {
    const until = this.probe > 0 ? this.clock() + this.openFor : this.openUntil;
    return { time: this.openFor, remaining: this.closed ? 0 : Math.max(0, until - this.clock()) };
  }

  /** Applies what another process has found. Requests in flight here continue. */
  applyRemote({ time, remaining }: OpenTime): void {
    const { longest } = this.limits;
    if (time === 0) {
      this.failures = 0;
      this.window.clear();
    }
    const openFor = Math.min(time, longest);
    // With the same time another process only probes too: all open periods end together, and a probe here still counts.
    if (openFor !== this.openFor) this.endProbe();
    this.openFor = openFor;
    this.openUntil = this.clock() + Math.min(remaining, longest);
  }

  /** Makes the next request the probe, without waiting for the end of the open period. */
  probeNow(): void {
    const now = this.clock();
    if (this.closed || this.openUntil <= now) return;
    this.openUntil = now;
    this.onOpenTimeChange();
  }

  /** Counts a request that starts. Returns its number, by which the rest of it is recorded. */
  begin(): number {
    this.inFlight++;
    const request = ++this.lastRequest;
    if (this.closed) return request;
    const now = this.clock();
    if (this.probe > 0) {
      if (!this.isTrialOver(now)) return request;
      this.close();
      // No answer has ended whole since it failed: one more failure opens it again.
      this.failures = this.limits.failures - 1;
    } else if (now >= this.openUntil) {
      this.probe = request;
      this.onOpenTimeChange();
    }
    return request;
  }

  /** Counts a request that ends. */
  end(): void {
    this.inFlight--;
  }

  /** Records that an answer has ended whole, whose head was recorded: only that ends a row of failures. */
  recordWhole(request: number): void {
    this.failures = 0;
    if (this.isInTrial(request)) this.close();
  }

  /**
   * Records an answer, whose head was recorded, that broke off, cannot be read or reports a failure of the provider.
   * @param caller whose request may have caused it
   */
  recordBroken(request: number, caller?: string): void {
    this.countFailure(request, caller, this.clock());
  }

  /** Records a request that showed nothing about the target: its client left, or it was refused. */
  recordInconclusive(request: number): void {
    if (request !== this.probe) return;
    this.endProbe();
    this.onOpenTimeChange();
  }

  /**
   * Records a client that left before the response.
   * @param waited milliseconds; more than the `slow` limit counts as a slow response
   */
  recordClientLeft(request: number, waited: number): void {
    const { slow, longest } = this.limits;
    if (slow === 0 || waited <= slow) {
      this.recordInconclusive(request);
      return;
    }
    const now = this.clock();
    this.window.add(now);
    this.markFailure(undefined, now);
    if (this.closed) this.openIfFailing();
    else if (this.isInTrial(request)) this.open(Math.min(2 * this.openFor, longest));
  }

  /**
   * Records the head of a response. It is neither a success nor a failure until the response has ended.
   * @param firstByte milliseconds to its first byte
   * @param caller whose request it answers
   * @param isError whether the provider refused the request
   */
  recordResponse(request: number, firstByte: number, caller?: string, isError = false): void {
    const now = this.clock();
    this.callers.record(caller, now);
    this.measure(firstByte, isError, now);
    if (request === this.probe) this.trialUntil = now + MAX_TRIAL;
    this.window.add(now);
    const { slow } = this.limits;
    if (slow === 0 || firstByte <= slow) return;
    this.markFailure(caller, now);
    if (this.closed) this.openIfFailing();
  }

  /**
   * Errors come fast, and would make a target that sends nothing else get all requests: each counts as twice the time of its answers.
   * Those that requests cause themselves come from all targets alike.
   */
  private measure(firstByte: number, isError: boolean, now: number): void {
    const errorTime = Math.min(2 * this.latency || UNANSWERED_LATENCY, UNANSWERED_LATENCY);
    const time = isError ? Math.max(firstByte, errorTime) : firstByte;
    const isOutdated = !this.hasAnswered || now - this.measuredAt > LATENCY_DECAY;
    this.latency = isOutdated ? time : this.latency + LATENCY_WEIGHT * (time - this.latency);
    this.measuredAt = now;
    this.hasAnswered ||= !isError;
  }

  /**
   * Records a failure of the provider.
   * @param caller whose request may have caused it; undefined: no request did
   */
  recordFailure(request: number, caller?: string): void {
    const now = this.clock();
    if (caller !== undefined) this.callers.record(caller, now);
    this.window.add(now);
    this.countFailure(request, caller, now);
  }

  private countFailure(request: number, caller: string | undefined, now: number): void {
    this.failures++;
    this.markFailure(caller, now);
    if (this.closed) this.openIfFailing();
    else if (this.isInTrial(request)) this.open(Math.min(2 * this.openFor, this.limits.longest));
  }

  private markFailure(caller: string | undefined, now: number): void {
    this.window.mark(now);
    this.failedCallers.record(caller, now);
  }

  /**
   * Whether requests of one caller alone have failed of late, while others use the target: what one caller sends must not take it
   * from the others, until a request of theirs fails too.
   */
  private get failsForOneCaller(): boolean {
    const windowStart = this.clock() - this.limits.window;
    const { callers, failedCallers } = this;
    return (
      failedCallers.last !== undefined && failedCallers.isOnlySince(windowStart) && !callers.isOnlySince(windowStart)
    );
  }

  private openIfFailing(): void {
    const { failures, errors, requests, open, longest } = this.limits;
    const { total, marked } = this.window.counts(this.clock());
    const exceedsErrorRate = errors > 0 && total >= requests && marked > errors * total;
    if ((this.failures >= failures || exceedsErrorRate) && !this.failsForOneCaller) this.open(Math.min(open, longest));
  }

  private open(time: number): void {
    this.openFor = time;
    this.openUntil = this.clock() + time;
    this.endProbe();
    this.onStateChange(time);
    this.onOpenTimeChange();
  }

  private close(): void {
    this.openFor = 0;
    this.endProbe();
    this.window.clear();
    this.onStateChange(0);
    this.onOpenTimeChange();
  }

  private endProbe(): void {
    this.probe = this.trialUntil = 0;
  }
}
