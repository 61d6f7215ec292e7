import type { LoopClock } from "../../src/downstream/loop-clock.ts";

/** A clock that advances only by these methods; turns of the event loop are real, and take no time on it. */
export class TestClock implements LoopClock {
  private time = 1000;
  private worked = 0;
  private active = 0;
  private before = { time: 1000, active: 0 };
  private readonly running: { every: number; due: number; run: () => void }[] = [];

  /** Number of active timers. */
  get timers(): number {
    return this.running.length;
  }

  now = (): number => this.time;
  cpuTime = (): number => this.worked;

  utilization(): number {
    const { time, active } = this.before;
    this.before = { time: this.time, active: this.active };
    return this.time === time ? 0 : (this.active - active) / (this.time - time);
  }

  every(milliseconds: number, run: () => void): () => void {
    const timer = { every: milliseconds, due: this.time + milliseconds, run };
    this.running.push(timer);
    return () => this.running.splice(this.running.indexOf(timer), 1);
  }

  /** Simulates work that blocks the event loop. */
  work(milliseconds: number): void {
    this.worked += milliseconds;
    this.away(milliseconds);
  }

  /** Simulates a time in which other processes have the core. */
  away(milliseconds: number): void {
    this.active += milliseconds;
    this.time += milliseconds;
  }

  /** Runs one turn of the loop, without idling. */
  async turn(): Promise<void> {
    for (const timer of [...this.running]) {
      if (timer.due > this.time) continue;
      timer.due = this.time + timer.every;
      timer.run();
    }
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Simulates a time in which the loop only runs its timers. */
  async rest(milliseconds: number): Promise<void> {
    for (const until = this.time + milliseconds; this.time < until; ) {
      this.time += Math.min(10, until - this.time);
      await this.turn();
    }
  }
}
