import type { AddressInfo, Socket } from "node:net";
import { nextTick } from "node:process";
import { getHeapStatistics } from "node:v8";
import { randomRetryAfter } from "../core/admission.ts";
import type { Log } from "../core/log.ts";
import { FairQueue, type QueueItem } from "./fair-queue.ts";
import { type LoopClock, loopClock } from "./loop-clock.ts";
import { LoopLateness } from "./loop-lateness.ts";
import { NewConnections } from "./new-connections.ts";
import { QueuePace } from "./queue-pace.ts";
import { RecentShares } from "./recent-shares.ts";

/** From when on new requests are refused. */
export interface OverloadLimits {
  /** Milliseconds that new requests may wait for a busy event loop; 0: no limit. */
  readonly delay: number;
  /** The share of the heap limit that may be in use, like 0.85; 0: no limit. */
  readonly heap: number;
}

/** Milliseconds between two log lines about it. */
const LOG_INTERVAL = 1000;
/** Milliseconds of a turn of the event loop for new requests; further ones wait for the next turn. */
const TURN_BUDGET = 10;
/**
 * Milliseconds of a turn for new requests while overloaded, from `min` to `max`: each evaluation multiplies them by `down` if the
 * event loop is later than `long` milliseconds, and else by `up`.
 */
const OVERLOADED_BUDGET = { max: 4, min: 0.5, long: 10, down: 0.8, up: 1.1 };
/** Maximum requests that are served together, and the initial estimate of milliseconds for each. */
const MAX_GROUP = 32;
const INITIAL_COST = 0.5;
/** Consecutive turns that must find a request waiting too long: a burst after a pause is not an overload. */
const SLOW_TURNS = 10;
/** Milliseconds that a caller's further requests may have to wait while overloaded. */
const MAX_FURTHER_WAIT = 10;
/** Turns that a request must have missed before it has waited too long. */
const MISSED_TURNS = 2;
/** The maximum wait while overloaded, relative to `delay`, for requests that were queued before. */
const MAX_QUEUED_WAIT = 2;
/** The time reserved for accepting connections while more arrive, relative to that for requests. */
const ACCEPT_SHARE = 1;
/** A caller's maximum share, relative to the mean, while connections wait to be accepted. */
const MAX_CALLER_SHARE = 2;
/** Evaluations from one look at the heap to the next while less than half of the limit is in use. */
const HEAP_LOOKS = 5;
/** Milliseconds without a refusal after which the overload has ended. */
const CALM_AFTER = 1000;

/** Ends the wait of requests of one kind. */
export interface WaitHandler<Request> {
  /** Called only if callers have to wait for each other. */
  callerOf(request: Request): string;
  serve(request: Request): void;
  /** @param retryAfter seconds after which the client may retry */
  refuse(request: Request, retryAfter: number): void;
}

/** A request that waits until it is served or refused. */
export class WaitingRequest<Request = unknown> implements QueueItem {
  /** The turn in which it arrived; set while it is queued. */
  turn = 0;
  private cachedCaller: string | undefined;

  /** @param since `performance.now()` from which on it waits */
  constructor(
    readonly since: number,
    private readonly request: Request,
    private readonly handler: WaitHandler<Request>,
  ) {}

  get caller(): string {
    this.cachedCaller ??= this.handler.callerOf(this.request);
    return this.cachedCaller;
  }

  serve(): void {
    this.handler.serve(this.request);
  }

  refuse(retryAfter: number): void {
    this.handler.refuse(this.request, retryAfter);
  }
}

/**
 * Serves new requests, and refuses some of them while the process is overloaded. Running exchanges are never affected.
 *
 * - Requests that arrive in the same turn of the event loop are served together: all pass each step of their life before any
 *   enters the next, so that they find the step's code in the core's caches.
 * - In each turn new requests get a few milliseconds. The rest is queued, fairly between callers, so that turns stay short and a
 *   refusal never waits for much work.
 * - The process is overloaded when requests wait for longer than `delay`, turn after turn, or would do so, or when the event loop
 *   itself is later than that without idle time. New requests then get fewer milliseconds of each turn, the longer turns are. One
 *   that would have to wait for more than a moment is refused in the turn in which it arrives; if its caller has nothing else
 *   queued, only one that would wait for longer than `delay`.
 * - All are refused while the heap is nearly full.
 */
export class Overload {
  /** Requests of this turn in order of arrival, while none has to wait. */
  private arrived: WaitingRequest[] = [];
  /** The number of them already served. */
  private served = 0;
  private readonly queue = new FairQueue<WaitingRequest>();
  private readonly pace = new QueuePace();
  /** Of callers served recently while overloaded. */
  private readonly callerShares = new RecentShares();
  /** Requests to refuse once all arrivals of this turn are known. */
  private readonly excess: WaitingRequest[] = [];
  private readonly lateness: LoopLateness;
  private readonly connections = new NewConnections((socket) => this.onConnection(socket));
  /** Receives new connections, paused as they were added. */
  onConnection: (socket: Socket) => void = () => {};
  /** Receives the utilization of the event loop, every few milliseconds while there are requests. */
  onSample: (utilization: number) => void = () => {};
  private heapFull = false;
  /** Evaluations until the next look at the heap. */
  private untilHeapLook = 0;
  private overloaded = false;
  private turnScheduled = false;
  /** When this turn's time for new requests ends. */
  private turnEnds = 0;
  /** Milliseconds of each turn for new requests. */
  private turnBudget = TURN_BUDGET;
  /** When serving began in this turn. */
  private servingSince = 0;
  /** When serving last ended, and how long it took. */
  private servedAt = 0;
  private servedFor = 0;
  /** When the group that is served together began, and its size. */
  private groupSince = 0;
  private group = 0;
  /** The recent average milliseconds for a request. */
  private costPerRequest = INITIAL_COST;
  /** Number of turns in which queued requests were served. */
  private turns = 0;
  /** Consecutive turns that found a request waiting too long. */
  private slowTurns = 0;
  private refusedAt = 0;
  /** Requests refused since the last log line. */
  private refusedCount = 0;
  private loggedAt = 0;
  private loggedCalm = true;

  constructor(
    public limits: OverloadLimits,
    private readonly log: () => Log,
    private readonly clock: LoopClock = loopClock(),
    private readonly heapUsage: () => number = usedHeap,
  ) {
    const onSample = (utilization: number) => this.onSample(utilization);
    this.lateness = new LoopLateness(clock, (now) => this.evaluate(now), onSample);
  }

  /** Whether nothing is being refused. */
  get isCalm(): boolean {
    return !this.heapFull && !this.overloaded;
  }

  /** Number of requests that wait for their turn, and of connections that have not been read. */
  get waiting(): number {
    return this.waitingRequests + this.connections.size;
  }

  private get waitingRequests(): number {
    return this.arrived.length - this.served + this.queue.size + this.excess.length;
  }

  /** Takes a new request: it is served or refused later in this turn of the event loop, or in a following one. */
  add(request: WaitingRequest): void {
    this.lateness.countRequest();
    if (this.limits.delay > 0 || this.limits.heap > 0) this.lateness.start();
    if (!this.turnScheduled) this.scheduleTurn();
    request.turn = this.turns;
    if (!this.overloaded && this.isQueueTooLong) this.enterOverload(this.clock.now());
    if (this.overloaded && this.mustRefuse(request.caller)) this.excess.push(request);
    else if (this.overloaded || this.queue.size > 0) this.queue.add(request);
    else this.arrived.push(request);
  }

  /** Whether another request would certainly wait for longer than `delay`. */
  private get isQueueTooLong(): boolean {
    const { limits, pace, queue } = this;
    return queue.size > 0 && limits.delay > 0 && pace.isKnown && pace.each * queue.size > limits.delay;
  }

  /** Reports whether a caller's new request must be refused. */
  private mustRefuse(caller: string): boolean {
    // Clients of other callers are still in the accept backlog, which cannot be inspected.
    if (this.lateness.backlog > this.maxFurtherWait && this.callerShares.share(caller) > MAX_CALLER_SHARE) return true;
    const own = this.queue.countOf(caller);
    return this.pace.each * this.queue.maxAhead(own) > (own > 0 ? this.maxFurtherWait : this.limits.delay);
  }

  /**
   * Returns since when a request has been waiting whose connection has just been accepted.
   * @param now `performance.now()`
   */
  waitingSince(now: number): number {
    return now - this.lateness.backlog;
  }

  /** Sets the address on which connections are accepted. */
  setAddress(address: AddressInfo): void {
    this.lateness.setAddress(address);
  }

  /** Adds a new connection, which is paused: unless it is one of our own probes, `onConnection` receives it in this turn or soon. */
  addConnection(socket: Socket): void {
    if (this.lateness.countConnection(socket)) return;
    if (!this.turnScheduled) this.scheduleTurn();
    this.connections.add(socket, this.clock.now());
  }

  close(): void {
    this.lateness.close();
  }

  private get maxFurtherWait(): number {
    return Math.min(MAX_FURTHER_WAIT, this.limits.delay);
  }

  /**
   * Reports whether it is time to accept connections. A turn accepts one, so each of a burst would wait for another turn's work:
   * while more arrive, accepting them gets a part of the time.
   */
  private shouldAccept(now: number): boolean {
    return this.connections.areArriving && now - this.servedAt < this.servedFor * ACCEPT_SHARE;
  }

  private scheduleTurn(): void {
    this.turnScheduled = true;
    setImmediate(this.startTurn);
  }

  /** Runs when everything that arrived in this turn of the event loop has been read; serves what is waiting. */
  runTurn(): void {
    this.turnScheduled = false;
    const now = this.clock.now();
    const isCollecting = this.connections.endTurn(now);
    if (this.connections.areArriving) this.scheduleTurn();
    if (isCollecting) return;
    if (this.excess.length > 0) for (const request of this.excess.splice(0)) this.refuseOne(request);
    if (this.heapFull) {
      this.queueRest();
      this.refuseOlderThan(Number.POSITIVE_INFINITY);
    }
    if (this.waitingRequests === 0 || this.shouldAccept(now)) return;
    const { delay } = this.limits;
    const { oldest } = this.queue;
    if (oldest) this.checkWaiting(oldest, now);
    this.servingSince = now;
    this.turnEnds = delay > 0 ? now + this.turnBudget : Number.POSITIVE_INFINITY;
    this.serve(now);
  }

  /** Checks how long the requests of earlier turns have been waiting. */
  private checkWaiting(oldest: WaitingRequest, now: number): void {
    const { delay } = this.limits;
    this.pace.beginTurn(this.clock.cpuTime());
    this.slowTurns = delay > 0 && now - oldest.since > delay ? this.slowTurns + 1 : 0;
    if (this.slowTurns >= SLOW_TURNS) this.enterOverload(now);
    this.turns++;
  }

  /** Serves a group of requests, each up to its first asynchronous wait; as many as fit in the remaining time. */
  private serve(now: number): void {
    const room = Math.floor((this.turnEnds - now) / this.costPerRequest);
    const maximum = Math.max(1, Math.min(MAX_GROUP, room));
    this.groupSince = now;
    for (this.group = 0; this.group < maximum; this.group++) {
      const next = this.arrived[this.served] ? this.arrived[this.served++] : this.nextQueued();
      if (!next) break;
      next.serve();
    }
    queueMicrotask(this.afterwards);
  }

  private nextQueued(): WaitingRequest | undefined {
    if (this.queue.size === 0) return undefined;
    const next = this.queue.takeNext();
    if (next && this.overloaded) this.callerShares.add(next.caller);
    if (next) this.pace.countServed();
    return next;
  }

  private readonly startTurn = (): void => this.runTurn();

  private readonly afterwards = (): void => nextTick(this.serveOrWait);

  private readonly serveOrWait = (): void => {
    const now = this.clock.now();
    if (this.group > 0) this.costPerRequest += ((now - this.groupSince) / this.group - this.costPerRequest) / 4;
    if (this.served === this.arrived.length) {
      this.arrived = [];
      this.served = 0;
    }
    if (this.waitingRequests === 0) {
      this.slowTurns = 0;
      this.pace.reset();
    } else if (now < this.turnEnds && !this.heapFull) {
      this.serve(now);
      return;
    }
    this.servedAt = now;
    this.servedFor = Math.min(now - this.servingSince, TURN_BUDGET);
    this.queueRest();
    // After serving, so that some requests are served even if all have waited too long.
    if (this.overloaded) this.refuseOlderThan(now - MAX_QUEUED_WAIT * this.limits.delay);
    if (this.queue.size > 0 && !this.turnScheduled) this.scheduleTurn();
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
  private refuseOlderThan(before: number): void {
    const { queue } = this;
    // A process that was not scheduled for a while had no time to serve any request.
    const missed = ({ turn }: WaitingRequest) => this.heapFull || this.turns - turn >= MISSED_TURNS;
    for (let oldest = queue.oldest; oldest && oldest.since < before && missed(oldest); oldest = queue.oldest) {
      queue.takeOldest();
      this.refuseOne(oldest);
    }
  }

  private refuseOne(request: WaitingRequest): void {
    this.refusedCount++;
    this.refusedAt = this.clock.now();
    request.refuse(randomRetryAfter());
  }

  private enterOverload(now: number): void {
    if (this.overloaded) return;
    this.overloaded = true;
    this.turnBudget = OVERLOADED_BUDGET.max;
    this.refusedAt = now;
  }

  /** Decides at regular times whether the process is overloaded, and how much of each turn new requests get. */
  private evaluate(now: number): void {
    const { lateness } = this;
    const { delay, heap } = this.limits;
    lateness.evaluate(now, delay);
    if (lateness.isLateForLong(now)) this.enterOverload(now);
    this.callerShares.advance(now);
    if (this.overloaded) {
      // Turns may be long although new requests take little of them.
      if (lateness.delay > OVERLOADED_BUDGET.long)
        this.turnBudget = Math.max(OVERLOADED_BUDGET.min, this.turnBudget * OVERLOADED_BUDGET.down);
      else this.turnBudget = Math.min(OVERLOADED_BUDGET.max, this.turnBudget * OVERLOADED_BUDGET.up);
      this.overloaded = lateness.isLate || now - this.refusedAt < CALM_AFTER;
    }
    if (!this.overloaded) this.turnBudget = TURN_BUDGET;
    if (heap === 0) this.heapFull = false;
    else if (this.untilHeapLook-- === 0) this.lookAtHeap(heap);
    const begins = this.loggedCalm && !this.isCalm;
    if (begins || (now - this.loggedAt >= LOG_INTERVAL && (this.refusedCount > 0 || this.loggedCalm !== this.isCalm)))
      this.logState(now);
    if (lateness.isIdle(now) && this.isCalm && this.loggedCalm && this.waiting === 0) lateness.stop();
  }

  /** @param limit the share of the heap limit that may be in use */
  private lookAtHeap(limit: number): void {
    const usage = this.heapUsage();
    this.heapFull = usage > limit;
    this.untilHeapLook = usage > limit / 2 ? 0 : HEAP_LOOKS - 1;
  }

  private logState(now: number): void {
    const { isCalm: calm, refusedCount: shed } = this;
    const share = Math.round(this.turnBudget * 10) / 10;
    const fields = {
      shed,
      ...(calm ? {} : { share }),
      delay: Math.round(this.lateness.delay),
      heap: Math.round(this.heapUsage() * 100) / 100,
    };
    this.log().warn(fields, calm ? "no longer overloaded" : "overloaded: new requests are refused");
    this.loggedCalm = calm;
    this.refusedCount = 0;
    this.loggedAt = now;
  }
}

/** Returns the share of the V8 heap limit in use, from 0 to 1. */
function usedHeap(): number {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  return used / limit;
}
