import { reason } from "../cli/reason.ts";
import { shownConfig } from "../config/changes.ts";
import { hide, secretsByLook, secretsOf } from "../config/secrets.ts";
import type { LedgerEntry, LedgerGroup, LedgerSearch, LedgerSum, SpeedGroup } from "../store/ledger.ts";
import { AdminError } from "./errors.ts";
import { explain } from "./explain.ts";
import * as keys from "./keys.ts";
import { now, speedOf } from "./now.ts";
import { providers } from "./providers.ts";
import { CANCEL, GENERATIONS, LIVE, MODELS, PLUGINS, RECORDED, STANDINGS } from "./questions.ts";
import type { AdminAct, AdminAnswer, AdminRequest } from "./route.ts";
import type { AdminSubject } from "./served.ts";
import { spanOf } from "./span.ts";

interface AdminRoute {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly path: RegExp;
  readonly act: AdminAct;
  /** Only admins may: it changes something, or shows what requests hold. */
  readonly admin: boolean;
}

const route = (method: AdminRoute["method"], path: string, act: AdminAct, admin = method !== "GET"): AdminRoute => ({
  admin,
  method,
  path: new RegExp(`^/api/${path.replaceAll(":name", "([^/]+)")}$`),
  act,
});

/** What the admin side answers below /api/, but for sessions. docs/admin-api.md tells what each takes and gives. */
const ROUTES: readonly AdminRoute[] = [
  route("GET", "now", async (subject) => ({ body: await now(subject) })),
  route("GET", "live", async (subject) => ({ body: { requests: await live(subject) } })),
  route("POST", "live/:name/cancel", cancel),
  route("GET", "requests", requests),
  route("GET", "requests/:name", request),
  route("GET", "requests/:name/recorded", recorded, true),
  route("GET", "spend", spend),
  route("GET", "speed", speed),
  route("GET", "errors", errors),
  route("GET", "budgets", budgets),
  route("GET", "keys", keys.list),
  route("POST", "keys", keys.create),
  route("GET", "keys/:name", keys.show),
  route("PATCH", "keys/:name", keys.edit),
  route("DELETE", "keys/:name", keys.revoke),
  route("POST", "keys/:name/rotate", keys.rotate),
  route("POST", "keys/:name/disable", keys.disable),
  route("POST", "keys/:name/enable", keys.enable),
  route("GET", "groups", keys.groups),
  route("GET", "providers", async (subject) => ({ body: { providers: await providers(subject) } })),
  route("GET", "models", async (subject) => ({ body: { models: await first(subject, MODELS) } })),
  route("GET", "config", config),
  route("GET", "config/diff", async (subject) => ({ body: await refusing(() => subject.compare()) })),
  route("POST", "explain", explain),
  route("POST", "reload", reload),
  route("GET", "generations", generations),
  route("GET", "audit", audit),
];

/** What answers; undefined: nothing does below that path. @throws AdminError where the path takes other methods */
export function routeOf(
  method: string,
  path: string,
): { act: AdminAct; names: string[]; changes: boolean; admin: boolean } | undefined {
  const found = ROUTES.filter((each) => each.path.test(path));
  if (found.length === 0) return undefined;
  const chosen = found.find((each) => each.method === method);
  if (!chosen) {
    const methods = found.map((each) => each.method);
    const allow = methods.flatMap((each) => (each === "GET" ? ["GET", "HEAD"] : [each]));
    throw new AdminError("method_not_allowed", `Only ${methods.join(", ")} is answered here.`, { allow });
  }
  const names = [...(chosen.path.exec(path) ?? [])].slice(1).map(decoded);
  return { act: chosen.act, names, changes: chosen.method !== "GET", admin: chosen.admin };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AdminError("bad_request", "The path has a broken escape.");
  }
}

async function first<Answer>(
  subject: AdminSubject,
  asked: Parameters<AdminSubject["askAll"]>[0] & { types?: [null, Answer] },
): Promise<Answer> {
  const [answer] = await subject.askAll(asked, null);
  if (answer === undefined) throw new AdminError("failed", "No process serves at the moment.");
  return answer as Answer;
}

async function live(subject: AdminSubject) {
  const all = await subject.askAll(LIVE, null);
  return all.flat().sort((a, b) => a.time - b.time);
}

async function cancel(subject: AdminSubject, { names: [id = ""] }: AdminRequest): Promise<AdminAnswer> {
  const ended = await subject.askAll(CANCEL, id);
  if (!ended.includes(true)) throw new AdminError("not_found", "No such request runs: it may have ended.");
  return { status: 204, audit: { action: "requests.cancel", subject: id, detail: {} } };
}

const MOST = 1000;
/** Rows that one search reads. */
const READ = 200_000;
const FILTERS = ["key", "group", "model", "target", "outcome", "status", "slower", "dearer"] as const;

/** A whole number of a query. @throws AdminError */
function number(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new AdminError("bad_request", `${name} takes a whole number.`);
  return Number(text);
}

async function requests({ stores, config }: AdminSubject, { query }: AdminRequest): Promise<AdminAnswer> {
  const limit = Math.min(number(query, "limit") ?? 100, MOST);
  const search: LedgerSearch = { limit: limit + 1, ...spanOf(query, config.timezone) };
  for (const field of ["key", "group", "model", "target", "outcome"] as const) {
    const value = query.get(field);
    if (value !== null && value !== "") search[field] = value;
  }
  const status = query.get("status");
  if (status) search.status = statuses(status);
  for (const field of ["slower", "dearer"] as const) {
    const value = number(query, field);
    if (value !== undefined) search[field] = value;
  }
  const [, time, id] = /^(\d+)_(.*)$/.exec(query.get("before") ?? "") ?? [];
  if (time !== undefined && id !== undefined) search.before = { time: Number(time), id };
  // One that few rows meet would read all of them: it reads so many, and tells how far it came.
  const oldest = FILTERS.some((field) => search[field] !== undefined) ? await stores.ledger.reach(search, READ) : 0;
  const found = await stores.ledger.search({ ...search, since: Math.max(search.since ?? 0, oldest) });
  const last = found.length > limit ? found[limit - 1] : undefined;
  const next = last ? `${last.time}_${last.id}` : oldest > 0 ? `${oldest}_` : undefined;
  return { body: { requests: found.slice(0, limit), ...(next !== undefined && { next }) } };
}

function statuses(text: string): [number, number] {
  const [, digit, rest] = /^([1-9])(\d\d|xx)$/.exec(text) ?? [];
  if (digit === undefined) throw new AdminError("bad_request", "status takes one like 429, or 4xx.");
  return rest === "xx" ? [Number(digit) * 100, Number(digit) * 100 + 99] : [Number(text), Number(text)];
}

async function request(subject: AdminSubject, { names: [id = ""] }: AdminRequest): Promise<AdminAnswer> {
  const [found, running] = await Promise.all([find(subject, id), live(subject)]);
  const current = running.find((each) => each.id === id);
  if (!found && !current) throw new AdminError("not_found", "No such request.");
  return { body: { ...(found && { request: found }), ...(current && { live: current }) } };
}

/** What requests hold is nobody's business without a reason: who has looked stands in the audit trail. */
async function recorded(subject: AdminSubject, { names: [id = ""] }: AdminRequest): Promise<AdminAnswer> {
  const found = (await subject.askAll(RECORDED, id)).find((each) => each !== null);
  if (!found) throw new AdminError("not_found", "Nothing was kept of this request, or its time is over.");
  return { body: { recorded: found }, audit: { action: "requests.recorded", subject: id, detail: {} } };
}

const find = async ({ stores }: AdminSubject, id: string): Promise<LedgerEntry | undefined> =>
  (await stores.ledger.search({ id, limit: 1 }))[0];

const GROUPS: readonly LedgerGroup[] = ["key", "group", "model", "target", "tag", "day"];

async function spend({ stores, config }: AdminSubject, { query }: AdminRequest): Promise<AdminAnswer> {
  const by = (query.get("by") ?? "model").split(",").filter((each) => each !== "");
  const wrong = by.find((each) => !GROUPS.includes(each as LedgerGroup));
  if (wrong !== undefined) throw new AdminError("bad_request", `by takes any of ${GROUPS.join(", ")}, not ${wrong}.`);
  const span = spanOf(query, config.timezone);
  const rows = await stores.ledger.sums({ ...span, by: by as LedgerGroup[] });
  return { body: { ...span, by, rows: rows.map(sumOf) } };
}

const sumOf = ({ tokensIn, tokensOut, ...sum }: LedgerSum) => ({ ...sum, tokens_in: tokensIn, tokens_out: tokensOut });

async function speed({ stores, config }: AdminSubject, { query }: AdminRequest): Promise<AdminAnswer> {
  const by = query.get("by") ?? "target";
  if (!["model", "target", "key"].includes(by)) throw new AdminError("bad_request", "by takes model, target or key.");
  const span = spanOf(query, config.timezone);
  const rows = await stores.ledger.speeds(span, by as SpeedGroup);
  return { body: { ...span, by, rows: rows.map(speedOf) } };
}

async function errors({ stores, config }: AdminSubject, { query }: AdminRequest): Promise<AdminAnswer> {
  const span = spanOf(query, config.timezone);
  const { exchanges, attempts } = await stores.ledger.failures(span);
  return { body: { ...span, rows: exchanges, attempts } };
}

async function budgets(subject: AdminSubject): Promise<AdminAnswer> {
  const records = await subject.stores.keys.list();
  const callers = records
    .filter(({ revoked }) => revoked === undefined)
    .map((key) => subject.stores.keys.callerOf(key));
  const [standings = []] = await subject.askAll(STANDINGS, callers);
  return { body: { standings } };
}

async function config(subject: AdminSubject): Promise<AdminAnswer> {
  const { config, reloads } = subject;
  const { text } = config;
  const [[serving], plugins] = await Promise.all([first(subject, GENERATIONS), first(subject, PLUGINS)]);
  const { restart } = await subject.compare().catch(() => ({ restart: [] }));
  return {
    body: {
      file: config.file,
      loaded: serving?.since,
      generation: serving?.number,
      text: hide(text, [...secretsOf(config, process.env), ...secretsByLook(text)]),
      settings: shownConfig(config),
      chains: Object.fromEntries(config.chains),
      paths: config.paths,
      plugins,
      warnings: config.notices,
      restart,
      reload: reloads.last,
    },
  };
}

/** @throws AdminError with what is wrong with the file */
async function refusing<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (thrown) {
    throw new AdminError("refused", reason(thrown));
  }
}

async function reload(subject: AdminSubject): Promise<AdminAnswer> {
  const reloaded = await refusing(() => subject.reload());
  const { changes, generation } = reloaded;
  const detail = { generation, changes: changes.slice(0, 100).map(({ path }) => path) };
  return { body: reloaded, audit: { action: "reload", subject: "gateway.yaml", detail } };
}

async function generations(subject: AdminSubject): Promise<AdminAnswer> {
  const all = await subject.askAll(GENERATIONS, null);
  return { body: { generations: all.flat().sort((a, b) => b.number - a.number) } };
}

async function audit({ stores }: AdminSubject, { query }: AdminRequest): Promise<AdminAnswer> {
  const limit = Math.min(number(query, "limit") ?? 100, MOST);
  const entries = await stores.audit.list(limit, number(query, "before"));
  const last = entries.length === limit ? entries.at(-1) : undefined;
  return { body: { entries, ...(last && { next: last.id }) } };
}
