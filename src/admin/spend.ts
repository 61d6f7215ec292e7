import type { LedgerGroup } from "../store/ledger.ts";
import { localDays, sumsOfDays } from "../store/ledger-days.ts";
import { sumFields } from "../store/ledger-sums.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import type { AdminRequest, AdminResponse } from "./route.ts";
import { precedingSpan, querySpan } from "./span.ts";

/** The dimensions of spending. */
export const SPEND_GROUPS: readonly LedgerGroup[] = ["key", "group", "model", "target", "tag", "day"];
/** Limit of days in a time zone per request: each takes a query of the ledger. */
export const MAX_DAYS = 40;

/** Returns the spending, grouped as the query says. */
export async function spend({ stores, config }: AdminGateway, { query }: AdminRequest): Promise<AdminResponse> {
  const by = (query.get("by") ?? "model").split(",").filter((each) => each !== "");
  const wrong = by.find((each) => !SPEND_GROUPS.includes(each as LedgerGroup));
  if (wrong !== undefined)
    throw new AdminError("bad_request", `by takes any of ${SPEND_GROUPS.join(", ")}, not ${wrong}.`);
  const twice = by.find((each, at) => by.indexOf(each) !== at);
  if (twice !== undefined) throw new AdminError("bad_request", `by names ${twice} twice.`);
  const kind = query.get("days");
  if (kind !== null && kind !== "local") throw new AdminError("bad_request", "days takes local, or is left out.");
  if (kind !== null && !by.includes("day")) throw new AdminError("bad_request", "days=local goes with by=day.");
  const groups = by as LedgerGroup[];
  const back = query.get("back");
  if (back !== null && back !== "1") throw new AdminError("bad_request", "back takes 1, or is left out.");
  const span = (back === null ? querySpan : precedingSpan)(query, config.timezone);
  if (kind === null)
    return { body: { ...span, by, rows: (await stores.ledger.sums({ ...span, by: groups })).map(sumFields) } };
  const zone = config.timezone;
  const days = [...localDays(span, zone).take(MAX_DAYS + 1)];
  if (days.length > MAX_DAYS)
    throw new AdminError("bad_request", `days=local takes ${MAX_DAYS} days at most: ask for less, or for days in UTC.`);
  const sums = await sumsOfDays(stores.ledger, groups, days);
  return { body: { ...span, by, zone, days: days.map(({ day }) => day), rows: sums.map(sumFields) } };
}
