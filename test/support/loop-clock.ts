import type { LoopClock } from "../../src/downstream/loop-clock.ts";

/** A clock that goes only where it is told what happens meanwhile; turns of the event loop are real ones, and take no time. */
export class TestClock implements LoopClock {
  private time = 1000;
  private worked = 0;
  private active = 0;
  private before = { time: 1000, active: 0 };
  private readonly running: { every: number; due: number; run: () => void }[] = [];

  /** How many things it runs again and again. */
  get timers(): number {
    return this.running.length;
  }

  now = (): number => this.time;
  cpu = (): number => this.worked;

  busy(): number {
    const { time, active } = this.before;
    this.before = { time: this.time, active: this.active };
    return this.time === time ? 0 : (this.active - active) / (this.time - time);
  }

  every(milliseconds: number, run: () => void): () => void {
    const timer = { every: milliseconds, due: this.time + milliseconds, run };
    this.running.push(timer);
    return () => this.running.splice(this.running.indexOf(timer), 1);
  }

  /** Work without end for a while: the event loop does not turn. */
  work(milliseconds: number): void {
    this.worked += milliseconds;
    this.away(milliseconds);
  }

  /** The same, where others have the core. */
  away(milliseconds: number): void {
    this.active += milliseconds;
    this.time += milliseconds;
  }

  /** The loop goes round once, without a rest. */
  async turn(): Promise<void> {
    for (const timer of [...this.running]) {
      if (timer.due > this.time) continue;
      timer.due = this.time + timer.every;
      timer.run();
    }
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** The loop has nothing to do for a while but what comes of itself. */
  async rest(milliseconds: number): Promise<void> {
    for (const until = this.time + milliseconds; this.time < until; ) {
      this.time += Math.min(10, until - this.time);
      await this.turn();
    }
  }
}
