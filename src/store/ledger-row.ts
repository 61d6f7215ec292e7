import type { SQLInputValue, SQLOutputValue } from "node:sqlite";
import type { Outcome } from "../core/exchange.ts";
import type { Usage } from "../core/usage.ts";
import type { LedgerEntry } from "./ledger.ts";

/** Columns of the table `usage_kind` that tell what many exchanges have in common. */
export const KIND = [
  ...["key", "model", "target", "protocol", "operation", "status", "outcome", "streaming", "source"],
  "price",
] as const;

/** Columns of the table `usage` besides `kind`. */
export const COLUMNS = [
  ...["id", "time", "attempts", "first_byte", "duration", "cost", "tokens_in", "cached", "tokens_out", "reasoning"],
  "detail",
] as const;

/** Columns of the table `usage_holder`. */
export const HOLDER = ["group_path", "tags"] as const;

type Column = (typeof KIND)[number] | (typeof COLUMNS)[number] | (typeof HOLDER)[number];

/** What stands in a column: finite numbers only. */
export type Cell = string | number | null;

/** What is bound to inserts, in the order of `KIND` and of `COLUMNS`. */
export interface Row {
  kind: readonly Cell[];
  values: readonly Cell[];
  /** In the order of `HOLDER`; absent: neither. */
  holder?: readonly [group: string, tags: string];
  /** What the usage belongs to that counts once, and the row for when it has been counted. */
  once?: { readonly name: string; readonly counted: Row };
}

/**
 * A row of an entry as it is now. Numbers that are none become null, so that no entry is refused for one of them. Runs
 * once for each exchange while others wait: a usual entry makes no text.
 */
export function rowOf(entry: LedgerEntry): Row {
  const { usage, once } = entry;
  const row: Row = {
    kind: kindOf(entry),
    values: [
      entry.id,
      whole(entry.time),
      onlyStart(entry) ?? JSON.stringify(entry.attempts),
      tenth(entry.firstByte),
      tenth(entry.duration) ?? 0,
      whole(entry.cost),
      whole(usage?.in.total),
      whole(usage?.in.cached),
      whole(usage?.out.total),
      whole(usage?.out.reasoning),
      detailOf(entry),
    ],
  };
  if (entry.group !== undefined || entry.tags) row.holder = holderOf(entry.group ?? "", tagsText(entry.tags));
  if (once !== undefined) {
    const { once: _, ...again } = { ...entry, usage: { in: {}, out: {}, raw: undefined }, cost: 0 };
    row.once = { name: once, counted: rowOf(again) };
  }
  return row;
}

/** Kinds that were met last, each in a place of its own, as many as a busy gateway has; entries of one kind share its list. */
const PLACES = 256;
const kinds: Row["kind"][] = [];

function kindOf(entry: LedgerEntry): Row["kind"] {
  const { key, model, target, protocol, operation, outcome, source, price = "" } = entry;
  const status = whole(entry.status);
  const streaming = entry.streaming ? 1 : 0;
  const at = (key.length + 3 * model.length + 7 * target.length + 31 * outcome.length + (status ?? 0)) & (PLACES - 1);
  const known = kinds[at];
  if (
    known &&
    known[0] === key &&
    known[1] === model &&
    known[2] === target &&
    known[3] === protocol &&
    known[4] === operation &&
    known[5] === status &&
    known[6] === outcome &&
    known[7] === streaming &&
    known[8] === source &&
    known[9] === price
  )
    return known;
  const made = [key, model, target, protocol, operation, status, outcome, streaming, source, price];
  kinds[at] = made;
  return made;
}

/** The holder that was met last: many entries in a row have the same. */
let lastHolder: NonNullable<Row["holder"]> = ["", ""];

function holderOf(group: string, tags: string): NonNullable<Row["holder"]> {
  if (group !== lastHolder[0] || tags !== lastHolder[1]) lastHolder = [group, tags];
  return lastHolder;
}

const texts = new WeakMap<object, string>();

/** Tags as they are kept: in the order of their names, so that equal ones are the same text. */
function tagsText(tags: LedgerEntry["tags"]): string {
  if (!tags) return "";
  let text = texts.get(tags);
  if (text === undefined) {
    const names = Object.keys(tags).sort();
    text = names.length === 0 ? "" : JSON.stringify(Object.fromEntries(names.map((name) => [name, tags[name]])));
    texts.set(tags, text);
  }
  return text;
}

const ATTEMPTS = COLUMNS.indexOf("attempts");
const DETAIL = COLUMNS.indexOf("detail");

/** About the bytes that a waiting row takes. */
export function size({ values }: Row): number {
  return 500 + length(values[ATTEMPTS]) + length(values[DETAIL]);
}

/** The entry of a row that is not in the store yet. */
export function entryIn({ kind, values, holder = ["", ""] }: Row): LedgerEntry {
  const columns = (names: readonly string[], bound: readonly SQLInputValue[]) =>
    names.map((name, at) => [name, bound[at] ?? null] as const);
  const row = [...columns(KIND, kind), ...columns(COLUMNS, values), ...columns(HOLDER, holder)];
  return entryOf(Object.fromEntries(row) as Record<string, SQLOutputValue>);
}

/** The entry that a row, its kind and its holder were made of, except for the vendor's own usage object. */
export function entryOf(row: Record<string, SQLOutputValue>): LedgerEntry {
  const text = (column: Column) => String(row[column]);
  const number = (column: Column) => (row[column] === null ? undefined : Number(row[column]));
  const entry: LedgerEntry = {
    id: text("id"),
    time: Number(row["time"]),
    key: text("key"),
    model: text("model"),
    target: text("target"),
    protocol: text("protocol"),
    operation: text("operation"),
    status: Number(row["status"]),
    outcome: text("outcome") as Outcome,
    streaming: row["streaming"] === 1,
    attempts: [],
    duration: Number(row["duration"]),
    source: text("source") as LedgerEntry["source"],
  };
  if (row["group_path"]) entry.group = text("group_path");
  if (row["tags"]) entry.tags = JSON.parse(text("tags")) as Record<string, string>;
  const attempts: unknown = JSON.parse(text("attempts"));
  entry.attempts =
    typeof attempts === "number"
      ? [{ target: entry.target, status: entry.status, startedAt: attempts }]
      : (attempts as LedgerEntry["attempts"]);
  const firstByte = number("first_byte");
  if (firstByte !== undefined) entry.firstByte = firstByte;
  const cost = number("cost");
  if (cost !== undefined) entry.cost = cost;
  if (row["price"]) entry.price = text("price");
  if (row["detail"] === null) return entry;
  const { bytes, address, error, dropped, notices, known, ...detail } = JSON.parse(text("detail")) as Partial<Usage> &
    Besides & { known?: false };
  if (bytes) entry.bytes = bytes;
  if (address !== undefined) entry.address = address;
  if (error) entry.error = error;
  if (dropped) entry.dropped = dropped;
  if (notices) entry.notices = notices;
  if (known === false || entry.source === "none") return entry;
  entry.usage = {
    ...detail,
    in: present({ total: number("tokens_in"), cached: number("cached"), ...detail.in }),
    out: present({ total: number("tokens_out"), reasoning: number("reasoning"), ...detail.out }),
    raw: undefined,
  };
  return entry;
}

/** What of usage may be charged under another name: what ran, drew or was searched besides, and who served it. */
export const BILLED_APART = ["besides", "drawn", "serverTools", "model"] as const satisfies (keyof Usage)[];

/** Whether a vendor may charge an entry's usage under more names than that of the model that was asked. */
export const isBilledApart = ({ usage }: LedgerEntry): boolean =>
  usage !== undefined && BILLED_APART.some((name) => usage[name] !== undefined);

/** When the only attempt started that the row itself tells of: most exchanges have one attempt, and it succeeds. */
function onlyStart({ attempts, target, status }: LedgerEntry): number | undefined {
  const [only] = attempts;
  if (
    only === undefined ||
    attempts.length > 1 ||
    only.error !== undefined ||
    only.credential !== undefined ||
    only.queue !== undefined ||
    only.connect !== undefined ||
    !Number.isFinite(only.startedAt)
  )
    return;
  return only.target === target && only.status === status ? only.startedAt : undefined;
}

/** What of an entry stands beside its usage in `detail`. */
type Besides = Pick<LedgerEntry, "bytes" | "address" | "error" | "dropped" | "notices">;

/** What has no column of its own, as JSON. */
function detailOf({ usage, bytes, address, error, dropped, notices }: LedgerEntry): string | null {
  if (!usage) {
    const some = bytes || address !== undefined || error || dropped || notices;
    return some ? JSON.stringify({ bytes, address, error, dropped, notices, known: false }) : null;
  }
  const { in: input, out: output, serverTools, tier, images, drawn, model, besides, providerCost } = usage;
  const rest: Record<string, unknown> = {};
  if (bytes) rest["bytes"] = bytes;
  if (address !== undefined) rest["address"] = address;
  if (error) rest["error"] = error;
  if (dropped) rest["dropped"] = dropped;
  if (notices) rest["notices"] = notices;
  const restIn = others(input, "total", "cached");
  if (restIn) rest["in"] = restIn;
  const restOut = others(output, "total", "reasoning");
  if (restOut) rest["out"] = restOut;
  if (serverTools) rest["serverTools"] = serverTools;
  if (tier !== undefined) rest["tier"] = tier;
  if (images) rest["images"] = images;
  if (drawn) rest["drawn"] = drawn;
  if (model !== undefined) rest["model"] = model;
  if (besides) rest["besides"] = besides;
  if (providerCost !== undefined) rest["providerCost"] = providerCost;
  return JSON.stringify(rest);
}

/** The members but these two; undefined where there are no others. */
function others(members: Record<string, unknown>, one: string, two: string): Record<string, unknown> | undefined {
  let rest: Record<string, unknown> | undefined;
  for (const name in members) {
    if (name === one || name === two) continue;
    rest ??= {};
    rest[name] = members[name];
  }
  return rest;
}

/** The members that are there. */
function present<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function whole(number: number | undefined): number | null {
  if (number === undefined || !Number.isFinite(number)) return null;
  return Math.round(Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER));
}

/** Milliseconds with one decimal. */
function tenth(number: number | undefined): number | null {
  return number === undefined || !Number.isFinite(number) ? null : Math.round(number * 10) / 10;
}

const length = (value: SQLInputValue | undefined): number => (typeof value === "string" ? value.length : 0);
