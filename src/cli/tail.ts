import { setTimeout as sleep } from "node:timers/promises";
import { nearest } from "../config/suggest.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger, LedgerEntry } from "../store/ledger.ts";
import { Misuse } from "../text/reason.ts";
import { dollars, utc } from "../text/table.ts";
import { past } from "../text/when.ts";
import { argumentsOf, COMMAND, type Terminal } from "./verb.ts";

const OPTIONS = {
  key: { type: "string" },
  model: { type: "string" },
  status: { type: "string" },
  since: { type: "string" },
  once: { type: "boolean" },
  json: { type: "boolean" },
} as const;

/** Milliseconds between polls. */
const LOOK = 500;
/** Maximum milliseconds of a request's duration: rows of longer ones are not found. */
const LONGEST = 3_600_000;

/** Runs the verb `tail`. Returns the exit code. @param zone the time zone of days @param signal ends it @throws Misuse */
export async function run(
  args: readonly string[],
  io: Terminal,
  { keys, ledger }: { keys: Keys; ledger: Ledger },
  zone = () => "UTC",
  signal = new AbortController().signal,
): Promise<number> {
  const { values } = argumentsOf(args, OPTIONS);
  const { status, model, json, once } = values;
  if (status !== undefined && !/^\d(?:\d\d|xx)$/.test(status))
    throw new Misuse(`--status ${status}: like 429, 4xx or 5xx.`);
  const pattern = status === undefined ? undefined : new RegExp(`^${status.replace("xx", "..")}$`);
  const names = new Map((await keys.list()).map(({ id, name }) => [id, name]));
  const key = values.key === undefined ? undefined : idsOf(values.key, names);
  const since = values.since === undefined ? undefined : sinceOf(values.since, zone);
  const began = Date.now();
  const seen = new Set<string>();
  for (let first = true; !signal.aborted; first = false) {
    for await (const entry of ledger.entries({ since: since ?? began - LONGEST })) {
      if (seen.has(entry.id)) continue;
      seen.add(entry.id);
      // Earlier requests are shown only with an option for them.
      if (first && since === undefined && !once) continue;
      if (key !== undefined && !key.has(entry.key)) continue;
      if (model !== undefined && entry.model !== model) continue;
      if (pattern && !pattern.test(String(entry.status))) continue;
      io.out(json ? JSON.stringify(entry) : lineOf(entry, names.get(entry.key)));
    }
    if (once) break;
    await sleep(LOOK, undefined, { signal }).catch(() => {});
  }
  return 0;
}

/** Returns the ids of the keys with that name or id. @throws Misuse if there are none */
function idsOf(named: string, names: ReadonlyMap<string, string>): Set<string> {
  const found = [...names].flatMap(([id, name]) => (id === named || name === named ? [id] : []));
  if (found.length > 0) return new Set(found);
  const near = nearest(named, names.values());
  const hint = near === undefined ? `see ${COMMAND} keys list` : `did you mean "${near}"?`;
  throw new Misuse(`--key: there is no key "${named}"; ${hint}`);
}

/** @throws Misuse */
function sinceOf(text: string, zone: () => string): number {
  try {
    return past(text, Date.now(), zone);
  } catch (thrown) {
    throw new Misuse(`--since: ${(thrown as Error).message}`);
  }
}

function lineOf(entry: LedgerEntry, name: string | undefined): string {
  const { time, status, outcome, key, model, target, duration, usage, cost, id } = entry;
  const tokens = usage ? `${usage.in.total ?? "-"} → ${usage.out.total ?? "-"} tokens` : "no tokens";
  const money = cost === undefined ? "unpriced" : dollars(cost);
  return [
    utc(time),
    status,
    outcome.padEnd(14),
    name ?? (key || "-"),
    `${model || "-"} at ${target || "-"}`,
    `${duration} ms`,
    tokens,
    money,
    id,
  ].join("  ");
}
