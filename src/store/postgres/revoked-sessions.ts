import { RevokedSessions } from "../revoked-sessions.ts";
import type { PostgresDatabase } from "./database.ts";

/** Ended sessions in PostgreSQL. */
export class PostgresRevokedSessions extends RevokedSessions {
  constructor(private readonly database: Pick<PostgresDatabase, "query">) {
    super();
  }

  override async add(session: string, until: number, now = Date.now()): Promise<void> {
    await this.database.query("delete from signed_out where until < ?::bigint", now);
    await this.database.query(INSERT, session, until);
  }

  override async has(session: string): Promise<boolean> {
    return (await this.database.query("select 1 from signed_out where session = ?::text", session)).length > 0;
  }
}

const INSERT = "insert into signed_out values (?::text, ?::bigint) on conflict do nothing";
