import type { SQLInputValue, SQLOutputValue } from "node:sqlite";
import type { Outcome } from "../core/exchange.ts";
import type { Usage } from "../core/usage.ts";
import type { LedgerEntry } from "./ledger.ts";

/** Columns of the table `usage_kind`: values that many exchanges share. */
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

/** The value of a column: finite numbers only. */
export type Cell = string | number | null;

/** The values bound to inserts, in the order of `KIND` and `COLUMNS`. */
export interface Row {
  kind: readonly Cell[];
  values: readonly Cell[];
  /** In the order of `HOLDER`; absent: neither. */
  holder?: readonly [group: string, tags: string];
  /** The name under which its usage counts once, and the row to store if that has already been counted. */
  once?: { readonly name: string; readonly counted: Row };
}

/**
 * Converts an entry to a row. Invalid numbers become null, so that no entry is refused because of one. Runs once per exchange
 * on the main thread: a typical entry needs no JSON.
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

/** A hash table of recent kinds, with as many places as a busy gateway has kinds; entries of one kind share its array. */
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

/** The last holder: consecutive entries often share it. */
let lastHolder: NonNullable<Row["holder"]> = ["", ""];

function holderOf(group: string, tags: string): NonNullable<Row["holder"]> {
  if (group !== lastHolder[0] || tags !== lastHolder[1]) lastHolder = [group, tags];
  return lastHolder;
}

const texts = new WeakMap<object, string>();

/** Serializes tags in the order of their names, so that equal tags give equal text. */
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

/** Estimates the bytes of memory that a waiting row takes. */
export function size({ values }: Row): number {
  return 500 + length(values[ATTEMPTS]) + length(values[DETAIL]);
}

/** Converts a row that is not in the store yet to an entry. */
export function entryIn({ kind, values, holder = ["", ""] }: Row): LedgerEntry {
  const columns = (names: readonly string[], bound: readonly SQLInputValue[]) =>
    names.map((name, at) => [name, bound[at] ?? null] as const);
  const row = [...columns(KIND, kind), ...columns(COLUMNS, values), ...columns(HOLDER, holder)];
  return entryOf(Object.fromEntries(row) as Record<string, SQLOutputValue>);
}

/** Converts a row joined with its kind and holder to the original entry, except for the vendor's own usage object. */
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

/**
 * Members of usage that may be billed under another name: additional models, images, server tools, and the model that actually
 * served.
 */
export const BILLED_APART = ["besides", "drawn", "serverTools", "model"] as const satisfies (keyof Usage)[];

/** Reports whether a vendor may bill an entry's usage under names besides that of the requested model. */
export const isBilledApart = ({ usage }: LedgerEntry): boolean =>
  usage !== undefined && BILLED_APART.some((name) => usage[name] !== undefined);

/** Returns the start of the only attempt if the row describes the rest of it: most exchanges have one successful attempt. */
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

/** The parts of an entry in `detail` besides its usage. */
type Besides = Pick<LedgerEntry, "bytes" | "address" | "error" | "dropped" | "notices">;

/** Serializes what has no column of its own. */
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

/** Returns the members except these two; undefined if there are no others. */
function others(members: Record<string, unknown>, one: string, two: string): Record<string, unknown> | undefined {
  let rest: Record<string, unknown> | undefined;
  for (const name in members) {
    if (name === one || name === two) continue;
    rest ??= {};
    rest[name] = members[name];
  }
  return rest;
}

/** Returns the members that are not undefined. */
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
