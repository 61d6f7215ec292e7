import { groupAndParents } from "../core/limits.ts";
import type { Keys } from "./keys.ts";
import type { Ledger, LedgerQuery } from "./ledger.ts";

/** The totals of a group, including its subgroups. */
export interface GroupTotals {
  group: string;
  /** Names of keys that are not revoked. */
  keys: string[];
  requests: number;
  /** Nano-dollars. */
  cost: number;
  /** Unix milliseconds since when it is disabled itself. */
  disabled?: number;
}

/**
 * Returns groups with their spending, each before its subgroups.
 * @param more groups to include besides those of keys, of recorded usage, and those that are disabled
 */
export async function groupTotals(
  keys: Keys,
  ledger: Ledger,
  query: LedgerQuery,
  more: readonly string[] = [],
): Promise<GroupTotals[]> {
  const groups = new Map<string, GroupTotals>();
  /** Returns the totals of a group, then those of its parents. */
  const pathTotals = (path: string): GroupTotals[] =>
    groupAndParents(path).map((group) =>
      groups.getOrInsertComputed(group, () => ({ group, keys: [], requests: 0, cost: 0 })),
    );
  for (const group of more) pathTotals(group);
  for (const [group, disabled] of await keys.listDisabledGroups())
    Object.assign(pathTotals(group)[0] as object, { disabled });
  for (const { group, name, revoked } of await keys.list())
    if (group !== undefined && revoked === undefined) for (const totals of pathTotals(group)) totals.keys.push(name);
  for (const { group, requests, cost } of await ledger.sums(query))
    if (group[0])
      for (const totals of pathTotals(group[0])) {
        totals.requests += requests;
        totals.cost += cost;
      }
  return [...groups.values()].sort((a, b) => (sortKey(a.group) < sortKey(b.group) ? -1 : 1));
}

/** Sorts groups as a tree: acme/research comes before acme-2, although "/" sorts after "-". */
const sortKey = (group: string): string => group.replaceAll("/", "\0");
