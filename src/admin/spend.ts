import type { Ledger, LedgerGroup, LedgerSum } from "../store/ledger.ts";
import { localDays, mostExpensive, sumsOfDays } from "../store/ledger-days.ts";
import { LEDGER_GROUPS, sumFields } from "../store/ledger-sums.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import type { AdminRequest, AdminResponse } from "./route.ts";
import { precedingSpan, querySpan } from "./span.ts";
import { type CostSeries, dailySpend } from "./spend-series.ts";

/** Limit of days in a time zone per request: each takes a query of the ledger. */
export const MAX_DAYS = 40;
/** Limit of rows, which are built and sent by the process that serves requests. */
export const MAX_ROWS = 50_000;
/** Sums of groups on days up to which all are read for their series: more would keep requests waiting. Tags always are: they overlap. */
const MAX_DAILY_SUMS = 50_000;
/** Limit of groups with a series of their own. */
export const MAX_SERIES = 20;

/** Returns the spending, grouped as the query says. */
export async function spend({ stores, config }: AdminGateway, { query }: AdminRequest): Promise<AdminResponse> {
  const by = (query.get("by") ?? "model").split(",").filter((each) => each !== "");
  const wrong = by.find((each) => !LEDGER_GROUPS.includes(each as LedgerGroup));
  if (wrong !== undefined)
    throw new AdminError("bad_request", `by takes any of ${LEDGER_GROUPS.join(", ")}, not ${wrong}.`);
  const twice = by.find((each, at) => by.indexOf(each) !== at);
  if (twice !== undefined) throw new AdminError("bad_request", `by names ${twice} twice.`);
  const kind = query.get("days");
  if (kind !== null && kind !== "local") throw new AdminError("bad_request", "days takes local, or is left out.");
  if (kind !== null && !by.includes("day")) throw new AdminError("bad_request", "days=local goes with by=day.");
  const groups = by as LedgerGroup[];
  const own = seriesIn(query.get("series"), kind, by);
  const back = query.get("back");
  if (back !== null && back !== "1") throw new AdminError("bad_request", "back takes 1, or is left out.");
  const span = (back === null ? querySpan : precedingSpan)(query, config.timezone);
  const { ledger } = stores;
  // One more than are sent: it shows that there are more.
  const limit = MAX_ROWS + 1;
  const whole = () => ledger.sums({ ...span, by: groups, limit });
  if (kind === null && own === undefined) return { body: { ...span, by, ...limitedRows(await whole()) } };
  const zone = config.timezone;
  const localized = [...localDays(span, zone).take(MAX_DAYS + 1)];
  const days = localized.map(({ day }) => day);
  if (days.length > MAX_DAYS) {
    const asked = kind === null ? "series" : "days=local";
    throw new AdminError("bad_request", `${asked} takes ${MAX_DAYS} days at most: ask for less, or for days in UTC.`);
  }
  const ofDays = { ...span, by, zone, days };
  if (own === undefined)
    return {
      body: { ...ofDays, ...limitedRows(await sumsOfDays(ledger, groups, localized, { each: limit, all: limit })) },
    };
  const rows = await whole();
  if (rows.length * days.length > MAX_DAILY_SUMS && !by.includes("tag")) {
    const daily = await expensiveSeries(ledger, groups, localized, rows.slice(0, own));
    return { body: { ...ofDays, ...limitedRows(rows), series: daily } };
  }
  const all = limit * days.length;
  const daily = await sumsOfDays(ledger, [...groups, "day"], localized, { each: limit, all });
  const { sums, series } = dailySpend(daily, days, own);
  if (sums.length <= MAX_ROWS) return { body: { ...ofDays, ...limitedRows(sums), series } };
  // Of a day with more groups the cheapest are missing here, so sums over all days and of all groups are queries of their own.
  const total = dailySpend(await sumsOfDays(ledger, ["day"], localized), days, 0);
  return { body: { ...ofDays, ...limitedRows(rows), series: total.series } };
}

/**
 * Returns what the most expensive groups, and all others together, cost on each day: without the sums of all groups on all days, which
 * may be millions.
 */
async function expensiveSeries(
  ledger: Ledger,
  by: readonly LedgerGroup[],
  localized: Parameters<typeof sumsOfDays>[2],
  expensive: readonly LedgerSum[],
): Promise<CostSeries[]> {
  const days = localized.map(({ day }) => day);
  const among = Object.fromEntries(by.map((name, at) => [name, [...new Set(expensive.map(({ group }) => group[at]))]]));
  const wanted = new Set(expensive.map(({ group }) => JSON.stringify(group)));
  const daily = (await sumsOfDays(ledger, [...by, "day"], localized, undefined, among)).filter(({ group }) =>
    wanted.has(JSON.stringify(group.slice(0, -1))),
  );
  const { series } = dailySpend(daily, days, expensive.length);
  const [total] = dailySpend(await sumsOfDays(ledger, ["day"], localized), days, 0).series;
  if (!total) return series;
  // Requests that end between the queries are not in all of them.
  const costs = days.map((_, at) =>
    Math.max(
      0,
      series.reduce((left, each) => left - (each.costs[at] ?? 0), total.costs[at] ?? 0),
    ),
  );
  return costs.some((cost) => cost > 0) ? [...series, { costs }] : series;
}

/** Returns the rows of the answer, in their order: only the most expensive if there are more than it may have. */
const limitedRows = (sums: LedgerSum[]): { rows: object[]; more?: true } => ({
  rows: mostExpensive(sums, MAX_ROWS).map(sumFields),
  ...(sums.length > MAX_ROWS && { more: true }),
});

/**
 * Returns how many groups get a series.
 * @throws AdminError if it is no such number, or does not fit the rest of the query
 */
function seriesIn(value: string | null, days: string | null, by: readonly string[]): number | undefined {
  if (value === null) return undefined;
  if (!/^\d{1,2}$/.test(value) || Number(value) < 1 || Number(value) > MAX_SERIES)
    throw new AdminError("bad_request", `series takes 1 to ${MAX_SERIES}, not ${value}.`);
  if (days !== null || by.includes("day"))
    throw new AdminError("bad_request", "series has the days itself, local ones: leave out days, and day in by.");
  return Number(value);
}
