import { Days } from "../core/calendar.ts";
import { GATEWAY_VERSION } from "../core/version.ts";
import { unwrittenText } from "../store/journal/journal.ts";
import type { LedgerSpeed } from "../store/ledger.ts";
import { HOUR } from "../store/ledger-sums.ts";
import { NEARLY_SPENT } from "../store/limit-results.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { limitStatuses } from "./budgets.ts";
import { shownProviders } from "./providers.ts";
import { GENERATIONS, LIVE_REQUESTS } from "./questions.ts";
import { UNKNOWN_STATE } from "./readiness.ts";
import { precedingSpan } from "./span.ts";

const STARTED = Date.now();

/** A condition that needs an operator. */
interface Attention {
  readonly kind: "provider" | "target" | "budget" | "ledger" | "reload" | "workers";
  readonly name: string;
  readonly message: string;
  /** Nothing fails because of it, as of a budget that only warns. */
  readonly warning?: true;
}

/** Returns the data of the console's first page; without the ledger's figures where it cannot be queried. */
export async function overview(gateway: AdminGateway): Promise<object> {
  const time = Date.now();
  const [live, [generations = []], found, attention] = await Promise.all([
    gateway.askAll(LIVE_REQUESTS, null),
    gateway.askAll(GENERATIONS, null),
    ledgerFigures(gateway, time).catch(() => undefined),
    attentionItems(gateway),
  ]);
  if (!found) attention.unshift(LEDGER_UNAVAILABLE);
  const running = live.flat();
  const kinds = (kind: string) => running.filter((each) => each.kind === kind).length;
  const { ready, parts } = gateway.readiness();
  return {
    ...{ time, started: STARTED, version: GATEWAY_VERSION, ready, parts },
    ...{ running: running.length, streams: kinds("stream"), sockets: kinds("socket") },
    ...found,
    generation: generations[0]?.number,
    reload: gateway.reloads.last,
    attention,
  };
}

const LEDGER_UNAVAILABLE: Attention = {
  kind: "ledger",
  name: "store",
  message: "The ledger does not respond: the figures of the last hour and of money are missing.",
};

/** Returns the ledger's figures for the last hour and for spending. */
async function ledgerFigures({ config, stores: { ledger } }: AdminGateway, time: number): Promise<object> {
  const days = new Days(config.timezone);
  const [today, yesterday] = [days.today(time), days.yesterday(time)];
  const byNow = precedingSpan(new URLSearchParams({ since: "today" }), config.timezone, time);
  const hour = { since: time - HOUR, until: time + 1 };
  const sum = async (since: number, until = time + 1) => (await ledger.sums({ since, until, by: [] }))[0];
  const [minute, sums, failures, speeds, spentToday, spentByNow, spentYesterday] = await Promise.all([
    sum(time - 60_000),
    sum(hour.since),
    ledger.failures(hour),
    ledger.speeds(hour),
    sum(today),
    sum(byNow.since, byNow.until),
    sum(yesterday, today),
  ]);
  const { exchanges, attempts } = failures;
  const failed = (which: (each: (typeof exchanges)[number]) => boolean) =>
    exchanges.filter(which).reduce((sum, { requests }) => sum + requests, 0);
  const { requests = 0, failed: all = 0 } = sums ?? {};
  return {
    requests_per_second: Math.round((minute?.requests ?? 0) / 6) / 10,
    last_hour: {
      ...{ requests, failed: all },
      // An exchange that a stop interrupted is neither the provider's fault nor the client's.
      ours: failed(({ outcome }) => outcome === "failed" || outcome === "interrupted"),
      upstream: failed(({ outcome, status }) => outcome === "upstream_error" && !isRequestFault(status)),
      refused_there: failed(({ outcome, status }) => outcome === "upstream_error" && isRequestFault(status)),
      limited_here: failed(
        ({ status, target, outcome }) => status === 429 && (target === "" || outcome === "rejected"),
      ),
      // Also counts attempts that were followed by a successful one.
      limited_there: attempts.reduce((sum, { status, attempts }) => sum + (status === 429 ? attempts : 0), 0),
    },
    first_byte: speeds[0]?.firstByte,
    tokens_per_second: speeds[0]?.tokensPerSecond,
    spend: {
      today: spentToday?.cost ?? 0,
      yesterday_by_now: spentByNow?.cost ?? 0,
      yesterday: spentYesterday?.cost ?? 0,
    },
  };
}

/** Reports whether a provider's status concerns the request itself: not our account there, and not a timeout. */
const isRequestFault = (status: number): boolean =>
  status >= 400 && status < 500 && ![401, 402, 403, 408, 429].includes(status);

/** Formats speeds for the API. */
export const speedFields = ({ name, requests, firstByte, tokensPerSecond, duration }: LedgerSpeed) => ({
  ...{ name, requests, duration },
  first_byte: firstByte,
  tokens_per_second: tokensPerSecond,
});

const SWITCHED_OFF =
  "It was switched off by an admin, until it is switched on or this gateway starts anew. Other gateways with the same store still send requests there.";

/** Returns the conditions that need an operator, worst first. */
export async function attentionItems(gateway: AdminGateway): Promise<Attention[]> {
  const { reloads } = gateway;
  const found: Attention[] = [];
  if (reloads.last?.problem !== undefined)
    found.push({ kind: "reload", name: "gateway.yaml", message: reloads.last.problem });
  const { store = "ok" } = gateway.readiness().parts;
  const { unwritten } = gateway;
  if (unwritten) found.push({ kind: "ledger", name: "journal", message: unwrittenText(unwritten) });
  else if (store !== "ok" && store !== UNKNOWN_STATE)
    found.push({
      kind: "ledger",
      name: "store",
      message: "The ledger cannot be written: its rows wait in the journal until it can.",
    });
  const { wanted = 0, up = 0, deaths = 0 } = gateway.workerCounts ?? {};
  if (up < wanted)
    found.push({
      kind: "workers",
      name: "missing",
      message: `${up} of ${wanted} serve; ${deaths} have died since the start: see the log for the reasons.`,
    });
  for (const provider of await shownProviders(gateway)) {
    const { name, off, credentials, targets } = provider;
    if (off !== undefined) found.push({ kind: "provider", name, message: `It is off: ${off}.` });
    if (provider.switched_off) found.push({ kind: "provider", name, message: SWITCHED_OFF });
    for (const { label, state } of credentials)
      if (state === "refused")
        found.push({ kind: "provider", name, message: `It does not accept the credential ${label}.` });
    for (const { model, state, switched_off: off } of targets)
      if (off) found.push({ kind: "target", name: `${name}:${model}`, message: SWITCHED_OFF });
      else if (state === "open" || state === "half-open") {
        const next = state === "open" ? "and is suspended" : "and is tried with the next request";
        found.push({ kind: "target", name: `${name}:${model}`, message: `It fails too often, ${next}.` });
      }
  }
  found.push(
    ...(await nearlySpentBudgets(gateway).catch((): Attention[] => [
      { kind: "ledger", name: "store", message: "The state of the budgets is unknown: the store does not respond." },
    ])),
  );
  return found;
}

/** Nearly spent budgets, and until when they are not read again, in monotonic milliseconds. */
const FOUND_BUDGETS = new WeakMap<object, { readonly found: Attention[]; readonly until: number }>();
/** Milliseconds in which they are read fast, and for how many times as long as the others took they are kept. */
const [FAST_READ, KEPT_FACTOR] = [50, 20];

/** Returns nearly spent budgets. Those of tens of thousands of keys take a second to read, and the console asks every three. */
async function nearlySpentBudgets(gateway: AdminGateway): Promise<Attention[]> {
  const began = performance.now();
  const known = FOUND_BUDGETS.get(gateway.config);
  if (known && began < known.until) return known.found;
  const found = await findNearlySpentBudgets(gateway);
  const took = performance.now() - began;
  FOUND_BUDGETS.set(gateway.config, { found, until: began + (took < FAST_READ ? 0 : took * (KEPT_FACTOR + 1)) });
  return found;
}

async function findNearlySpentBudgets(gateway: AdminGateway): Promise<Attention[]> {
  const { config, stores } = gateway;
  const records = (await stores.keys.list()).filter(({ revoked }) => revoked === undefined);
  // Keys created at run time may have budgets of their own.
  if (config.budgets.length === 0 && !records.some(({ limits }) => limits?.budgets?.length)) return [];
  const names = new Map(records.map(({ id, name }) => [id, name]));
  const found: Attention[] = [];
  for (const { kind, name, budgets } of await limitStatuses(gateway, records))
    for (const { limit, spent, per, soft } of budgets)
      if (limit > 0 && spent >= NEARLY_SPENT * limit)
        found.push({
          kind: "budget",
          name: `${kind} ${kind === "key" ? (names.get(name) ?? name) : name}`.trim(),
          message: `${Math.floor((100 * spent) / limit)} % of its budget (${per}${soft ? ", soft" : ""}) are spent.`,
          ...(soft && { warning: true }),
        });
  return found;
}
