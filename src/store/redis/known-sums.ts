import { parseSumName, type SumName } from "./sum-names.ts";

/** Maximum number of sums; those of them that are refreshed; and milliseconds for which they are refreshed after their last use. */
const MAX_SUMS = 20_000;
const MAX_REFRESHED = 500;
const IDLE_AFTER = 600_000;
/** Milliseconds for which pending amounts are assumed to be still pending. */
const PENDING_TTL = 60_000;

/** Nano-dollars. */
interface SumState {
  readonly spent: number;
  readonly pending: number;
}

interface KnownSum extends SumState {
  readonly sum: SumName;
  /** When these amounts were valid; Unix milliseconds. */
  readonly at: number;
  /** When the sum was last used here; -∞: only others use it. */
  readonly used: number;
}

/** What the server last said of sums that are used here or by other processes: what is left of them is divided when it is lost. */
export class KnownSums {
  /** Those used last are at the end. */
  private readonly sums = new Map<string, KnownSum>();

  /** Records the state of a sum that is used now. */
  set(sum: SumName, state: SumState, now: number): void {
    const { name } = sum;
    this.sums.delete(name);
    this.add({ sum, ...state, at: now, used: now });
  }

  private add(known: KnownSum): void {
    this.sums.set(known.sum.name, known);
    if (this.sums.size > MAX_SUMS) this.sums.delete(this.sums.keys().next().value as string);
  }

  /** Returns the names of sums in use here, whose state is to be refreshed. */
  inUse(now: number): string[] {
    const used = [...this.sums.values()].filter((known) => now - known.used < IDLE_AFTER);
    return used.slice(-MAX_REFRESHED).map(({ sum }) => sum.name);
  }

  /** Records the state of a sum that may not be used at the moment, or only by others. */
  refresh(name: string, { spent, pending }: SumState, now: number): void {
    const { sum = parseSumName(name), used = Number.NEGATIVE_INFINITY } = this.sums.get(name) ?? {};
    this.add({ sum, spent, pending, at: now, used });
  }

  /** Returns what is still pending of a sum, of all processes. */
  pendingAt(name: string, now: number): number {
    const known = this.sums.get(name);
    return known && now - known.at < PENDING_TTL ? known.pending : 0;
  }

  /** Returns what was spent in periods that began then, by scope. */
  spentSince(start: number): [scope: string, spent: number][] {
    const begun = [...this.sums.values()].filter(({ sum }) => sum.start === start);
    return begun.map(({ sum, spent }) => [sum.scope, spent]);
  }
}
