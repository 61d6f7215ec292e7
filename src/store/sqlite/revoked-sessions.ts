import type { StatementSync } from "node:sqlite";
import { RevokedSessions } from "../revoked-sessions.ts";
import type { SqliteDatabase } from "./database.ts";

/** Ended sessions in SQLite. */
export class SqliteRevokedSessions extends RevokedSessions {
  private readonly insert: StatementSync;
  private readonly remove: StatementSync;
  private readonly find: StatementSync;

  constructor(private readonly database: SqliteDatabase) {
    super();
    this.insert = database.prepare("insert or replace into signed_out values (?, ?)");
    this.remove = database.prepare("delete from signed_out where until < ?");
    this.find = database.prepare("select 1 from signed_out where session = ?");
  }

  override async add(session: string, until: number, now = Date.now()): Promise<void> {
    await this.database.retryWhileBusy(() =>
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
