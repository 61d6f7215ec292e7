import type { Outcome } from "../core/exchange.ts";
import type { Usage } from "../core/usage.ts";
import { sanitizeText } from "../wire/utf8.ts";
import { dropUndefined, omit } from "../wire/values.ts";
import type { LedgerEntry } from "./ledger.ts";

/** Columns of the table `usage_kind`: values that many exchanges share. */
export const KIND_COLUMNS = [
  ...["key", "model", "target", "protocol", "operation", "status", "outcome", "streaming", "source"],
  "price",
] as const;

/** Columns of the table `usage` besides `kind`. */
export const USAGE_COLUMNS = [
  ...["id", "time", "attempts", "first_byte", "duration", "cost", "tokens_in", "cached", "tokens_out", "reasoning"],
  ...["detail", "assumed_cost"],
] as const;

/** Columns of the table `usage_holder`. */
export const HOLDER_COLUMNS = ["group_path", "tags"] as const;

type Column = (typeof KIND_COLUMNS)[number] | (typeof USAGE_COLUMNS)[number] | (typeof HOLDER_COLUMNS)[number];

/** The value of a column: finite numbers only. */
export type Cell = string | number | null;

/** The place of a row's line in a journal. */
export interface JournalPlace {
  /** The journal's name: the prefix of its files' names. */
  readonly journal: string;
  /** Positions where the line begins and ends, as `journalPosition` returns them. */
  readonly from: number;
  readonly to: number;
}

/** The values bound to inserts, in the order of `KIND_COLUMNS` and `USAGE_COLUMNS`. */
export interface UsageRow {
  kind: readonly Cell[];
  values: readonly Cell[];
  /** In the order of `HOLDER_COLUMNS`; absent: neither. */
  attribution?: readonly [group: string, tags: string];
  /** The name under which its usage counts once, and the row to store if that has already been counted. */
  once?: { readonly name: string; readonly duplicate: UsageRow };
  /** Where it was read, if that is a journal. */
  place?: JournalPlace;
}

/**
 * Converts an entry to a row. Invalid numbers become null, so that no entry is refused because of one. Runs once per exchange
 * on the main thread: a typical entry needs no JSON.
 */
export function entryToRow(entry: LedgerEntry): UsageRow {
  const { usage, once } = entry;
  const row: UsageRow = {
    kind: internKind(entry),
    values: [
      entry.id,
      toInteger(entry.time),
      soleAttemptJson(entry) ?? JSON.stringify(entry.attempts),
      roundToTenth(entry.firstByte),
      roundToTenth(entry.duration) ?? 0,
      toInteger(entry.cost),
      toInteger(usage?.in.total),
      toInteger(usage?.in.cached),
      toInteger(usage?.out.total),
      toInteger(usage?.out.reasoning),
      detailJson(entry),
      toInteger(entry.assumedCost),
    ],
  };
  if (entry.group !== undefined || entry.tags)
    row.attribution = internAttribution(entry.group ?? "", tagsText(entry.tags));
  if (once !== undefined) {
    const again = { ...entry, usage: { in: {}, out: {}, raw: undefined }, cost: 0 };
    row.once = { name: once, duplicate: entryToRow(omit(again, "once", "assumedCost")) };
  }
  return row;
}

/** Hashes a text by its length and last characters, in which ids and addresses differ. */
function hashEnd(text: string): number {
  const { length } = text;
  return length < 2 ? length : length + 5 * text.charCodeAt(length - 1) + 67 * text.charCodeAt(length - 2);
}

/** A hash table of recent kinds, with as many places as a busy gateway has kinds; entries of one kind share its array. */
const RECENT_KINDS = 256;
const recentKinds: UsageRow["kind"][] = [];

function internKind(entry: LedgerEntry): UsageRow["kind"] {
  const { key, model, target, protocol, operation, outcome, source, price = "" } = entry;
  const status = toInteger(entry.status);
  const streaming = entry.streaming ? 1 : 0;
  const at =
    (hashEnd(key) + 3 * model.length + 7 * target.length + 31 * outcome.length + (status ?? 0)) & (RECENT_KINDS - 1);
  const known = recentKinds[at];
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
  recentKinds[at] = made;
  return made;
}

/** A hash table of recent holders; entries of one holder share its array. */
const RECENT_HOLDERS = 256;
const recentHolders: NonNullable<UsageRow["attribution"]>[] = [];

function internAttribution(group: string, tags: string): NonNullable<UsageRow["attribution"]> {
  const at = (hashEnd(group) + 7 * tags.length) & (RECENT_HOLDERS - 1);
  const known = recentHolders[at];
  if (known && known[0] === group && known[1] === tags) return known;
  const made = [group, tags] as const;
  recentHolders[at] = made;
  return made;
}

const tagTexts = new WeakMap<object, string>();

/** Serializes tags in the order of their names, so that equal tags give equal text. A plugin may have made them of any text. */
function tagsText(tags: LedgerEntry["tags"]): string {
  if (!tags) return "";
  return tagTexts.getOrInsertComputed(tags, () => {
    const names = Object.keys(tags).sort();
    const tagMember = (name: string) => [sanitizeText(name), sanitizeText(String(tags[name]))];
    return names.length === 0 ? "" : JSON.stringify(Object.fromEntries(names.map(tagMember)));
  });
}

const TIME = USAGE_COLUMNS.indexOf("time");
const ATTEMPTS = USAGE_COLUMNS.indexOf("attempts");
const DETAIL = USAGE_COLUMNS.indexOf("detail");

/** Returns the Unix milliseconds at which a row's exchange began. */
export const rowTime = ({ values }: Pick<UsageRow, "values">): number => Number(values[TIME]);

/** Estimates the bytes of memory that a waiting row takes. */
export function estimateRowBytes({ values }: UsageRow): number {
  return 500 + textLength(values[ATTEMPTS]) + textLength(values[DETAIL]);
}

/** Converts a row that is not in the store yet to an entry. */
export function rowToEntry({ kind, values, attribution = ["", ""] }: UsageRow): LedgerEntry {
  const columns = (names: readonly string[], bound: readonly Cell[]) =>
    names.map((name, at) => [name, bound[at] ?? null] as const);
  return sqlRowToEntry(
    Object.fromEntries([
      ...columns(KIND_COLUMNS, kind),
      ...columns(USAGE_COLUMNS, values),
      ...columns(HOLDER_COLUMNS, attribution),
    ]),
  );
}

/** Converts a row joined with its kind and holder to the original entry, except for the vendor's own usage object. */
export function sqlRowToEntry(row: Readonly<Record<string, unknown>>): LedgerEntry {
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
      ? [{ target: entry.target, ...(entry.status !== NO_STATUS && { status: entry.status }), startedAt: attempts }]
      : (attempts as LedgerEntry["attempts"]);
  const firstByte = number("first_byte");
  if (firstByte !== undefined) entry.firstByte = firstByte;
  const cost = number("cost");
  if (cost !== undefined) entry.cost = cost;
  const assumedCost = number("assumed_cost");
  if (assumedCost !== undefined) entry.assumedCost = assumedCost;
  if (row["price"]) entry.price = text("price");
  if (row["detail"] === null) return entry;
  const { bytes, address, error, dropped, notices, once, known, ...detail } = JSON.parse(
    text("detail"),
  ) as Partial<Usage> & DetailFields & { known?: false };
  if (bytes) entry.bytes = bytes;
  if (address !== undefined) entry.address = address;
  if (error) entry.error = error;
  if (dropped) entry.dropped = dropped;
  if (notices) entry.notices = notices;
  if (once !== undefined) entry.once = once;
  if (known === false || entry.source === "none") return entry;
  entry.usage = {
    ...detail,
    in: dropUndefined({ total: number("tokens_in"), cached: number("cached"), ...detail.in }),
    out: dropUndefined({ total: number("tokens_out"), reasoning: number("reasoning"), ...detail.out }),
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

/** The status of an exchange whose provider has not answered yet. */
const NO_STATUS = 0;

/**
 * Returns the JSON of the start of the only attempt if the row describes the rest of it: most exchanges have one successful
 * attempt, and none has more when it begins. Text, as SQLite converts a number for a column of texts at more cost.
 */
function soleAttemptJson({ attempts, target, status }: LedgerEntry): string | undefined {
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
  const described = status === NO_STATUS ? undefined : status;
  return only.target === target && only.status === described ? String(only.startedAt) : undefined;
}

/** The parts of an entry in `detail` besides its usage. */
type DetailFields = Pick<LedgerEntry, "bytes" | "address" | "error" | "dropped" | "notices" | "once">;

/** Serializes what has no column of its own. */
function detailJson({ usage, bytes, address, error, dropped, notices, once }: LedgerEntry): string | null {
  if (!usage) {
    const some = bytes || address !== undefined || error || dropped || notices;
    return some ? JSON.stringify({ bytes, address, error, dropped, notices, known: false }) : null;
  }
  const { in: input, out: output, serverTools, tier, images, drawn, model, besides, providerCost } = usage;
  const rare = bytes ?? error ?? dropped ?? notices ?? once ?? serverTools ?? images ?? drawn ?? model ?? besides;
  // Most exchanges, which need no JSON then.
  if ((rare ?? providerCost) === undefined) return usualDetailJson(address, usage);
  return JSON.stringify({
    bytes,
    address,
    error,
    dropped,
    notices,
    once,
    in: omitMembers(input, "total", "cached"),
    out: omitMembers(output, "total", "reasoning"),
    serverTools,
    tier,
    images,
    drawn,
    model,
    besides,
    providerCost,
  });
}

/** The JSON of an address, a service tier and counts without columns of their own, some of which vendors report as 0 each time. */
interface UsualDetail {
  readonly address: string | undefined;
  readonly tier: string | undefined;
  readonly in: Counts;
  readonly out: Counts;
  readonly json: string;
}

type Counts = Readonly<Record<string, unknown>>;

/** A hash table of recent ones. */
const RECENT_DETAILS = 256;
const recentDetails: UsualDetail[] = [];

/** Serializes what `detail` has of most entries, as far as there is any. */
function usualDetailJson(address: string | undefined, { in: input, out: output, tier }: Usage): string {
  // The first entry of an exchange has no output, and never the detail of the last one.
  const at =
    (hashEnd(address ?? "") + 7 * (tier?.length ?? 0) + (output.total === undefined ? RECENT_DETAILS / 2 : 0)) &
    (RECENT_DETAILS - 1);
  const known = recentDetails[at];
  if (
    known &&
    known.address === address &&
    known.tier === tier &&
    isRest(known.in, input, "total", "cached") &&
    isRest(known.out, output, "total", "reasoning")
  )
    return known.json;
  const rest = { in: omitMembers(input, "total", "cached"), out: omitMembers(output, "total", "reasoning") };
  const json = JSON.stringify({ address: address === "" ? undefined : address, ...rest, tier });
  recentDetails[at] = { address, tier, in: rest.in ?? {}, out: rest.out ?? {}, json };
  return json;
}

/** Reports whether counts are all that there are besides these two. */
function isRest(rest: Counts, members: Counts, one: string, two: string): boolean {
  let found = 0;
  for (const name in members) {
    if (name === one || name === two) continue;
    if (typeof members[name] !== "number" || members[name] !== rest[name]) return false;
    found++;
  }
  for (const _ in rest) found--;
  return found === 0;
}

/** Returns the members except these two; undefined if there are no others. */
function omitMembers(members: Record<string, unknown>, one: string, two: string): Record<string, unknown> | undefined {
  let rest: Record<string, unknown> | undefined;
  for (const name in members) {
    if (name === one || name === two) continue;
    rest ??= {};
    rest[name] = members[name];
  }
  return rest;
}

function toInteger(number: number | undefined): number | null {
  if (number === undefined || !Number.isFinite(number)) return null;
  return Math.round(Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER));
}

/** Milliseconds with one decimal. */
function roundToTenth(number: number | undefined): number | null {
  return number === undefined || !Number.isFinite(number) ? null : Math.round(number * 10) / 10;
}

const textLength = (value: Cell | undefined): number => (typeof value === "string" ? value.length : 0);
