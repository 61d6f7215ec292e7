import { DIFFERING, DIFFERING_DAYS, DIFFERING_WEEKS, differences } from "../ledger-sql.ts";
import { HOUR } from "../ledger-sums.ts";
import { Maintenance, type ProgressListener } from "../maintenance.ts";
import { PostgresAudit } from "./audit.ts";
import { type PostgresDatabase, SCHEMA } from "./database.ts";
import { type Migrated, openPostgres } from "./migrations.ts";
import { prunedBefore, prunedPostgres } from "./partitions.ts";
import { type PostgresPlace, shownPlace } from "./place.ts";

/** Deadline in milliseconds for operations that read all rows. */
const LONG = 24 * 3_600_000;
/** Maximum number of problems listed individually. */
const TOLD = 20;

/** Maintenance of a PostgreSQL database. */
export class PostgresMaintenance extends Maintenance {
  private constructor(
    private readonly database: PostgresDatabase,
    override readonly migrated: Migrated,
  ) {
    super();
  }

  /** @throws FileError when the database cannot be used */
  static async open(place: PostgresPlace): Promise<PostgresMaintenance> {
    const { database, migrated } = await openPostgres(place, 1);
    return new PostgresMaintenance(database, migrated);
  }

  /** @throws Error always, with the command to use instead */
  override async backup(): Promise<never> {
    throw new Error(copiesOf(this.database.place));
  }

  override async verify(progress: ProgressListener): Promise<string[]> {
    progress("comparing the sums of hours with their rows");
    return this.database.within(LONG, async (ask) => {
      const from = Math.ceil((await prunedBefore(ask)) / HOUR) * HOUR;
      const hours = await ask(DIFFERING, from, Number.MAX_SAFE_INTEGER, from, TOLD + 1);
      const days = await ask(DIFFERING_DAYS, TOLD);
      return differences({ hours, days, weeks: await ask(DIFFERING_WEEKS, TOLD) }, TOLD);
    });
  }

  override async prune(before: number, progress: ProgressListener): Promise<number> {
    let removed = 0;
    for await (const rows of prunedPostgres(this.database, before)) {
      removed += rows;
      if (rows > 0) progress(`${removed.toLocaleString("en-US")} rows`);
    }
    return removed;
  }

  override get audit(): PostgresAudit {
    return new PostgresAudit(this.database);
  }

  override close(): Promise<void> {
    return this.database.close();
  }
}

/** Describes how to copy and restore a database with PostgreSQL's own tools. */
export function copiesOf(place: PostgresPlace): string {
  const url = shownPlace(place);
  return `PostgreSQL makes its own copies: pg_dump --format=custom --schema=${SCHEMA} --file=FILE '${url}', and with all gateways stopped pg_restore --clean --if-exists --dbname='${url}' FILE brings one back. What is still in journals comes after it by itself.`;
}
