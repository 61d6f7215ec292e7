import { hash, timingSafeEqual } from "node:crypto";
import type { Limits } from "../core/limit-kinds.ts";
import { withShape } from "../core/shape.ts";
import { generateKey } from "./key-format.ts";
import { KEY_RECORD, type KeyEdit, type KeyFields, type KeyRecord, type NewKey } from "./keys.ts";
import type { Cell } from "./ledger-row.ts";

/** A key in gateway.yaml, given as itself or as its SHA-256 in hex. */
export interface FileKey extends KeyFields {
  name: string;
  key?: string;
  hash?: string;
}

/** Fields of a key that an operator sets, each with a column of its name. */
const FIELDS = Object.keys({
  name: true,
  models: true,
  paths: true,
  addresses: true,
  group: true,
  owner: true,
  tags: true,
  limits: true,
  expires: true,
} satisfies Record<keyof KeyEdit, true>) as (keyof KeyEdit)[];

const SCOPE = ["models", "paths", "addresses", "group", "owner", "tags", "expires"] as const;

/** What names people: it can be removed from a revoked key, too, which otherwise stays as it was. */
const NAMES: ReadonlySet<string> = new Set(["name", "owner", "group", "tags"] satisfies (keyof KeyEdit)[]);

/** Reports whether a key may be edited in this way. */
export const isEditable = ({ revoked }: KeyRecord, edit: KeyEdit): boolean =>
  revoked === undefined || Object.keys(edit).every((field) => NAMES.has(field));

/** Values of columns of the table `key`. */
export type KeyColumns = Readonly<Record<string, Cell>>;

/** Returns the columns that an edit sets: lists and objects as JSON. */
export function keyColumns(edit: KeyEdit): KeyColumns {
  const given = FIELDS.filter((field) => edit[field] !== undefined);
  const toCell = (value: KeyEdit[keyof KeyEdit] = null): Cell =>
    typeof value === "object" && value !== null ? JSON.stringify(value) : value;
  return Object.fromEntries(given.map((field) => [field, toCell(edit[field])]));
}

/** Returns a text that is another one after each change of the fields that an operator sets. */
export const keyVersion = (record: KeyRecord): string =>
  hash("sha256", JSON.stringify(keyColumns(record))).slice(0, VERSION_LENGTH);

/** Hexadecimal digits: versions are only compared with others of the same key. */
const VERSION_LENGTH = 16;

/** Creates a key, with the columns of its row. */
export function newKey(wanted: NewKey): { key: string; columns: KeyColumns } {
  const { key, id } = generateKey();
  return { key, columns: { hash: hash("sha256", key), id, created: Date.now(), ...keyColumns(wanted) } };
}

/**
 * Creates a key with the id of another one, with the columns that change.
 * @param overlap milliseconds for which the other one works too
 */
export function successorOf({ id, hash: old }: KeyRecord, overlap: number): { key: string; columns: KeyColumns } {
  const { key } = generateKey(id);
  const before = overlap > 0 ? { old_hash: old, old_until: Date.now() + overlap } : { old_hash: null, old_until: null };
  return { key, columns: { hash: hash("sha256", key), ...before } };
}

/**
 * Returns the statement that inserts a key; its values are those of the columns.
 * @param computed further columns, and the expressions for them
 */
export function insertKeySql(columns: KeyColumns, computed: Readonly<Record<string, string>> = {}): string {
  const names = Object.keys({ ...columns, ...computed }).map((name) => `"${name}"`);
  const values = [...Object.keys(columns).map(() => "?"), ...Object.values(computed)];
  return `insert into key (${names.join(", ")}) values (${values.join(", ")}) returning *`;
}

/** Returns the statement that changes a key; its values are those of the columns, and the id. @param computed as for `insertKeySql` */
export function updateKeySql(columns: KeyColumns, computed: Readonly<Record<string, string>> = {}): string {
  const values = { ...Object.fromEntries(Object.keys(columns).map((name) => [name, "?"])), ...computed };
  const sets = Object.entries(values).map(([name, value]) => `"${name}" = ${value}`);
  return `update key set ${sets.join(", ")} where id = ? returning *`;
}

/** A row of the table `key`. */
export type KeyRow = Readonly<Record<string, unknown>>;

/** A key of the store, as cached in memory. */
export class StoredKey {
  readonly record: KeyRecord;
  /** The number of its last change. */
  readonly changed: number;
  private readonly digest: Buffer;
  private readonly previous: { digest: Buffer; record: KeyRecord } | undefined;

  constructor(row: KeyRow) {
    this.record = rowToKeyRecord(row);
    this.changed = Number(row["changed"]);
    this.digest = Buffer.from(this.record.hash, "hex");
    const { old_hash: before, old_until: until } = row;
    if (before === null || before === undefined) return;
    const record = withShape(KEY_RECORD, { ...this.record, hash: String(before), replaced: Number(until) });
    record.expires = Math.min(Number(until), record.expires ?? Number.POSITIVE_INFINITY);
    this.previous = { digest: Buffer.from(String(before), "hex"), record };
  }

  /** Until when each of its secrets works, as in `KeyChange`. */
  get secrets(): ReadonlyMap<string, number> {
    const records = this.previous ? [this.record, this.previous.record] : [this.record];
    return new Map(records.map(({ hash, expires = Number.POSITIVE_INFINITY }) => [hash, expires]));
  }

  /** The row it was made from, as plain JSON, so that another process can construct it again. */
  get row(): KeyRow {
    const { record, changed, previous } = this;
    const { id, name, hash, created, group = null, owner = null, expires = null } = record;
    const { disabled = null, revoked = null, rotating = null } = record;
    const { models, paths, addresses, tags, limits } = record;
    const texts = Object.entries({ models, paths, addresses, tags, limits });
    return {
      ...{ id, name, hash, created, group, owner, expires, disabled, revoked, changed },
      ...Object.fromEntries(texts.map(([field, value]) => [field, value === undefined ? null : JSON.stringify(value)])),
      ...{ old_hash: previous?.digest.toString("hex") ?? null, old_until: rotating },
    };
  }

  /** Returns the record for a presented key; undefined for another key with the same id. @param digest its SHA-256 */
  verify(digest: Buffer): KeyRecord | undefined {
    if (timingSafeEqual(digest, this.digest)) return this.record;
    return this.previous && timingSafeEqual(digest, this.previous.digest) ? this.previous.record : undefined;
  }
}

/**
 * Returns the records of a key in gateway.yaml, whose id is its name; none without key and hash, as when its variable is unset.
 */
export function fileKeyRecords(entry: FileKey): [string, KeyRecord][] {
  const hex = entry.hash?.toLowerCase() ?? (entry.key ? hash("sha256", entry.key) : undefined);
  if (!hex) return [];
  const record: KeyRecord = { id: entry.name, name: entry.name, hash: hex, source: "file", created: 0 };
  for (const field of SCOPE) if (entry[field] !== undefined) Object.assign(record, { [field]: entry[field] });
  return [[hex, withShape(KEY_RECORD, record)]];
}

export function rowToKeyRecord(row: KeyRow): KeyRecord {
  const record: KeyRecord = {
    id: String(row["id"]),
    name: String(row["name"]),
    hash: String(row["hash"]),
    source: "store",
    created: Number(row["created"]),
  };
  for (const list of ["models", "paths", "addresses"] as const)
    if (row[list] !== null) record[list] = JSON.parse(String(row[list])) as string[];
  for (const text of ["group", "owner"] as const) if (row[text] !== null) record[text] = String(row[text]);
  if (typeof row["limits"] === "string") record.limits = JSON.parse(row["limits"]) as Limits;
  if (row["tags"] !== null) record.tags = JSON.parse(String(row["tags"])) as Record<string, string>;
  for (const time of ["expires", "disabled", "revoked"] as const)
    if (row[time] !== null) record[time] = Number(row[time]);
  if (row["old_until"] !== null) record.rotating = Number(row["old_until"]);
  return withShape(KEY_RECORD, record);
}
