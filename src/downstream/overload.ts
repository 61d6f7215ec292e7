import type { AddressInfo, Socket } from "node:net";
import { getHeapStatistics } from "node:v8";
import { soon } from "../core/admission.ts";
import { GatewayError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { Newcomer } from "./newcomer.ts";
import { Shares } from "./shares.ts";

export interface OverloadLimits {
  /** Milliseconds by which a busy event loop may be late; 0: whatever it is. */
  readonly delay: number;
  /** The part of the heap's limit that may be in use, like 0.85; 0: all of it. */
  readonly heap: number;
}

/** Milliseconds between two looks. */
const LOOK = 50;
/**
 * What must find it late before anything is shed: looks in a row, and milliseconds. What takes long once, and what has come
 * meanwhile, is no overload.
 */
const LATE = { looks: 2, time: 1000 };
/**
 * By what the share of each caller shrinks and grows with each look. A look that comes late shrinks it by more, up to half;
 * while the loop rests it grows faster.
 */
const STEP = { down: 0.9, most: 0.5, up: 1.04, rested: 1.25 };
/** The part of its time for which the loop works from which on it is overloaded: one that rests is kept from its core by others. */
const BUSY = 0.9;
/** A queue this much shorter than a look ago shrinks. */
const SHRINKING = 0.95;
/** The least share: a part of what the caller that asks most asks, and requests per second. */
const LEAST = { part: 0.1, rate: 0.05 };
/** Milliseconds between two samples of the event loop's delay. */
const RESOLUTION = 10;
/** Milliseconds between two words of it in the log. */
const TELL = 1000;

/**
 * Refuses new requests while the process has more to do than it can: its event loop never rests, and whoever comes finds it
 * late, or waits to be let in, for more than one long turn. Each caller may then have so many requests a second, fewer as long as it is late and
 * more as soon as it is not: who asks for less loses none. All are refused while the heap is nearly full. What runs is never
 * touched.
 */
export class Overload {
  /** Since the last look: the sum of the times between samples, in milliseconds, and of their squares. */
  private sum = 0;
  private squares = 0;
  private sampledAt = performance.now();
  private readonly timer: NodeJS.Timeout;
  private readonly shares = new Shares();
  private newcomer: Newcomer | undefined;
  /** Connections that were taken, and requests that came, since the last look. */
  private taken = 0;
  private asked = 0;
  private full = false;
  /** Looks in a row that found it late, when the first one was, and how late it is. */
  private late = 0;
  private lateSince = 0;
  private lateness = 0;
  private lookedAt = performance.now();
  private used = performance.eventLoopUtilization();
  /** Since it was last told. */
  private shed = 0;
  private toldAt = 0;
  private told = true;

  constructor(
    public limits: OverloadLimits,
    private readonly log: () => Log,
  ) {
    this.timer = setInterval(() => this.sample(), RESOLUTION).unref();
  }

  /** Whether nothing is being refused. */
  get calm(): boolean {
    return !this.full && this.shares.level === Number.POSITIVE_INFINITY;
  }

  /** @param caller whose request it is: its key, right or wrong, or its address @throws GatewayError `overloaded` */
  check(caller: string): void {
    this.asked++;
    const chance = this.shares.take(caller);
    if (!this.full && (chance >= 1 || Math.random() < chance)) return;
    this.shed++;
    throw new GatewayError("overloaded", { retryAfter: soon() });
  }

  /** Connections are taken here. */
  listens(address: AddressInfo): void {
    this.newcomer = new Newcomer(address);
  }

  /** A connection was taken. @returns whether it is one of ours, sent to find out how long others wait */
  sent(socket: Socket): boolean {
    if (this.newcomer?.is(socket)) return true;
    this.taken++;
    return false;
  }

  close(): void {
    this.newcomer?.close();
    clearInterval(this.timer);
  }

  /** Node's own histogram of this takes half a millisecond for each look at it. */
  private sample(): void {
    const now = performance.now();
    const passed = now - this.sampledAt;
    this.sampledAt = now;
    this.sum += passed;
    this.squares += passed * passed;
    if (now - this.lookedAt >= LOOK) this.look(now);
  }

  private look(now: number): void {
    const { delay, heap } = this.limits;
    const { shares } = this;
    shares.turn(now);
    if (this.sum > 0) {
      const before = this.lateness;
      const { utilization } = performance.eventLoopUtilization(this.used);
      this.used = performance.eventLoopUtilization();
      // A queue of connections that ask nothing gets no shorter by refusing requests.
      const queued = this.asked * 2 >= this.taken ? (this.newcomer?.waited ?? 0) : 0;
      this.asked = this.taken = 0;
      // A turn is late, weighted by how long turns take, as somebody meets it who comes at any time.
      this.lateness = Math.max(0, this.squares / this.sum - RESOLUTION, queued);
      this.sum = this.squares = 0;
      if (utilization < BUSY) this.newcomer?.forget();
      else if (delay > 0) this.newcomer?.send();
      if (delay === 0 || this.lateness <= delay || utilization < BUSY) this.late = 0;
      else if (this.late++ === 0) this.lateSince = this.lookedAt;
      const lasts = this.late >= LATE.looks && now - this.lateSince >= LATE.time;
      if (lasts || (this.late > 0 && !this.calm)) this.less(before, now - this.lookedAt);
      else if (this.late === 0) this.more(utilization);
    }
    this.lookedAt = now;
    this.full = heap > 0 && fullness() > heap;
    const begins = this.told && !this.calm;
    if (begins || (now - this.toldAt >= TELL && (this.shed > 0 || this.told !== this.calm))) this.tell(now);
  }

  /** @param before how late it was, and how many milliseconds ago */
  private less(before: number, passed: number): void {
    const { shares } = this;
    if (this.calm) shares.level = shares.highest;
    // A queue that shrinks needs nothing but time.
    if (this.lateness <= before * SHRINKING) return;
    const down = Math.max(STEP.most, STEP.down ** (passed / LOOK));
    shares.level = Math.max(LEAST.rate, LEAST.part * shares.highest, shares.level * down);
  }

  private more(utilization: number): void {
    const { shares } = this;
    shares.level *= utilization < BUSY ? STEP.rested : STEP.up;
    if (shares.level > 2 * shares.highest) shares.level = Number.POSITIVE_INFINITY;
  }

  private tell(now: number): void {
    const { calm, shed } = this;
    const level = Math.round(this.shares.level * 100) / 100;
    const fields = { shed, ...(calm ? {} : { level }), delay: Math.round(this.lateness), heap: fullness() };
    this.log().warn(fields, calm ? "no longer overloaded" : "overloaded: new requests are refused");
    this.told = calm;
    this.shed = 0;
    this.toldAt = now;
  }
}

/** How much of the heap that V8 may have is in use, from 0 to 1. */
function fullness(): number {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  return Math.round((used / limit) * 100) / 100;
}
