import type { Attempt } from "../core/attempt.ts";
import { Marketplace, type Target } from "../core/marketplace.ts";
import type { HeaderList } from "../wire/headers.ts";

/** Milliseconds during which a target's headers are not read again. */
const FRESH_TIME = 1000;

/** What a target last reported as left of its limits per minute. */
interface RemainingRate {
  /** `provider:model` */
  readonly target: string;
  readonly kind: "requests" | "tokens";
  readonly remaining: number;
}

interface TargetRates {
  readAt: number;
  readonly remaining: Map<RemainingRate["kind"], number>;
}

/** The rate limits that providers report in their responses, by target. */
export class ProviderRates {
  private readonly byName = new Map<string, TargetRates>();
  private readonly byTarget = new WeakMap<Target, TargetRates>();

  /** @param clock monotonic milliseconds */
  constructor(private readonly clock: () => number = () => performance.now()) {}

  /** Reads the headers of a response. */
  record({ target, protocol: { remainingRateHeaders } }: Attempt, headers: HeaderList): void {
    if (!remainingRateHeaders) return;
    const now = this.clock();
    const rates = this.byTarget.get(target) ?? this.createRates(target);
    if (now - rates.readAt < FRESH_TIME) return;
    rates.readAt = now;
    for (const [kind, header] of remainingRateHeaders) {
      const value = headers.get(header);
      if (value !== undefined && /^\d{1,15}$/.test(value)) rates.remaining.set(kind, Number(value));
    }
  }

  /** All reported limits. */
  get all(): RemainingRate[] {
    return [...this.byName].flatMap(([target, { remaining }]) =>
      Array.from(remaining, ([kind, remaining]) => ({ target, kind, remaining })),
    );
  }

  private createRates(target: Target): TargetRates {
    const name = Marketplace.nameOf(target);
    const rates = this.byName.get(name) ?? { readAt: Number.NEGATIVE_INFINITY, remaining: new Map() };
    this.byName.set(name, rates);
    this.byTarget.set(target, rates);
    return rates;
  }
}
