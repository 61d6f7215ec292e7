import type { AddressInfo, Socket } from "node:net";
import { getHeapStatistics } from "node:v8";
import { soon } from "../core/admission.ts";
import { BLOCKING, Chain } from "../core/chain.ts";
import type { Log } from "../core/log.ts";
import { FairQueue, type QueueItem } from "./fair-queue.ts";
import { type LoopClock, loopClock } from "./loop-clock.ts";
import { Newcomer } from "./newcomer.ts";
import { QueuePace } from "./queue-pace.ts";
import { RecentShares } from "./recent-shares.ts";

export interface OverloadLimits {
  /** Milliseconds that new requests may wait for a busy event loop; 0: no limit. */
  readonly delay: number;
  /** The share of the heap limit that may be in use, like 0.85; 0: no limit. */
  readonly heap: number;
}

/** Milliseconds between two evaluations of slowly changing values. */
const LOOK = 50;
/** Consecutive evaluations, and milliseconds, for which the event loop must be late before anything is refused. */
const LATE = { looks: 2, time: 1000 };
/**
 * Utilization from which on the loop counts as overloaded: a late loop with idle time only shares its core with other processes.
 */
const BUSY = 0.9;
/** Milliseconds between two samples of the event loop's delay, while requests arrive. */
const RESOLUTION = 10;
/** Milliseconds without a request after which sampling stops, as each sample wakes an idle process. */
const QUIET = 1000;
/** Milliseconds between two log lines about it. */
const TELL = 1000;
/** Milliseconds of a turn of the event loop for new requests; further ones wait for the next turn. */
const TURN = 10;
/**
 * The same while overloaded: the maximum, the minimum, and the factors for evaluations that find the event loop later than `long`
 * milliseconds, or not.
 */
const SHARE = { most: 4, least: 0.5, long: 10, down: 0.8, up: 1.1 };
/** Maximum requests that are served together, and the initial estimate of milliseconds for each. */
const GROUP = 32;
const EACH = 0.5;
/** Consecutive turns that must find a request waiting too long: a burst after a pause is not an overload. */
const TURNS = 10;
/** Milliseconds that a caller's further requests may have to wait while overloaded. */
const PATIENCE = 10;
/** Turns that a request must have missed before it has waited too long. */
const MISSED = 2;
/** The time reserved for accepting connections while more arrive, relative to that for requests. */
const CROWD = 1;
/** A caller's maximum share, relative to the mean, while connections wait to be accepted. */
const MOST = 2;
/** Milliseconds without a refusal after which the overload has ended. */
const OVER = 1000;

/** A request that waits until it is served or refused. */
export class WaitingRequest implements QueueItem {
  /** The turn in which it arrived; set while it is queued. */
  turn = 0;
  private known: string | undefined;

  /**
   * @param since `performance.now()` from which on it waits
   * @param whose called only if callers have to wait for each other
   * @param refuse is given the seconds after which the client may retry
   */
  constructor(
    readonly since: number,
    private readonly whose: () => string,
    readonly serve: () => void,
    readonly refuse: (retryAfter: number) => void,
  ) {}

  get caller(): string {
    this.known ??= this.whose();
    return this.known;
  }
}

/**
 * Serves requests that arrived in the same turn of the event loop together: all pass each step of their life before any enters
 * the next, and so find the step's code in the core's caches. Refuses some while the process is overloaded. In each turn new
 * requests get a few milliseconds; the rest is queued, fairly between callers, so that turns stay short and a refusal never waits
 * for much work. When requests wait for longer than `delay`, turn after turn, or the loop itself is later than that without idle
 * time, a new request that would have to wait for more than a moment is refused in the same turn, before any is served; that of a
 * caller with nothing else queued, if it would wait for longer than `delay`. New requests then get a smaller share of a turn the
 * longer turns are. All are refused while the heap is nearly full. Running exchanges are never affected.
 */
export class Overload {
  /** Since the last evaluation: the sum of the times between samples, in milliseconds, and of their squares. */
  private sum = 0;
  private squares = 0;
  private sampledAt: number;
  private sampledCpu: number;
  /** Stops sampling; undefined: no samples are taken. */
  private stop: (() => void) | undefined;
  /** Requests of this turn in order of arrival, while none has to wait; and the number already served. */
  private arrived: WaitingRequest[] = [];
  private served = 0;
  private readonly queue = new FairQueue<WaitingRequest>();
  private readonly pace = new QueuePace();
  /** Callers served recently while overloaded, and requests to refuse once all arrivals of this turn are known. */
  private readonly recent = new RecentShares();
  private readonly excess: WaitingRequest[] = [];
  private newcomer: Newcomer | undefined;
  /** Connections accepted, and requests received, since the last evaluation. */
  private taken = 0;
  private asked = 0;
  private full = false;
  private overloaded = false;
  private askedAt = 0;
  /** Consecutive evaluations that found the loop late, the time of the first one, and the current lateness. */
  private late = 0;
  private lateSince = 0;
  private lateness = 0;
  /** Milliseconds that a new connection waits to be accepted. */
  private backlog = 0;
  private lookedAt: number;
  /** Whether this turn has begun, when its time for new requests ends, and the length of that time. */
  private turning = false;
  private turnEnds = 0;
  private share = TURN;
  /** When serving began in this turn; when it last ended, and how long it took. */
  private servingSince = 0;
  private servedAt = 0;
  private servedFor = 0;
  /** When the current group began, its size, and the recent average milliseconds for each request. */
  private groupSince = 0;
  private group = 0;
  private each = EACH;
  /** Number of turns in which queued requests were served. */
  private turns = 0;
  /** Whether a connection was accepted in this turn, and in the one before. */
  private took = false;
  private tookBefore = false;
  /** Consecutive turns that found a request waiting too long. */
  private slow = 0;
  private refusedAt = 0;
  /** Requests refused since the last log line. */
  private shed = 0;
  private toldAt = 0;
  private told = true;

  constructor(
    public limits: OverloadLimits,
    private readonly log: () => Log,
    private readonly clock: LoopClock = loopClock(),
  ) {
    this.lookedAt = this.sampledAt = this.askedAt = clock.now();
    this.sampledCpu = clock.cpu();
  }

  /** Whether nothing is being refused. */
  get calm(): boolean {
    return !this.full && !this.overloaded;
  }

  /** Number of requests that wait for their turn. */
  get waiting(): number {
    return this.arrived.length - this.served + this.queue.size + this.excess.length;
  }

  /** Takes a new request: it is served or refused later in this turn of the event loop, or in a following one. */
  arrive(request: WaitingRequest): void {
    this.asked++;
    if (!this.stop && (this.limits.delay > 0 || this.limits.heap > 0)) this.watch();
    if (!this.turning) this.begin();
    request.turn = this.turns;
    if (this.overloaded && this.tooMuch(request.caller)) this.excess.push(request);
    else if (this.overloaded || this.queue.size > 0) this.queue.add(request);
    else this.arrived.push(request);
  }

  /** Reports whether a caller's new request must be refused. */
  private tooMuch(caller: string): boolean {
    // Clients of other callers are still in the accept backlog, which cannot be inspected.
    if (this.backlog > this.patience && this.recent.share(caller) > MOST) return true;
    const own = this.queue.of(caller);
    return this.pace.each * this.queue.before(own) > (own > 0 ? this.patience : this.limits.delay);
  }

  /**
   * Returns the time from which a request has waited whose connection has just been accepted.
   * @param now `performance.now()`
   */
  before(now: number): number {
    return now - this.backlog;
  }

  /** Sets the address on which connections are accepted. */
  listens(address: AddressInfo): void {
    this.newcomer = new Newcomer(address);
  }

  /**
   * Counts a new connection.
   * @returns whether it is one of our own probes, sent to measure the accept backlog
   */
  sent(socket: Socket): boolean {
    if (this.newcomer?.is(socket)) return true;
    this.taken++;
    this.took = true;
    if (!this.turning && this.limits.delay > 0) this.begin();
    return false;
  }

  close(): void {
    this.newcomer?.close();
    this.stop?.();
    this.stop = undefined;
  }

  private get patience(): number {
    return Math.min(PATIENCE, this.limits.delay);
  }

  /**
   * Reports whether it is time to accept connections: a turn accepts one, so that each of a burst would wait for a turn's work.
   * While more arrive, they get a part of the time.
   */
  private owes(now: number): boolean {
    return (this.took || this.tookBefore) && now - this.servedAt < this.servedFor * CROWD;
  }

  private begin(): void {
    this.turning = true;
    setImmediate(turn, this);
  }

  /** Runs when everything that arrived in this turn of the event loop has been read; serves what is waiting. */
  turn(): void {
    this.turning = false;
    const now = this.clock.now();
    this.tookBefore = this.took;
    this.took = false;
    for (const { refuse } of this.excess.splice(0)) this.shedOne(refuse);
    if (this.full) {
      this.queueRest();
      this.refuse(Number.POSITIVE_INFINITY);
    }
    if (this.waiting === 0) return;
    if (this.owes(now)) {
      this.begin();
      return;
    }
    const { delay } = this.limits;
    const { oldest } = this.queue;
    if (oldest) this.waited(oldest, now);
    this.servingSince = now;
    this.turnEnds = delay > 0 ? now + this.share : Number.POSITIVE_INFINITY;
    this.serve(now);
  }

  /** Checks how long the requests of earlier turns have been waiting. */
  private waited(oldest: WaitingRequest, now: number): void {
    const { delay } = this.limits;
    this.pace.turn(this.clock.cpu());
    const longest = Math.max(now - oldest.since, this.pace.each * this.queue.size);
    this.slow = delay > 0 && longest > delay ? this.slow + 1 : 0;
    if (this.slow >= TURNS) this.overload(now);
    this.turns++;
  }

  /** Serves a group of requests, each up to its first asynchronous wait; as many as fit in the remaining time. */
  private serve(now: number): void {
    const room = Math.floor((this.turnEnds - now) / this.each);
    const most = Math.max(1, Math.min(GROUP, room));
    this.groupSince = now;
    for (this.group = 0; this.group < most; this.group++) {
      const next = this.arrived[this.served] ? this.arrived[this.served++] : this.queued();
      if (!next) break;
      next.serve();
    }
    queueMicrotask(this.afterwards);
  }

  private queued(): WaitingRequest | undefined {
    const next = this.queue.next();
    if (next && this.overloaded) this.recent.add(next.caller);
    if (next) this.pace.served();
    return next;
  }

  private readonly afterwards = (): void => process.nextTick(this.serveOrWait);

  private readonly serveOrWait = (): void => {
    const now = this.clock.now();
    if (this.group > 0) this.each += ((now - this.groupSince) / this.group - this.each) / 4;
    if (this.served === this.arrived.length) {
      this.arrived = [];
      this.served = 0;
    }
    if (this.waiting === 0) {
      this.slow = 0;
      this.pace.rest();
    } else if (now < this.turnEnds && !this.full) {
      this.serve(now);
      return;
    }
    this.servedAt = now;
    this.servedFor = Math.min(now - this.servingSince, TURN);
    this.queueRest();
    // Only now: where all have waited too long, some are still served.
    if (this.overloaded) this.refuse(now - this.limits.delay);
    if (this.queue.size > 0 && !this.turning) this.begin();
  };

  /** Queues the requests of this turn for which no time was left. */
  private queueRest(): void {
    const { arrived } = this;
    for (let at = this.served; at < arrived.length; at++) this.queue.add(arrived[at] as WaitingRequest);
    if (arrived.length > 0) this.arrived = [];
    this.served = 0;
  }

  /**
   * Refuses requests that have waited since before a time.
   * @param before `performance.now()`
   */
  private refuse(before: number): void {
    const { queue } = this;
    // A process that was not scheduled for a while had no time to serve any request.
    const missed = ({ turn }: WaitingRequest) => this.full || this.turns - turn >= MISSED;
    for (let oldest = queue.oldest; oldest && oldest.since < before && missed(oldest); oldest = queue.oldest) {
      queue.giveUp();
      this.shedOne(oldest.refuse);
    }
  }

  private shedOne(refuse: WaitingRequest["refuse"]): void {
    this.shed++;
    this.refusedAt = this.clock.now();
    refuse(soon());
  }

  private overload(now: number): void {
    if (this.overloaded) return;
    this.overloaded = true;
    this.share = SHARE.most;
    this.refusedAt = now;
  }

  private watch(): void {
    const { clock } = this;
    this.lookedAt = this.sampledAt = this.askedAt = clock.now();
    this.sampledCpu = clock.cpu();
    this.sum = this.squares = 0;
    this.clock.busy();
    this.stop = clock.every(RESOLUTION, () => this.sample());
  }

  /** Not node's own histogram, which takes half a millisecond for each read. */
  private sample(): void {
    const { clock } = this;
    const now = clock.now();
    const cpu = clock.cpu();
    // Time in which other processes had the core is not this process's own delay.
    const passed = Math.min(now - this.sampledAt, RESOLUTION + cpu - this.sampledCpu);
    this.sampledAt = now;
    this.sampledCpu = cpu;
    if (passed > BLOCKING) Chain.suspect();
    this.sum += passed;
    this.squares += passed * passed;
    if (now - this.lookedAt >= LOOK) this.look(now);
  }

  private look(now: number): void {
    const { delay, heap } = this.limits;
    if (this.sum > 0) {
      const busy = this.clock.busy();
      // A backlog of connections without requests does not shrink by refusing requests.
      this.backlog = this.asked * 2 >= this.taken ? (this.newcomer?.waited ?? 0) : 0;
      if (this.asked > 0) this.askedAt = now;
      this.asked = this.taken = 0;
      // The delay of a turn, weighted by its length, as a request arriving at a random time finds it.
      this.lateness = Math.max(0, this.squares / this.sum - RESOLUTION, this.backlog);
      this.sum = this.squares = 0;
      if (busy < BUSY) this.newcomer?.forget();
      else if (delay > 0) this.newcomer?.send();
      if (delay === 0 || this.lateness <= delay || busy < BUSY) this.late = 0;
      else if (this.late++ === 0) this.lateSince = this.lookedAt;
      if (this.late >= LATE.looks && now - this.lateSince >= LATE.time) this.overload(now);
    }
    this.lookedAt = now;
    this.recent.turn(now);
    if (this.overloaded) {
      // Turns may be long although new requests take little of them.
      if (this.lateness > SHARE.long) this.share = Math.max(SHARE.least, this.share * SHARE.down);
      else this.share = Math.min(SHARE.most, this.share * SHARE.up);
      this.overloaded = this.late > 0 || now - this.refusedAt < OVER;
    }
    if (!this.overloaded) this.share = TURN;
    this.full = heap > 0 && fullness() > heap;
    const begins = this.told && !this.calm;
    if (begins || (now - this.toldAt >= TELL && (this.shed > 0 || this.told !== this.calm))) this.tell(now);
    if (now - this.askedAt >= QUIET && this.calm && this.told && this.waiting === 0) {
      this.stop?.();
      this.stop = undefined;
    }
  }

  private tell(now: number): void {
    const { calm, shed } = this;
    const share = Math.round(this.share * 10) / 10;
    const fields = {
      shed,
      ...(calm ? {} : { share }),
      delay: Math.round(this.lateness),
      heap: Math.round(fullness() * 100) / 100,
    };
    this.log().warn(fields, calm ? "no longer overloaded" : "overloaded: new requests are refused");
    this.told = calm;
    this.shed = 0;
    this.toldAt = now;
  }
}

const turn = (overload: Overload): void => overload.turn();

/** Returns the share of the V8 heap limit in use, from 0 to 1. */
function fullness(): number {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  return used / limit;
}
