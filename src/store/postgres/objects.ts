import { type MadeObject, type ObjectRows, objectOf } from "../object-rows.ts";
import type { OwnedObject } from "../owners.ts";
import { type PostgresDatabase, storable } from "./database.ts";

/** Maximum ids in one query. */
const MOST = 1000;

/** A pending lookup of an id. */
interface Wanting {
  readonly resolve: (found: OwnedObject[]) => void;
  readonly reject: (thrown: unknown) => void;
}

/**
 * Owners of objects in PostgreSQL. One query runs at a time, for all ids requested by then: a request with many ids neither
 * sends a query for each, nor takes all connections needed for key lookups.
 */
export class PostgresObjects implements ObjectRows {
  private readonly wanted = new Map<string, Wanting[]>();
  private asking = false;

  constructor(private readonly database: Pick<PostgresDatabase, "ask">) {}

  find(id: string): Promise<OwnedObject[]> {
    return new Promise((resolve, reject) => {
      const text = storable(id);
      const others = this.wanted.get(text);
      if (others) others.push({ resolve, reject });
      else this.wanted.set(text, [{ resolve, reject }]);
      if (this.asking) return;
      this.asking = true;
      // Deferred to collect all ids requested in this turn of the event loop.
      setImmediate(() => void this.askAll());
    });
  }

  async insert(made: readonly MadeObject[]): Promise<void> {
    const rows = made.map(({ id, provider, key, group, model, time }) => ({
      ...{ id: storable(id), provider, key, group: group ?? null, model: model ?? null, time },
    }));
    await this.database.ask(INSERT, JSON.stringify(rows));
  }

  private async askAll(): Promise<void> {
    while (this.wanted.size > 0) {
      const batch = [...this.wanted].slice(0, MOST);
      for (const [id] of batch) this.wanted.delete(id);
      await this.askFor(batch);
    }
    this.asking = false;
  }

  private async askFor(batch: readonly [string, Wanting[]][]): Promise<void> {
    try {
      const rows = await this.database.ask(SELECT, JSON.stringify(batch.map(([id]) => id)));
      const found = Map.groupBy(rows.map(objectOf), ({ id }) => id);
      for (const [id, wanting] of batch) for (const { resolve } of wanting) resolve(found.get(id) ?? []);
    } catch (thrown) {
      for (const { reject } of batch.flatMap(([, wanting]) => wanting)) reject(thrown);
    }
  }
}

const SELECT = `select id, provider, key, "group", model from object
  where id = any(array(select json_array_elements_text(?::text::json))) order by time, provider`;
/** Ordered, so that concurrent writers cannot deadlock. */
const INSERT = `insert into object (id, provider, key, "group", model, time)
  select id, provider, key, "group", model, time
  from json_to_recordset(?::text::json) as given (id text, provider text, key text, "group" text, model text, time bigint)
  order by id, provider on conflict do nothing`;
