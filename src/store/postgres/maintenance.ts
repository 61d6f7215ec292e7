import { Audit } from "../audit.ts";
import { describeDifferingSums } from "../differing-sums.ts";
import { Maintenance, type MigrationNumbers, type ProgressListener } from "../maintenance.ts";
import { type PostgresDatabase, SCHEMA } from "./database.ts";
import { openPostgres } from "./migrations.ts";
import { postgresPrunedBefore, prunePostgres } from "./partitions.ts";
import { displayUrl, type PostgresSettings } from "./place.ts";

/** Deadline in milliseconds for operations that read all rows. */
const READ_DEADLINE = 24 * 3_600_000;

/** Maintenance of a PostgreSQL database. */
export class PostgresMaintenance extends Maintenance {
  private constructor(
    private readonly database: PostgresDatabase,
    override readonly migrated: MigrationNumbers,
  ) {
    super();
  }

  /** @throws FileError when the database cannot be used */
  static async open(settings: PostgresSettings): Promise<PostgresMaintenance> {
    const { database, migrated } = await openPostgres(settings, 1);
    return new PostgresMaintenance(database, migrated);
  }

  /** @throws Error always, with the command to use instead */
  override async backup(): Promise<never> {
    throw new Error(copyInstructions(this.database.settings));
  }

  override async verify(progress: ProgressListener): Promise<string[]> {
    progress("comparing hourly sums with their rows");
    return this.database.withDeadline(READ_DEADLINE, async (ask) =>
      describeDifferingSums(ask, await postgresPrunedBefore(ask)),
    );
  }

  protected override removeRows(before: number): AsyncIterable<number> {
    return prunePostgres(this.database, before);
  }

  override get audit(): Audit {
    return new Audit(this.database);
  }

  override close(): Promise<void> {
    return this.database.close();
  }
}

/** Describes how to copy and restore a database with PostgreSQL's own tools. */
export const copyInstructions = (settings: PostgresSettings): string =>
  `PostgreSQL makes its own copies: pg_dump --format=custom --schema=${SCHEMA} --file=FILE '${displayUrl(settings)}'. To restore one, see "Retention and copies" in docs/store.md: pg_restore alone makes revoked keys valid again. Rows that are still in journals are added afterwards automatically.`;
