import type { Attempt } from "../core/attempt.ts";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { RetryLimits, Target } from "../core/marketplace.ts";
import { callerIdOf, type Health } from "./health.ts";
import type { ProviderSlots } from "./provider-slots.ts";
import { SlidingWindow } from "./sliding-window.ts";

/**
 * The outcome of an attempt, as far as retries depend on it.
 *
 * - `final`: a response, or an error that a retry does not change.
 * - `unsent`: no provider has received the request.
 * - `refused`: a provider did not process it because of our credential: 401, 402, 403 or 429, unless its body says that the request is
 *   the cause (see `Protocol.refuses`).
 * - `unreadable`: a provider did not process it because of state in it that it did not make, or of a summary that it asks for.
 * - `failed`: a provider reported a failure: 5xx, or a stream that begins with an error.
 * - `late`: a provider did not begin to respond in time. It may still work on the request, and bill it.
 * - `broken`: a provider broke off, or sent an unreadable response. It may have worked on the request.
 */
export type AttemptOutcome = "final" | "unsent" | "refused" | "unreadable" | "failed" | "late" | "broken";

const BY_CODE: Readonly<Partial<Record<ErrorCode, AttemptOutcome>>> = {
  upstream_unreachable: "unsent",
  not_translatable: "unsent",
  // An object id is checked in the provider's protocol; another provider may treat the same address as public.
  object_not_found: "unsent",
  // The request names another model besides its own, which another target may have.
  not_served: "unsent",
  // A limit of the provider or of the model: other targets have their own.
  rate_limit_exceeded: "unsent",
  insufficient_quota: "unsent",
  upstream_failed: "broken",
  upstream_invalid: "broken",
  upstream_timeout: "late",
};

/** Returns the outcome of an attempt that ended with an error instead of a response. */
export const outcomeOfError = (code: string): AttemptOutcome => BY_CODE[code as ErrorCode] ?? "final";

/** Returns the outcome of an attempt by the status of its response, or of an error at the beginning of a stream. */
export function outcomeOfStatus(status: number): AttemptOutcome {
  if (status === 401 || status === 402 || status === 403 || status === 429) return "refused";
  if (status === 504) return "late";
  return status >= 500 ? "failed" : "final";
}

/** Reports whether a request is idempotent: it only reads, or counts tokens. */
export const isRepeatable = ({ operation: { method, task } }: Exchange): boolean =>
  method === "GET" || task === "count";

/** Milliseconds over which retries are counted. */
const WINDOW = 10_000;
/** Base of the backoff in milliseconds before the same target is retried without a retry-after: one to two times this. */
const BASE_BACKOFF = 150;
/** Limit of retries of one exchange, including those that cost nothing; no real chain of targets is that long. */
const MAX_TRIES = 16;

/** The retry budget that all exchanges share. */
export class RetryBudget {
  private readonly window = new SlidingWindow(WINDOW);

  /** @param clock monotonic milliseconds */
  constructor(
    readonly limits: RetryLimits,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /** Counts a new request. */
  countRequest(): void {
    this.window.add(this.clock());
  }

  /** Takes one retry from the budget. @returns false when none is left */
  takeRetry(): boolean {
    const { budget, least } = this.limits;
    const now = this.clock();
    const { total, marked } = this.window.counts(now);
    if (marked >= Math.max(budget * total, (least * WINDOW) / 1000)) return false;
    this.window.mark(now);
    return true;
  }
}

interface NextAttempt {
  readonly target: Target;
  /** Milliseconds to wait before it. */
  readonly wait: number;
}

/** Decides which target an exchange tries next, if any. */
export class RetryPlan {
  private readonly tried = new Set<Target>();
  private count = 0;
  /** Whether a retry was granted, or refused because none was left. */
  private usedBudget = false;
  /** Retries that a provider may have worked on. */
  private retries = 0;
  /** Number of refused credentials at each target. */
  private readonly refusals = new Map<Target, number>();
  /** Whether a provider has broken off, and may have worked on the request: no other one gets it then. */
  private hasBrokenOff = false;
  /** Whether a target in cooldown has been tried: that is done once per request. */
  private triedCoolingDown = false;

  /** @param targets best first */
  constructor(
    private readonly exchange: Exchange,
    private readonly targets: readonly Target[],
    private readonly budget: RetryBudget,
    private readonly health: Health,
    private readonly slots: ProviderSlots,
  ) {}

  /**
   * Returns the next try after an attempt; undefined: none.
   * @param wait milliseconds that the provider wants us to wait; undefined: unknown
   */
  nextAfter(attempt: Attempt, outcome: AttemptOutcome, wait: number | undefined): NextAttempt | undefined {
    const { exchange } = this;
    const { target } = attempt;
    this.tried.add(target);
    if (outcome === "final" || exchange.aborted || ++this.count >= MAX_TRIES) return;
    switch (outcome) {
      case "unsent":
        return this.untriedTarget(() => true);
      case "refused":
        if (this.hasOtherCredential(target)) return { target, wait: 0 };
        // After a 429 without a retry-after the same target is not retried: clients know better, and their own backoff grows.
        return (
          this.untriedTarget((candidate) => this.usable(candidate)) ??
          (attempt.status === 429 && wait !== undefined ? this.sameTarget(target, wait) : undefined)
        );
      case "unreadable":
        return this.sameTargetWithoutRefused(attempt);
      case "failed":
        return this.otherOrSameTarget(target, wait);
      case "late":
        if (!this.budget.limits.after_timeout && !isRepeatable(exchange)) return;
        return this.takeFromBudget(this.untriedTarget((each) => this.usable(each))) ?? this.coolingDownTarget();
      case "broken":
        if (isRepeatable(exchange)) return this.otherOrSameTarget(target, wait);
        this.hasBrokenOff = true;
        return target.provider.idempotency === undefined ? undefined : this.sameTarget(target, wait, true);
    }
  }

  /**
   * Reports whether clients should not retry after the last attempt: the gateway has retried, or had no retry left. A provider
   * that asks for a longer wait than the gateway's has not been retried after it: in that case the client may retry.
   * @param wait milliseconds that the provider of the last attempt wants us to wait; infinite: it wants no retry
   */
  exhausted(wait: number | undefined): boolean {
    const asksLongerWait = wait !== undefined && Number.isFinite(wait) && wait > this.budget.limits.wait;
    return this.usedBudget && !asksLongerWait;
  }

  private usable(target: Target): boolean {
    return this.health.isUsable(target, callerIdOf(this.exchange));
  }

  /**
   * Reports whether a target has another credential after a refused one. Meanwhile other requests may find that one accepted
   * again.
   */
  private hasOtherCredential(target: Target): boolean {
    const refusals = (this.refusals.get(target) ?? 0) + 1;
    this.refusals.set(target, refusals);
    return refusals < target.provider.credentials.length && this.usable(target);
  }

  /**
   * Returns another healthy target, or the same one. A target that is only in cooldown comes after these, or before the same
   * one where that keeps failing.
   */
  private otherOrSameTarget(target: Target, wait: number | undefined): NextAttempt | undefined {
    const { health } = this;
    const next = this.takeFromBudget(this.untriedTarget((candidate) => this.usable(candidate)));
    if (next) return next;
    if (health.isFailing(target)) return this.coolingDownTarget() ?? this.sameTarget(target, wait, true);
    return this.sameTarget(target, wait, true) ?? this.coolingDownTarget();
  }

  /**
   * Returns a target whose provider requested a short cooldown: it may still respond, and otherwise the client would get an
   * error.
   */
  private coolingDownTarget(): NextAttempt | undefined {
    if (this.triedCoolingDown) return undefined;
    const next = this.takeFromBudget(
      this.untriedTarget((candidate) => this.health.isOnlyCoolingDown(candidate, callerIdOf(this.exchange))),
    );
    this.triedCoolingDown = next !== undefined;
    return next;
  }

  /** Returns the best untried target, preferably one whose provider has a free slot. */
  private untriedTarget(isAllowed: (target: Target) => boolean): NextAttempt | undefined {
    if (this.hasBrokenOff) return undefined;
    const remaining = this.targets.filter(
      (candidate) => !this.tried.has(candidate) && this.hasTime(candidate) && isAllowed(candidate),
    );
    const target = remaining.find(({ provider }) => this.slots.hasFree(provider)) ?? remaining[0];
    return target && { target, wait: 0 };
  }

  /** Returns the same target once more, after the requested wait or a short backoff. */
  private sameTarget(target: Target, requestedWait: number | undefined, ifUsable = false): NextAttempt | undefined {
    const { wait: maxWait } = this.budget.limits;
    const wait = requestedWait ?? BASE_BACKOFF * (1 + Math.random());
    if (wait > maxWait || !this.hasTime(target, wait) || (ifUsable && !this.usable(target))) return undefined;
    return this.takeFromBudget({ target, wait });
  }

  /** Returns the same target once more, which then gets the request without what it refused: state, or a summary of the reasoning. */
  private sameTargetWithoutRefused(attempt: Attempt): NextAttempt | undefined {
    const { target, refusedSummary } = attempt;
    // Only the translation asks for a summary on the client's behalf.
    const isFinal = refusedSummary ? attempt.withoutSummary || !attempt.isTranslated : attempt.withoutState;
    return isFinal || this.exchange.strict || !this.hasTime(target) ? undefined : { target, wait: 0 };
  }

  /** Reports whether the time of the request is not over for a target, also after a wait in milliseconds. */
  private hasTime({ provider }: Target, wait = 0): boolean {
    const { total } = provider.timeouts;
    return total === 0 || sinceFirstAttempt(this.exchange) + wait < total;
  }

  /** Counts a retry that a provider may work on; undefined where none is left. */
  private takeFromBudget(next: NextAttempt | undefined): NextAttempt | undefined {
    if (!next) return undefined;
    const { attempts } = this.budget.limits;
    // With retries disabled here, clients may retry.
    if (attempts === 0) return undefined;
    this.usedBudget = true;
    if (this.retries >= attempts || !this.budget.takeRetry()) return undefined;
    this.retries++;
    return next;
  }
}

/** Returns the milliseconds since the exchange's first attempt. */
export const sinceFirstAttempt = ({ elapsed, attempts }: Exchange): number =>
  elapsed - (attempts[0]?.startedAt ?? elapsed);

/** Waits, unless the client leaves. @throws GatewayError client_gone */
export function waitUnlessAborted(ms: number, exchange: Exchange): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      unsubscribe();
      resolve();
    }, ms);
    const unsubscribe = exchange.onAbort(() => {
      clearTimeout(timer);
      reject(new GatewayError("client_gone"));
    });
  });
}
