import type { Attempt } from "../core/exchange.ts";
import { Marketplace, type Target } from "../core/marketplace.ts";
import type { HeaderList } from "../wire/headers.ts";

/** Milliseconds for which what a target said is not looked at again. */
const FRESH = 1000;

/** What a target last said is left of its limits of a minute. */
interface RatesLeft {
  /** `provider:model` */
  readonly target: string;
  readonly kind: "requests" | "tokens";
  readonly left: number;
}

interface TargetRates {
  at: number;
  readonly left: Map<RatesLeft["kind"], number>;
}

/** What providers tell in their answers of their own limits, by target. */
export class ProviderRates {
  private readonly byName = new Map<string, TargetRates>();
  private readonly byTarget = new WeakMap<Target, TargetRates>();

  /** @param clock monotonic milliseconds */
  constructor(private readonly clock: () => number = () => performance.now()) {}

  /** The head of an answer is in. */
  see({ target, protocol: { ratesLeft } }: Attempt, headers: HeaderList): void {
    if (!ratesLeft) return;
    const now = this.clock();
    const rates = this.byTarget.get(target) ?? this.made(target);
    if (now - rates.at < FRESH) return;
    rates.at = now;
    for (const [kind, header] of ratesLeft) {
      const told = headers.get(header);
      if (told !== undefined && /^\d{1,15}$/.test(told)) rates.left.set(kind, Number(told));
    }
  }

  /** What is known. */
  get all(): RatesLeft[] {
    return [...this.byName].flatMap(([target, { left }]) =>
      Array.from(left, ([kind, left]) => ({ target, kind, left })),
    );
  }

  private made(target: Target): TargetRates {
    const name = Marketplace.nameOf(target);
    const rates = this.byName.get(name) ?? { at: Number.NEGATIVE_INFINITY, left: new Map() };
    this.byName.set(name, rates);
    this.byTarget.set(target, rates);
    return rates;
  }
}
