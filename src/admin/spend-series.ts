import type { LedgerSum } from "../store/ledger.ts";

/** The cost of each day of one group, or of all others together. */
export interface CostSeries {
  /** One value for each of the query's groups; absent for all others. */
  group?: readonly string[];
  /** Nano-dollars, one value for each day. */
  costs: number[];
}

/** Sums of groups over all days, and what the most expensive ones cost on each. */
interface DailySpend {
  /** By cost, descending. */
  sums: LedgerSum[];
  series: CostSeries[];
}

/**
 * Adds up the sums of days, which have the day as the last value of their group.
 * @param days all days, in order
 * @param own how many of the most expensive groups get a series of their own
 */
export function dailySpend(sums: readonly LedgerSum[], days: readonly string[], own: number): DailySpend {
  const places = new Map(days.map((day, place) => [day, place]));
  const groups = new Map<string, { sum: LedgerSum; costs: number[] }>();
  for (const { group, ...day } of sums) {
    const names = group.slice(0, -1);
    const id = JSON.stringify(names);
    let found = groups.get(id);
    if (found) add(found.sum, day);
    else {
      found = { sum: { group: names, ...day }, costs: days.map(() => 0) };
      groups.set(id, found);
    }
    const place = places.get(group.at(-1) ?? "");
    if (place !== undefined) found.costs[place] = (found.costs[place] ?? 0) + day.cost;
  }
  const sorted = [...groups.values()].sort(
    ({ sum: one }, { sum: other }) => other.cost - one.cost || other.requests - one.requests,
  );
  const spent = sorted.filter(({ sum }) => sum.cost > 0);
  const series: CostSeries[] = spent.slice(0, own).map(({ sum, costs }) => ({ group: sum.group, costs }));
  const others = spent.slice(own);
  if (others.length > 0)
    series.push({ costs: days.map((_, place) => others.reduce((sum, { costs }) => sum + (costs[place] ?? 0), 0)) });
  return { sums: sorted.map(({ sum }) => sum), series };
}

function add(sum: LedgerSum, more: Omit<LedgerSum, "group">): void {
  for (const name of Object.keys(more) as (keyof typeof more)[]) sum[name] += more[name];
}
