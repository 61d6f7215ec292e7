import type { Cell } from "./ledger-row.ts";

/** A database, for statements that both SQLite and PostgreSQL understand. */
export interface SqlRunner {
  /**
   * Runs a statement.
   * @param values those of its `?`
   * @throws the database's error
   */
  query(text: string, ...values: readonly Cell[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}
