import { setTimeout as sleep } from "node:timers/promises";
import { nearest } from "../config/suggest.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger, LedgerEntry } from "../store/ledger.ts";
import { UsageError } from "../text/format-error.ts";
import { formatCost, formatUtc, printable } from "../text/table.ts";
import { COMMAND, parsePastOption, parseVerbArguments, type Terminal } from "./verb.ts";

const OPTIONS = {
  key: { type: "string" },
  model: { type: "string" },
  status: { type: "string" },
  since: { type: "string" },
  once: { type: "boolean" },
  json: { type: "boolean" },
} as const;

/** Milliseconds between polls. */
const POLL_INTERVAL = 500;
/** Milliseconds: how late a row may be found after its request has ended. */
const MAX_LATENESS = 3_600_000;
/** Milliseconds for which a poll looks back at least, and at most: a row has the time at which its request began. */
const [MIN_LOOK_BACK, MAX_LOOK_BACK] = [60_000, 86_400_000];

/** Polls after which ids of requests that are not looked for any more are removed. */
const POLLS_PER_CLEANING = 120;

/** What gateway.yaml says that concerns requests. */
interface TailConfig {
  /** The time zone of days. */
  zone(): string;
  /** Undefined: gateway.yaml is invalid. */
  models(): readonly { readonly id: string; readonly aliases: readonly string[] }[] | undefined;
}

/** Runs the verb `tail`. Returns the exit code. @param signal ends it @throws UsageError */
export async function runTail(
  args: readonly string[],
  io: Terminal,
  { keys, ledger }: { keys: Keys; ledger: Ledger },
  { zone, models }: TailConfig,
  signal = new AbortController().signal,
): Promise<number> {
  const { since, pattern, once, json, ...named } = parseTailArguments(args, zone);
  const names = new Map((await keys.list()).map(({ id, name }) => [id, name]));
  const key = named.key === undefined ? undefined : findKeyIds(named.key, names);
  const model = named.model === undefined ? undefined : await findModelId(named.model, models(), ledger);
  const began = Date.now();
  const from = since ?? began - MAX_LATENESS;
  /** When requests that have been found ended, by their ids. */
  const seen = new Map<string, number>();
  for (let poll = 0; !signal.aborted; poll++) {
    const now = Date.now();
    for await (const entry of ledger.entries({ since: poll === 0 ? from : now - lookBack(poll) })) {
      const end = entry.time + entry.duration;
      if (seen.has(entry.id) || (poll > 0 && end < now - MAX_LATENESS)) continue;
      seen.set(entry.id, end);
      // Earlier requests are shown only with an option for them.
      if (poll === 0 ? since === undefined && !once : entry.time < from && end < began) continue;
      if (key !== undefined && !key.has(entry.key)) continue;
      if (model !== undefined && entry.model !== model) continue;
      if (pattern && !pattern.test(String(entry.status))) continue;
      io.out(json ? JSON.stringify(entry) : entryText(entry, names.get(entry.key)));
    }
    if (once) break;
    if (poll % POLLS_PER_CLEANING === 0) for (const [id, end] of seen) if (end < now - MAX_LATENESS) seen.delete(id);
    await sleep(POLL_INTERVAL, undefined, { signal }).catch(() => {});
  }
  return 0;
}

/**
 * Returns for how many milliseconds a poll looks back: each second one twice as far, each fourth four times, and so on. So a
 * request is found within a hundredth of its duration, and polls do not read all rows since the start.
 * @param poll from 1 on
 */
const lookBack = (poll: number): number => Math.min(MAX_LOOK_BACK, MIN_LOOK_BACK * (poll & -poll));

/** Parses the arguments of `tail`, except for whether key and model exist, which needs the store. @throws UsageError */
export function parseTailArguments(args: readonly string[], zone: () => string) {
  const { values } = parseVerbArguments(args, OPTIONS);
  const { status } = values;
  if (status !== undefined && !/^[1-5](?:\d\d|xx)$/.test(status))
    throw new UsageError(`--status ${status}: write one of 100 to 599 like 429, or 1xx to 5xx.`);
  const pattern = status === undefined ? undefined : new RegExp(`^${status.replace("xx", "..")}$`);
  return { ...values, pattern, since: parsePastOption("--since", values.since, zone) };
}

/** Returns the ids of the keys with that name or id. @throws UsageError if there are none */
function findKeyIds(named: string, names: ReadonlyMap<string, string>): Set<string> {
  const found = [...names].flatMap(([id, name]) => (id === named || name === named ? [id] : []));
  if (found.length > 0) return new Set(found);
  const near = nearest(named, names.values());
  const hint = near === undefined ? `see ${COMMAND} keys list` : `did you mean "${near}"?`;
  throw new UsageError(`--key: there is no key "${named}"; ${hint}`);
}

/**
 * Returns the id of a model by its id or another name of it. Models that gateway.yaml has no longer may have requests.
 * @throws UsageError if there is none
 */
async function findModelId(
  named: string,
  models: ReturnType<TailConfig["models"]>,
  ledger: Pick<Ledger, "sums">,
): Promise<string> {
  const found = models?.find(({ id, aliases }) => id === named || aliases.includes(named));
  if (!models || found) return found?.id ?? named;
  const used = (await ledger.sums({ by: ["model"] })).flatMap(({ group }) => group);
  if (used.includes(named)) return named;
  const near = nearest(named, [...models.map(({ id }) => id), ...used]);
  const hint = near === undefined ? `see ${COMMAND} models` : `did you mean "${near}"?`;
  throw new UsageError(`--model: there is no model "${named}"; ${hint}`);
}

function entryText(entry: LedgerEntry, name: string | undefined): string {
  const { time, status, outcome, key, model, target, duration, usage, cost, id } = entry;
  const tokens = usage ? `${usage.in.total ?? "-"} → ${usage.out.total ?? "-"} tokens` : "no tokens";
  const money = cost === undefined ? "unpriced" : formatCost(cost);
  return [
    formatUtc(time),
    status,
    outcome.padEnd(14),
    name ?? (key || "-"),
    `${model || "-"} at ${target || "-"}`,
    `${duration} ms`,
    tokens,
    money,
    id,
  ]
    .map((word) => printable(String(word)))
    .join("  ");
}
