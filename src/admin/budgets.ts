import { Calendar } from "../core/calendar.ts";
import type { KeyRecord } from "../store/keys.ts";
import type { BudgetStanding, Standing } from "../store/limiter.ts";
import { STANDINGS } from "./questions.ts";
import type { AdminAnswer } from "./route.ts";
import type { AdminSubject } from "./served.ts";

/** Where all limits stand, and since when what counts for a budget counts. */
export async function budgets(subject: AdminSubject): Promise<AdminAnswer> {
  const records = await subject.stores.keys.list();
  const callers = records
    .filter(({ revoked }) => revoked === undefined)
    .map((key) => subject.stores.keys.callerOf(key));
  const [found = []] = await subject.askAll(STANDINGS, callers);
  const began = beginnings(subject, records);
  const standings = found.map((standing) => {
    const budgets = standing.budgets.map((budget) => ({ ...budget, ...began(standing, budget) }));
    return { ...standing, budgets };
  });
  return { body: { standings } };
}

/** When what counts for a budget began; of a sum in total only for a key whose making is known. */
function beginnings({ config: { timezone } }: AdminSubject, records: readonly KeyRecord[]) {
  const calendar = new Calendar(timezone);
  const now = Date.now();
  const made = new Map(records.flatMap(({ id, source, created }) => (source === "store" ? [[id, created]] : [])));
  return ({ kind, name }: Pick<Standing, "kind" | "name">, { per }: BudgetStanding): { began?: number } => {
    if (per !== "total") return { began: calendar.span(per, now).start };
    const created = kind === "key" ? made.get(name) : undefined;
    return created === undefined ? {} : { began: created };
  };
}
