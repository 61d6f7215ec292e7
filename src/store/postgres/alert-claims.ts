import { AlertClaims } from "../alert-claims.ts";
import { type PostgresDatabase, storable } from "./database.ts";

/** The first of several gateways that asks gets it, by the database's clock. */
export class PostgresClaims extends AlertClaims {
  constructor(private readonly database: PostgresDatabase) {
    super();
  }

  override async claim(subject: string, state: string, patience: number): Promise<boolean> {
    const rows = await this.database.ask(CLAIM, storable(subject), storable(state), patience);
    return rows.length > 0;
  }
}

const CLAIM = `insert into told as known (subject, state, at) values (?::text, ?::text, now())
  on conflict (subject) do update set state = excluded.state, at = excluded.at
  where known.state <> excluded.state or known.at < now() - ?::bigint * interval '1 millisecond'
  returning subject`;
