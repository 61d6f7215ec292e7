import type { StatementSync } from "node:sqlite";
import { KIND_COLUMNS, type UsageRow } from "../ledger-row.ts";
import type { SqliteDatabase } from "./database.ts";

/** Maximum cached numbers. */
const MAX_CACHED = 10_000;

/** Stores values that many rows share once, under a number; numbers are cached. */
export class SqliteDictionary {
  private readonly numbers = new Map<string, number>();
  private readonly ensure: StatementSync;
  /** The last kind, which most rows share. */
  private last: UsageRow["kind"] = [];
  private lastNumber = 0;

  /** @param names columns of the table besides its `number` */
  constructor(database: SqliteDatabase, table = "usage_kind", names: readonly string[] = KIND_COLUMNS) {
    const columns = names.join(", ");
    // The update changes nothing, but makes SQLite return the number of an existing kind.
    this.ensure = database.prepare(
      `insert into ${table} (${columns}) values (${names.map(() => "?").join(", ")})
       on conflict (${columns}) do update set ${names[0]} = ${names[0]} returning number`,
    );
  }

  /** Returns the number of a kind, inserting a new one. @throws SQLite's error when the kind is wrong or cannot be written. */
  numberFor(kind: UsageRow["kind"]): number {
    if (same(kind, this.last)) return this.lastNumber;
    const name = JSON.stringify(kind);
    const number = this.numbers.get(name) ?? this.write(kind, name);
    this.last = kind;
    this.lastNumber = number;
    return number;
  }

  /** Must be called after a rollback, which may have removed new kinds. */
  clearCache(): void {
    this.numbers.clear();
    this.last = [];
  }

  private write(kind: UsageRow["kind"], name: string): number {
    if (this.numbers.size >= MAX_CACHED) this.numbers.clear();
    const number = Number(this.ensure.get(...kind)?.["number"]);
    this.numbers.set(name, number);
    return number;
  }
}

function same(a: UsageRow["kind"], b: UsageRow["kind"]): boolean {
  if (a === b) return true;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
