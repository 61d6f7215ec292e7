import { randomUUID } from "node:crypto";
import type { Calendar, Period } from "../../core/calendar.ts";
import { GatewayError } from "../../core/errors.ts";
import type { LimitLevel } from "../../core/limits.ts";
import { markOf, marksPassed, SOFT_UNKNOWN, spendUnknown, toldOf, withoutSoft } from "../limit-answers.ts";
import { type Charge, Limiter, type LimiterState, type Reservation, type Reserved, type Standing } from "../limiter.ts";
import { type LimitPart, MemoryLimiter, type SpendSince } from "../memory-limiter.ts";
import { NOTHING, OnceNames } from "../once-names.ts";
import { Arrears } from "./arrears.ts";
import { digits, keeping, packed, packedLevel, type SumName, sumNamed, sumOf, sumsOf } from "./holds.ts";
import { excessIn, grantIn, ReplyReader, standingsIn } from "./replies.ts";
import { DEADLINE, RedisRefusal, type RedisScript, RedisServer, unusableRedis } from "./server.ts";

/** The prefix of key names: in braces, so that all are in one slot of a cluster. */
const PREFIX = "{gateway}:";
/** Milliseconds between heartbeats, and after which a process without one is dead. */
const BEAT = 2000;
const LIFE = 10_000;
/** Milliseconds between attempts to reconnect. */
const RETRY = 1000;
/** Milliseconds for commands sent after a reconnect. */
const JOINING = 5000;
/** Reservations of dead processes that are ended in one step. */
const ENDING = 500;
/** Reservations that are adopted in one step. */
const ADOPTING = 50;
/** Milliseconds for which the ledger's sums are cached. */
const FRESH = 1000;
/** Cached sums; those of them that are refreshed with each heartbeat; and milliseconds for which they are kept in use. */
const REMEMBERED = 20_000;
const LOOKING = 500;
const USED = 600_000;
/** Milliseconds for which amounts pending in other processes are assumed to be still pending. */
const PENDING = 60_000;
/** Maximum retries of a reservation after its missing sums have been sent. */
const TRIES = 5;

/** A running reservation. */
interface RedisHold {
  readonly reservation: Reservation;
  /** Unix milliseconds. */
  readonly time: number;
  readonly json: string;
  /** The epoch of the server that knows it, or may; undefined: none does. */
  readonly epoch: string | undefined;
  /** Whether the server has confirmed it. */
  readonly granted: boolean;
}

interface KnownSum {
  readonly sum: SumName;
  spent: number;
  pending: number;
  /** When these amounts were valid, and when the sum was last used here; Unix milliseconds. */
  at: number;
  readonly used: number;
}

interface RedisLimiterParts {
  readonly server: RedisServer;
  /** Returns the sums from the ledger. */
  readonly spentSince: SpendSince;
  /** Waits until everything spent here is in the ledger, visible to others. Rejects when the ledger cannot be written. */
  readonly written: () => Promise<void>;
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
  private readonly open = new Map<string, RedisHold>();
  private readonly known = new Map<string, KnownSum>();
  private readonly before = new Map<number, { asked: number; sums: ReturnType<SpendSince> }>();
  private readonly arrears = new Arrears();
  private readonly names = new OnceNames();
  /** Counts here while the server is unreachable. */
  private alone: MemoryLimiter | undefined;
  private epoch = "";
  private seen = 1;
  private joining: Promise<void> | undefined;
  private writing: Promise<void> | undefined;
  /** Whether the server has forgotten this process, or never known it, and they do not count together yet. */
  private unknown = true;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;
  private announced = false;
  /** The server's last refusal that was logged. */
  private refused: string | undefined;
  private failures = 0;
  /** Whether the ledger could not return the spending of soft budgets, which was logged. */
  private blind = false;

  private constructor(private readonly parts: RedisLimiterParts) {
    super();
    this.clock = parts.clock ?? Date.now;
    this.alone = this.part();
  }

  /** @throws RedisRefusal; RedisAway if the number of processes is unknown, and with it this process's part */
  static async open(parts: RedisLimiterParts): Promise<RedisLimiter> {
    const limiter = new RedisLimiter(parts);
    try {
      await limiter.join();
    } catch (thrown) {
      if (parts.instances === undefined || thrown instanceof RedisRefusal) {
        limiter.stop();
        throw thrown;
      }
      limiter.sayAway(thrown as Error);
    }
    limiter.schedule();
    return limiter;
  }

  override get errors(): number {
    return this.failures;
  }

  /** Number of reservations that have not been settled. */
  get pending(): number {
    return this.open.size;
  }

  override get state(): LimiterState {
    return this.alone ? "apart" : "ok";
  }

  override reserve(reservation: Reservation): Reserved | Promise<Reserved> {
    return this.alone ? this.reserveAlone(reservation) : this.reserveShared(reservation, TRIES);
  }

  override settle(id: string, charge: Charge, unused = ""): void {
    const hold = this.open.get(id);
    if (!hold) return;
    this.open.delete(id);
    if (!this.alone) {
      this.settleShared(hold, charge, unused);
      return;
    }
    const used = this.names.count(charge);
    this.alone.settle(id, used, unused);
    this.owe(hold, { ...used, ...(charge.once !== undefined && used !== NOTHING && { once: charge.once }) }, unused);
  }

  override async standings(levels: readonly LimitLevel[]): Promise<Standing[]> {
    const { calendar } = this.parts;
    for (let tries = TRIES; !this.alone && tries > 0; tries--) {
      const now = this.clock();
      const asked = JSON.stringify(levels.map((level) => packedLevel(level, 0, calendar, now)));
      try {
        const [kind, ...rest] = await this.run("standings", [asked]);
        if (kind === "ok") return standingsIn(new ReplyReader(rest.slice(1)), levels, calendar, now);
        await this.seed(rest as string[]);
      } catch (thrown) {
        this.leave(thrown);
      }
    }
    if (!this.alone) throw spendUnknown();
    return this.alone.standings(levels);
  }

  /** Running reservations end with their least charge. */
  override async close(): Promise<void> {
    await this.joining?.catch(() => {});
    if (!this.alone) await this.run("beat", [this.owner, "0", String(ENDING)], PREFIX).catch(() => {});
    this.stop();
  }

  private stop(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.parts.server.disconnect();
  }

  private async reserveShared(reservation: Reservation, tries: number): Promise<Reserved> {
    const { calendar } = this.parts;
    const now = this.clock();
    const json = packed(reservation, calendar, now);
    const { epoch } = this;
    let reply: readonly unknown[];
    try {
      reply = await this.run("reserve", [this.owner, reservation.id, json]);
      if (reply[0] === "owner") await this.join();
    } catch (thrown) {
      this.leave(thrown);
      // The server may have reserved it nevertheless.
      return this.reserveAlone(reservation, epoch);
    }
    const [kind, ...rest] = reply;
    if (kind === "ok") {
      const reader = new ReplyReader(rest);
      const time = reader.number();
      this.seen = reader.number();
      this.keep({ reservation, time, json, epoch, granted: true });
      return { grant: grantIn(reader, reservation, calendar, now, (...told) => this.remember(now, ...told)) };
    }
    if (kind === "excess") {
      const excess = excessIn(new ReplyReader(rest), reservation, calendar, now);
      const mark = markOf(excess);
      if (mark) this.marked(mark);
      return { excess };
    }
    if (tries === 0) throw spendUnknown();
    if (kind === "missing")
      try {
        await this.seed(rest as string[]);
      } catch (thrown) {
        const known = thrown instanceof GatewayError && this.withoutSoft(reservation, rest as string[], now);
        if (known) return this.reserveShared(known, tries);
        this.leave(thrown);
      }
    return this.alone ? this.reserveAlone(reservation) : this.reserveShared(reservation, tries - 1);
  }

  /** Removes soft budgets whose sums the ledger does not return; undefined if a hard budget needs one of them. */
  private withoutSoft(reservation: Reservation, missing: readonly string[], now: number): Reservation | undefined {
    const { calendar, warn } = this.parts;
    const names = new Set(missing);
    const known = withoutSoft(reservation, ({ scope }, per) => names.has(sumOf(scope, per, calendar, now).name));
    if (known && !this.blind) warn(SOFT_UNKNOWN);
    if (known) this.blind = true;
    return known;
  }

  /** @param epoch the epoch of the server that may have reserved it too */
  private async reserveAlone(reservation: Reservation, epoch?: string): Promise<Reserved> {
    const { alone } = this;
    if (!alone) return this.reserveShared(reservation, TRIES);
    const time = this.clock();
    const hold = { reservation, time, json: packed(reservation, this.parts.calendar, time), epoch, granted: false };
    const reserved = await alone.reserve(reservation);
    if ("grant" in reserved) this.keep(hold, alone);
    else if (epoch !== undefined) this.owe(hold, NOTHING, "");
    return reserved;
  }

  /** @param by the limiter that has counted it; undefined: the server */
  private keep(hold: RedisHold, by?: MemoryLimiter): void {
    this.open.set(hold.reservation.id, hold);
    if (by === this.alone) return;
    // The server was lost or came back meanwhile.
    if (this.alone) this.alone.adopt(hold.reservation, hold.time);
    else this.adopt([hold]).catch((thrown) => this.leave(thrown));
  }

  private settleShared(hold: RedisHold, charge: Charge, unused: string): void {
    const { tokens, cost, once = "" } = charge;
    const { id, levels } = hold.reservation;
    const amounts = [String(Math.ceil(tokens)), digits(cost)];
    this.run("settle", [this.owner, id, ...amounts, unused, once], undefined, JOINING).then(
      (spent) => {
        // Other processes have ended it, because they considered this process dead.
        if (spent === null) this.owe(hold, charge, unused);
        else this.tell(levels, spent, hold.time, charge, unused);
      },
      (thrown) => {
        this.leave(thrown);
        this.owe(hold, charge, unused);
      },
    );
  }

  /** Warns of nearly spent soft budgets. @param spent of all sums, in the order of their levels */
  private tell(levels: readonly LimitLevel[], spent: readonly unknown[], time: number, charge: Charge, unused: string) {
    const reader = new ReplyReader(spent);
    for (const level of levels)
      for (const { per } of sumsOf(level, this.parts.calendar, time)) {
        const sum = reader.number();
        if (level.scope === unused) continue;
        for (const mark of marksPassed(level, per, sum, charge.cost)) {
          if (mark.soft) this.parts.warn(toldOf(mark));
          this.marked(mark);
        }
      }
  }

  /** Records the charge of a reservation, to be sent to the server later. */
  private owe(hold: RedisHold, { tokens, cost, once = "" }: Charge, unused: string): void {
    const { reservation, time, json, epoch, granted } = hold;
    if (epoch === undefined) {
      for (const level of reservation.levels)
        if (level.scope !== unused && cost !== 0)
          for (const { name } of sumsOf(level, this.parts.calendar, time)) this.arrears.pay(name, cost);
    } else {
      const used = { tokens, cost };
      const sure = granted ? epoch : undefined;
      this.arrears.settle({ id: reservation.id, time, json, used, unused, once, granted: sure });
    }
    if (!this.alone) this.pay().catch((thrown) => this.leave(thrown));
  }

  private async pay(): Promise<void> {
    await Promise.all(this.arrears.tell(this.epoch, this.clock(), (script, args) => this.send(script, args)));
  }

  /** Sends running reservations that the server does not know. */
  private async adopt(holds: readonly RedisHold[]): Promise<void> {
    const { epoch } = this;
    const sent: Promise<unknown>[] = [];
    for (let at = 0; at < holds.length; at += ADOPTING) {
      const some = holds.slice(at, at + ADOPTING);
      sent.push(
        this.send(
          "adopt",
          some.flatMap(({ reservation: { id }, time, json }) => [id, String(time), json]),
        ),
      );
      for (const hold of some) this.open.set(hold.reservation.id, { ...hold, epoch, granted: true });
    }
    await Promise.all(sent);
  }

  private send(script: "adopt" | "repay" | "pay", args: readonly string[]): Promise<unknown> {
    return this.run(script, script === "pay" ? args : [this.owner, ...args], undefined, JOINING);
  }

  private async run(
    script: RedisScript,
    args: readonly string[],
    prefix = `${PREFIX}${this.epoch}:`,
    deadline = DEADLINE,
  ): Promise<readonly unknown[]> {
    const clock = this.parts.clock ? String(this.parts.clock()) : "";
    return (await this.parts.server.run(script, [prefix, clock, ...args], deadline)) as readonly unknown[];
  }

  /** Handles the loss of the server: this process keeps to its part until it is back. */
  private leave(thrown: unknown): void {
    // The error is the ledger's.
    if (thrown instanceof GatewayError) throw thrown;
    if (this.alone && !this.closed) this.sayRefused(thrown);
    if (this.alone || this.closed) return;
    this.failures++;
    this.alone = this.part();
    for (const { reservation, time } of this.open.values()) this.alone.adopt(reservation, time);
    this.parts.server.disconnect();
    this.sayAway(thrown as Error);
    this.schedule();
  }

  private sayAway({ message }: Error): void {
    const { server, warn } = this.parts;
    this.announced = true;
    const until = this.instances === 1 ? "counts alone" : `keeps to one part in ${this.instances} of what was left`;
    warn(
      `limits: Redis at ${server.place} (store: limits) is unavailable (${message}): this process ${until}, until it is back`,
    );
  }

  /** Logs once why a reachable server refuses commands, as the first warning was only that it was lost. Retries do not help. */
  private sayRefused(thrown: unknown): void {
    if (!(thrown instanceof RedisRefusal) || this.refused === thrown.message) return;
    this.refused = thrown.message;
    this.parts.warn(`limits: Redis (store: limits) is asked again, and refuses: ${thrown.message}`);
  }

  private get instances(): number {
    return Math.max(this.seen, this.parts.instances ?? 1);
  }

  /** Creates the limiter that counts here while the server is unreachable. */
  private part(): MemoryLimiter {
    const { calendar, warn } = this.parts;
    const own = new Map<string, number>();
    for (const { reservation, time } of this.open.values())
      for (const level of reservation.levels)
        for (const { name } of sumsOf(level, calendar, time))
          own.set(name, (own.get(name) ?? 0) + reservation.most.cost);
    const part: LimitPart = {
      instances: this.instances,
      pendingElsewhere: (scope: string, per: Period, start: number) => {
        const { name } = sumOf(scope, per, calendar, start);
        const known = this.known.get(name);
        return known && this.clock() - known.at < PENDING ? Math.max(0, known.pending - (own.get(name) ?? 0)) : 0;
      },
    };
    const alone = new MemoryLimiter((since) => this.spentSince(since), calendar, warn, this.clock, part);
    alone.marked = (mark) => this.marked(mark);
    return alone;
  }

  /** Returns what the ledger knows or the server knew, whichever is more. */
  private async spentSince(since: number): Promise<ReadonlyMap<string, number>> {
    const sums = new Map(await this.parts.spentSince(since));
    for (const { sum, spent } of this.known.values())
      if (sum.start === since) sums.set(sum.scope, Math.max(spent, sums.get(sum.scope) ?? 0));
    return sums;
  }

  private remember(
    at: number,
    { scope }: LimitLevel,
    { per }: { per: Period },
    state: { spent: number; pending: number },
  ) {
    const sum = sumOf(scope, per, this.parts.calendar, at);
    this.known.delete(sum.name);
    this.known.set(sum.name, { sum, spent: state.spent, pending: state.pending, at, used: at });
    if (this.known.size > REMEMBERED) this.known.delete(this.known.keys().next().value as string);
  }

  /** Sends the ledger's sums to the server. @throws GatewayError when the ledger does not respond */
  private async seed(names: readonly string[]): Promise<void> {
    const { calendar } = this.parts;
    const words = names.map(async (name) => {
      const sum = sumNamed(name);
      const { asked, sums } = this.spentBefore(sum.start);
      const spent = (await sums).get(sum.scope) ?? 0;
      return [name, digits(spent), String(asked), String(keeping(sum, calendar, this.clock()))];
    });
    const told = (await Promise.all(words)).flat();
    this.blind = false;
    await this.run("seed", told);
  }

  /** Returns the ledger's sums since then, from one query for many callers. */
  private spentBefore(start: number): { asked: number; sums: ReturnType<SpendSince> } {
    const asked = this.clock();
    const known = this.before.get(start);
    if (known && asked - known.asked < FRESH) return known;
    const sums = this.parts.spentSince(start).catch((cause: unknown) => {
      this.before.delete(start);
      throw spendUnknown(cause);
    });
    const made = { asked, sums };
    this.before.set(start, made);
    return made;
  }

  /** Schedules the next heartbeat, or the next attempt to reconnect. */
  private schedule(): void {
    clearTimeout(this.timer);
    if (this.closed) return;
    const next = () => {
      // Records the time by which others can see it in the ledger.
      if (this.alone) this.write().catch(() => {});
      return (this.alone ? this.join() : this.beat())
        .catch((thrown) => this.leave(thrown))
        .finally(() => this.schedule());
    };
    this.timer = setTimeout(next, this.alone ? RETRY : BEAT).unref();
  }

  private async beat(): Promise<void> {
    if (!(await this.alive())) await this.join();
    await this.look();
  }

  /** Refreshes the cached sums used here: what is left of them is divided when the server is lost. */
  private async look(): Promise<void> {
    const at = this.clock();
    const known = [...this.known.values()].slice(-LOOKING).filter(({ used }) => at - used < USED);
    if (known.length === 0) return;
    const reader = new ReplyReader(
      await this.run(
        "look",
        known.map(({ sum }) => sum.name),
      ),
    );
    for (const each of known) Object.assign(each, { spent: reader.number(), pending: reader.number(), at });
  }

  /** Sends a heartbeat. @returns whether the server still knows this process */
  private async alive(): Promise<boolean> {
    for (;;) {
      const [epoch, known, seen, ended] = await this.run("beat", [this.owner, String(LIFE), String(ENDING)], PREFIX);
      const same = this.epoch === epoch && known === 1;
      this.epoch = String(epoch);
      this.seen = Number(seen);
      if (Number(ended) < ENDING) return same;
    }
  }

  /** Writes what was spent here to the ledger. */
  private write(): Promise<void> {
    this.writing ??= this.writeOnce().finally(() => (this.writing = undefined));
    return this.writing;
  }

  private async writeOnce(): Promise<void> {
    const written = this.arrears.write();
    await this.parts.written();
    written(this.clock());
  }

  /** Writes everything spent until now. @throws Error when the ledger cannot be written: this process then keeps to its part */
  private async writeAll(): Promise<void> {
    await this.writing?.catch(() => {});
    await this.write();
  }

  /** Joins the shared count: at the start, when the server is back, or when it has forgotten this process. */
  private join(): Promise<void> {
    this.joining ??= this.joinOnce().finally(() => (this.joining = undefined));
    return this.joining;
  }

  private async joinOnce(): Promise<void> {
    const { server } = this.parts;
    if (!server.connected) await server.connect();
    if (!(await this.alive())) {
      this.before.clear();
      this.unknown = true;
    }
    // Such a server loads its sums from the ledger: what is not there yet would be lost.
    if (this.unknown && this.alone) await this.writeAll();
    this.unknown = false;
    // Sent in this turn of the event loop, before any other command: commands keep their order.
    this.alone = undefined;
    await Promise.all([this.adopt([...this.open.values()]), this.pay()]);
    if (this.announced)
      this.parts.info(`limits: Redis at ${server.place} (store: limits) is back, and all count together again`);
    this.announced = false;
    this.refused = undefined;
  }
}

/**
 * Creates a limiter that counts in the server at an address.
 * @throws FileError with advice, if it does not respond, refuses this process, or its package is missing
 */
export async function openRedisLimiter(url: string, parts: Omit<RedisLimiterParts, "server">): Promise<RedisLimiter> {
  const server = await RedisServer.of(url);
  try {
    return await RedisLimiter.open({ ...parts, server });
  } catch (cause) {
    throw unusableRedis(server, cause);
  }
}
