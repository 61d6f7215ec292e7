import type { StatementSync } from "node:sqlite";
import type { OwnedObject } from "../owners.ts";
import { objectOf, ownersSilent, QueuedOwners } from "../queued-owners.ts";
import type { Database } from "./database.ts";

/** Owners in SQLite: one transaction for all that a turn of the event loop has added. */
export class SqliteOwners extends QueuedOwners {
  private readonly insert: StatementSync;
  private readonly select: StatementSync;

  /** @param warn told when the store cannot be written, when objects are lost, and when all is well again */
  constructor(
    private readonly database: Database,
    warn: (message: string) => void = () => {},
  ) {
    super(warn);
    this.insert = database.prepare(
      `insert into object (id, provider, key, "group", model, time) values (?, ?, ?, ?, ?, ?)
       on conflict (id, provider) do nothing`,
    );
    this.select = database.prepare(`select id, provider, key, "group", model from object where id = ?`);
  }

  override find(id: string): OwnedObject[] {
    try {
      return this.together(id, this.select.all(id).map(objectOf));
    } catch (cause) {
      throw ownersSilent(cause);
    }
  }

  protected override save(objects: readonly OwnedObject[]): void {
    const time = Date.now();
    this.database.transaction(() => {
      for (const { id, provider, key, group, model } of objects)
        this.insert.run(id, provider, key, group ?? null, model ?? null, time);
    });
  }
}
