import type { StatementSync } from "node:sqlite";
import { KeptValues } from "../kept-values.ts";
import type { SqliteDatabase } from "./database.ts";

/** Values of plugins in SQLite. */
export class SqliteKeptValues extends KeptValues {
  private readonly select: StatementSync;
  private readonly insert: StatementSync;
  private readonly expired: StatementSync;
  private readonly oldest: StatementSync;

  constructor(private readonly database: SqliteDatabase) {
    super();
    this.select = database.prepare("select value from kept_value where space = ? and name = ? and until > ?");
    this.insert = database.prepare("insert or replace into kept_value values (?, ?, ?, ?, ?, ?)");
    this.expired = database.prepare("delete from kept_value where until <= ?");
    this.oldest = database.prepare(`delete from kept_value where space = ? and name in (select name from (
        select name, sum(size) over (order by time desc, name) as total from kept_value where space = ?
      ) where total > ?)`);
  }

  override async get(space: string, name: string): Promise<Buffer | undefined> {
    const value = this.select.get(space, name, Date.now())?.["value"];
    return value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : undefined;
  }

  protected override async write(
    space: string,
    name: string,
    value: Buffer,
    until: number,
    now: number,
  ): Promise<void> {
    await this.database.retryWhileBusy(() => this.insert.run(space, name, now, until, value.length, value));
  }

  protected override async prune(space: string, bytes: number, now: number): Promise<void> {
    await this.database.retryWhileBusy(() =>
      this.database.transaction(() => {
        this.expired.run(now);
        this.oldest.run(space, space, bytes);
      }),
    );
  }
}
