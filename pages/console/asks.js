/** What the console's pages ask the admin API, by their address alone: so it can be asked before the pages are there. */

/** A path of the API with a query of what is set. */
export function api(path, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length === 0 ? path : `${path}?${new URLSearchParams(set)}`;
}

/** Windows of time, as the API names them. */
export const SPANS = {
  "1h": "last hour",
  today: "today",
  yesterday: "yesterday",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

/** The window that an address names. */
export const spanOf = (view, usual = "24h") => (Object.hasOwn(SPANS, view.since) ? view.since : usual);

/** What the API is asked for that window: of yesterday it ends with it. */
const spanQuery = (span) => (span === "yesterday" ? { since: "yesterday", until: "today" } : { since: span });

export const SESSION = "/api/session";
export const NOW = "/api/now";
export const KEYS = "/api/keys";
export const PROVIDERS = "/api/providers";
export const MODELS = "/api/models";
export const CONFIG = "/api/config";
export const GENERATIONS = "/api/generations";
/** Of keys, and of their groups. */
export const SPENT = "/api/spend?by=key&since=30d";
export const GROUPS = "/api/groups?since=30d";
/** When keys were used last. */
export const USED = "/api/used";
/** How clients are told of the gateway. */
export const CLIENTS = "/api/clients";

/** What money goes by. */
export const BY = ["model", "key", "group", "target", "tag", "day"];

/** Table and chart are of the same rows; days are those of the gateway's timezone. */
export function ofMoney(view) {
  const span = spanOf(view, "today");
  const by = BY.includes(view.by) ? view.by : "model";
  return {
    span,
    by,
    rows: api("/api/spend", { ...spanQuery(span), by: by === "day" ? by : `${by},day`, days: "local" }),
    // No day has one of its own before it.
    before: by === "day" ? undefined : api("/api/spend", { ...spanQuery(span), by, back: 1 }),
    budgets: "/api/budgets",
  };
}

const FILTERS = ["key", "group", "model", "target", "outcome", "status", "slower", "dearer", "without"];
const NANO = 1e9;
/** Requests that a page shows. */
export const PAGE = 100;

export function ofRequests(view) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, view[name]]));
  // What is no number is for the API to refuse.
  const dollars = Number(view.dearer);
  if (view.dearer && Number.isFinite(dollars)) asked.dearer = Math.round(dollars * NANO);
  return api("/api/requests", { ...spanQuery(spanOf(view)), ...asked, limit: PAGE, before: view.before });
}

/** Whether there has been any request. */
export const EVER = api("/api/requests", { since: "1970-01-01", limit: 1 });

export const ofRequest = (id) => `/api/requests/${id}`;

export const ofAudit = (view) => api("/api/audit", { limit: 100, before: view.before });

/** All that the page at an address asks before anybody has done anything. What runs now is told, not asked for. */
export function asked(path, view) {
  if (path.startsWith("/requests/")) return [ofRequest(path.slice("/requests/".length)), KEYS];
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
