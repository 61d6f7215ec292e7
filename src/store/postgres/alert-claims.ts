import { AlertClaims, RESOLVED } from "../alert-claims.ts";
import type { PostgresDatabase } from "./database.ts";

/** The first gateway to claim an alert sends it; times are by the database's clock. */
export class PostgresClaims extends AlertClaims {
  constructor(private readonly database: PostgresDatabase) {
    super();
  }

  override async claim(subject: string, state: string, timeout: number, ordered: boolean): Promise<boolean> {
    const rows = await this.database.query(CLAIM, subject, state, ordered ? 1 : 0, timeout);
    return rows.length > 0;
  }

  override async release(subject: string, state: string): Promise<void> {
    await this.database.query(
      "update told set at = '-infinity' where subject = ?::text and state = ?::text",
      ...[subject, state],
    );
  }

  override async unresolved(): Promise<readonly string[]> {
    const rows = await this.database.query(
      "select subject from told where state <> ?::text or at = '-infinity'",
      RESOLVED,
    );
    return rows.map(({ subject }) => String(subject));
  }
}

const CLAIM = `insert into told as known (subject, state, at) values (?::text, ?::text, now())
  on conflict (subject) do update set state = excluded.state, at = excluded.at
  where case when ?::bigint = 1 and known.state <> excluded.state then known.state collate "C" < excluded.state collate "C"
    else known.state <> excluded.state or known.at < now() - ?::bigint * interval '1 millisecond' end
  returning subject`;
