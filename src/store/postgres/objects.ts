import { type MadeObject, type ObjectRows, objectOf } from "../object-rows.ts";
import type { OwnedObject } from "../owners.ts";
import { type PostgresDatabase, storable } from "./database.ts";

/** Who made which object, in PostgreSQL. */
export class PostgresObjects implements ObjectRows {
  constructor(private readonly database: PostgresDatabase) {}

  async find(id: string): Promise<OwnedObject[]> {
    return (await this.database.ask(SELECT, storable(id))).map(objectOf);
  }

  async insert(made: readonly MadeObject[]): Promise<void> {
    const rows = made.map(({ id, provider, key, group, model, time }) => ({
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
