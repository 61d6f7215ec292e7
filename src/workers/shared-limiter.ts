import { storeUnavailable } from "../core/errors.ts";
import type { LimitLevel } from "../core/limits.ts";
import { type Peers, type QuestionHandlers, question } from "../core/peers.ts";
import type { Ledger } from "../store/ledger.ts";
import {
  type Charge,
  Limiter,
  type LimitStatus,
  type Reservation,
  type ReserveResult,
  type RunningReservation,
  type Unreserved,
  type UnreservedCharge,
} from "../store/limiter.ts";
import type { MemoryLimiter } from "../store/memory-limiter.ts";
import { requestFlusher } from "../store/spend.ts";

const RESERVE = question<{ reservation: Reservation; owner: string }, ReserveResult>("limits reserve");
const SETTLE = question<{ id: string; used: Charge; unused?: string; unreserved?: Unreserved }, true>("limits settle");
const SETTLE_UNRESERVED = question<readonly UnreservedCharge[], true>("limits settle unreserved");
const STATUSES = question<readonly LimitLevel[], LimitStatus[]>("limits statuses");
/** Asked of each worker. */
export const FLUSH_LEDGER = question<null, true>("limits flush ledger");

/** Charges without a reservation that are sent together at most. */
const MAX_UNSENT = 500;

/** The limits of all workers, which are counted in their primary. */
export class SharedLimiter extends Limiter {
  private readonly reservations = new Map<string, RunningReservation>();
  private unsent: UnreservedCharge[] = [];

  /** @param owner names this process: its reservations end with it */
  constructor(
    private readonly peers: Peers,
    private readonly owner = String(process.pid),
  ) {
    super();
  }

  override get running(): readonly RunningReservation[] {
    return [...this.reservations.values()];
  }

  override async reserve(reservation: Reservation): Promise<ReserveResult> {
    this.sendUnreserved();
    const time = Date.now();
    const reserved = await this.peers.ask(RESERVE, { reservation, owner: this.owner }).catch(throwUnavailable);
    if ("grant" in reserved) this.reservations.set(reservation.id, { reservation, time });
    return reserved;
  }

  override settle(id: string, used: Charge, unused?: string, unreserved?: Unreserved): void {
    if (!this.reservations.delete(id)) {
      if (unreserved) this.unsent.push({ charge: used, unreserved });
      if (this.unsent.length >= MAX_UNSENT) this.sendUnreserved();
      return;
    }
    const where = { ...(unused === undefined ? {} : { unused }), ...(unreserved && { unreserved }) };
    // Without a primary nothing is counted any more.
    this.peers.ask(SETTLE, { id, used, ...where }).catch(() => {});
  }

  override sendUnreserved(): void {
    const { unsent } = this;
    if (unsent.length === 0) return;
    this.unsent = [];
    this.peers.ask(SETTLE_UNRESERVED, unsent).catch(() => {});
  }

  override async close(): Promise<void> {
    this.sendUnreserved();
  }

  override statuses(levels: readonly LimitLevel[]): Promise<LimitStatus[]> {
    this.sendUnreserved();
    return this.peers.ask(STATUSES, levels).catch(throwUnavailable);
  }
}

/** Answers the limit questions of all workers. */
export function registerLimits(answers: QuestionHandlers, limiter: MemoryLimiter): void {
  answers.set(RESERVE, ({ reservation, owner }) => limiter.reserve(reservation, owner));
  answers.set(SETTLE, ({ id, used, unused, unreserved }) => {
    limiter.settle(id, used, unused, unreserved);
    return true;
  });
  answers.set(SETTLE_UNRESERVED, (charges) => {
    for (const { charge, unreserved } of charges) limiter.settle("", charge, undefined, unreserved);
    return true;
  });
  answers.set(STATUSES, (levels) => limiter.statuses(levels));
}

/** Makes a worker store the rows of what it has settled, before its primary reads there what was spent. */
export function registerLedgerFlush(answers: QuestionHandlers, ledger: Pick<Ledger, "flush">, timeout?: number): void {
  const flush = requestFlusher(ledger, timeout);
  answers.set(FLUSH_LEDGER, async () => {
    await flush();
    return true;
  });
}

function throwUnavailable(cause: unknown): never {
  throw storeUnavailable("limits", "What has been used so far is not known at the moment.", cause);
}
