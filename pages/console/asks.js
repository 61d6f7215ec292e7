/** The API requests of the console's pages, computed from the URL alone, so that they can be prefetched. */

/** Returns an API path with a query of the values that are set. */
export function api(path, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set)}`;
}

/** Time windows, by the API's names. */
export const SPANS = {
  "1h": "last hour",
  today: "today",
  yesterday: "yesterday",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

/** Returns the window in a URL. */
export const spanOf = (view, usual = "24h") => (Object.hasOwn(SPANS, view.since) ? view.since : usual);

/** Returns the API's query for a window; yesterday also needs its end. */
const spanQuery = (span) => (span === "yesterday" ? { since: "yesterday", until: "today" } : { since: span });

export const SESSION = "/api/session";
export const NOW = "/api/now";
export const KEYS = "/api/keys";
export const PROVIDERS = "/api/providers";
export const MODELS = "/api/models";
export const CONFIG = "/api/config";
export const GENERATIONS = "/api/generations";
/** Spending of keys, and of their groups. */
export const SPENT = "/api/spend?by=key&since=30d";
export const GROUPS = "/api/groups?since=30d";
/** When keys were last used. */
export const USED = "/api/used";
/** Settings of clients for the gateway. */
export const CLIENTS = "/api/clients";

/** The dimensions of spending. */
export const BY = ["model", "key", "group", "target", "tag", "day"];

/** Groups with a colour of their own in the chart. */
const COLOURS = 5;

/** Table and chart come from one response, so that they agree; days are those of the gateway's timezone. */
export function ofMoney(view) {
  const span = spanOf(view, "today");
  const by = BY.includes(view.by) ? view.by : "model";
  return {
    span,
    by,
    rows: api("/api/spend", { ...spanQuery(span), by, ...(by === "day" ? { days: "local" } : { series: COLOURS }) }),
    // A day has no corresponding day in the period before.
    before: by === "day" ? undefined : api("/api/spend", { ...spanQuery(span), by, back: 1 }),
    budgets: "/api/budgets",
  };
}

const FILTERS = ["key", "group", "model", "target", "outcome", "status", "slower", "dearer", "without"];
const NANO = 1e9;
/** Requests, or changes, on one page. */
export const PAGE = 100;

export function ofRequests(view) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, view[name]]));
  // An invalid number is left for the API to refuse.
  const dollars = Number(view.dearer);
  if (view.dearer && Number.isFinite(dollars)) asked.dearer = Math.round(dollars * NANO);
  return api("/api/requests", { ...spanQuery(spanOf(view)), ...asked, limit: PAGE, before: view.before });
}

/** Finds out whether there has been any request. */
export const EVER = api("/api/requests", { since: "1970-01-01", limit: 1 });

export const ofRequest = (id) => `/api/requests/${id}`;

export const ofAudit = (view) => api("/api/audit", { limit: PAGE, before: view.before });

/** Returns the id of the request whose page is at a path. */
export const requestOf = (path) => /^\/requests\/([^/]+)$/.exec(path)?.[1];

/** Returns the initial API requests of the page at a URL. Running requests come from an event stream instead. */
export function asked(path, view) {
  const id = requestOf(path);
  if (id !== undefined) return [ofRequest(id), KEYS];
  const { rows, before, budgets } = ofMoney(view);
  const all = {
    "/requests": [ofRequests(view), KEYS],
    "/money": [rows, before, NOW, budgets, KEYS],
    "/providers": [PROVIDERS, MODELS],
    "/keys": [KEYS, SPENT, USED, GROUPS],
    "/config": [CONFIG, GENERATIONS],
    "/audit": [ofAudit(view)],
  };
  return (all[path] ?? []).filter((address) => address !== undefined);
}
