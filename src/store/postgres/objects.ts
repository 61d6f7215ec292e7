import { sanitizeText } from "../../wire/utf8.ts";
import { type CreatedObject, type ObjectRows, rowToObject } from "../object-rows.ts";
import type { OwnedObject } from "../owners.ts";
import type { PostgresDatabase } from "./database.ts";

/** Maximum ids in one query. */
const MAX_IDS = 1000;

/** A pending lookup of an id. */
interface PendingLookup {
  readonly resolve: (found: OwnedObject[]) => void;
  readonly reject: (thrown: unknown) => void;
}

/**
 * Owners of objects in PostgreSQL. One query runs at a time, for all ids requested by then: a request with many ids neither
 * sends a query for each, nor takes all connections needed for key lookups.
 */
export class PostgresObjects implements ObjectRows {
  private readonly pending = new Map<string, PendingLookup[]>();
  private querying = false;

  constructor(private readonly database: Pick<PostgresDatabase, "query">) {}

  find(id: string): Promise<OwnedObject[]> {
    return new Promise((resolve, reject) => {
      const text = sanitizeText(id);
      const others = this.pending.get(text);
      if (others) others.push({ resolve, reject });
      else this.pending.set(text, [{ resolve, reject }]);
      if (this.querying) return;
      this.querying = true;
      // Deferred to collect all ids requested in this turn of the event loop.
      setImmediate(() => void this.queryAll());
    });
  }

  async insert(made: readonly CreatedObject[]): Promise<void> {
    const rows = made.map(({ id, provider, key, group = null, model = null, credential = null, time }) => ({
      ...{ id: sanitizeText(id), provider, key, group, model, credential, time },
    }));
    await this.database.query(INSERT, JSON.stringify(rows));
  }

  private async queryAll(): Promise<void> {
    while (this.pending.size > 0) {
      const batch = [...this.pending].slice(0, MAX_IDS);
      for (const [id] of batch) this.pending.delete(id);
      await this.queryBatch(batch);
    }
    this.querying = false;
  }

  private async queryBatch(batch: readonly [string, PendingLookup[]][]): Promise<void> {
    try {
      const rows = await this.database.query(SELECT, JSON.stringify(batch.map(([id]) => id)));
      const found = Map.groupBy(rows.map(rowToObject), ({ id }) => id);
      for (const [id, wanting] of batch) for (const { resolve } of wanting) resolve(found.get(id) ?? []);
    } catch (thrown) {
      for (const { reject } of batch.flatMap(([, wanting]) => wanting)) reject(thrown);
    }
  }
}

const SELECT = `select id, provider, key, "group", model, credential from object
  where id = any(array(select json_array_elements_text(?::text::json))) order by time, provider`;
/** Ordered, so that concurrent writers cannot deadlock. */
const INSERT = `insert into object (id, provider, key, "group", model, credential, time)
  select id, provider, key, "group", model, credential, time
  from json_to_recordset(?::text::json) as given (
    id text, provider text, key text, "group" text, model text, credential text, time bigint)
  order by id, provider on conflict do nothing`;
