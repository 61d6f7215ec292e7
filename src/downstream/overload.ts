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
  /** Milliseconds that new requests may wait for a busy event loop; 0: however long it is. */
  readonly delay: number;
  /** The part of the heap's limit that may be in use, like 0.85; 0: all of it. */
  readonly heap: number;
}

/** Milliseconds between two looks at what goes on slowly. */
const LOOK = 50;
/** What of it must find the event loop late before anything is refused: looks in a row, and milliseconds. */
const LATE = { looks: 2, time: 1000 };
/** The part of its time for which the loop works from which on it is overloaded: one that rests is kept from its core by others. */
const BUSY = 0.9;
/** Milliseconds between two samples of the event loop's delay, as long as requests come. */
const RESOLUTION = 10;
/** Milliseconds without a request after which none are taken: each wakes a process that has nothing to do. */
const QUIET = 1000;
/** Milliseconds between two words of it in the log. */
const TELL = 1000;
/** Milliseconds that new requests may take of a turn of the event loop, before the others wait for the next. */
const TURN = 10;
/**
 * The same while overloaded: at most, at least, and by what it changes with a look that finds the event loop later than so many
 * milliseconds, or not.
 */
const SHARE = { most: 4, least: 0.5, long: 10, down: 0.8, up: 1.1 };
/** Requests that are served together at most, and milliseconds that each is expected to take as long as nobody knows. */
const GROUP = 32;
const EACH = 0.5;
/** Turns in a row that must find somebody who waits too long: what comes at once after a pause is no overload. */
const TURNS = 10;
/** Milliseconds that a caller's further requests may have to wait while overloaded. */
const PATIENCE = 10;
/** Turns that a request must have missed before it has waited too long. */
const MISSED = 2;
/** The time for taking connections while more and more come, beside that for requests. */
const CROWD = 1;
/** What a caller may have, beside the mean of all, while connections wait to be taken. */
const MOST = 2;
/** Milliseconds without a refusal after which it is over. */
const OVER = 1000;

/** A request that waits until it is served or refused. */
export class WaitingRequest implements QueueItem {
  /** The turn in which it came; set while it waits in the queue. */
  turn = 0;
  private known: string | undefined;

  /**
   * @param since `performance.now()` from which on it waits
   * @param whose asked only where callers have to wait for one another
   * @param refuse told after how many seconds it may be asked again
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
 * Serves what has come in a turn of the event loop when all of it is here, together: one after the other goes through each step of
 * its life before any goes through the next, and finds the step's code in the core's caches. Refuses some while the process has more
 * to do than it can. In each turn new requests get some milliseconds; the others wait, fair between callers, so that no turn is long
 * and a refusal never waits behind much work. When they wait for longer than `delay`, turn after turn, or the loop itself is later than that and never
 * rests, whoever comes and would have to wait for more than a moment is refused in the same turn, before anybody is served; who has
 * nothing else waiting, where it would be for longer than `delay`. New requests then get less of a turn the longer turns are. All
 * are refused while the heap is nearly full. What runs is never touched.
 */
export class Overload {
  /** Since the last look: the sum of the times between samples, in milliseconds, and of their squares. */
  private sum = 0;
  private squares = 0;
  private sampledAt: number;
  private sampledCpu: number;
  /** Ends the samples; undefined: none are taken. */
  private stop: (() => void) | undefined;
  /** Those of this turn, in the order in which they came, as long as nobody has to wait; and how many were served. */
  private arrived: WaitingRequest[] = [];
  private served = 0;
  private readonly queue = new FairQueue<WaitingRequest>();
  private readonly pace = new QueuePace();
  /** Who was served lately while it was overloaded, and requests that are refused when all that comes in this turn is here. */
  private readonly recent = new RecentShares();
  private readonly excess: WaitingRequest[] = [];
  private newcomer: Newcomer | undefined;
  /** Connections that were taken, and requests that came, since the last look. */
  private taken = 0;
  private asked = 0;
  private full = false;
  private overloaded = false;
  private askedAt = 0;
  /** Looks in a row that found it late, when the first one was, and how late it is. */
  private late = 0;
  private lateSince = 0;
  private lateness = 0;
  /** Milliseconds that a new connection waits until it is taken. */
  private backlog = 0;
  private lookedAt: number;
  /** Whether this turn has begun, when its time for new requests is over, and how much that is. */
  private turning = false;
  private turnEnds = 0;
  private share = TURN;
  /** When serving began in this turn; when it last ended, and how long it took. */
  private servingSince = 0;
  private servedAt = 0;
  private servedFor = 0;
  /** When the group that is served began, how many it has, and milliseconds that each request took lately. */
  private groupSince = 0;
  private group = 0;
  private each = EACH;
  /** Turns in which requests that waited were served. */
  private turns = 0;
  /** Whether a connection was taken in this turn, and in the one before. */
  private took = false;
  private tookBefore = false;
  /** Turns in a row that found somebody who waits too long. */
  private slow = 0;
  private refusedAt = 0;
  /** Since it was last told. */
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

  /** Requests that wait for their turn. */
  get waiting(): number {
    return this.arrived.length - this.served + this.queue.size + this.excess.length;
  }

  /** A request has come: it is served or refused later in this turn of the event loop, or in one of the next. */
  arrive(request: WaitingRequest): void {
    this.asked++;
    if (!this.stop && (this.limits.delay > 0 || this.limits.heap > 0)) this.watch();
    if (!this.turning) this.begin();
    request.turn = this.turns;
    if (this.overloaded && this.tooMuch(request.caller)) this.excess.push(request);
    else if (this.overloaded || this.queue.size > 0) this.queue.add(request);
    else this.arrived.push(request);
  }

  /** Whether a caller who asks for something now is to be refused. */
  private tooMuch(caller: string): boolean {
    // Others stand behind it in a queue in which nobody can look for them.
    if (this.backlog > this.patience && this.recent.share(caller) > MOST) return true;
    const own = this.queue.of(caller);
    return this.pace.each * this.queue.before(own) > (own > 0 ? this.patience : this.limits.delay);
  }

  /** @returns from when on a request has waited whose connection has only just been taken @param now `performance.now()` */
  before(now: number): number {
    return now - this.backlog;
  }

  /** Connections are taken here. */
  listens(address: AddressInfo): void {
    this.newcomer = new Newcomer(address);
  }

  /** A connection was taken. @returns whether it is one of ours, sent to find out how long others wait */
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
   * Whether it is time to take connections: a turn takes one, so that those of a crowd would wait behind a turn's work each. As
   * long as more come they get a part of the time.
   */
  private owes(now: number): boolean {
    return (this.took || this.tookBefore) && now - this.servedAt < this.servedFor * CROWD;
  }

  private begin(): void {
    this.turning = true;
    setImmediate(turn, this);
  }

  /** All that has come in this turn of the event loop is here; what waits gets its time. */
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

  /** Some wait since a turn before. */
  private waited(oldest: WaitingRequest, now: number): void {
    const { delay } = this.limits;
    this.pace.turn(this.clock.cpu());
    const longest = Math.max(now - oldest.since, this.pace.each * this.queue.size);
    this.slow = delay > 0 && longest > delay ? this.slow + 1 : 0;
    if (this.slow >= TURNS) this.overload(now);
    this.turns++;
  }

  /** A group of them, of which all do what they can at once; as many as time is left for. */
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
    // Not before: where all have waited for too long, some are served still.
    if (this.overloaded) this.refuse(now - this.limits.delay);
    if (this.queue.size > 0 && !this.turning) this.begin();
  };

  /** What has come in this turn and found no time waits as the others do. */
  private queueRest(): void {
    const { arrived } = this;
    for (let at = this.served; at < arrived.length; at++) this.queue.add(arrived[at] as WaitingRequest);
    if (arrived.length > 0) this.arrived = [];
    this.served = 0;
  }

  /** @param before `performance.now()`: who has waited since before that */
  private refuse(before: number): void {
    const { queue } = this;
    // A process that was kept from its core for a while has not had the time to serve anybody.
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

  /** Node's own histogram of this takes half a millisecond for each look at it. */
  private sample(): void {
    const { clock } = this;
    const now = clock.now();
    const cpu = clock.cpu();
    // What others had of its core is no delay of its own.
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
      // A queue of connections that ask nothing gets no shorter by refusing requests.
      this.backlog = this.asked * 2 >= this.taken ? (this.newcomer?.waited ?? 0) : 0;
      if (this.asked > 0) this.askedAt = now;
      this.asked = this.taken = 0;
      // A turn is late, weighted by how long turns take, as somebody meets it who comes at any time.
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
      // Turns may be long although little of them is new requests'.
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

/** How much of the heap that V8 may have is in use, from 0 to 1. */
function fullness(): number {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  return used / limit;
}
