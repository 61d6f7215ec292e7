import type { Charge, Spending } from "./limiter.ts";

/** Maximum number of remembered names: an exchange and its last attempt have one each. */
const MAX_NAMES = 10_000;
/** Maximum number of exchanges whose names are remembered. */
export const MAX_EXCHANGES = MAX_NAMES / 2;
export const NO_CHARGE: Spending = { tokens: 0, cost: 0 };

/**
 * Returns a reservation's charge with the name under which it counts once. An exchange and its last attempt, which has a number
 * after its id, have a reservation each at different levels, and both count it.
 */
export const namedCharge = (reservation: string, charge: Charge): Charge =>
  charge.once === undefined || !reservation.includes("/") ? charge : { ...charge, once: attemptName(charge.once) };

const attemptName = (name: string): string => `attempt ${name}`;

/** Names of usage that has already been counted. */
export class CountedNames {
  private readonly counted = new Set<string>();

  /** Returns the part of a charge that counts: nothing if its name was counted before. */
  countOnce({ once, tokens, cost }: Charge): Spending {
    if (once === undefined) return { tokens, cost };
    if (this.counted.has(once)) return NO_CHARGE;
    this.add(once);
    return { tokens, cost };
  }

  /** Adds a name that was counted elsewhere, for an exchange and for its last attempt. */
  addCounted(name: string): void {
    this.add(name);
    this.add(attemptName(name));
  }

  private add(name: string): void {
    if (this.counted.size >= MAX_NAMES) this.counted.delete(this.counted.values().next().value as string);
    this.counted.add(name);
  }
}
