import type { StatementSync } from "node:sqlite";
import { type CreatedObject, type ObjectRows, rowToObject } from "../object-rows.ts";
import type { OwnedObject } from "../owners.ts";
import type { SqliteDatabase } from "./database.ts";

/** Owners of objects in SQLite. */
export class SqliteObjects implements ObjectRows {
  private readonly added: StatementSync;
  private readonly select: StatementSync;

  constructor(private readonly database: SqliteDatabase) {
    this.added = database.prepare(
      `insert into object (id, provider, key, "group", model, credential, time) values (?, ?, ?, ?, ?, ?, ?)
       on conflict (id, provider) do nothing`,
    );
    this.select = database.prepare(
      `select id, provider, key, "group", model, credential from object where id = ? order by time, provider`,
    );
  }

  find(id: string): OwnedObject[] {
    return this.select.all(id).map(rowToObject);
  }

  insert(made: readonly CreatedObject[]): Promise<void> {
    return this.database.retryWhileBusy(() => this.database.transaction(() => this.insertAll(made)));
  }

  private insertAll(made: readonly CreatedObject[]): void {
    for (const { id, provider, key, group, model, credential, time } of made)
      this.added.run(id, provider, key, group ?? null, model ?? null, credential ?? null, time);
  }
}
