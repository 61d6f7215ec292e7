import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Calendar, Period } from "../../core/calendar.ts";
import { GatewayError } from "../../core/errors.ts";
import type { LimitLevel } from "../../core/limits.ts";
import type { MaybePromise } from "../../core/plugin.ts";
import { CountedNames, NO_CHARGE, namedCharge } from "../counted-names.ts";
import type { JournalEnd } from "../ledger.ts";
import {
  markMessage,
  newBudgetMarks,
  refusalMark,
  SOFT_BUDGETS_UNKNOWN,
  spendUnknownError,
  withoutSoftBudgets,
} from "../limit-results.ts";
import {
  type Charge,
  Limiter,
  type LimiterState,
  type LimitStatus,
  type Reservation,
  type ReserveResult,
  type Unreserved,
  type UnreservedCharge,
} from "../limiter.ts";
import { type LimitPart, MemoryLimiter } from "../memory-limiter.ts";
import { chargeOfRow, exchangeId, type FindCharges, ORPHAN_TIMEOUT, ORPHAN_TTL } from "../orphan-charges.ts";
import type { PlacedSpending } from "../spend.ts";
import { KnownSums } from "./known-sums.ts";
import { LedgerSums } from "./ledger-sums.ts";
import { LedgerWrites } from "./ledger-writes.ts";
import { type OnSum, parseExcess, parseGrant, parseStatuses, ReplyReader } from "./replies.ts";
import {
  REPLY_DEADLINE,
  RedisRefusal,
  type RedisScript,
  RedisServer,
  RedisUnavailable,
  unusableRedis,
} from "./server.ts";
import { ServerMessages } from "./server-messages.ts";
import {
  levelSumNames,
  packLevel,
  packReservation,
  parseSumName,
  possibleSumNames,
  type SumName,
  sumName,
  sumTtl,
  toDecimal,
} from "./sum-names.ts";
import { UnreportedSpending } from "./unreported-spending.ts";

/** The prefix of key names: in braces, so that all are in one slot of a cluster. */
const PREFIX = "{gateway}:";
/** Milliseconds between heartbeats, and after which a process without one is dead. */
const HEARTBEAT_INTERVAL = 2000;
const PROCESS_TTL = 10_000;
/** Milliseconds between attempts to reconnect. */
const RECONNECT_DELAY = 1000;
/**
 * Milliseconds in which all processes that reach a server find out that it is back or was emptied, and between two questions
 * whether all of them count there.
 */
const GATHER_TIME = 3000;
const GATHER_POLL = 20;
/** Milliseconds for commands sent after a reconnect. */
const JOIN_TIMEOUT = 5000;
/** Reservations of dead processes that are orphaned in one step, and those that are looked up in the ledger with a heartbeat. */
const END_BATCH = 500;
const ORPHAN_BATCH = 100;
/** Reservations that are adopted in one step, and charges without a reservation that are counted in one. */
const ADOPT_BATCH = 50;
const REPORT_BATCH = 50;
/** Charges without a reservation that wait to be sent at most. */
const MAX_UNSENT = 500;
/** Sums of which the reported marks are remembered. */
const MAX_SUMS = 20_000;
/** Maximum retries of a reservation after its missing sums have been sent. */
const MAX_TRIES = 5;

/** A running reservation. */
interface RedisReservation {
  readonly reservation: Reservation;
  /** Unix milliseconds. */
  readonly time: number;
  readonly json: string;
  /** The epoch of the server that knows it, or may; undefined: none does. */
  readonly epoch: string | undefined;
  /** Whether the server has confirmed it. */
  readonly granted: boolean;
}

/** A charge without a reservation, and the position of its row in the journal of this process. */
interface PlacedCharge extends UnreservedCharge {
  readonly position: number;
}

interface RedisLimiterParts {
  readonly server: RedisServer;
  /** Returns what was spent since a time (Unix milliseconds) according to the ledger. */
  readonly spentSince: (since: number) => Promise<PlacedSpending>;
  /** Returns where this process's rows so far end in its journal. */
  readonly place: () => JournalEnd;
  /** Looks up the costs of exchanges whose process has died. */
  readonly findCharges: FindCharges;
  /** Waits until everything spent here is in the ledger, visible to others. Rejects when the ledger cannot be written. */
  readonly flushLedger: () => Promise<void>;
  readonly calendar: Calendar;
  /** Called when a soft budget is nearly spent, and when the server becomes unreachable. */
  readonly warn: (message: string) => void;
  /** Called when it is back. */
  readonly info: (message: string) => void;
  /** Minimum number of processes; undefined: as many as were seen. */
  readonly instances?: number;
  /** Unix milliseconds, sent to the server too; injectable for tests. */
  readonly clock?: () => number;
}

/**
 * Counts in a Redis or Valkey server, together with all processes connected to it. What was spent before is loaded from the
 * ledger. While the server is unreachable, this process keeps to its part of what was left, and reports its spending
 * afterwards.
 */
export class RedisLimiter extends Limiter {
  private readonly owner = randomUUID();
  private readonly clock: () => number;
  private readonly reservations = new Map<string, RedisReservation>();
  private readonly known = new KnownSums();
  /** The highest amount of each sum for which marks were reported. */
  private readonly reported = new Map<string, number>();
  private readonly ledgerSums: LedgerSums;
  private readonly messages: ServerMessages;
  private readonly unreported: UnreportedSpending;
  private readonly writes: LedgerWrites;
  private unsent: PlacedCharge[] = [];
  private readonly countedNames = new CountedNames();
  /** Counts here while the server is unreachable. */
  private fallback: MemoryLimiter | undefined;
  private epoch = "";
  private processCount = 1;
  private joining: Promise<void> | undefined;
  /** Resolves when all processes that have counted apart count with the server. Never rejects. */
  private beginning: Promise<void> | undefined;
  private readonly ending = new AbortController();
  /** Whether the server has forgotten this process, or never known it, and they do not count together yet. */
  private mustRejoin = true;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;
  /** Whether it has counted apart, which was logged, and does not count with the others yet. */
  private isAway = false;
  private failures = 0;
  /** Whether the ledger could not return the spending of soft budgets, which was logged. */
  private softUnknownLogged = false;

  private constructor(private readonly parts: RedisLimiterParts) {
    super();
    this.clock = parts.clock ?? Date.now;
    this.ledgerSums = new LedgerSums(parts.spentSince, this.clock);
    this.writes = new LedgerWrites(parts.place, parts.flushLedger);
    this.messages = new ServerMessages(parts.server.address, parts.warn, parts.info);
    this.unreported = new UnreportedSpending(parts.place().journal);
    this.fallback = this.createFallback();
  }

  /** @throws RedisRefusal; RedisUnavailable if the number of processes is unknown, and with it this process's part */
  static async open(parts: RedisLimiterParts): Promise<RedisLimiter> {
    const limiter = new RedisLimiter(parts);
    try {
      await limiter.join();
    } catch (thrown) {
      if (parts.instances === undefined || thrown instanceof RedisRefusal) {
        limiter.stop();
        throw thrown;
      }
      limiter.warnAway(thrown as Error);
    }
    limiter.schedule();
    return limiter;
  }

  override get errors(): number {
    return this.failures;
  }

  /** Number of reservations that have not been settled. */
  get pending(): number {
    return this.reservations.size;
  }

  override get state(): LimiterState {
    return this.fallback ? "apart" : "ok";
  }

  override reserve(reservation: Reservation): MaybePromise<ReserveResult> {
    return this.fallback ? this.reserveLocally(reservation) : this.reserveShared(reservation, MAX_TRIES);
  }

  override settle(id: string, settled: Charge, unused = "", unreserved?: Unreserved): void {
    const running = this.reservations.get(id);
    if (!running && !unreserved) return;
    const charge = namedCharge(id, settled);
    this.reservations.delete(id);
    if (!this.fallback) {
      if (running) this.settleShared(running, charge, unused, unreserved);
      else if (unreserved) this.unsent.push({ charge, unreserved, position: this.writes.position });
      if (this.unsent.length >= MAX_UNSENT) this.sendUnreserved();
      return;
    }
    const used = this.countedNames.countOnce(charge);
    this.fallback.settle(id, used, unused, unreserved);
    if (unreserved) this.addUnreserved(unreserved, used.cost, this.writes.position);
    if (!running) return;
    this.addUnreported(
      running,
      { ...used, ...(charge.once !== undefined && used !== NO_CHARGE && { once: charge.once }) },
      unused,
    );
  }

  override sendUnreserved(): void {
    const { unsent } = this;
    if (unsent.length === 0 || this.fallback) return;
    this.unsent = [];
    for (let at = 0; at < unsent.length; at += REPORT_BATCH) this.report(unsent.slice(at, at + REPORT_BATCH));
  }

  override async statuses(levels: readonly LimitLevel[]): Promise<LimitStatus[]> {
    const { calendar } = this.parts;
    this.sendUnreserved();
    for (let tries = MAX_TRIES; !this.fallback && tries > 0; tries--) {
      const now = this.clock();
      const packed = JSON.stringify(levels.map((level) => packLevel(level, 0, calendar, now)));
      try {
        const [kind, ...rest] = await this.run("statuses", [packed]);
        if (kind === "ok") return parseStatuses(new ReplyReader(rest.slice(1)), levels, calendar, now);
        await this.seedSums(rest as string[]);
      } catch (thrown) {
        this.handleFailure(thrown);
      }
    }
    if (!this.fallback) throw spendUnknownError();
    return this.fallback.statuses(levels);
  }

  /** Running reservations end with their rows in the ledger. */
  override async close(): Promise<void> {
    this.ending.abort();
    await this.joining?.catch(() => {});
    this.sendUnreserved();
    if (!this.fallback) await this.runBeat(0, 0).catch(() => {});
    this.stop();
  }

  private stop(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.parts.server.disconnect();
  }

  /** @param unknown names of sums that could not be loaded, of soft budgets that were removed from the reservation */
  private async reserveShared(
    reservation: Reservation,
    tries: number,
    unknown: readonly string[] = [],
  ): Promise<ReserveResult> {
    if (this.beginning) await this.beginning;
    this.sendUnreserved();
    const { calendar } = this.parts;
    const now = this.clock();
    const json = packReservation(reservation, calendar, now, unknown);
    const { epoch } = this;
    let reply: readonly unknown[];
    try {
      reply = await this.run("reserve", [this.owner, reservation.id, json]);
      if (reply[0] === "owner") await this.introduce();
    } catch (thrown) {
      this.handleFailure(thrown);
      // The server may have reserved it nevertheless.
      return this.reserveLocally(reservation, epoch);
    }
    const [kind, ...rest] = reply;
    const know: OnSum = ({ scope }, { per }, state) => this.known.set(sumName(scope, per, calendar, now), state, now);
    if (kind === "ok") {
      const reader = new ReplyReader(rest);
      const time = reader.number();
      this.processCount = reader.number();
      this.keep({ reservation, time, json, epoch, granted: true });
      return {
        grant: parseGrant(reader, reservation, calendar, now, know),
      };
    }
    if (kind === "excess") {
      const excess = parseExcess(new ReplyReader(rest), reservation, calendar, now, know);
      const mark = refusalMark(excess);
      if (mark) this.onBudgetMark(mark);
      return { excess };
    }
    if (tries === 0) throw spendUnknownError();
    if (kind === "missing")
      try {
        await this.seedSums(rest as string[]);
      } catch (thrown) {
        const known = thrown instanceof GatewayError && this.withoutSoft(reservation, rest as string[], now);
        if (known) return this.reserveShared(known, tries, [...unknown, ...(rest as string[])]);
        this.handleFailure(thrown);
      }
    return this.fallback ? this.reserveLocally(reservation) : this.reserveShared(reservation, tries - 1, unknown);
  }

  /** Removes soft budgets whose sums the ledger does not return; undefined if a hard budget needs one of them. */
  private withoutSoft(reservation: Reservation, missing: readonly string[], now: number): Reservation | undefined {
    const { calendar, warn } = this.parts;
    const names = new Set(missing);
    const known = withoutSoftBudgets(reservation, ({ scope }, per) =>
      names.has(sumName(scope, per, calendar, now).name),
    );
    if (known && !this.softUnknownLogged) warn(SOFT_BUDGETS_UNKNOWN);
    if (known) this.softUnknownLogged = true;
    return known;
  }

  /** @param epoch the epoch of the server that may have reserved it too */
  private async reserveLocally(reservation: Reservation, epoch?: string): Promise<ReserveResult> {
    const { fallback } = this;
    // Neither the server nor this process counts any more: asking again would never end.
    if (!fallback && this.closed) throw spendUnknownError();
    if (!fallback) return this.reserveShared(reservation, MAX_TRIES);
    const time = this.clock();
    const running = {
      reservation,
      time,
      json: packReservation(reservation, this.parts.calendar, time),
      epoch,
      granted: false,
    };
    let granted = false;
    try {
      const reserved = await fallback.reserve(reservation);
      granted = "grant" in reserved;
      if (granted) this.keep(running, fallback);
      return reserved;
    } finally {
      // Refused, or the ledger cannot answer: what the server may have reserved ends with its return.
      if (!granted && epoch !== undefined) this.addUnreported(running, NO_CHARGE, "");
    }
  }

  /** @param by the limiter that has counted it; undefined: the server */
  private keep(running: RedisReservation, by?: MemoryLimiter): void {
    this.reservations.set(running.reservation.id, running);
    if (by === this.fallback) return;
    // The server was lost or came back meanwhile.
    if (this.fallback) this.fallback.adopt(running.reservation, running.time);
    else this.adopt([running]).catch((thrown) => this.handleFailure(thrown));
  }

  private settleShared(running: RedisReservation, charge: Charge, unused: string, unreserved?: Unreserved): void {
    const { tokens, cost, once = "" } = charge;
    const { id } = running.reservation;
    const { epoch } = this;
    const amounts = [String(Math.ceil(tokens)), toDecimal(cost)];
    const report = randomUUID();
    const { position } = this.writes;
    const elsewhere = unreserved ? [report, String(unreserved.time), ...unreserved.scopes] : [];
    const args = [this.owner, id, ...amounts, unused, once, this.unreported.rowPlace(position), ...elsewhere];
    const settleLater = () => {
      if (unreserved) this.addNamed(report, [{ charge, unreserved, position }]);
      this.addUnreported(running, charge, unused, position);
    };
    this.run("settle", args, undefined, JOIN_TIMEOUT).then(
      (reply) => {
        // Other processes have ended it, because they considered this process dead.
        if (reply === null) settleLater();
        else this.onSettled(running, reply, { unused, cost, position, epoch });
      },
      (thrown) => {
        this.handleFailure(thrown);
        settleLater();
      },
    );
  }

  /** Sends charges of exchanges that have reserved nothing. */
  private report(charges: readonly PlacedCharge[]): void {
    const name = randomUUID();
    const counted = charges.flatMap(({ charge: { cost, once = "" }, unreserved: { scopes, time } }) => [
      toDecimal(cost),
      once,
      String(time),
      String(scopes.length),
      ...scopes,
    ]);
    this.run("report", [name, ...counted], undefined, JOIN_TIMEOUT).catch((thrown) => {
      this.handleFailure(thrown);
      this.addNamed(name, charges);
    });
  }

  /**
   * Reports budgets that are nearly spent, and warns of soft ones.
   * @param reply whether it counts, and the money spent of all sums, in the order of their levels
   */
  private onSettled(
    { reservation: { levels }, time }: RedisReservation,
    reply: readonly unknown[],
    { unused, cost, position, epoch }: { unused: string; cost: number; position: number; epoch: string },
  ): void {
    const reader = new ReplyReader(reply);
    const counts = reader.number() === 1;
    for (const level of levels)
      for (const { per, name } of levelSumNames(level, this.parts.calendar, time)) {
        const sum = reader.number();
        if (level.scope === unused) continue;
        if (counts) this.unreported.addSent({ sum: name, cost, position }, epoch);
        for (const mark of newBudgetMarks(level, per, sum, this.lastReported(name, sum))) {
          if (mark.soft) this.parts.warn(markMessage(mark));
          this.onBudgetMark(mark);
        }
      }
    if (epoch !== this.epoch) this.payIfShared();
  }

  /** Records the highest amount of a sum for which marks are reported, and returns the one before; 0: none. */
  private lastReported(name: string, spent: number): number {
    const { reported } = this;
    const last = reported.get(name) ?? 0;
    if (spent > last) reported.set(name, spent);
    if (reported.size > MAX_SUMS) reported.delete(reported.keys().next().value as string);
    return last;
  }

  /** Records the charge of a reservation, to be sent to the server later. */
  private addUnreported(
    running: RedisReservation,
    { tokens, cost, once = "" }: Charge,
    unused: string,
    position = this.writes.position,
  ): void {
    const { reservation, time, json, epoch, granted } = running;
    if (epoch === undefined) {
      for (const level of reservation.levels)
        if (level.scope !== unused) this.addPayments(levelSumNames(level, this.parts.calendar, time), cost, position);
    } else {
      const used = { tokens, cost };
      const sure = granted ? epoch : undefined;
      this.unreported.addSettlement({ id: reservation.id, time, json, used, unused, once, granted: sure, position });
    }
    this.payIfShared();
  }

  /** Records a cost for all budgets that its scopes may have by now, to be sent to the server later. */
  private addUnreserved(unreserved: Unreserved, cost: number, position: number): void {
    this.addPayments(possibleSumNames(unreserved, this.parts.calendar), cost, position);
    this.payIfShared();
  }

  /** Records such costs under a name under which the server may have counted them: perhaps only the reply was lost. */
  private addNamed(name: string, charges: readonly PlacedCharge[]): void {
    const payments = charges.flatMap(({ charge, unreserved, position }) => {
      const { cost } = this.countedNames.countOnce(charge);
      return possibleSumNames(unreserved, this.parts.calendar).map((sum) => ({ sum: sum.name, cost, position }));
    });
    this.unreported.addNamedPayments(name, payments);
    this.payIfShared();
  }

  private addPayments(sums: readonly SumName[], cost: number, position: number): void {
    for (const { name } of sums) this.unreported.addPayment({ sum: name, cost, position });
  }

  private payIfShared(): void {
    if (!this.fallback) this.pay().catch((thrown) => this.handleFailure(thrown));
  }

  private async pay(): Promise<void> {
    await Promise.all(this.unreported.report((script, args) => this.send(script, args)));
  }

  /** Sends running reservations that the server does not know. */
  private async adopt(running: readonly RedisReservation[]): Promise<void> {
    const { epoch } = this;
    const sent: Promise<unknown>[] = [];
    for (let at = 0; at < running.length; at += ADOPT_BATCH) {
      const some = running.slice(at, at + ADOPT_BATCH);
      sent.push(
        this.send(
          "adopt",
          some.flatMap(({ reservation: { id }, time, json }) => [id, String(time), json]),
        ),
      );
      for (const each of some) this.reservations.set(each.reservation.id, { ...each, epoch, granted: true });
    }
    await Promise.all(sent);
  }

  private send(script: "adopt" | "repay" | "pay", args: readonly string[]): Promise<unknown> {
    return this.run(script, script === "pay" ? args : [this.owner, ...args], undefined, JOIN_TIMEOUT);
  }

  private async run(
    script: RedisScript,
    args: readonly string[],
    prefix = `${PREFIX}${this.epoch}:`,
    deadline = REPLY_DEADLINE,
  ): Promise<readonly unknown[]> {
    const clock = this.parts.clock ? String(this.parts.clock()) : "";
    return (await this.parts.server.run(script, [prefix, clock, ...args], deadline)) as readonly unknown[];
  }

  /** Handles the loss of the server: this process keeps to its part until it is back. */
  private handleFailure(thrown: unknown): void {
    // The error is the ledger's.
    if (thrown instanceof GatewayError) throw thrown;
    if (this.fallback && !this.closed) this.messages.refused(thrown);
    if (this.fallback || this.closed) return;
    this.parts.server.disconnect();
    this.countApart(thrown as Error);
  }

  /** Keeps to this process's part from now on. */
  private countApart(reason: Error): void {
    this.failures++;
    this.fallback = this.createFallback();
    for (const { reservation, time } of this.reservations.values()) this.fallback.adopt(reservation, time);
    for (const { charge, unreserved, position } of this.unsent.splice(0)) {
      const used = this.countedNames.countOnce(charge);
      this.fallback.settle("", used, undefined, unreserved);
      this.addUnreserved(unreserved, used.cost, position);
    }
    this.warnAway(reason);
    this.schedule();
  }

  private warnAway(reason: Error): void {
    this.isAway = true;
    this.messages.away(reason, this.instances);
  }

  private get instances(): number {
    return Math.max(this.processCount, this.parts.instances ?? 1);
  }

  /** Creates the limiter that counts here while the server is unreachable. */
  private createFallback(): MemoryLimiter {
    const { calendar, warn } = this.parts;
    const own = new Map<string, number>();
    for (const { reservation, time } of this.reservations.values())
      for (const level of reservation.levels)
        for (const { name } of levelSumNames(level, calendar, time))
          own.set(name, (own.get(name) ?? 0) + reservation.maximum.cost);
    const part: LimitPart = {
      instances: this.instances,
      pendingElsewhere: (scope: string, per: Period, start: number) => {
        const { name } = sumName(scope, per, calendar, start);
        return Math.max(0, this.known.pendingAt(name, this.clock()) - (own.get(name) ?? 0));
      },
    };
    const alone = new MemoryLimiter((since) => this.spentSince(since), calendar, warn, this.clock, part);
    alone.onBudgetMark = (mark) => this.onBudgetMark(mark);
    return alone;
  }

  /** Returns what the ledger knows or the server knew, whichever is more. */
  private async spentSince(since: number): Promise<ReadonlyMap<string, number>> {
    const sums = new Map((await this.parts.spentSince(since)).spent);
    for (const [scope, spent] of this.known.spentSince(since)) sums.set(scope, Math.max(spent, sums.get(scope) ?? 0));
    return sums;
  }

  /** Sends the ledger's sums to the server. @throws GatewayError when the ledger does not respond */
  private async seedSums(names: readonly string[]): Promise<void> {
    const { calendar } = this.parts;
    const { epoch } = this;
    const sumArguments = names.map(async (name) => {
      const sum = parseSumName(name);
      const { spent, positions } = await this.ledgerSums.since(sum.start);
      const included = JSON.stringify(Object.fromEntries(positions));
      return [name, toDecimal(spent.get(sum.scope) ?? 0), included, String(sumTtl(sum, calendar, this.clock()))];
    });
    const seedArguments = (await Promise.all(sumArguments)).flat();
    this.softUnknownLogged = false;
    // Another server's sums must be read after it has begun: what was reported to this one may not be in them.
    if (epoch === this.epoch) await this.run("seed", seedArguments);
  }

  /** Schedules the next heartbeat, or the next attempt to reconnect. */
  private schedule(): void {
    clearTimeout(this.timer);
    if (this.closed) return;
    const next = () => {
      if (this.fallback) this.writes.write().catch(() => {});
      return (this.fallback ? this.join() : this.beat())
        .catch((thrown) => this.handleFailure(thrown))
        .finally(() => this.schedule());
    };
    this.timer = setTimeout(next, this.fallback ? RECONNECT_DELAY : HEARTBEAT_INTERVAL).unref();
  }

  private async beat(): Promise<void> {
    this.sendUnreserved();
    const { stored } = this.writes;
    if (await this.introduce()) this.unreported.forgetSent(stored);
    if (this.fallback) return;
    if (this.unreported.hasSent) this.writes.write().catch(() => {});
    await this.refreshSums();
  }

  /** Refreshes the sums used here, and those that others use: what is left of them is divided when the server is lost. */
  private async refreshSums(): Promise<void> {
    const at = this.clock();
    const reader = new ReplyReader(await this.run("look", this.known.inUse(at)));
    while (!reader.ended) this.known.refresh(reader.text(), { spent: reader.number(), pending: reader.number() }, at);
  }

  /** Returns whether the server still knows this process */
  private async sendHeartbeat(): Promise<boolean> {
    for (;;) {
      const [epoch, known, seen, ended, mixed, ...orphans] = await this.runBeat(PROCESS_TTL, ORPHAN_BATCH);
      this.messages.versions(mixed === 1);
      const same = this.epoch === epoch && known === 1;
      if (this.epoch !== epoch) {
        this.unreported.changeServer(String(epoch));
        this.ledgerSums.clear();
      }
      // Others have not been seen by another server yet.
      this.processCount = this.epoch === epoch ? Number(seen) : Math.max(Number(seen), this.processCount);
      this.epoch = String(epoch);
      // Without the ledger or the server they stay reserved, and a later heartbeat returns them again.
      if (orphans.length > 0) void this.settleOrphans(orphans as string[]).catch(() => {});
      if (Number(ended) < END_BATCH) return same;
    }
  }

  /** @param life milliseconds until this process counts as dead @param orphans maximum number to return */
  private runBeat(life: number, orphans: number): Promise<readonly unknown[]> {
    const numbers = [life, END_BATCH, orphans, HEARTBEAT_INTERVAL, ORPHAN_TTL].map(String);
    return this.run("beat", [this.owner, ...numbers], PREFIX);
  }

  /** Counts the ledger's rows for reservations of dead processes. @param orphans of each its id and JSON */
  private async settleOrphans(orphans: readonly string[]): Promise<void> {
    const { epoch } = this;
    const ids = orphans.filter((_, i) => i % 2 === 0);
    const rows = await this.parts.findCharges(ids.map(exchangeId));
    const counted = ids.flatMap((id, i) => {
      const row = rows.get(exchangeId(id));
      if (!row) return [id, "", "", "", ""];
      const { levels } = JSON.parse(orphans[2 * i + 1] as string) as { levels: [scope: string][] };
      const { used, unused = "" } = chargeOfRow(
        row,
        levels.map(([scope]) => scope),
      );
      const { tokens, cost, once = "" } = namedCharge(id, used);
      return [id, String(Math.ceil(tokens)), toDecimal(cost), unused, once];
    });
    const args = [String(ORPHAN_TIMEOUT), String(ORPHAN_TTL), ...counted];
    await this.run("orphans", args, `${PREFIX}${epoch}:`, JOIN_TIMEOUT);
  }

  /**
   * Sends a heartbeat, and what this process runs if the server has forgotten it. If the server was emptied, it knows nothing of
   * what others run: this process keeps to its part until it joins them.
   * @returns whether the server still knew it
   */
  private async introduce(): Promise<boolean> {
    const { epoch } = this;
    const known = await this.sendHeartbeat();
    if (known || this.fallback || this.closed) return known;
    if (epoch === this.epoch) await this.sendAll();
    else {
      this.mustRejoin = true;
      this.countApart(new Error("its counts begin anew"));
    }
    return false;
  }

  /** Joins the shared count: at the start, and when the server is back. */
  private join(): Promise<void> {
    this.joining ??= this.joinOnce()
      .catch((thrown: unknown) => {
        // It may have become a replica, and its address lead to its successor by now.
        if (thrown instanceof RedisRefusal || thrown instanceof RedisUnavailable) this.parts.server.disconnect();
        throw thrown;
      })
      .finally(() => (this.joining = undefined));
    return this.joining;
  }

  private async joinOnce(): Promise<void> {
    const { server } = this.parts;
    if (!server.connected) {
      const { stored } = this.writes;
      await server.connect().catch((thrown: unknown) => {
        this.unreported.mergeStored(stored);
        throw thrown;
      });
    }
    if (!(await this.sendHeartbeat())) this.mustRejoin = true;
    // Such a server loads its sums from the ledger: what is not there yet would be lost.
    if (this.mustRejoin) await this.writes.writeAll();
    if (this.mustRejoin && this.processCount === 1) await this.recheckSums();
    const gathered = await this.gather();
    if (gathered && !(await this.sendHeartbeat())) {
      this.mustRejoin = true;
      throw new Error("its counts begin anew again");
    }
    this.fallback = undefined;
    const sent = this.sendAll();
    if (gathered) this.beginning = this.awaitOthers(sent);
    await sent;
    this.mustRejoin = false;
    this.messages.joined(this.isAway);
    this.isAway = false;
  }

  /** Has the server load its sums anew: those that it kept lack what was spent while no process counted there. */
  private async recheckSums(): Promise<void> {
    let at = "0";
    do {
      const [next] = await this.run("recheck", [at]);
      at = String(next);
    } while (at !== "0");
  }

  /** Waits for others that have counted apart: what they have reserved is not available. @returns whether there may be some */
  private async gather(): Promise<boolean> {
    const [left] = await this.run("gather", [this.owner, this.isAway ? String(GATHER_TIME) : "0"]);
    if (Number(left) === 0 && !this.isAway) return false;
    await sleep(Number(left), undefined, { ref: false, signal: this.ending.signal }).catch(() => {});
    return true;
  }

  /**
   * Waits until all that have gathered have sent what they run; the server forgets those that do not. Never rejects.
   * @param sent resolves when this process has
   */
  private async awaitOthers(sent: Promise<void>): Promise<void> {
    try {
      await sent;
      while (Number((await this.run("gather", [this.owner, ""]))[0]) > 0)
        await sleep(GATHER_POLL, undefined, { ref: false });
    } catch {
      // The server is lost again, and whoever waits finds out.
    }
    this.beginning = undefined;
  }

  /** As that of the server. */
  evictionWarning(): Promise<string | undefined> {
    return this.parts.server.evictionWarning();
  }

  /** Sends what runs and what was spent in this turn of the event loop, before any other command: commands keep their order. */
  private async sendAll(): Promise<void> {
    await Promise.all([this.adopt([...this.reservations.values()]), this.pay()]);
  }
}

/**
 * Creates a limiter that counts in the server at an address.
 * @throws FileError with advice, if it does not respond, refuses this process, or its package is missing
 */
export async function openRedisLimiter(url: string, parts: Omit<RedisLimiterParts, "server">): Promise<RedisLimiter> {
  const server = await RedisServer.create(url);
  try {
    return await RedisLimiter.open({ ...parts, server });
  } catch (cause) {
    throw unusableRedis(server, cause);
  }
}
