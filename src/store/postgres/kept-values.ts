import { KeptValues } from "../kept-values.ts";
import type { PostgresDatabase } from "./database.ts";

/** Values of plugins in PostgreSQL. */
export class PostgresKeptValues extends KeptValues {
  constructor(private readonly database: Pick<PostgresDatabase, "query">) {
    super();
  }

  override async get(space: string, name: string): Promise<Buffer | undefined> {
    const [row] = await this.database.query(SELECT, space, name, Date.now());
    return row && Buffer.from(String(row["value"]), "base64");
  }

  protected override async write(
    space: string,
    name: string,
    value: Buffer,
    until: number,
    now: number,
  ): Promise<void> {
    await this.database.query(INSERT, space, name, now, until, value.length, value.toString("base64"));
  }

  protected override async prune(space: string, bytes: number, now: number): Promise<void> {
    await this.database.query("delete from kept_value where until <= ?::bigint", now);
    await this.database.query(OLDEST, space, space, bytes);
  }
}

const SELECT = `select encode(value, 'base64') as value from kept_value
  where space = ?::text and name = ?::text and until > ?::bigint`;
const INSERT = `insert into kept_value (space, name, time, until, size, value)
  values (?::text, ?::text, ?::bigint, ?::bigint, ?::integer, decode(?::text, 'base64'))
  on conflict (space, name) do update
    set time = excluded.time, until = excluded.until, size = excluded.size, value = excluded.value`;
const OLDEST = `delete from kept_value where space = ?::text and name in (select name from (
    select name, sum(size) over (order by time desc, name) as total from kept_value where space = ?::text
  ) as sized where total > ?::bigint)`;
