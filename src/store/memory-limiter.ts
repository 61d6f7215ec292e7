import type { Calendar, Period } from "../core/calendar.ts";
import type { Budget } from "../core/limit-kinds.ts";
import type { LimitLevel } from "../core/limits.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { RateLimitState } from "../core/protocol.ts";
import { withTimeout } from "../core/timeout.ts";
import type { BudgetMark } from "./budget-marks.ts";
import { CountedNames, MAX_EXCHANGES, NO_CHARGE, namedCharge } from "./counted-names.ts";
import { IdMap } from "./id-map.ts";
import {
  budgetExcess,
  budgetStatus,
  concurrencyExcess,
  type MutableGrant,
  markMessage,
  newBudgetMarks,
  rateLimitState,
  refusalMark,
  rpmExcess,
  SOFT_BUDGETS_UNKNOWN,
  spendUnknownError,
  tokensToReserve,
  tpmExcess,
  warnIfNearlySpent,
  withoutSoftBudgets,
} from "./limit-results.ts";
import {
  type Charge,
  type Excess,
  Limiter,
  type LimitStatus,
  type Reservation,
  type ReserveResult,
  type RunningReservation,
  type Spending,
  type Unreserved,
} from "./limiter.ts";
import { chargeOfRow, exchangeId, ORPHAN_TIMEOUT, ORPHAN_TTL, type RowCharge } from "./orphan-charges.ts";
import { RATE_SPAN, type RateWindow } from "./rate-window.ts";
import { type BudgetSum, ScopeCounts, type SpentSum, UsedWindows } from "./scope-counts.ts";

/** Returns nano-dollars spent since a time (Unix milliseconds), by scope. */
export type SpendSince = (since: number) => Promise<ReadonlyMap<string, number>>;

/** This process's part of all limits, while several processes cannot count together. */
export interface LimitPart {
  /** Number of processes that share what is left. */
  readonly instances: number;
  /** Nano-dollars reserved by other processes, of a sum that began at `start`. */
  pendingElsewhere(scope: string, per: Period, start: number): number;
}

/** What an exchange of a former process counts against rates. */
export interface EarlierUse {
  /** Unix milliseconds of its arrival. */
  readonly time: number;
  readonly tokens: number;
  readonly scopes: readonly string[];
}

/** What former processes counted. */
export interface EarlierCounts {
  /** Yields what exchanges that arrived between two times (Unix milliseconds) count against rates. */
  usedBetween(since: number, until: number): AsyncIterable<EarlierUse>;
  /** Returns the newest names of usage that counts once, the oldest of them first. */
  countedNames(limit: number): Promise<readonly string[]>;
}

/** Milliseconds for which earlier spending is cached: later a new scope may come from a newer gateway.yaml. */
const LEDGER_TTL = 60_000;

/** Milliseconds for which requests wait until those of former processes are counted: later these count all the same. */
const RATES_TIMEOUT = 5000;

/** Milliseconds for which usage that counts once waits until it is known whether a former process counted it. */
const NAMES_TIMEOUT = 60_000;

const NO_BUDGETS: readonly Budget[] = [];

/** Maximum loads of earlier spending, while exchanges of the same scope are settled meanwhile. */
const MAX_LOADS = 5;

interface ActiveReservation {
  readonly reservation: Reservation;
  /** One for each level. */
  readonly counts: readonly ScopeCounts[];
  readonly time: number;
  /** The process that made it. */
  readonly owner: string | undefined;
  /** When that process was found dead; undefined: it lives. */
  readonly diedAt?: number;
  /** The nano-dollars that have been counted for it because its row was missing for too long; undefined: none were. */
  readonly counted?: number;
}

/** Money spent before this process began, by kind of period. */
interface LedgerSpending {
  /** When it was loaded, and the number of exchanges settled by then: it may lack later ones. */
  readonly loadedAt: number;
  readonly settled: number;
  readonly start: number;
  readonly sums: ReadonlyMap<string, number>;
}

/** Counts in this process's memory. What was spent before it started is loaded from the ledger. */
export class MemoryLimiter extends Limiter {
  private readonly scopes = new Map<string, ScopeCounts>();
  private readonly windows = new UsedWindows();
  private readonly reservations = new IdMap<ActiveReservation>();
  private readonly ledgerSpending = new Map<Period, LedgerSpending>();
  private readonly loading = new Map<Period, Promise<void>>();
  private readonly countedNames = new CountedNames();
  /** Number of exchanges that have been settled. */
  private settled = 0;
  /** Whether the ledger could not return the spending of soft budgets, which was logged. */
  private softUnknownLogged = false;
  /** Ends what watches other processes for it. */
  onClose: () => void = () => {};
  /** Where `prepare` finds what former processes counted. */
  earlier: EarlierCounts | undefined;
  /** Settles, without an error, when their requests are counted; undefined: nothing is being counted. */
  private ratesLoading: Promise<void> | undefined;
  /** Settles, without an error, when the names of usage that former processes counted are known; undefined: nothing is loaded. */
  private namesLoading: Promise<void> | undefined;

  /**
   * @param warn called when a soft budget is nearly spent, and when it is spent
   * @param clock Unix milliseconds; injectable for tests
   * @param part undefined: all limits belong to this process
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

  /** Number of reservations that have not been settled. */
  get pending(): number {
    return this.reservations.size;
  }

  override async close(): Promise<void> {
    this.onClose();
  }

  override get running(): readonly RunningReservation[] {
    return this.reservations.entries().flatMap(([, made]) => (made.diedAt === undefined ? [made] : []));
  }

  /** @param owner the process that makes it, where there are several */
  override reserve(reservation: Reservation, owner?: string): MaybePromise<ReserveResult> {
    const now = this.clock();
    const { levels, maximum } = reservation;
    if (this.ratesLoading && hasRates(levels)) return this.ratesLoading.then(() => this.reserve(reservation, owner));
    const missing = this.unloadedPeriod(levels, now);
    if (missing)
      return this.loadSums(missing, levels, now).then(
        () => this.reserve(reservation, owner),
        (thrown) => this.reserve(this.withoutSoft(reservation, missing, thrown), owner),
      );
    const counts: ScopeCounts[] = [];
    for (const level of levels) {
      const count = this.countsOf(level.scope);
      const excess = this.findExcess(level, count, maximum, now);
      if (excess) {
        const mark = refusalMark(excess);
        if (mark) this.onBudgetMark(mark);
        return { excess };
      }
      counts.push(count);
    }
    const grant: MutableGrant = {};
    for (let i = 0; i < levels.length; i++)
      this.reserveLevel(levels[i] as LimitLevel, counts[i] as ScopeCounts, maximum, now, grant);
    this.reservations.set(reservation.id, { reservation, counts, time: now, owner });
    this.windows.freeEmpty(now);
    return { grant };
  }

  override async prepare(periods: Iterable<Period>): Promise<void> {
    const now = this.clock();
    this.ratesLoading = withTimeout(RATES_TIMEOUT, this.loadRates(now), "the ledger (store: ledger)")
      .catch(() => {})
      .finally(() => {
        this.ratesLoading = undefined;
      });
    const names = this.loadCountedNames();
    this.namesLoading = withTimeout(NAMES_TIMEOUT, names, "the ledger (store: ledger)")
      .catch(() => {})
      .finally(() => {
        this.namesLoading = undefined;
      });
    await Promise.all([...Array.from(periods, (per) => this.loadSpending(per, now)), this.ratesLoading, names]);
  }

  /** Loads the names of usage that former processes counted: the sums of the ledger include it. */
  private async loadCountedNames(): Promise<void> {
    for (const name of (await this.earlier?.countedNames(MAX_EXCHANGES)) ?? []) this.countedNames.addCounted(name);
  }

  /** Counts the requests of former processes against rates: those that arrived before this one began to count. */
  private async loadRates(now: number): Promise<void> {
    for await (const { time, tokens, scopes } of this.earlier?.usedBetween(now - RATE_SPAN, now) ?? []) {
      const at = this.clock();
      for (const scope of scopes) {
        const counts = this.countsOf(scope);
        counts.requests.correct(at, time, 1);
        counts.tokens.correct(at, time, tokens);
      }
    }
  }

  /**
   * Adds a running reservation made elsewhere, even without room for it.
   * @param time when it was made
   * @param owner the process that made it, where it may die
   */
  adopt(reservation: Reservation, time: number, owner?: string): void {
    const now = this.clock();
    const { levels, maximum } = reservation;
    const counts = levels.map(({ scope }) => this.countsOf(scope));
    for (let i = 0; i < levels.length; i++) {
      const { rpm = 0, tpm = 0 } = (levels[i] as LimitLevel).limits;
      const count = counts[i] as ScopeCounts;
      count.running++;
      if (rpm > 0) count.requests.correct(now, time, 1);
      if (tpm > 0) count.tokens.correct(now, time, tokensToReserve(maximum, this.partOf(tpm)));
      // `pendingOf` adds it to sums that begin later.
      for (const sum of count.sums)
        if (time >= sum.start && hasBudget(levels[i]?.limits.budgets, sum.per)) sum.pending += maximum.cost;
    }
    this.reservations.set(reservation.id, { reservation, counts, time, owner });
  }

  /**
   * Reads again what was spent, as other processes have spent something that was not counted here.
   * @returns whether all sums are complete; exchanges may end during each reading
   * @throws GatewayError when the ledger does not respond
   */
  async reload(): Promise<boolean> {
    const now = this.clock();
    let complete = true;
    for (const per of [...this.ledgerSpending.keys()]) {
      // A reading that runs may have begun before these were in the ledger.
      await this.loading.get(per)?.catch(() => {});
      await this.loadSpending(per, now);
      const { start, settled, sums } = this.ledgerSpending.get(per) as LedgerSpending;
      for (const [scope, counts] of this.scopes) {
        const sum = counts.sum(per);
        if (sum?.start !== start) continue;
        // All that is in the ledger has been spent; what was settled here meanwhile may be missing there.
        sum.spent = Math.max(sum.spent, sums.get(scope) ?? 0);
        if (counts.lastSettled > settled) complete = false;
      }
    }
    return complete;
  }

  override settle(id: string, charge: Charge, unused?: string, unreserved?: Unreserved): void {
    if (charge.once !== undefined && this.namesLoading) {
      void this.namesLoading.then(() => this.settle(id, charge, unused, unreserved));
      return;
    }
    const made = this.reservations.delete(id);
    if (!made && !unreserved) return;
    const now = this.clock();
    const used = this.countedNames.countOnce(namedCharge(id, charge));
    this.settled++;
    if (unreserved) this.spendElsewhere(unreserved, used.cost, now);
    if (!made) return;
    const { levels, maximum } = made.reservation;
    for (let i = 0; i < levels.length; i++) {
      const level = levels[i] as LimitLevel;
      const { tokens, cost } = level.scope === unused ? NO_CHARGE : used;
      const count = made.counts[i] as ScopeCounts;
      if (made.diedAt === undefined) count.running--;
      count.lastSettled = this.settled;
      const { tpm = 0 } = level.limits;
      if (tpm > 0) count.tokens.correct(now, made.time, tokens - tokensToReserve(maximum, this.partOf(tpm)));
      this.spendReserved(level, count, made.time, maximum.cost, cost, now);
    }
  }

  /**
   * Adds the cost of an exchange to the sums of a level.
   * @param began when it began
   * @param reserved what its reservation has added to what is pending
   */
  private spendReserved(
    level: LimitLevel,
    counts: ScopeCounts,
    began: number,
    reserved: number,
    cost: number,
    now: number,
  ): void {
    const { budgets = NO_BUDGETS } = level.limits;
    const limited = counts.sumsOf(budgets);
    let reservedSums = 0;
    for (let i = 0; i < limited.length; i++) {
      const { sum, isRepeated, firstMark } = limited[i] as BudgetSum;
      if (isRepeated) continue;
      reservedSums++;
      this.rollOver(sum, now);
      // An exchange belongs to the period in which it began, as in the ledger.
      if (began < sum.start) continue;
      sum.pending -= reserved;
      sum.spent += cost;
      if (sum.spent >= firstMark) this.reportMarks(newBudgetMarks(level, sum.per, sum.spent, sum.reported));
      if (sum.spent > sum.reported) sum.reported = sum.spent;
    }
    if (counts.sums.length > reservedSums) this.spendUnreserved(counts, budgets, began, cost, now);
  }

  private spendElsewhere({ scopes, time }: Unreserved, cost: number, now: number): void {
    // Nothing has been loaded that could lack it.
    if (this.ledgerSpending.size + this.loading.size === 0) return;
    for (const scope of scopes) {
      const counts = this.countsOf(scope);
      counts.lastSettled = this.settled;
      this.spendUnreserved(counts, NO_BUDGETS, time, cost, now);
    }
  }

  /**
   * Adds the cost of an exchange that began before its level had a budget of the period: a key's budgets may change meanwhile.
   */
  private spendUnreserved(
    { sums }: ScopeCounts,
    budgets: readonly Budget[],
    began: number,
    cost: number,
    now: number,
  ): void {
    for (let i = 0; i < sums.length; i++) {
      const sum = sums[i] as SpentSum;
      if (hasBudget(budgets, sum.per)) continue;
      // The budget may come back in this period.
      this.rollOver(sum, now);
      if (began >= sum.start) sum.spent += cost;
    }
  }

  private reportMarks(marks: readonly BudgetMark[]): void {
    for (const mark of marks) {
      if (mark.soft) this.warn(markMessage(mark));
      this.onBudgetMark(mark);
    }
  }

  /** Ends all exchanges of a dead process. Money and tokens stay reserved until the ledger knows what was used. */
  release(owner: string): void {
    const diedAt = this.clock();
    for (const [id, made] of this.reservations.entries()) {
      if (made.owner !== owner || made.diedAt !== undefined) continue;
      for (const count of made.counts) count.running--;
      this.reservations.set(id, { ...made, diedAt });
    }
  }

  /** The ids of exchanges whose process has died, and whose rows are to be looked up in the ledger. */
  get orphans(): readonly string[] {
    const ids = new Set<string>();
    for (const [id, { diedAt }] of this.reservations.entries()) if (diedAt !== undefined) ids.add(exchangeId(id));
    return [...ids];
  }

  /** Counts what the ledger knows of the exchanges of dead processes. @param rows those found, by the exchange's id */
  settleOrphans(rows: ReadonlyMap<string, RowCharge>): void {
    const now = this.clock();
    for (const [id, made] of this.reservations.entries()) {
      const { diedAt, counted = 0, reservation } = made;
      if (diedAt === undefined) continue;
      const row = rows.get(exchangeId(id));
      if (row) {
        const scopes = reservation.levels.map(({ scope }) => scope);
        const { used, unused } = chargeOfRow(row, scopes);
        const { tokens, cost } = this.countedNames.countOnce(namedCharge(id, used));
        this.settle(id, { tokens, cost: cost - counted }, unused);
      } else if (now - diedAt >= ORPHAN_TIMEOUT && made.counted === undefined) {
        const { minimum } = reservation;
        this.settle(id, minimum);
        // Nothing is reserved any more; a row that is written later still corrects the count.
        const settled = { ...reservation, maximum: NO_CHARGE };
        this.reservations.set(id, { ...made, reservation: settled, counted: minimum.cost });
      } else if (now - diedAt >= ORPHAN_TTL) this.reservations.delete(id);
    }
  }

  override async statuses(levels: readonly LimitLevel[]): Promise<LimitStatus[]> {
    const now = this.clock();
    const missing = this.unloadedPeriod(levels, now);
    if (missing) {
      await this.loadSums(missing, levels, now);
      return this.statuses(levels);
    }
    return levels.map((level) => this.statusOf(level, now));
  }

  private statusOf({ kind, name, scope, limits }: LimitLevel, now: number): LimitStatus {
    const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = limits;
    const counts = this.countsOf(scope);
    return {
      kind,
      name,
      ...(rpm > 0 && { requests: this.rateLimitState(counts.requests, rpm, now) }),
      ...(tpm > 0 && { tokens: this.rateLimitState(counts.tokens, tpm, now) }),
      ...(concurrency > 0 && {
        concurrency: { limit: concurrency, remaining: Math.max(0, this.partOf(concurrency) - counts.running) },
      }),
      budgets: budgets.map((budget) => {
        const sum = this.sumOf(counts, budget.per, now);
        return budgetStatus(budget, sum, this.allowed(budget.nano, sum));
      }),
    };
  }

  /** Returns the exceeded limit of a level; undefined: there is room. */
  private findExcess(level: LimitLevel, counts: ScopeCounts, maximum: Spending, now: number): Excess | undefined {
    const { rpm = 0, tpm = 0, concurrency = 0, budgets = NO_BUDGETS } = level.limits;
    if (concurrency > 0 && counts.running >= this.partOf(concurrency)) return concurrencyExcess(level, concurrency);
    const requests = this.partOf(rpm);
    if (rpm > 0 && counts.requests.sum(now) >= requests)
      return rpmExcess(level, rpm, counts.requests.timeUntilRoom(now, 1, requests));
    if (tpm > 0 && maximum.tokens > 0) {
      const room = this.partOf(tpm);
      const requested = tokensToReserve(maximum, room);
      const { tokens } = counts;
      const sum = tokens.sum(now);
      if (sum + requested > room)
        return tpmExcess(level, tpm, room - sum, requested, tokens.timeUntilRoom(now, requested, room));
    }
    if (maximum.cost <= 0) return undefined;
    const limited = counts.sumsOf(budgets);
    for (let i = 0; i < limited.length; i++) {
      const { budget, sum } = limited[i] as BudgetSum;
      if (budget.soft) continue;
      this.rollOver(sum, now);
      const allowed = this.allowed(budget.nano, sum);
      if (sum.spent + sum.pending + maximum.cost > allowed)
        return budgetExcess(level, budget, sum, maximum.cost, now, allowed);
    }
    return undefined;
  }

  /** Returns this process's part of a number of requests or tokens, rounded up. */
  private partOf(number: number): number {
    return this.part ? Math.ceil(number / this.part.instances) : number;
  }

  /** Returns what may be spent of a budget here: the amount when counting began, and a part of what was left. */
  private allowed(nano: number, { known, elsewhere }: SpentSum): number {
    return this.part ? known + Math.floor(Math.max(0, nano - known - elsewhere) / this.part.instances) : nano;
  }

  private rateLimitState(window: RateWindow, limit: number, now: number): RateLimitState {
    return rateLimitState({ sum: window.sum(now), reset: window.timeUntilEmpty(now) }, limit, this.partOf(limit));
  }

  /** Adds to a window. Returns what leaves less: a known state, or the window's, which is only made then. */
  private addToWindow(
    known: RateLimitState | undefined,
    window: RateWindow,
    amount: number,
    limit: number,
    now: number,
  ): RateLimitState {
    const remaining = Math.max(0, this.partOf(limit) - window.add(now, amount));
    return known && known.remaining <= remaining ? known : this.rateLimitState(window, limit, now);
  }

  private reserveLevel(
    level: LimitLevel,
    counts: ScopeCounts,
    maximum: Spending,
    now: number,
    grant: MutableGrant,
  ): void {
    const { rpm = 0, tpm = 0, budgets = NO_BUDGETS } = level.limits;
    counts.running++;
    if (rpm > 0) grant.requests = this.addToWindow(grant.requests, counts.requests, 1, rpm, now);
    if (tpm > 0) {
      const tokens = tokensToReserve(maximum, this.partOf(tpm));
      grant.tokens = this.addToWindow(grant.tokens, counts.tokens, tokens, tpm, now);
    }
    const limited = counts.sumsOf(budgets);
    for (let i = 0; i < limited.length; i++) {
      const { budget, sum, isRepeated } = limited[i] as BudgetSum;
      this.rollOver(sum, now);
      if (budget.soft) warnIfNearlySpent(grant, level, budget, sum.spent);
      if (!isRepeated) sum.pending += maximum.cost;
    }
  }

  private countsOf(scope: string): ScopeCounts {
    const known = this.scopes.get(scope);
    if (known) return known;
    const made = new ScopeCounts(this.windows);
    this.scopes.set(scope, made);
    return made;
  }

  /** Returns the current sum of a period; what was spent before must be loaded. */
  private sumOf(counts: ScopeCounts, per: Period, now: number): SpentSum {
    const sum = counts.sum(per) as SpentSum;
    this.rollOver(sum, now);
    return sum;
  }

  /** Resets a sum when its period is over, and none that has been counted has come back. */
  private rollOver(sum: SpentSum, now: number): void {
    if (now < sum.latest) return;
    const span = this.calendar.span(sum.per, now);
    Object.assign(sum, span, { latest: span.end, spent: 0, pending: 0, reported: 0, known: 0, elsewhere: 0 });
  }

  /** Returns the worst-case cost of reservations adopted before their sum was loaded. */
  private pendingOf(scope: string, per: Period, start: number): number {
    let pending = 0;
    for (const [, { reservation, time }] of this.reservations.entries())
      for (const level of reservation.levels)
        if (level.scope === scope && time >= start && hasBudget(level.limits.budgets, per))
          pending += reservation.maximum.cost;
    return pending;
  }

  /** Returns a kind of period whose earlier spending is not loaded; undefined: all is loaded. */
  private unloadedPeriod(levels: readonly LimitLevel[], now: number): Period | undefined {
    for (const { scope, limits } of levels) {
      const { budgets = NO_BUDGETS } = limits;
      if (budgets.length === 0) continue;
      const counts = this.countsOf(scope);
      if (hasSums(counts, budgets, now)) continue;
      for (const { per } of budgets) {
        if (!lacksSum(counts, per, now)) continue;
        const before = this.ledgerSpending.get(per);
        if (!before || now - before.loadedAt > LEDGER_TTL || now < before.loadedAt) return per;
        if (before.start !== this.calendar.span(per, now).start) return per;
        // What has been settled here since is in the ledger, but not in the loaded sums.
        if (counts.lastSettled > before.settled) return per;
        this.startSum(counts, scope, per, before, now);
      }
    }
    return undefined;
  }

  private startSum(
    counts: ScopeCounts,
    scope: string,
    per: Period,
    { start, sums }: LedgerSpending,
    now: number,
  ): void {
    const span = this.calendar.span(per, now);
    const spent = start === span.start ? (sums.get(scope) ?? 0) : 0;
    const pending = this.pendingOf(scope, per, span.start);
    const elsewhere = this.part?.pendingElsewhere(scope, per, span.start) ?? 0;
    // What was spent with a server that is lost has been reported; after a restart nothing has.
    const reported = this.part ? spent : 0;
    const known = counts.sum(per);
    const latest = Math.max(span.end, known?.latest ?? 0);
    const sum = { per, ...span, latest, spent, pending, reported, known: spent + pending, elsewhere };
    if (known) Object.assign(known, sum);
    else counts.sums.push(sum);
  }

  /** @throws GatewayError when the ledger does not respond: a budget that may be exhausted is not spent */
  private async loadSums(per: Period, levels: readonly LimitLevel[], now: number, loads = MAX_LOADS): Promise<void> {
    await this.loadSpending(per, now);
    const before = this.ledgerSpending.get(per) as LedgerSpending;
    const began = this.clock();
    const lacking = levels.filter(
      ({ scope, limits }) => hasBudget(limits.budgets, per) && lacksSum(this.countsOf(scope), per, began),
    );
    const isStale = lacking.some(({ scope }) => this.countsOf(scope).lastSettled > before.settled);
    if (isStale && loads > 1) return this.loadSums(per, levels, began, loads - 1);
    for (const { scope } of lacking) this.startSum(this.countsOf(scope), scope, per, before, began);
  }

  /** @throws `thrown` if a hard budget needs the unknown sum */
  private withoutSoft(reservation: Reservation, per: Period, thrown: unknown): Reservation {
    const now = this.clock();
    const known = withoutSoftBudgets(
      reservation,
      ({ scope }, of) => of === per && lacksSum(this.countsOf(scope), per, now),
    );
    if (!known) throw thrown;
    if (!this.softUnknownLogged) this.warn(SOFT_BUDGETS_UNKNOWN);
    this.softUnknownLogged = true;
    return known;
  }

  /** @throws GatewayError like `loadSums` */
  private loadSpending(per: Period, now: number): Promise<void> {
    const known = this.loading.get(per);
    if (known) return known;
    const { start } = this.calendar.span(per, now);
    const { settled } = this;
    const loading = this.spentSince(start)
      .then(
        (sums) => {
          this.softUnknownLogged = false;
          this.ledgerSpending.set(per, { loadedAt: now, settled, start, sums });
        },
        (cause: unknown) => {
          throw spendUnknownError(cause);
        },
      )
      .finally(() => this.loading.delete(per));
    this.loading.set(per, loading);
    return loading;
  }
}

/** Reports whether the sum of a period must be loaded: there is none, or it is another's, as a clock was set back or forth. */
function lacksSum(counts: ScopeCounts, per: Period, now: number): boolean {
  const sum = counts.sum(per);
  return sum === undefined || isOther(sum, now);
}

/** Reports whether a sum is that of another period, as a clock was set back or forth. */
const isOther = ({ start, end, latest }: SpentSum, now: number): boolean => now < start || (now >= end && now < latest);

/** Reports whether no sum of these budgets must be loaded. */
function hasSums(counts: ScopeCounts, budgets: readonly Budget[], now: number): boolean {
  const limited = counts.sumsOf(budgets);
  if (limited.length < budgets.length) return false;
  for (let i = 0; i < limited.length; i++) if (isOther((limited[i] as BudgetSum).sum, now)) return false;
  return true;
}

function hasRates(levels: readonly LimitLevel[]): boolean {
  return levels.some(({ limits: { rpm = 0, tpm = 0 } }) => rpm > 0 || tpm > 0);
}

function hasBudget(budgets: readonly Budget[] = [], per: Period): boolean {
  for (let i = 0; i < budgets.length; i++) if (budgets[i]?.per === per) return true;
  return false;
}
