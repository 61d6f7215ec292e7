import { Calendar, type Period } from "../core/calendar.ts";
import type { Budget, Limits } from "../core/limit-kinds.ts";
import { type LimitTable, limitScope } from "../core/limits.ts";
import type { Ledger } from "../store/ledger.ts";
import { spendSince } from "../store/spend.ts";
import { formatBudgetOption } from "../text/key-limits.ts";
import { formatCost } from "../text/table.ts";

interface BudgetOwner {
  readonly kind: "key" | "group";
  /** A key's id, or a group. */
  readonly name: string;
  readonly budgets: readonly Budget[];
}

/** A budget and its spending; money in nano-dollars, with the field names of the admin API. */
export interface BudgetSpending extends Pick<BudgetOwner, "kind" | "name"> {
  readonly limit: number;
  readonly per: Period;
  readonly soft: boolean;
  readonly spent: number;
}

/** Returns the budgets of some groups. */
export const groupBudgets = (names: readonly string[], limits: LimitTable["groups"]): BudgetOwner[] =>
  names.flatMap((name) => {
    const { budgets = [] }: Limits = limits?.get(name) ?? {};
    return budgets.length === 0 ? [] : [{ kind: "group", name, budgets }];
  });

/**
 * Returns the spending of budgets in their current periods, according to the ledger: without reservations of running requests.
 * @param zone the time zone of days
 */
export async function budgetSpending(
  owners: readonly BudgetOwner[],
  ledger: Pick<Ledger, "recovered" | "flush" | "sums">,
  zone: string,
  now = Date.now(),
): Promise<BudgetSpending[]> {
  const calendar = new Calendar(zone);
  const since = spendSince(ledger);
  const sumsByStart = new Map<number, Awaited<ReturnType<typeof since>>>();
  const found: BudgetSpending[] = [];
  for (const { kind, name, budgets } of owners)
    for (const { nano: limit, per, soft } of budgets) {
      const { start } = calendar.span(per, now);
      const sums = sumsByStart.get(start) ?? (await since(start));
      sumsByStart.set(start, sums);
      found.push({ kind, name, limit, per, soft, spent: sums.get(limitScope(kind, name)) ?? 0 });
    }
  return found;
}

/** Formats as `$3.2000 of $10/day`. */
export const formatSpending = (budgets: readonly BudgetSpending[]): string =>
  budgets
    .map(({ limit, per, soft, spent }) => `${formatCost(spent)} of ${formatBudgetOption({ nano: limit, per, soft })}`)
    .join(", ");
