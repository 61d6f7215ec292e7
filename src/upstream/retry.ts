import { type ErrorCode, GatewayError } from "../core/errors.ts";
import type { Attempt, Exchange } from "../core/exchange.ts";
import type { RetryLimits, Target } from "../core/marketplace.ts";
import { callerOf, type Health } from "./health.ts";
import type { Places } from "./places.ts";
import { SlidingWindow } from "./sliding-window.ts";

/**
 * What became of a try.
 *
 * - `final`: an answer, or an error that another try does not mend.
 * - `unsent`: no provider has heard of the request.
 * - `refused`: a provider has done nothing for it, because of our credential: 401, 403, 429, but where its words say that it is
 *   the request (see `Protocol.refuses`).
 * - `failed`: a provider answered that it has failed: 5xx, or a stream that begins with an error.
 * - `late`: a provider did not begin to answer in time. It may still work, and bill that.
 * - `broken`: a provider broke off, or answered nothing that can be read. It may have worked.
 */
export type Verdict = "final" | "unsent" | "refused" | "failed" | "late" | "broken";

const BY_CODE: Readonly<Partial<Record<ErrorCode, Verdict>>> = {
  upstream_unreachable: "unsent",
  not_translatable: "unsent",
  // In the words of its provider a request names what is not its key's; others read the same address as anybody's.
  object_not_found: "unsent",
  // A model that the request names besides its own: others may have it.
  not_served: "unsent",
  // A limit of the provider or of the model: others have their own.
  rate_limit_exceeded: "unsent",
  insufficient_quota: "unsent",
  upstream_failed: "broken",
  upstream_invalid: "broken",
  upstream_timeout: "late",
};

/** What an error of an attempt without an answer comes to. */
export const verdictOn = (code: string): Verdict => BY_CODE[code as ErrorCode] ?? "final";

/** What a status comes to, of an answer or of an error that a stream begins with. */
export function verdictOf(status: number): Verdict {
  if (status === 401 || status === 403 || status === 429) return "refused";
  if (status === 504) return "late";
  return status >= 500 ? "failed" : "final";
}

/** Whether doing it twice is the same as once: what only reads, and a count of tokens. */
export const isRepeatable = ({ operation: { method, task } }: Exchange): boolean =>
  method === "GET" || task === "count";

/** Milliseconds over which tries are counted. */
const WINDOW = 10_000;
/** Milliseconds before a target is asked again that does not say how long: at least so many, and up to as many more. */
const BACKOFF = 150;
/** Tries of one exchange that cost nobody anything; no chain of targets is that long. */
const MOST = 16;

/** What all exchanges together may try again. */
export class RetryBudget {
  private readonly window = new SlidingWindow(WINDOW);

  /** @param clock milliseconds that only go forward */
  constructor(
    readonly limits: RetryLimits,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /** A request has come. */
  arrived(): void {
    this.window.add(this.clock());
  }

  /** Takes one try out of the budget. @returns false when none is left */
  spend(): boolean {
    const { budget, least } = this.limits;
    const now = this.clock();
    const { all, some } = this.window.counts(now);
    if (some >= Math.max(budget * all, (least * WINDOW) / 1000)) return false;
    this.window.mark(now);
    return true;
  }
}

interface NextTry {
  readonly target: Target;
  /** Milliseconds to wait before it. */
  readonly wait: number;
}

/** The tries of one exchange: which target is asked next, if any. */
export class Tries {
  /** No more than this is tried again by us, whoever asks. */
  spent = false;

  private readonly tried = new Set<Target>();
  private count = 0;
  /** Tries that a provider may have worked on, besides the first. */
  private counted = 0;
  /** How often credentials were refused at each. */
  private readonly refusals = new Map<Target, number>();
  /** One that rests has been asked: no provider is asked so twice for one request. */
  private rested = false;

  /** @param targets best first */
  constructor(
    private readonly exchange: Exchange,
    private readonly targets: readonly Target[],
    private readonly budget: RetryBudget,
    private readonly health: Health,
    private readonly places: Places,
  ) {}

  /**
   * Where to try next behind an attempt; undefined: nowhere.
   * @param wait milliseconds that the provider wants to be left alone for; undefined: it does not say
   */
  after(attempt: Attempt, verdict: Verdict, wait: number | undefined): NextTry | undefined {
    const { exchange } = this;
    const { target } = attempt;
    this.tried.add(target);
    if (verdict === "final" || exchange.aborted || ++this.count >= MOST) return;
    switch (verdict) {
      case "unsent":
        return this.another(() => true);
      case "refused":
        if (this.hasAnother(target)) return { target, wait: 0 };
        // One that asks to wait without saying how long: clients know better, and their own waits grow.
        return (
          this.another((each) => this.usable(each)) ??
          (attempt.status === 429 && wait !== undefined ? this.again(target, wait) : undefined)
        );
      case "failed":
        return this.onceMore(target, wait);
      case "late":
        if (!this.budget.limits.after_timeout && !isRepeatable(exchange)) return;
        return this.granted(this.another((each) => this.usable(each))) ?? this.resting();
      case "broken":
        if (isRepeatable(exchange)) return this.onceMore(target, wait);
        return target.provider.idempotency === undefined ? undefined : this.again(target, wait, true);
    }
  }

  private usable(target: Target): boolean {
    return this.health.usable(target, callerOf(this.exchange));
  }

  /** Whether a target has a credential left behind one that was refused. Others may be accepted with that one meanwhile. */
  private hasAnother(target: Target): boolean {
    const refusals = (this.refusals.get(target) ?? 0) + 1;
    this.refusals.set(target, refusals);
    return refusals < target.provider.credentials.length && this.usable(target);
  }

  /** Another target that is well, or the same one; behind it, or in the place of one that keeps failing, one that only rests. */
  private onceMore(target: Target, wait: number | undefined): NextTry | undefined {
    const { health } = this;
    const next = this.granted(this.another((each) => this.usable(each)));
    if (next) return next;
    if (health.failing(target)) return this.resting() ?? this.again(target, wait, true);
    return this.again(target, wait, true) ?? this.resting();
  }

  /** One that rests for a while, as its provider has asked for: it may answer, and the client would get a failure. */
  private resting(): NextTry | undefined {
    if (this.rested) return undefined;
    const next = this.granted(this.another((each) => this.health.onlyRests(each, callerOf(this.exchange))));
    this.rested = next !== undefined;
    return next;
  }

  /** The best target that has not been tried, where there is room if there is one. */
  private another(may: (target: Target) => boolean): NextTry | undefined {
    const left = this.targets.filter((each) => !this.tried.has(each) && may(each));
    const target = left.find(({ provider }) => this.places.free(provider)) ?? left[0];
    return target && { target, wait: 0 };
  }

  /** The same target once more, after what it asks for or a little while. */
  private again(target: Target, asked: number | undefined, well = false): NextTry | undefined {
    const { wait: longest } = this.budget.limits;
    const wait = asked ?? BACKOFF * (1 + Math.random());
    const { total } = target.provider.timeouts;
    const inTime = total === 0 || sinceFirst(this.exchange) + wait < total;
    if (wait > longest || !inTime || (well && !this.usable(target))) return undefined;
    return this.granted({ target, wait });
  }

  /** A try that a provider may work on, if there may be one more. */
  private granted(next: NextTry | undefined): NextTry | undefined {
    if (!next) return undefined;
    const { attempts } = this.budget.limits;
    // Where we try nothing again, clients may.
    if (attempts === 0) return undefined;
    this.spent = true;
    if (this.counted >= attempts || !this.budget.spend()) return undefined;
    this.counted++;
    return next;
  }
}

/** Milliseconds since the exchange's first attempt. */
export const sinceFirst = ({ elapsed, attempts }: Exchange): number => elapsed - (attempts[0]?.startedAt ?? elapsed);

/** Waits, unless the client leaves. @throws GatewayError client_gone */
export function pause(ms: number, exchange: Exchange): Promise<void> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const stay = exchange.onAbort(() => {
      clearTimeout(timer);
      reject(new GatewayError("client_gone"));
    });
    timer = setTimeout(() => {
      stay();
      resolve();
    }, ms);
  });
}
