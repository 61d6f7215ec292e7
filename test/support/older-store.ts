import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import type { LedgerSum } from "../../src/store/ledger.ts";

/** The folder of dumps of stores that an older commit wrote; `older-store.make.ts` writes them. */
export const OLDER = fileURLToPath(new URL("older", import.meta.url));

/** The contents of a dumped store, as the older commit itself reported them. */
export interface OlderStore {
  /** Valid keys by name. */
  valid: Record<"alice" | "bob", string>;
  /** A revoked key. */
  revoked: string;
  /** The number of rows in the ledger. */
  rows: number;
  /** Sums by key, group and model. */
  usage: (Omit<LedgerSum, "group"> & Record<"key" | "group" | "model", string>)[];
}

/** Returns the expected contents of a dump. */
export const olderStore = (kind: "sqlite" | "postgres"): OlderStore =>
  JSON.parse(readFileSync(join(OLDER, "expected.json"), "utf8"))[kind];

/** Returns the SQL statements of a dump. */
export const olderText = (kind: "sqlite" | "postgres"): string => readFileSync(join(OLDER, `${kind}.sql`), "utf8");

/** Loads the SQLite dump into a new file and returns its expected contents. */
export function writeOlderSqlite(file: string): OlderStore {
  // SQLite itself would let other users read it.
  writeFileSync(file, "", { mode: 0o600 });
  const database = new DatabaseSync(file);
  database.exec(`begin; ${olderText("sqlite")} commit`);
  database.close();
  return olderStore("sqlite");
}
