import { setTimeout as sleep } from "node:timers/promises";
import type { OwnedObject } from "../owners.ts";
import { objectOf, ownersSilent, QueuedOwners } from "../queued-owners.ts";
import { type PostgresDatabase, storable } from "./database.ts";

/** Milliseconds between looks for what another gateway may be writing: its answer has left before that is done. */
const LOOKS = [20, 80, 300, 600];

/** Owners in PostgreSQL: one statement for all that a turn of the event loop has added. */
export class PostgresOwners extends QueuedOwners {
  /** @param warn told when the store cannot be written, when objects are lost, and when all is well again */
  constructor(
    private readonly database: PostgresDatabase,
    warn: (message: string) => void,
  ) {
    super(warn);
  }

  override async find(id: string): Promise<OwnedObject[]> {
    try {
      return this.together(id, (await this.database.ask(SELECT, storable(id))).map(objectOf));
    } catch (cause) {
      throw ownersSilent(cause);
    }
  }

  override async findSoon(id: string): Promise<OwnedObject[]> {
    for (const wait of LOOKS) {
      const found = await this.find(id);
      if (found.length > 0) return found;
      await sleep(wait);
    }
    return this.find(id);
  }

  protected override async save(objects: readonly OwnedObject[]): Promise<void> {
    const time = Date.now();
    const rows = objects.map(({ id, provider, key, group, model }) => ({
      ...{ id: storable(id), provider, key, group: group ?? null, model: model ?? null, time },
    }));
    await this.database.ask(INSERT, JSON.stringify(rows));
  }
}

const SELECT = `select id, provider, key, "group", model from object where id = ?::text order by time, provider`;
/** In one order, so that writers wait for each other and never in a circle. */
const INSERT = `insert into object (id, provider, key, "group", model, time)
  select id, provider, key, "group", model, time
  from json_to_recordset(?::text::json) as given (id text, provider text, key text, "group" text, model text, time bigint)
  order by id, provider on conflict do nothing`;
