import type { StatementSync } from "node:sqlite";
import { SignedOut } from "../signed-out.ts";
import type { Database } from "./database.ts";

/** Ended sessions in SQLite. */
export class SqliteSignedOut extends SignedOut {
  private readonly insert: StatementSync;
  private readonly remove: StatementSync;
  private readonly find: StatementSync;

  constructor(private readonly database: Database) {
    super();
    this.insert = database.prepare("insert or replace into signed_out values (?, ?)");
    this.remove = database.prepare("delete from signed_out where until < ?");
    this.find = database.prepare("select 1 from signed_out where session = ?");
  }

  override async add(session: string, until: number, now = Date.now()): Promise<void> {
    await this.database.patiently(() =>
      this.database.transaction(() => {
        this.remove.run(now);
        this.insert.run(session, until);
      }),
    );
  }

  override async has(session: string): Promise<boolean> {
    return this.find.get(session) !== undefined;
  }
}
