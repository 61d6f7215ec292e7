import type { StatementSync } from "node:sqlite";
import { KIND, type Row } from "./ledger-row.ts";
import type { Database } from "./sqlite/database.ts";

/** Numbers kept in memory. */
const MOST = 10_000;

/** What many rows have in common is written once, and has a number, from memory when it is known. */
export class Kinds {
  private readonly numbers = new Map<string, number>();
  private readonly ensure: StatementSync;
  /** The kind that was asked for last, which most rows have too. */
  private last: Row["kind"] = [];
  private lastNumber = 0;

  /** @param names columns of the table besides its `number` */
  constructor(database: Database, table = "usage_kind", names: readonly string[] = KIND) {
    const columns = names.join(", ");
    // The update changes nothing, but makes SQLite tell the number of a kind that is there already.
    this.ensure = database.prepare(
      `insert into ${table} (${columns}) values (${names.map(() => "?").join(", ")})
       on conflict (${columns}) do update set ${names[0]} = ${names[0]} returning number`,
    );
  }

  /** The number of a kind, written where it is new. @throws SQLite's error when the kind is wrong or cannot be written. */
  number(kind: Row["kind"]): number {
    if (same(kind, this.last)) return this.lastNumber;
    const name = JSON.stringify(kind);
    const number = this.numbers.get(name) ?? this.write(kind, name);
    this.last = kind;
    this.lastNumber = number;
    return number;
  }

  /** To be called when a transaction was rolled back, and perhaps the new kinds with it. */
  forget(): void {
    this.numbers.clear();
    this.last = [];
  }

  private write(kind: Row["kind"], name: string): number {
    if (this.numbers.size >= MOST) this.numbers.clear();
    const number = Number(this.ensure.get(...kind)?.["number"]);
    this.numbers.set(name, number);
    return number;
  }
}

function same(a: Row["kind"], b: Row["kind"]): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
