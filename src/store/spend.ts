import { inTime } from "../core/in-time.ts";
import { groupsOf, scopeOf } from "../core/limits.ts";
import type { Ledger } from "./ledger.ts";
import type { SpendSince } from "./memory-limiter.ts";

/** Milliseconds to wait for rows being written: a request waits for them. */
const PATIENCE = 5000;
/** The part of that which requests wait after a previous wait has failed: the store is known to be down. */
const AGAIN = 0.1;

/**
 * Returns what was spent according to the ledger, by the scopes of limits. Rejects while rows wait for a store that is down:
 * their money would be spent again.
 */
export const spendSince = (ledger: Pick<Ledger, "recovered" | "flush" | "sums">, patience = PATIENCE): SpendSince => {
  let silent = false;
  return async (since) => {
    await ledger.recovered();
    try {
      await inTime(silent ? patience * AGAIN : patience, ledger.flush(), "the ledger (store: ledger)");
      silent = false;
    } catch (thrown) {
      silent = true;
      throw thrown;
    }
    const spent = new Map<string, number>();
    for (const { group, cost } of await ledger.sums({ since, by: PAYERS }))
      for (const scope of scopesOf(group)) spent.set(scope, (spent.get(scope) ?? 0) + cost);
    return spent;
  };
};

/** Returns a function that waits until everything spent so far is in the shared ledger; it rejects while the store is down. */
export const writing = (ledger: Pick<Ledger, "flush">, patience = PATIENCE): (() => Promise<void>) => {
  return () => inTime(patience, ledger.flush(), "the ledger (store: ledger)");
};

/**
 * Returns the day on which each scope of limits first spent something: its start in UTC, Unix milliseconds. Reads sums of all
 * days.
 */
export async function firstSpent(ledger: Pick<Ledger, "sums">): Promise<Map<string, number>> {
  const first = new Map<string, number>();
  for (const { group, cost } of await ledger.sums({ by: [...PAYERS, "day"] }))
    if (cost > 0)
      for (const scope of scopesOf(group))
        first.set(
          scope,
          Math.min(first.get(scope) ?? Number.POSITIVE_INFINITY, Date.parse(group[PAYERS.length] as string)),
        );
  return first;
}

/** The groups of a sum that determine whose limits it counts for. */
const PAYERS = ["key", "group", "model", "target"] as const;

/** Returns the scopes of limits for which a sum by `PAYERS` counts. */
function scopesOf([key = "", group = "", model = "", target = ""]: readonly string[]): string[] {
  return [
    scopeOf("key", key),
    ...(group === "" ? [] : groupsOf(group).map((name) => scopeOf("group", name))),
    scopeOf("model", model),
    scopeOf("provider", target.split(":", 1)[0] as string),
    scopeOf("all", ""),
  ];
}
