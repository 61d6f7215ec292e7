import { groupAndParents, limitScope } from "../core/limits.ts";
import { withTimeout } from "../core/timeout.ts";
import { Ledger, type LedgerSum } from "./ledger.ts";
import type { EarlierCounts, EarlierUse, SpendSince } from "./memory-limiter.ts";

/** Milliseconds to wait for rows being written: a request waits for them. */
const FLUSH_TIMEOUT = 5000;
/** The part of that which requests wait after a previous wait has failed: the store is known to be down. */
const RETRY_SHARE = 0.1;

/**
 * Returns what was spent according to the ledger, by the scopes of limits, as budgets count it. Rejects while rows wait for a store
 * that is down: their money would be spent again.
 */
export const spendSince = (
  ledger: Pick<Ledger, "recovered" | "flush" | "sums">,
  timeout = FLUSH_TIMEOUT,
): SpendSince => {
  const flushed = flushAll(ledger, timeout);
  return async (since) => {
    await flushed();
    return sumByScope(await ledger.sums({ since, by: SCOPE_GROUPS }));
  };
};

/** Like `spendSince`, with the positions up to which the amounts include each journal. */
export const placedSpendSince = (
  ledger: Pick<Ledger, "recovered" | "flush" | "placedSums">,
): ((since: number) => Promise<PlacedSpending>) => {
  const flushed = flushAll(ledger, FLUSH_TIMEOUT);
  return async (since) => {
    await flushed();
    const { sums, positions } = await ledger.placedSums({ since, by: SCOPE_GROUPS });
    return { spent: sumByScope(sums), positions };
  };
};

/** What was spent, in nano-dollars by scope, and how far that includes each journal. */
export interface PlacedSpending {
  readonly spent: ReadonlyMap<string, number>;
  readonly positions: ReadonlyMap<string, number>;
}

function sumByScope(sums: readonly LedgerSum[]): Map<string, number> {
  const spent = new Map<string, number>();
  for (const { group, cost, assumedCost } of sums)
    for (const scope of scopesOf(group)) spent.set(scope, (spent.get(scope) ?? 0) + cost + assumedCost);
  return spent;
}

function flushAll(ledger: Pick<Ledger, "recovered" | "flush">, timeout: number): () => Promise<void> {
  const flush = requestFlusher(ledger, timeout);
  return async () => {
    await ledger.recovered();
    await flush();
  };
}

/** Like `ledgerFlusher`, where requests wait: after one has waited in vain the next ones wait for less time, until the store is back. */
export function requestFlusher(ledger: Pick<Ledger, "flush">, timeout = FLUSH_TIMEOUT): () => Promise<void> {
  let timedOut = false;
  return async () => {
    try {
      await ledgerFlusher(ledger, timedOut ? timeout * RETRY_SHARE : timeout)();
      timedOut = false;
    } catch (thrown) {
      timedOut = true;
      throw thrown;
    }
  };
}

/** Returns a function that waits until everything spent so far is in the shared ledger; it rejects while the store is down. */
export const ledgerFlusher = (ledger: Pick<Ledger, "flush">, timeout = FLUSH_TIMEOUT): (() => Promise<void>) => {
  return () => withTimeout(timeout, ledger.flush(), "the ledger (store: ledger)");
};

/**
 * Returns the day on which each scope of limits first spent something: its start in UTC, Unix milliseconds. Reads sums of all
 * days.
 */
export async function firstSpendDays(ledger: Pick<Ledger, "sums">): Promise<Map<string, number>> {
  const first = new Map<string, number>();
  for (const { group, cost, assumedCost } of await ledger.sums({ by: [...SCOPE_GROUPS, "day"] }))
    if (cost + assumedCost > 0)
      for (const scope of scopesOf(group))
        first.set(
          scope,
          Math.min(first.get(scope) ?? Number.POSITIVE_INFINITY, Date.parse(group[SCOPE_GROUPS.length] as string)),
        );
  return first;
}

/**
 * Yields what exchanges that arrived in a span count against rates, by the scopes of limits. What contacted no provider does not
 * count: most of that was refused.
 */
export async function* usedBetween(
  ledger: Pick<Ledger, "recovered" | "entries">,
  since: number,
  until: number,
): AsyncIterable<EarlierUse> {
  await ledger.recovered();
  for await (const entry of ledger.entries({ since, until })) {
    const { key, group = "", model, target, time, attempts } = entry;
    if (attempts.length === 0) continue;
    yield { time, tokens: Ledger.tokensOf(entry), scopes: scopesOf([key, group, model, target]) };
  }
}

/** Returns what former processes counted, those too whose journals a ledger is still reading. */
export const earlierCounts = (ledger: () => Pick<Ledger, "recovered" | "entries" | "countedNames">): EarlierCounts => ({
  usedBetween: (since, until) => usedBetween(ledger(), since, until),
  countedNames: async (limit) => {
    await ledger().recovered();
    return ledger().countedNames(limit);
  },
});

/** The groups of a sum that determine whose limits it counts for. */
const SCOPE_GROUPS = ["key", "group", "model", "target"] as const;

/** Returns the scopes of limits for which a sum by `SCOPE_GROUPS` counts. */
function scopesOf([key = "", group = "", model = "", target = ""]: readonly string[]): string[] {
  return [
    limitScope("key", key),
    ...(group === "" ? [] : groupAndParents(group).map((name) => limitScope("group", name))),
    limitScope("model", model),
    limitScope("provider", target.split(":", 1)[0] as string),
    limitScope("all", ""),
  ];
}
