export type SqlValue = string | number | null | Uint8Array;

/** A database, for statements that both SQLite and PostgreSQL understand. */
export interface SqlRunner {
  /**
   * Runs a statement; it is kept prepared, so there should be few different ones.
   * @param values those of its `?`
   * @throws the database's error
   */
  query(text: string, ...values: readonly SqlValue[]): Promise<readonly Readonly<Record<string, unknown>>[]>;
}
