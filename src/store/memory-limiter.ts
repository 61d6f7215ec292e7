import type { Calendar, Period } from "../core/calendar.ts";
import { GatewayError } from "../core/errors.ts";
import type { Budget, LimitLevel } from "../core/limits.ts";
import { dollars, whose } from "../core/limits-words.ts";
import type { RateDistance } from "../core/protocol.ts";
import {
  type BudgetStanding,
  type Charge,
  type Excess,
  type Grant,
  Limiter,
  type Reservation,
  type Reserved,
  type Spending,
  type Standing,
} from "./limiter.ts";
import { RateWindow } from "./rate-window.ts";

/** Nano-dollars by scope that were spent since a moment (Unix milliseconds). */
export type SpendSince = (since: number) => Promise<ReadonlyMap<string, number>>;

/** The share of a soft budget from which on it is told, and all of it. */
const NEARLY = 0.8;
/** Milliseconds for which what was spent before is not asked again: later a new scope may be of a newer gateway.yaml. */
const FRESH = 60_000;
/** Names of usage that counts once, remembered. */
const REMEMBERED = 10_000;
const NOTHING: Spending = { tokens: 0, cost: 0 };

/** Money of one scope in one kind of period. */
interface SpentSum {
  start: number;
  end: number;
  spent: number;
  /** The worst of what runs. */
  pending: number;
}

/** All counts of one scope. */
class ScopeCounts {
  private requestWindow: RateWindow | undefined;
  private tokenWindow: RateWindow | undefined;
  inside = 0;
  readonly sums = new Map<Period, SpentSum>();

  // Made where they are needed: there may be many keys, of which most have budgets only.

  get requests(): RateWindow {
    this.requestWindow ??= new RateWindow();
    return this.requestWindow;
  }

  get tokens(): RateWindow {
    this.tokenWindow ??= new RateWindow();
    return this.tokenWindow;
  }
}

interface MadeReservation {
  readonly reservation: Reservation;
  /** Of each level. */
  readonly counts: readonly ScopeCounts[];
  readonly time: number;
  /** The process that made it. */
  readonly owner: string | undefined;
}

/** What was spent before this process began, by kind of period. */
interface SpentBefore {
  /** When it was asked for. */
  readonly asked: number;
  readonly start: number;
  readonly sums: ReadonlyMap<string, number>;
}

/** Counts in this process's memory. What was spent before it began the ledger tells. */
export class MemoryLimiter extends Limiter {
  private readonly scopes = new Map<string, ScopeCounts>();
  private readonly reservations = new Map<string, MadeReservation>();
  private readonly before = new Map<Period, SpentBefore>();
  private readonly loading = new Map<Period, Promise<void>>();
  private readonly counted = new Set<string>();

  /**
   * @param warn told when a soft budget is nearly spent, and when it is
   * @param clock Unix milliseconds; a test may bring its own
   */
  constructor(
    private readonly spentSince: SpendSince,
    private readonly calendar: Calendar,
    private readonly warn: (message: string) => void,
    private readonly clock: () => number = Date.now,
  ) {
    super();
  }

  /** Reservations that have not been settled. */
  get pending(): number {
    return this.reservations.size;
  }

  /** @param owner the process that makes it, where there are several */
  override reserve(reservation: Reservation, owner?: string): Reserved | Promise<Reserved> {
    const now = this.clock();
    const { levels, most } = reservation;
    const missing = this.missing(levels, now);
    if (missing) return this.load(missing, now).then(() => this.reserve(reservation, owner));
    const counts: ScopeCounts[] = [];
    for (const level of levels) {
      const count = this.countsOf(level.scope);
      const excess = this.excess(level, count, most, now);
      if (excess) return { excess };
      counts.push(count);
    }
    const grant: { -readonly [Name in keyof Grant]: Grant[Name] } = {};
    for (let i = 0; i < levels.length; i++)
      this.take(levels[i] as LimitLevel, counts[i] as ScopeCounts, most, now, grant);
    this.reservations.set(reservation.id, { reservation, counts, time: now, owner });
    return { grant };
  }

  override settle(id: string, charge: Charge, unused?: string): void {
    const made = this.reservations.get(id);
    if (!made) return;
    this.reservations.delete(id);
    const now = this.clock();
    const used = this.first(charge) ? charge : NOTHING;
    const { levels, most } = made.reservation;
    for (let i = 0; i < levels.length; i++) {
      const level = levels[i] as LimitLevel;
      const { tokens, cost } = level.scope === unused ? NOTHING : used;
      const count = made.counts[i] as ScopeCounts;
      count.inside--;
      const { tpm = 0 } = level.limits;
      if (tpm > 0) count.tokens.correct(now, made.time, tokens - counting(most, tpm));
      const { budgets = [] } = level.limits;
      for (let at = 0; at < budgets.length; at++) {
        const { per } = budgets[at] as Budget;
        const sum = count.sums.get(per);
        if (!sum || isRepeated(budgets, at)) continue;
        this.begin(sum, per, now);
        // What was begun in an earlier period is of that period, as in the ledger.
        if (made.time < sum.start) continue;
        sum.pending -= most.cost;
        sum.spent += cost;
        this.tell(level, per, sum, cost);
      }
    }
  }

  /** A process has died: what it had reserved ends with the least that it may have come to. */
  release(owner: string): void {
    for (const [id, made] of this.reservations) if (made.owner === owner) this.settle(id, made.reservation.least);
  }

  override async standings(levels: readonly LimitLevel[]): Promise<Standing[]> {
    const now = this.clock();
    const missing = this.missing(levels, now);
    if (missing) {
      await this.load(missing, now);
      return this.standings(levels);
    }
    return levels.map((level) => this.standing(level, now));
  }

  private standing({ kind, name, scope, limits }: LimitLevel, now: number): Standing {
    const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = limits;
    const counts = this.countsOf(scope);
    return {
      kind,
      name,
      ...(rpm > 0 && { requests: distance(counts.requests, rpm, now) }),
      ...(tpm > 0 && { tokens: distance(counts.tokens, tpm, now) }),
      ...(concurrency > 0 && {
        concurrency: { limit: concurrency, left: Math.max(0, concurrency - counts.inside) },
      }),
      budgets: budgets.map(({ nano, per, soft }): BudgetStanding => {
        const { spent, pending, end } = this.sumOf(counts, per, now);
        const left = Math.max(0, nano - spent - pending);
        const resets = Number.isFinite(end) ? { resets: end } : {};
        return { limit: nano, per, soft, spent, reserved: pending, left, ...resets };
      }),
    };
  }

  /** What is exceeded at a level; undefined: there is room. */
  private excess(level: LimitLevel, counts: ScopeCounts, most: Spending, now: number): Excess | undefined {
    const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = level.limits;
    const of = level;
    if (concurrency > 0 && counts.inside >= concurrency)
      return { limit: "concurrency", of, most: concurrency, left: 0, asked: 1, retryAfter: 1 };
    if (rpm > 0 && counts.requests.sum(now) >= rpm)
      return { limit: "rpm", of, most: rpm, left: 0, asked: 1, ...waiting(counts.requests.wait(now, 1, rpm)) };
    if (tpm > 0 && most.tokens > 0) {
      const asked = counting(most, tpm);
      const { tokens } = counts;
      const sum = tokens.sum(now);
      if (sum + asked > tpm)
        return {
          limit: "tpm",
          of,
          most: tpm,
          left: Math.max(0, tpm - sum),
          asked,
          ...waiting(tokens.wait(now, asked, tpm)),
        };
    }
    if (most.cost > 0)
      for (const budget of budgets) {
        const excess = budget.soft ? undefined : this.overspent(budget, counts, most.cost, now);
        if (excess) return { limit: "budget", of, ...excess };
      }
    return undefined;
  }

  private overspent(
    { nano, per }: Budget,
    counts: ScopeCounts,
    asked: number,
    now: number,
  ): Omit<Excess, "limit" | "of"> | undefined {
    const { spent, pending, end } = this.sumOf(counts, per, now);
    if (spent + pending + asked <= nano) return undefined;
    const left = Math.max(0, nano - spent - pending);
    const resets = Number.isFinite(end) ? { resets: end } : {};
    // What runs will cost less than the worst, or it ends: then there is room again.
    const soon = spent + asked <= nano ? 1 : undefined;
    const later = asked <= nano && Number.isFinite(end) ? (end - now) / 1000 : undefined;
    const retryAfter = soon ?? later;
    return { most: nano, left, asked, per, ...resets, ...(retryAfter === undefined ? {} : { retryAfter }) };
  }

  private take(
    { limits, kind, name }: LimitLevel,
    counts: ScopeCounts,
    most: Spending,
    now: number,
    grant: { -readonly [Name in keyof Grant]: Grant[Name] },
  ): void {
    const { rpm = 0, tpm = 0, budgets = [] } = limits;
    counts.inside++;
    if (rpm > 0) {
      counts.requests.add(now, 1);
      grant.requests = nearer(grant.requests, counts.requests, rpm, now);
    }
    if (tpm > 0) {
      counts.tokens.add(now, counting(most, tpm));
      grant.tokens = nearer(grant.tokens, counts.tokens, tpm, now);
    }
    for (let i = 0; i < budgets.length; i++) {
      const { nano, per, soft } = budgets[i] as Budget;
      const sum = this.sumOf(counts, per, now);
      if (soft && sum.spent >= nano * NEARLY)
        grant.warnings = [...(grant.warnings ?? []), spentOf({ kind, name }, nano, per, sum.spent)];
      if (!isRepeated(budgets, i)) sum.pending += most.cost;
    }
  }

  /** Tells once in a period that a soft budget is nearly spent, and once that it is. */
  private tell({ limits: { budgets = [] }, kind, name }: LimitLevel, per: Period, sum: SpentSum, cost: number): void {
    for (const { nano, soft, per: of } of budgets) {
      if (!soft || of !== per) continue;
      const crossed = [nano, nano * NEARLY].some((mark) => sum.spent >= mark && sum.spent - cost < mark);
      if (crossed) this.warn(spentOf({ kind, name }, nano, per, sum.spent));
    }
  }

  private first({ once }: Charge): boolean {
    if (once === undefined) return true;
    if (this.counted.has(once)) return false;
    if (this.counted.size >= REMEMBERED) this.counted.delete(this.counted.values().next().value as string);
    this.counted.add(once);
    return true;
  }

  private countsOf(scope: string): ScopeCounts {
    const known = this.scopes.get(scope);
    if (known) return known;
    const made = new ScopeCounts();
    this.scopes.set(scope, made);
    return made;
  }

  /** The sum of a period that runs; what was spent before is known by then. */
  private sumOf(counts: ScopeCounts, per: Period, now: number): SpentSum {
    const sum = counts.sums.get(per) as SpentSum;
    this.begin(sum, per, now);
    return sum;
  }

  /** Begins a sum anew when its period is over. */
  private begin(sum: SpentSum, per: Period, now: number): void {
    if (now < sum.end) return;
    Object.assign(sum, this.calendar.span(per, now), { spent: 0, pending: 0 });
  }

  /** A kind of period for which nobody knows yet what was spent before; undefined: all is known. */
  private missing(levels: readonly LimitLevel[], now: number): Period | undefined {
    for (const { scope, limits } of levels) {
      const { budgets = [] } = limits;
      if (budgets.length === 0) continue;
      const { sums } = this.countsOf(scope);
      for (const { per } of budgets) {
        if (sums.has(per)) continue;
        const before = this.before.get(per);
        if (!before || now - before.asked > FRESH) return per;
        const span = this.calendar.span(per, now);
        const spent = before.start === span.start ? (before.sums.get(scope) ?? 0) : 0;
        sums.set(per, { ...span, spent, pending: 0 });
      }
    }
    return undefined;
  }

  /** @throws GatewayError where the ledger cannot answer: nobody spends what may be spent already */
  private load(per: Period, now: number): Promise<void> {
    const known = this.loading.get(per);
    if (known) return known;
    const { start } = this.calendar.span(per, now);
    const loading = this.spentSince(start)
      .then(
        (sums) => void this.before.set(per, { asked: now, start, sums }),
        (cause: unknown) => {
          const message = "What has been spent so far is not known at the moment.";
          throw new GatewayError("internal", { status: 503, message, retryAfter: 5, cause });
        },
      )
      .finally(() => this.loading.delete(per));
    this.loading.set(per, loading);
    return loading;
  }
}

/** Tokens that count for a limit: an answer is never expected to be longer than the limit leaves room for. */
function counting({ tokens }: Spending, tpm: number): number {
  return Math.min(tokens, tpm);
}

/** Two budgets of one kind of period are two limits on one sum. */
function isRepeated(budgets: readonly Budget[], at: number): boolean {
  for (let i = 0; i < at; i++) if (budgets[i]?.per === budgets[at]?.per) return true;
  return false;
}

const distance = (window: RateWindow, limit: number, now: number): RateDistance => ({
  limit,
  left: Math.max(0, limit - window.sum(now)),
  reset: window.reset(now),
});

/** Of two limits the one that leaves less. */
function nearer(known: RateDistance | undefined, window: RateWindow, limit: number, now: number): RateDistance {
  return known && known.left <= limit - window.sum(now) ? known : distance(window, limit, now);
}

/** Seconds, from milliseconds. */
const waiting = (ms: number | undefined): { retryAfter?: number } =>
  ms === undefined ? {} : { retryAfter: ms / 1000 };

const spentOf = (of: Pick<LimitLevel, "kind" | "name">, nano: number, per: Period, spent: number): string =>
  `${whose(of)} has spent ${dollars(spent)} of ${dollars(nano)}${per === "total" ? "" : ` a ${per}`} (${Math.floor((spent / nano) * 100)} %).`;
