import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { plural } from "../core/plural.ts";
import { PostgresDatabase, tableExists } from "./postgres/database.ts";
import type { PostgresSettings } from "./postgres/place.ts";

/** The default of `store: ledger`, beside gateway.yaml. */
const DEFAULT = ["data", "gateway.db"];

/**
 * Returns what an operator should know who has changed `store: ledger` from the default SQLite file to a database that is still
 * empty: keys, spending and owners stay in the file. Undefined: there is nothing to warn of, or it cannot be read.
 * @param file the path of gateway.yaml
 */
export async function leftBehindWarning(
  file: string,
  postgres: PostgresSettings | undefined,
): Promise<string | undefined> {
  if (!postgres) return undefined;
  const path = join(dirname(file), ...DEFAULT);
  const kept = existsSync(path) ? describeContents(path) : undefined;
  if (kept === undefined || !(await isEmpty(postgres))) return undefined;
  return `the database is empty, but ${DEFAULT.join("/")} beside gateway.yaml has ${kept}, which the database does not get: its keys get 401 and budgets begin at 0 (see docs/store.md). With all gateways stopped, store import ${DEFAULT.join("/")} copies it into the database; if it is not wanted there, move the file away.`;
}

/** Returns what a SQLite store holds in words; undefined: neither keys nor requests, or it is no store. */
function describeContents(path: string): string | undefined {
  try {
    const sqlite = new DatabaseSync(path, { readOnly: true });
    try {
      const counted = sqlite
        .prepare("select (select count(*) from key) as keys, exists (select 1 from usage) as rows")
        .get();
      const keys = Number(counted?.["keys"]);
      const parts = [
        ...(keys > 0 ? [`${keys} ${plural(keys, "key")}`] : []),
        ...(counted?.["rows"] ? ["the ledger of requests"] : []),
      ];
      return parts.length === 0 ? undefined : parts.join(" and ");
    } finally {
      sqlite.close();
    }
  } catch {
    return undefined;
  }
}

async function isEmpty(postgres: PostgresSettings): Promise<boolean> {
  try {
    const database = await PostgresDatabase.open(postgres, 1);
    try {
      if (!(await tableExists(database.query, "key"))) return true;
      const [row] = await database.query("select exists (select 1 from key) or exists (select 1 from usage) as used");
      return row?.["used"] === false;
    } finally {
      await database.close();
    }
  } catch {
    // Whoever uses the database says what is wrong with it.
    return false;
  }
}
