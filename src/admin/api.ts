import { z } from "zod";
import { redactedSettings } from "../config/changes.ts";
import { configSecrets, findSecrets, starSecrets } from "../config/secrets.ts";
import type { Outcome } from "../core/exchange.ts";
import type { Question } from "../core/peers.ts";
import type { LedgerEntry, LedgerSearch, SpeedGroup } from "../store/ledger.ts";
import { LEDGER_GROUPS } from "../store/ledger-sums.ts";
import { errorProblems, formatError } from "../text/format-error.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { budgets } from "./budgets.ts";
import { clients } from "./clients.ts";
import { AdminError } from "./errors.ts";
import { ExplainSchema, handleExplain } from "./explain.ts";
import * as keys from "./keys.ts";
import { overview, speedFields } from "./overview.ts";
import { shownProviders, switchOff, switchOn, TargetChangeSchema, tryNow } from "./providers.ts";
import { CANCEL, GENERATIONS, LIVE_REQUESTS, MODELS, PLUGINS, RECORDED } from "./questions.ts";
import { type AdminRequest, type AdminResponse, type AdminRoute, fromLedger, parseBody, route } from "./route.ts";
import { querySpan } from "./span.ts";
import { MAX_DAYS, MAX_SERIES, spend } from "./spend.ts";

/** Fields by whose absence requests can be filtered. */
const WITHOUT = ["key", "group", "model", "target"] as const;
const TEXT_FILTERS = [...WITHOUT, "outcome"] as const;
const FILTERS = [...TEXT_FILTERS, "status"] as const;
/** Filters by a lower bound: the query's parameter, and the field of the search. */
const BOUNDS = [
  ["slower", "durationAbove"],
  ["dearer", "costAbove"],
] as const;
const OUTCOMES = Object.keys({
  completed: true,
  aborted: true,
  upstream_error: true,
  rejected: true,
  failed: true,
  interrupted: true,
} satisfies Record<Outcome, true>);
const SPEEDS: readonly SpeedGroup[] = ["model", "target", "key"];

/** `user`: the system user who runs the verb `reload`, as the verb reports it. */
const Reload = z.strictObject({
  user: z
    .string()
    .regex(/^[^\p{C}]{1,100}$/u)
    .optional(),
});

const SPAN = {
  since:
    "Unix milliseconds, or like 24h, today, 2026-11-22, 2026-11-22T12:00Z; the last 24 hours where it is left out.",
  until: "As since; now where it is left out.",
};
const PAGE = { limit: "How many: 100, at most 1000.", before: "The `next` of the answer before." };

/** The routes below /api/, except those for sessions. docs/admin-api.md describes their parameters and responses. */
export const ROUTES: readonly AdminRoute[] = [
  route(
    "GET",
    "now",
    "Running requests, rates and what needs attention.",
    async (gateway) => ({ body: await overview(gateway) }),
    {
      responseFields: [
        "time",
        "started",
        "version",
        "ready",
        "parts",
        "running",
        "streams",
        "sockets",
        "generation",
        "attention",
      ],
    },
  ),
  route("GET", "live", "Requests that run.", async (gateway) => ({ body: { requests: await live(gateway) } }), {
    responseFields: ["requests"],
  }),
  route("POST", "live/{id}/cancel", "Cancels a running request.", cancel, { status: 204 }),
  route("GET", "requests", "Requests that have ended, newest first.", fromLedger(requests), {
    query: {
      ...SPAN,
      ...PAGE,
      ...Object.fromEntries(
        [...FILTERS, ...BOUNDS.map(([name]) => name)].map((name) => [name, `Only those of that ${name}.`]),
      ),
      without: `Only those that have none of these: any of ${WITHOUT.join(", ")}, with commas between.`,
      status: "Only those of that status: 429, or 4xx.",
      slower: "Only those that took more milliseconds.",
      dearer: "Only those that cost more nano-dollars.",
    },
    responseFields: ["requests", "next?", "behind?"],
  }),
  route("GET", "requests/{id}", "One request.", request, { responseFields: ["request?", "live?"] }),
  route("GET", "requests/{id}/recorded", "The recorded bodies of a request.", recorded, {
    admin: true,
    responseFields: ["recorded"],
  }),
  route("GET", "spend", "Spending.", fromLedger(spend), {
    query: {
      ...{ ...SPAN, by: `Any of ${LEDGER_GROUPS.join(", ")}, with commas between; model where it is left out.` },
      days: `local: days of gateway.yaml's timezone, ${MAX_DAYS} at most; days in UTC where it is left out.`,
      series: `1 to ${MAX_SERIES}: with the cost of each local day, for so many of the most expensive groups and for all others.`,
      back: "1: the sums of the preceding span of the same length; for today, of yesterday up to the same time.",
    },
    responseFields: ["since", "until", "by", "rows", "more?", "days?", "zone?", "series?", "behind?"],
  }),
  route("GET", "speed", "Latency and output speed.", fromLedger(speed), {
    query: { ...SPAN, by: `One of ${SPEEDS.join(", ")}; target where it is left out.` },
    responseFields: ["since", "until", "by", "rows", "behind?"],
  }),
  route("GET", "errors", "Exchanges that were not completed, and failed attempts.", fromLedger(errors), {
    ...{ query: SPAN, responseFields: ["since", "until", "rows", "attempts", "behind?"] },
  }),
  route("GET", "budgets", "The use of all limits.", budgets, { responseFields: ["limits"] }),
  route("GET", "keys", "All keys.", keys.list, { responseFields: ["keys"] }),
  route("POST", "keys", "Creates a key; its secret is shown once.", keys.create, {
    ...{ status: 201, body: keys.KeyFieldsSchema.required({ name: true }), responseFields: ["key", "secret"] },
  }),
  route("GET", "keys/{id}", "One key, by its id or name.", keys.show, { responseFields: ["key"] }),
  route("PATCH", "keys/{id}", "Changes a key; null removes a field.", keys.edit, {
    ...{ body: keys.KeyEditSchema, responseFields: ["key"] },
  }),
  route("DELETE", "keys/{id}", "Revokes a key for good.", keys.revoke, { status: 204 }),
  route("POST", "keys/{id}/rotate", "Replaces a key; the new secret is shown once.", keys.rotate, {
    ...{ body: keys.RotationSchema, responseFields: ["key", "secret"] },
  }),
  route("POST", "keys/{id}/disable", "Switches a key off.", keys.disable, { responseFields: ["key"] }),
  route("POST", "keys/{id}/enable", "Switches a key on again.", keys.enable, { responseFields: ["key"] }),
  route("GET", "used", "When each key was used last.", fromLedger(keys.lastUsed), {
    responseFields: ["keys", "behind?"],
  }),
  route("GET", "groups", "Groups, each with what is below it.", fromLedger(keys.groups), {
    ...{ query: SPAN, responseFields: ["since", "until", "groups", "behind?"] },
  }),
  route("POST", "groups/{group}/disable", "Switches a group and those below it off.", keys.disableGroup, {
    status: 204,
  }),
  route("POST", "groups/{group}/enable", "Switches a group on again.", keys.enableGroup, { status: 204 }),
  route("GET", "providers", "Providers with their targets and credentials, and the health of each.", allProviders, {
    responseFields: ["providers"],
  }),
  route("POST", "providers/{name}/try", "Ends the suspension of a provider, or of one of its targets.", tryNow, {
    ...{ body: TargetChangeSchema, responseFields: ["provider"] },
  }),
  route("POST", "providers/{name}/off", "Switches a provider, or one target, off.", switchOff, {
    ...{ body: TargetChangeSchema, responseFields: ["provider"] },
  }),
  route("POST", "providers/{name}/on", "Switches it on again.", switchOn, {
    body: TargetChangeSchema,
    responseFields: ["provider"],
  }),
  route("GET", "models", "Models and their targets.", models, { responseFields: ["models"] }),
  route("GET", "clients", "Configuration of each client.", clients, { responseFields: ["listen", "clients"] }),
  route("GET", "config", "gateway.yaml as loaded, with secrets masked.", config, {
    responseFields: [
      "file",
      "loaded?",
      "generation?",
      "text",
      "settings",
      "chains",
      "paths",
      "plugins",
      "warnings",
      "restart",
    ],
  }),
  route("GET", "config/diff", "What a reload would change.", diff, {
    responseFields: ["changes", "restart", "notices"],
  }),
  route("POST", "explain", "How a request would be handled; no provider is called.", handleExplain, {
    body: ExplainSchema,
  }),
  route("POST", "reload", "Reloads gateway.yaml.", reload, {
    ...{ body: Reload, responseFields: ["changes", "restart", "notices", "generation"] },
  }),
  route("GET", "generations", "Loaded configurations (generations).", generations, { responseFields: ["generations"] }),
  route("GET", "audit", "Who changed what, newest first.", audit, {
    query: PAGE,
    responseFields: ["entries", "next?"],
  }),
];

/**
 * Returns the route for a method and path; undefined: there is none for that path.
 * @throws AdminError where the path has other methods
 */
export function findRoute(method: string, path: string): { route: AdminRoute; names: string[] } | undefined {
  const found = ROUTES.filter((each) => each.pattern.test(path));
  if (found.length === 0) return undefined;
  const chosen = found.find((each) => each.method === method);
  if (!chosen) {
    const methods = found.map((each) => each.method);
    const allow = methods.flatMap((each) => (each === "GET" ? ["GET", "HEAD"] : [each]));
    throw new AdminError("method_not_allowed", `Only ${methods.join(", ")} is answered here.`, { allow });
  }
  return { route: chosen, names: [...(chosen.pattern.exec(path) ?? [])].slice(1).map(decodeSegment) };
}

function decodeSegment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AdminError("bad_request", "The path has a broken escape.");
  }
}

/** Asks all serving processes, and returns the answer of one. @throws AdminError where none serves */
async function askFirst<Answer>(gateway: AdminGateway, question: Question<null, Answer>): Promise<Answer> {
  const [answer] = await gateway.askAll(question, null);
  if (answer === undefined) throw new AdminError("failed", "No process serves at the moment.");
  return answer;
}

async function allProviders(gateway: AdminGateway): Promise<AdminResponse> {
  return { body: { providers: await shownProviders(gateway) } };
}

async function diff(gateway: AdminGateway): Promise<AdminResponse> {
  return { body: await withProblems(() => gateway.compare()) };
}

async function live(gateway: AdminGateway) {
  const all = await gateway.askAll(LIVE_REQUESTS, null);
  return all.flat().sort((a, b) => a.time - b.time);
}

async function cancel(gateway: AdminGateway, { names: [id = ""] }: AdminRequest): Promise<AdminResponse> {
  const ended = await gateway.askAll(CANCEL, id);
  if (!ended.includes(true)) throw new AdminError("not_found", "No running request has this id: it may have ended.");
  return { audit: { action: "requests.cancel", subject: id, detail: {} } };
}

const MAX_LIMIT = 1000;
/** Limit of rows that one search reads. */
const MAX_ROWS_READ = 200_000;

/** Parses a whole number from the query. @throws AdminError */
function numberParameter(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new AdminError("bad_request", `${name} takes a whole number.`);
  return Number(text);
}

async function requests({ stores, config }: AdminGateway, { query }: AdminRequest): Promise<AdminResponse> {
  const limit = Math.min(numberParameter(query, "limit") ?? 100, MAX_LIMIT);
  const search: LedgerSearch = { limit: limit + 1, ...querySpan(query, config.timezone) };
  for (const field of TEXT_FILTERS) {
    const value = query.get(field);
    if (value !== null && value !== "") search[field] = value;
  }
  for (const name of (query.get("without") ?? "").split(",").filter((each) => each !== "")) {
    const field = WITHOUT.find((each) => each === name);
    if (!field) throw new AdminError("bad_request", `without takes any of ${WITHOUT.join(", ")}, not ${name}.`);
    if (search[field]) throw new AdminError("bad_request", `Use either ${name} or without=${name}, not both.`);
    search[field] = "";
  }
  if (search.outcome !== undefined && !OUTCOMES.includes(search.outcome))
    throw new AdminError("bad_request", `outcome takes one of ${OUTCOMES.join(", ")}.`);
  // The ledger has the ids of keys, and people know their names.
  if (search.key) search.key = (await stores.keys.show(search.key))?.id ?? search.key;
  const status = query.get("status");
  if (status) search.status = parseStatusRange(status);
  for (const [name, field] of BOUNDS) {
    const value = numberParameter(query, name);
    if (value !== undefined) search[field] = value;
  }
  const before = query.get("before");
  if (before) search.before = parsePosition(before);
  // A filter that matches few rows would read the whole ledger: a search reads a limited number, and returns where to continue.
  const oldest = [...FILTERS, ...BOUNDS.map(([, field]) => field)].some((field) => search[field] !== undefined)
    ? await stores.ledger.reach(search, MAX_ROWS_READ)
    : 0;
  if (oldest === undefined) return { body: { requests: [] } };
  const found = await stores.ledger.search({ ...search, since: Math.max(search.since ?? 0, oldest) });
  const last = found.length > limit ? found[limit - 1] : undefined;
  const next = last ? `${last.time}_${last.id}` : oldest > 0 ? `${oldest}_` : undefined;
  return { body: { requests: found.slice(0, limit), ...(next !== undefined && { next }) } };
}

/** @throws AdminError */
function parsePosition(text: string): NonNullable<LedgerSearch["before"]> {
  const [, time, id] = /^(\d{1,15})_(.*)$/.exec(text) ?? [];
  if (time === undefined || id === undefined)
    throw new AdminError("bad_request", "before takes the next of the answer before, as it is.");
  return { time: Number(time), id };
}

/** @throws AdminError */
function parseStatusRange(text: string): [number, number] {
  const [, digit, rest] = /^([1-5])(\d\d|xx)$/.exec(text) ?? [];
  if (digit === undefined)
    throw new AdminError("bad_request", "status takes one of 100 to 599 like 429, or 1xx to 5xx.");
  return rest === "xx" ? [Number(digit) * 100, Number(digit) * 100 + 99] : [Number(text), Number(text)];
}

async function request(gateway: AdminGateway, { names: [id = ""] }: AdminRequest): Promise<AdminResponse> {
  const [found, running] = await Promise.all([find(gateway, id), live(gateway)]);
  const current = running.find((each) => each.id === id);
  if (!found && !current) throw new AdminError("not_found", "No such request.");
  return { body: { ...(found && { request: found }), ...(current && { live: current }) } };
}

/** Recorded bodies are confidential: each access goes to the audit trail. */
async function recorded(gateway: AdminGateway, { names: [id = ""] }: AdminRequest): Promise<AdminResponse> {
  const found = (await gateway.askAll(RECORDED, id)).find((each) => each !== null);
  if (!found) throw new AdminError("not_found", "This request was not recorded, or its recording has expired.");
  return { body: { recorded: found }, audit: { action: "requests.recorded", subject: id, detail: {} } };
}

const find = async ({ stores }: AdminGateway, id: string): Promise<LedgerEntry | undefined> =>
  (await stores.ledger.search({ id, limit: 1 }))[0];

async function speed({ stores, config }: AdminGateway, { query }: AdminRequest): Promise<AdminResponse> {
  const by = query.get("by") ?? "target";
  if (!SPEEDS.includes(by as SpeedGroup)) throw new AdminError("bad_request", "by takes model, target or key.");
  const span = querySpan(query, config.timezone);
  const rows = await stores.ledger.speeds(span, by as SpeedGroup);
  return { body: { ...span, by, rows: rows.map(speedFields) } };
}

async function errors({ stores, config }: AdminGateway, { query }: AdminRequest): Promise<AdminResponse> {
  const span = querySpan(query, config.timezone);
  const { exchanges, attempts } = await stores.ledger.failures(span);
  return { body: { ...span, rows: exchanges, attempts } };
}

async function models(gateway: AdminGateway): Promise<AdminResponse> {
  const all = await askFirst(gateway, MODELS);
  const { written } = gateway.config;
  return { body: { models: all.map((model) => ({ ...model, written: written.models.get(model.id) ?? {} })) } };
}

async function config(gateway: AdminGateway): Promise<AdminResponse> {
  const { config, reloads } = gateway;
  const { text, masked } = config;
  const [[serving], plugins] = await Promise.all([askFirst(gateway, GENERATIONS), askFirst(gateway, PLUGINS)]);
  const restart = await gateway.awaitingRestart().catch(() => []);
  return {
    body: {
      file: config.file,
      loaded: serving?.since,
      generation: serving?.number,
      text: starSecrets(masked, [...configSecrets(config, process.env), ...findSecrets(text)]),
      settings: redactedSettings(config),
      chains: Object.fromEntries(config.chains),
      paths: config.paths,
      plugins,
      warnings: config.notices,
      restart,
      reload: reloads.last,
    },
  };
}

/** @throws AdminError with the problems of the file */
async function withProblems<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (thrown) {
    throw new AdminError("refused", formatError(thrown), { problems: errorProblems(thrown) });
  }
}

/** Writes no audit entry here: `reload` writes one itself, as for every reload. */
async function reload(gateway: AdminGateway, { user, body }: AdminRequest): Promise<AdminResponse> {
  const { user: cliUser } = parseBody(Reload, body);
  const { who, address } = user;
  const by = { who, address, ...(cliUser !== undefined && { detail: { cli: cliUser } }) };
  return { body: await withProblems(() => gateway.reload(by)) };
}

async function generations(gateway: AdminGateway): Promise<AdminResponse> {
  const all = await gateway.askAll(GENERATIONS, null);
  return { body: { generations: all.flat().sort((a, b) => b.number - a.number) } };
}

async function audit({ stores }: AdminGateway, { query }: AdminRequest): Promise<AdminResponse> {
  const limit = Math.min(numberParameter(query, "limit") ?? 100, MAX_LIMIT);
  const entries = await stores.audit.list(limit, numberParameter(query, "before"));
  const last = entries.length === limit ? entries.at(-1) : undefined;
  return { body: { entries, ...(last && { next: last.id }) } };
}
