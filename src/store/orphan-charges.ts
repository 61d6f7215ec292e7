import { limitScope } from "../core/limits.ts";
import { NO_CHARGE } from "./counted-names.ts";
import { Ledger } from "./ledger.ts";
import type { Charge } from "./limiter.ts";

// Reservations whose process has died are orphaned: what their exchanges cost is known once the process's journal is in the
// ledger.

/** Milliseconds for which an orphaned reservation without a row stays reserved; then its least charge counts, until there is one. */
export const ORPHAN_TIMEOUT = 600_000;
/** Milliseconds after which no row is expected any more. */
export const ORPHAN_TTL = 86_400_000;

/** What an exchange cost according to its row, and whose limits it concerns. */
export interface RowCharge extends Charge {
  readonly model: string;
  readonly provider: string;
}

/** Returns what exchanges cost, by id; those without a row are missing. Rejects while the ledger cannot answer. */
export type FindCharges = (ids: readonly string[]) => Promise<ReadonlyMap<string, RowCharge>>;

/** Returns the id of the exchange that made a reservation: an attempt's has a number after it. */
export const exchangeId = (reservation: string): string => reservation.split("/", 1)[0] as string;

export const findCharges =
  (ledger: Pick<Ledger, "recovered" | "search">): FindCharges =>
  async (ids) => {
    await ledger.recovered();
    const found = new Map<string, RowCharge>();
    for (const id of new Set(ids)) {
      const [entry] = await ledger.search({ id, limit: 1 });
      if (!entry) continue;
      const { assumedCost = 0, cost = assumedCost, model, target, once } = entry;
      const tokens = Ledger.tokensOf(entry);
      const provider = target.split(":", 1)[0] as string;
      found.set(id, { tokens, cost, model, provider, ...(once !== undefined && { once }) });
    }
    return found;
  };

/**
 * Returns what a row charges to a reservation with these scopes, and the one of them at which nothing was used: the exchange was
 * served by another model or provider.
 */
export function chargeOfRow(
  { model, provider, ...used }: RowCharge,
  scopes: readonly string[],
): { used: Charge; unused?: string } {
  const own = [limitScope("model", model), limitScope("provider", provider)];
  const others = scopes.filter((scope) => /^(?:model|provider):/.test(scope) && !own.includes(scope));
  if (others.length === scopes.length) return { used: NO_CHARGE };
  return { used, ...(others[0] !== undefined && { unused: others[0] }) };
}
