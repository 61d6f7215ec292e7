import { Calendar } from "../core/calendar.ts";
import { limitScope } from "../core/limits.ts";
import type { KeyRecord } from "../store/keys.ts";
import type { BudgetStatus, LimitStatus } from "../store/limiter.ts";
import { firstSpendDays } from "../store/spend.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { STANDINGS } from "./questions.ts";
import type { AdminResponse } from "./route.ts";

/** Returns where all limits stand, and since when each budget counts. */
export async function budgets(gateway: AdminGateway): Promise<AdminResponse> {
  const records = await gateway.stores.keys.list();
  const found = await standingsOf(gateway, records);
  const began = await periodStarts(gateway, records, found);
  const standings = found.map((standing) => {
    const budgets = standing.budgets.map((budget) => ({ ...budget, ...began(standing, budget) }));
    return { ...standing, budgets };
  });
  return { body: { standings } };
}

/** Returns where the limits of keys, and all others, stand. */
export async function standingsOf(gateway: AdminGateway, records: readonly KeyRecord[]): Promise<LimitStatus[]> {
  const valid = records.filter(({ revoked }) => revoked === undefined);
  const [found = []] = await gateway.askAll(
    STANDINGS,
    valid.map((key) => gateway.stores.keys.callerOf(key)),
  );
  return found;
}

/** Cached by ledger, because the first day of a scope never changes. */
const FIRST_SPEND_DAYS = new WeakMap<object, Map<string, number>>();

/**
 * Returns when the current period of a budget began; for `total` when a key of the store was created, or the day of the first
 * spending.
 */
async function periodStarts(
  { config: { timezone }, stores: { ledger } }: AdminGateway,
  records: readonly KeyRecord[],
  standings: readonly LimitStatus[],
) {
  const calendar = new Calendar(timezone);
  const now = Date.now();
  const made = new Map(records.flatMap(({ id, source, created }) => (source === "store" ? [[id, created]] : [])));
  const madeAt = ({ kind, name }: LimitStatus) => (kind === "key" ? made.get(name) : undefined);
  let first = FIRST_SPEND_DAYS.get(ledger);
  const isNew = (standing: LimitStatus) =>
    madeAt(standing) === undefined &&
    !first?.has(limitScope(standing.kind, standing.name)) &&
    standing.budgets.some(({ per, spent }) => per === "total" && spent > 0);
  if (standings.some(isNew)) {
    first = await firstSpendDays(ledger);
    FIRST_SPEND_DAYS.set(ledger, first);
  }
  return (standing: LimitStatus, { per }: BudgetStatus): { began?: number } => {
    if (per !== "total") return { began: calendar.span(per, now).start };
    const began = madeAt(standing) ?? first?.get(limitScope(standing.kind, standing.name));
    return began === undefined ? {} : { began };
  };
}
