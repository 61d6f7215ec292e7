import { Calendar } from "../core/calendar.ts";
import { limitScope } from "../core/limits.ts";
import type { KeyRecord } from "../store/keys.ts";
import type { BudgetStatus, LimitStatus } from "../store/limiter.ts";
import { firstSpendDays } from "../store/spend.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { LIMIT_STATUSES } from "./questions.ts";
import type { AdminResponse } from "./route.ts";

/** Returns where all limits stand, and since when each budget counts. */
export async function budgets(gateway: AdminGateway): Promise<AdminResponse> {
  const records = await gateway.stores.keys.list();
  const found = await limitStatuses(gateway, records);
  const began = await periodStarts(gateway, records, found);
  const statuses = found.map((status) => {
    const budgets = status.budgets.map((budget) => ({ ...budget, ...began(status, budget) }));
    return { ...status, budgets };
  });
  return { body: { limits: statuses } };
}

/** Returns where the limits of keys, and all others, stand. */
export async function limitStatuses(gateway: AdminGateway, records: readonly KeyRecord[]): Promise<LimitStatus[]> {
  const valid = records.filter(({ revoked }) => revoked === undefined);
  const [found = []] = await gateway.askAll(
    LIMIT_STATUSES,
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
  statuses: readonly LimitStatus[],
) {
  const calendar = new Calendar(timezone);
  const now = Date.now();
  const made = new Map(records.flatMap(({ id, source, created }) => (source === "store" ? [[id, created]] : [])));
  const madeAt = ({ kind, name }: LimitStatus) => (kind === "key" ? made.get(name) : undefined);
  let first = FIRST_SPEND_DAYS.get(ledger);
  const isNew = (status: LimitStatus) =>
    madeAt(status) === undefined &&
    !first?.has(limitScope(status.kind, status.name)) &&
    status.budgets.some(({ per, spent }) => per === "total" && spent > 0);
  if (statuses.some(isNew)) {
    first = await firstSpendDays(ledger);
    FIRST_SPEND_DAYS.set(ledger, first);
  }
  return (status: LimitStatus, { per }: BudgetStatus): { began?: number } => {
    if (per !== "total") return { began: calendar.span(per, now).start };
    const began = madeAt(status) ?? first?.get(limitScope(status.kind, status.name));
    return began === undefined ? {} : { began };
  };
}
