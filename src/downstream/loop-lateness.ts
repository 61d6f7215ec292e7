import type { AddressInfo, Socket } from "node:net";
import { Chain } from "../core/chain.ts";
import { BLOCKING_MS } from "../core/plugin-timing.ts";
import { AcceptProbe } from "./accept-probe.ts";
import type { LoopClock } from "./loop-clock.ts";

/** Milliseconds between two samples of the event loop's delay. */
const RESOLUTION = 10;
/** Milliseconds between two evaluations of the samples. */
const EVALUATION_INTERVAL = 50;
/** Consecutive evaluations, and milliseconds, for which the event loop must be late before it counts as overloaded. */
const LATE = { evaluations: 2, time: 1000 };
/**
 * Utilization of the event loop from which it counts as late: one that is late, but has idle time, only shares its core with other
 * processes.
 */
const LATE_UTILIZATION = 0.9;
/** Milliseconds without a request after which no samples are needed, as each wakes an idle process. */
const IDLE_AFTER = 1000;

/** Measures how long the event loop keeps new requests and connections waiting. */
export class LoopLateness {
  /** At the last evaluation: the milliseconds that a request waited for the event loop in the mean. */
  delay = 0;
  /** At the last evaluation: the utilization of the event loop. */
  utilization = 1;
  /** At the last evaluation: the milliseconds that a new connection waited to be accepted. */
  backlog = 0;
  /** Since the last evaluation: the sum of the times between samples, in milliseconds, and of their squares. */
  private sum = 0;
  private squares = 0;
  private sampledAt = 0;
  private sampledCpuTime = 0;
  private evaluatedAt = 0;
  /** Stops sampling; undefined: no samples are taken. */
  private stopSampling: (() => void) | undefined;
  private probe: AcceptProbe | undefined;
  /** Connections accepted, and requests received, since the last evaluation. */
  private connectionsAccepted = 0;
  private requestsReceived = 0;
  private lastRequestAt = 0;
  /** Consecutive evaluations that found the loop late, and the time of the one before the first of them. */
  private lateEvaluations = 0;
  private lateSince = 0;

  /**
   * @param onInterval called when it is time to evaluate the samples
   * @param onSample called after each sample
   */
  constructor(
    private readonly clock: LoopClock,
    private readonly onInterval: (now: number) => void,
    private readonly onSample: (utilization: number) => void = () => {},
  ) {}

  /** Sets the address on which connections are accepted. */
  setAddress(address: AddressInfo): void {
    this.probe = new AcceptProbe(address);
  }

  countRequest(): void {
    this.requestsReceived++;
  }

  /**
   * Counts a new connection.
   * @returns whether it is one of our own probes, sent to measure the accept backlog
   */
  countConnection(socket: Socket): boolean {
    if (this.probe?.claim(socket)) return true;
    this.connectionsAccepted++;
    return false;
  }

  /** Begins to take samples, unless it has begun. */
  start(): void {
    if (this.stopSampling) return;
    const { clock } = this;
    this.evaluatedAt = this.sampledAt = this.lastRequestAt = clock.now();
    this.sampledCpuTime = clock.cpuTime();
    this.sum = this.squares = 0;
    clock.utilization();
    this.stopSampling = clock.every(RESOLUTION, () => this.sample());
  }

  /** Takes no more samples until it is started again. */
  stop(): void {
    this.stopSampling?.();
    this.stopSampling = undefined;
  }

  close(): void {
    this.probe?.close();
    this.stop();
  }

  /** Whether the last evaluation has found the loop late. */
  get isLate(): boolean {
    return this.lateEvaluations > 0;
  }

  /** Reports whether the loop has been late for so long that it is overloaded. */
  isLateForLong(now: number): boolean {
    return this.lateEvaluations >= LATE.evaluations && now - this.lateSince >= LATE.time;
  }

  /** Reports whether there has been no request for a while. */
  isIdle(now: number): boolean {
    return now - this.lastRequestAt >= IDLE_AFTER;
  }

  /** Not node's own histogram, which takes half a millisecond for each read. */
  private sample(): void {
    const { clock } = this;
    const now = clock.now();
    const cpu = clock.cpuTime();
    // Time in which other processes had the core is not this process's own delay.
    const passed = Math.min(now - this.sampledAt, RESOLUTION + cpu - this.sampledCpuTime);
    this.sampledAt = now;
    this.sampledCpuTime = cpu;
    if (passed > BLOCKING_MS) Chain.timeAllCalls();
    this.sum += passed;
    this.squares += passed * passed;
    if (now - this.evaluatedAt >= EVALUATION_INTERVAL) this.onInterval(now);
    this.onSample(this.utilization);
  }

  /**
   * Evaluates the samples since the last evaluation.
   * @param limit milliseconds of `delay` from which the loop is late; 0: it is never
   */
  evaluate(now: number, limit: number): void {
    const utilization = this.clock.utilization();
    this.utilization = utilization;
    // A backlog of connections without requests does not shrink by refusing requests.
    this.backlog = this.requestsReceived * 2 >= this.connectionsAccepted ? (this.probe?.waitTime ?? 0) : 0;
    if (this.requestsReceived > 0) this.lastRequestAt = now;
    this.requestsReceived = this.connectionsAccepted = 0;
    // The mean delay for a request that arrives at a random time: a long turn is met more often than a short one.
    this.delay = Math.max(0, this.squares / this.sum - RESOLUTION, this.backlog);
    this.sum = this.squares = 0;
    if (utilization < LATE_UTILIZATION) this.probe?.reset();
    else if (limit > 0) this.probe?.send();
    if (limit === 0 || this.delay <= limit || utilization < LATE_UTILIZATION) this.lateEvaluations = 0;
    else if (this.lateEvaluations++ === 0) this.lateSince = this.evaluatedAt;
    this.evaluatedAt = now;
  }
}
