import type { Calendar, Period } from "../core/calendar.ts";
import type { Budget } from "../core/limit-kinds.ts";
import type { LimitLevel } from "../core/limits.ts";
import type { RateDistance } from "../core/protocol.ts";
import type { BudgetMark } from "./budget-marks.ts";
import {
  counting,
  crowded,
  distanceOf,
  isRepeated,
  markOf,
  marksPassed,
  nearer,
  nearlySpent,
  overspent,
  SOFT_UNKNOWN,
  spendUnknown,
  standingOf,
  toldOf,
  tooFast,
  tooMany,
  withoutSoft,
} from "./limit-answers.ts";
import {
  type Charge,
  type Excess,
  type Grant,
  Limiter,
  type Reservation,
  type Reserved,
  type Spending,
  type Standing,
} from "./limiter.ts";
import { NOTHING, OnceNames } from "./once-names.ts";
import { RateWindow } from "./rate-window.ts";

/** Nano-dollars by scope that were spent since a moment (Unix milliseconds). */
export type SpendSince = (since: number) => Promise<ReadonlyMap<string, number>>;

/** What of all limits is this process's, where several keep to their parts because they cannot count together. */
export interface LimitPart {
  /** Processes among which what is left is divided. */
  readonly instances: number;
  /** Nano-dollars that exchanges of other processes may still come to, of a sum that began then. */
  pendingElsewhere(scope: string, per: Period, start: number): number;
}

/** Milliseconds for which what was spent before is not asked again: later a new scope may be of a newer gateway.yaml. */
const FRESH = 60_000;

/** Money of one scope in one kind of period. */
interface SpentSum {
  readonly per: Period;
  start: number;
  end: number;
  spent: number;
  /** The worst of what runs. */
  pending: number;
  /** What was spent or pending here when this process began to count it, and what was pending elsewhere. */
  known: number;
  elsewhere: number;
}

/** All counts of one scope. */
class ScopeCounts {
  private requestWindow: RateWindow | undefined;
  private tokenWindow: RateWindow | undefined;
  inside = 0;
  /** When something was settled here last. */
  settled = 0;
  readonly sums: SpentSum[] = [];

  /** Looked through: there are hardly ever two. */
  sum(per: Period): SpentSum | undefined {
    const { sums } = this;
    for (let i = 0; i < sums.length; i++) if (sums[i]?.per === per) return sums[i];
    return undefined;
  }

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
  private readonly names = new OnceNames();
  /** The ledger could not say what soft budgets have spent, which was told. */
  private blind = false;

  /**
   * @param warn told when a soft budget is nearly spent, and when it is
   * @param clock Unix milliseconds; a test may bring its own
   * @param part undefined: all is this process's
   */
  constructor(
    private readonly spentSince: SpendSince,
    private readonly calendar: Calendar,
    private readonly warn: (message: string) => void,
    private readonly clock: () => number = Date.now,
    private readonly part?: LimitPart,
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
    if (missing)
      return this.load(missing, levels, now).then(
        () => this.reserve(reservation, owner),
        (thrown) => this.reserve(this.withoutSoft(reservation, missing, thrown), owner),
      );
    const counts: ScopeCounts[] = [];
    for (const level of levels) {
      const count = this.countsOf(level.scope);
      const excess = this.excess(level, count, most, now);
      if (excess) {
        const mark = markOf(excess);
        if (mark) this.marked(mark);
        return { excess };
      }
      counts.push(count);
    }
    const grant: { -readonly [Name in keyof Grant]: Grant[Name] } = {};
    for (let i = 0; i < levels.length; i++)
      this.take(levels[i] as LimitLevel, counts[i] as ScopeCounts, most, now, grant);
    this.reservations.set(reservation.id, { reservation, counts, time: now, owner });
    return { grant };
  }

  override async prepare(periods: Iterable<Period>): Promise<void> {
    const now = this.clock();
    await Promise.all(Array.from(periods, (per) => this.ask(per, now)));
  }

  /** Takes over what was reserved elsewhere and still runs, whether there is room or not. @param time when that was */
  adopt(reservation: Reservation, time: number): void {
    const now = this.clock();
    const { levels, most } = reservation;
    const counts = levels.map(({ scope }) => this.countsOf(scope));
    for (let i = 0; i < levels.length; i++) {
      const { rpm = 0, tpm = 0 } = (levels[i] as LimitLevel).limits;
      const count = counts[i] as ScopeCounts;
      count.inside++;
      if (rpm > 0) count.requests.correct(now, time, 1);
      if (tpm > 0) count.tokens.correct(now, time, counting(most, this.partOf(tpm)));
      // Of sums that begin later `pendingOf` finds it.
      for (const sum of count.sums)
        if (time >= sum.start && hasBudget(levels[i]?.limits.budgets, sum.per)) sum.pending += most.cost;
    }
    this.reservations.set(reservation.id, { reservation, counts, time, owner: undefined });
  }

  override settle(id: string, charge: Charge, unused?: string): void {
    const made = this.reservations.get(id);
    if (!made) return;
    this.reservations.delete(id);
    const now = this.clock();
    const used = this.names.count(charge);
    const { levels, most } = made.reservation;
    for (let i = 0; i < levels.length; i++) {
      const level = levels[i] as LimitLevel;
      const { tokens, cost } = level.scope === unused ? NOTHING : used;
      const count = made.counts[i] as ScopeCounts;
      count.inside--;
      count.settled = now;
      const { tpm = 0 } = level.limits;
      if (tpm > 0) count.tokens.correct(now, made.time, tokens - counting(most, this.partOf(tpm)));
      const { budgets = [] } = level.limits;
      for (let at = 0; at < budgets.length; at++) {
        const { per } = budgets[at] as Budget;
        const sum = count.sum(per);
        if (!sum || isRepeated(budgets, at)) continue;
        this.begin(sum, per, now);
        // What was begun in an earlier period is of that period, as in the ledger.
        if (made.time < sum.start) continue;
        sum.pending -= most.cost;
        sum.spent += cost;
        const marks = marksPassed(level, per, sum.spent, cost);
        if (marks.length > 0) this.mark(marks);
      }
      this.spendUnreserved(count, budgets, made.time, cost);
    }
  }

  /** What began before its level had a budget for such a period, as a key may get one while it is used. */
  private spendUnreserved(count: ScopeCounts, budgets: readonly Budget[], began: number, cost: number): void {
    const { sums } = count;
    for (let i = 0; i < sums.length; i++) {
      const sum = sums[i] as SpentSum;
      if (began >= sum.start && !hasBudget(budgets, sum.per)) sum.spent += cost;
    }
  }

  private mark(marks: readonly BudgetMark[]): void {
    for (const mark of marks) {
      if (mark.soft) this.warn(toldOf(mark));
      this.marked(mark);
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
      await this.load(missing, levels, now);
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
      ...(rpm > 0 && { requests: this.distance(counts.requests, rpm, now) }),
      ...(tpm > 0 && { tokens: this.distance(counts.tokens, tpm, now) }),
      ...(concurrency > 0 && {
        concurrency: { limit: concurrency, left: Math.max(0, this.partOf(concurrency) - counts.inside) },
      }),
      budgets: budgets.map((budget) => {
        const sum = this.sumOf(counts, budget.per, now);
        return standingOf(budget, sum, this.allowed(budget.nano, sum));
      }),
    };
  }

  /** What is exceeded at a level; undefined: there is room. */
  private excess(level: LimitLevel, counts: ScopeCounts, most: Spending, now: number): Excess | undefined {
    const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = level.limits;
    if (concurrency > 0 && counts.inside >= this.partOf(concurrency)) return crowded(level, concurrency);
    const requests = this.partOf(rpm);
    if (rpm > 0 && counts.requests.sum(now) >= requests)
      return tooFast(level, rpm, counts.requests.wait(now, 1, requests));
    if (tpm > 0 && most.tokens > 0) {
      const room = this.partOf(tpm);
      const asked = counting(most, room);
      const { tokens } = counts;
      const sum = tokens.sum(now);
      if (sum + asked > room) return tooMany(level, tpm, room - sum, asked, tokens.wait(now, asked, room));
    }
    if (most.cost > 0)
      for (const budget of budgets) {
        if (budget.soft) continue;
        const sum = this.sumOf(counts, budget.per, now);
        const allowed = this.allowed(budget.nano, sum);
        if (sum.spent + sum.pending + most.cost > allowed)
          return overspent(level, budget, sum, most.cost, now, allowed);
      }
    return undefined;
  }

  /** This process's part of a number of requests or tokens, rounded up. */
  private partOf(number: number): number {
    return this.part ? Math.ceil(number / this.part.instances) : number;
  }

  /** What may be spent of a budget here: what was when it began to be counted here, and a part of what was left. */
  private allowed(nano: number, { known, elsewhere }: SpentSum): number {
    return this.part ? known + Math.floor(Math.max(0, nano - known - elsewhere) / this.part.instances) : nano;
  }

  private distance(window: RateWindow, limit: number, now: number): RateDistance {
    return distanceOf({ sum: window.sum(now), reset: window.reset(now) }, limit, this.partOf(limit));
  }

  private take(
    level: LimitLevel,
    counts: ScopeCounts,
    most: Spending,
    now: number,
    grant: { -readonly [Name in keyof Grant]: Grant[Name] },
  ): void {
    const { rpm = 0, tpm = 0, budgets = [] } = level.limits;
    counts.inside++;
    if (rpm > 0) {
      counts.requests.add(now, 1);
      grant.requests = nearer(grant.requests, this.distance(counts.requests, rpm, now));
    }
    if (tpm > 0) {
      counts.tokens.add(now, counting(most, this.partOf(tpm)));
      grant.tokens = nearer(grant.tokens, this.distance(counts.tokens, tpm, now));
    }
    for (let i = 0; i < budgets.length; i++) {
      const budget = budgets[i] as Budget;
      const sum = this.sumOf(counts, budget.per, now);
      const warning = nearlySpent(level, budget, sum.spent);
      if (warning !== undefined) grant.warnings = [...(grant.warnings ?? []), warning];
      if (!isRepeated(budgets, i)) sum.pending += most.cost;
    }
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
    const sum = counts.sum(per) as SpentSum;
    this.begin(sum, per, now);
    return sum;
  }

  /** Begins a sum anew when its period is over. */
  private begin(sum: SpentSum, per: Period, now: number): void {
    if (now < sum.end) return;
    Object.assign(sum, this.calendar.span(per, now), { spent: 0, pending: 0, known: 0, elsewhere: 0 });
  }

  /** What may still be spent by reservations that were taken over before their sum was known. */
  private pendingOf(scope: string, per: Period, start: number): number {
    let pending = 0;
    for (const { reservation, time } of this.reservations.values())
      for (const level of reservation.levels)
        if (level.scope === scope && time >= start && hasBudget(level.limits.budgets, per))
          pending += reservation.most.cost;
    return pending;
  }

  /** A kind of period for which nobody knows yet what was spent before; undefined: all is known. */
  private missing(levels: readonly LimitLevel[], now: number): Period | undefined {
    for (const { scope, limits } of levels) {
      const { budgets = [] } = limits;
      if (budgets.length === 0) continue;
      const counts = this.countsOf(scope);
      for (const { per } of budgets) {
        if (!lacksSum(counts, per, now)) continue;
        const before = this.before.get(per);
        if (!before || now - before.asked > FRESH || now < before.asked) return per;
        // What has been settled here since is in the ledger, and not in what it said then.
        if (counts.settled >= before.asked) return per;
        this.beginAt(counts, scope, per, before, now);
      }
    }
    return undefined;
  }

  private beginAt(counts: ScopeCounts, scope: string, per: Period, { start, sums }: SpentBefore, now: number): void {
    const span = this.calendar.span(per, now);
    const spent = start === span.start ? (sums.get(scope) ?? 0) : 0;
    const pending = this.pendingOf(scope, per, span.start);
    const elsewhere = this.part?.pendingElsewhere(scope, per, span.start) ?? 0;
    const sum = { per, ...span, spent, pending, known: spent + pending, elsewhere };
    const known = counts.sum(per);
    if (known) Object.assign(known, sum);
    else counts.sums.push(sum);
  }

  /** @throws GatewayError where the ledger cannot answer: nobody spends what may be spent already */
  private async load(per: Period, levels: readonly LimitLevel[], now: number): Promise<void> {
    await this.ask(per, now);
    const before = this.before.get(per) as SpentBefore;
    for (const { scope, limits } of levels) {
      const counts = this.countsOf(scope);
      const began = this.clock();
      const lacks = hasBudget(limits.budgets, per) && lacksSum(counts, per, began);
      if (lacks) this.beginAt(counts, scope, per, before, began);
    }
  }

  /** @throws what was thrown, where a hard budget needs to know what was spent */
  private withoutSoft(reservation: Reservation, per: Period, thrown: unknown): Reservation {
    const now = this.clock();
    const known = withoutSoft(reservation, ({ scope }, of) => of === per && lacksSum(this.countsOf(scope), per, now));
    if (!known) throw thrown;
    if (!this.blind) this.warn(SOFT_UNKNOWN);
    this.blind = true;
    return known;
  }

  /** @throws GatewayError as `load` */
  private ask(per: Period, now: number): Promise<void> {
    const known = this.loading.get(per);
    if (known) return known;
    const { start } = this.calendar.span(per, now);
    const loading = this.spentSince(start)
      .then(
        (sums) => {
          this.blind = false;
          this.before.set(per, { asked: now, start, sums });
        },
        (cause: unknown) => {
          throw spendUnknown(cause);
        },
      )
      .finally(() => this.loading.delete(per));
    this.loading.set(per, loading);
    return loading;
  }
}

/** Whether the sum of a period has to be asked for: there is none yet, or a clock that was ahead has begun a later one. */
function lacksSum(counts: ScopeCounts, per: Period, now: number): boolean {
  const sum = counts.sum(per);
  return sum === undefined || now < sum.start;
}

function hasBudget(budgets: readonly Budget[] = [], per: Period): boolean {
  for (let i = 0; i < budgets.length; i++) if (budgets[i]?.per === per) return true;
  return false;
}
