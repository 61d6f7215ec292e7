import type { StatementSync } from "node:sqlite";
import { type Cell, USAGE_COLUMNS } from "../ledger-row.ts";
import type { SqliteDatabase } from "./database.ts";

/** The columns of the table `usage`, in the order of a row's cells. */
const COLUMNS = ["kind", "holder", ...USAGE_COLUMNS] as const;
/** The places of columns in which many rows have the same cell: it is bound once, as binding takes half of an insert. */
const OFTEN_EQUAL = (["kind", "holder", "cached", "reasoning", "detail", "assumed_cost"] as const).map((column) =>
  COLUMNS.indexOf(column),
);

/** Most rows of one insert, each of which then costs a fifth less; more are no better. */
export const MAX_INSERT_ROWS = 25;

/** A statement, and the values that were bound to it last. */
interface UsageInsert {
  readonly statement: StatementSync;
  readonly values: Cell[];
}

/** Inserts rows into the table `usage`, many at a time. */
export class UsageInserts {
  /** By the number of rows and the columns in which they are equal: each takes 36 KB. */
  private readonly inserts = new Map<number, UsageInsert>();

  constructor(private readonly database: SqliteDatabase) {}

  /**
   * @param rows up to `MAX_INSERT_ROWS` of them: cells in the order of kind, holder, and `USAGE_COLUMNS`
   * @returns how many of them are new
   * @throws SQLite's error for an invalid row; no transaction is open then
   */
  insert(rows: readonly (readonly Cell[])[]): number {
    let equal = 0;
    // Fewer rows come at low load, where a statement for each case would take more memory than it spares work.
    if (rows.length === MAX_INSERT_ROWS)
      for (const column of OFTEN_EQUAL) if (isEqualIn(rows, column)) equal |= 1 << column;
    const { statement, values } = this.insertOf(rows.length, equal);
    let count = 0;
    for (let column = 0; column < COLUMNS.length; column++)
      if (equal & (1 << column)) values[count++] = rows[0]?.[column] as Cell;
    for (const row of rows)
      for (let column = 0; column < COLUMNS.length; column++)
        if (!(equal & (1 << column))) values[count++] = row[column] as Cell;
    return Number(statement.run(...values).changes);
  }

  private insertOf(rows: number, equal: number): UsageInsert {
    return this.inserts.getOrInsertComputed((rows << COLUMNS.length) | equal, () => {
      const shared = COLUMNS.filter((_, column) => equal & (1 << column));
      const own = COLUMNS.filter((column) => !shared.includes(column));
      const row = [...shared.map((_, at) => `?${at + 1}`), ...own.map(() => "?")].join(", ");
      // Not `or ignore`, which would hide invalid rows besides duplicates. With `or rollback` SQLite keeps no copies of pages for the
      // case that only this statement fails.
      const statement = this.database.prepare(
        `insert or rollback into usage (${[...shared, ...own].join(", ")})
         values ${Array(rows).fill(`(${row})`).join(", ")} on conflict (time, id) do nothing`,
      );
      return { statement, values: [] };
    });
  }
}

/** Reports whether all rows have the same cell in a column. */
function isEqualIn(rows: readonly (readonly Cell[])[], column: number): boolean {
  const cell = rows[0]?.[column];
  for (let at = 1; at < rows.length; at++) if (rows[at]?.[column] !== cell) return false;
  return true;
}
