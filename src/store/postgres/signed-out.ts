import { SignedOut } from "../signed-out.ts";
import type { PostgresDatabase } from "./database.ts";

/** Ended sessions in PostgreSQL. */
export class PostgresSignedOut extends SignedOut {
  constructor(private readonly database: Pick<PostgresDatabase, "ask">) {
    super();
  }

  override async add(session: string, until: number, now = Date.now()): Promise<void> {
    await this.database.ask("delete from signed_out where until < ?::bigint", now);
    await this.database.ask(INSERT, session, until);
  }

  override async has(session: string): Promise<boolean> {
    return (await this.database.ask("select 1 from signed_out where session = ?::text", session)).length > 0;
  }
}

const INSERT = "insert into signed_out values (?::text, ?::bigint) on conflict do nothing";
