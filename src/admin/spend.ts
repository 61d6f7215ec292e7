import { Calendar } from "../core/calendar.ts";
import type { Ledger, LedgerGroup, LedgerSpan, LedgerSum } from "../store/ledger.ts";
import { sumFields } from "../store/ledger-sums.ts";
import { AdminError } from "./errors.ts";
import type { AdminAnswer, AdminRequest } from "./route.ts";
import type { AdminSubject } from "./served.ts";
import { spanOf } from "./span.ts";

/** What spending goes by. */
export const GROUPS: readonly LedgerGroup[] = ["key", "group", "model", "target", "tag", "day"];
/** Days of a time zone that are told at once: the ledger is asked for each. */
export const MOST_DAYS = 40;

/** What was spent, by what the query says. */
export async function spend({ stores, config }: AdminSubject, { query }: AdminRequest): Promise<AdminAnswer> {
  const by = (query.get("by") ?? "model").split(",").filter((each) => each !== "");
  const wrong = by.find((each) => !GROUPS.includes(each as LedgerGroup));
  if (wrong !== undefined) throw new AdminError("bad_request", `by takes any of ${GROUPS.join(", ")}, not ${wrong}.`);
  const twice = by.find((each, at) => by.indexOf(each) !== at);
  if (twice !== undefined) throw new AdminError("bad_request", `by names ${twice} twice.`);
  const kind = query.get("days");
  if (kind !== null && kind !== "local") throw new AdminError("bad_request", "days takes local, or is left out.");
  if (kind !== null && !by.includes("day")) throw new AdminError("bad_request", "days=local goes with by=day.");
  const groups = by as LedgerGroup[];
  const span = spanOf(query, config.timezone);
  if (kind === null)
    return { body: { ...span, by, rows: (await stores.ledger.sums({ ...span, by: groups })).map(sumFields) } };
  const { days, sums } = await byLocalDay(stores.ledger, span, groups, config.timezone);
  return { body: { ...span, by, zone: config.timezone, days, rows: sums.map(sumFields) } };
}

/** Sums by days as the clocks of a zone have them: those that the ledger keeps are UTC's. In the order of the days. */
async function byLocalDay(
  ledger: Pick<Ledger, "sums">,
  { since, until }: Required<LedgerSpan>,
  by: readonly LedgerGroup[],
  zone: string,
): Promise<{ days: string[]; sums: LedgerSum[] }> {
  const calendar = new Calendar(zone);
  const [days, sums]: [string[], LedgerSum[]] = [[], []];
  const others = by.filter((each) => each !== "day");
  for (let from = since; from < until; ) {
    const { end } = calendar.span("day", from);
    const day = Temporal.Instant.fromEpochMilliseconds(from).toZonedDateTimeISO(zone).toPlainDate().toString();
    if (days.push(day) > MOST_DAYS)
      throw new AdminError(
        "bad_request",
        `days=local takes ${MOST_DAYS} days at most: ask for less, or for days in UTC.`,
      );
    for (const sum of await ledger.sums({ since: from, until: Math.min(end, until), by: others }))
      sums.push({ ...sum, group: sum.group.toSpliced(by.indexOf("day"), 0, day) });
    from = end;
  }
  return { days, sums };
}
