import type { SQLOutputValue, StatementSync } from "node:sqlite";
import { GatewayError } from "../core/errors.ts";
import { type OwnedObject, Owners } from "./owners.ts";
import type { Database } from "./sqlite.ts";

/** Milliseconds between attempts while the store cannot be written, at first and at most. */
const DELAY = 50;
const LONGEST_DELAY = 10_000;
/** Objects that may wait in memory for a store that is down. */
const WAITING = 100_000;

/** Owners in SQLite: one transaction for all that a turn of the event loop has added. */
export class SqliteOwners extends Owners {
  private readonly insert: StatementSync;
  private readonly select: StatementSync;
  /** Not on disk yet, by id. */
  private readonly waiting = new Map<string, OwnedObject[]>();
  private soon: NodeJS.Immediate | undefined;
  private later: NodeJS.Timeout | undefined;
  private delay = DELAY;

  /** @param warn told when the store cannot be written, when objects are lost, and when all is well again */
  constructor(
    private readonly database: Database,
    private readonly warn: (message: string) => void = () => {},
  ) {
    super();
    this.insert = database.prepare(
      `insert into object (id, provider, key, "group", model, time) values (?, ?, ?, ?, ?, ?)
       on conflict (id, provider) do nothing`,
    );
    this.select = database.prepare(`select id, provider, key, "group", model from object where id = ?`);
  }

  override find(id: string): OwnedObject[] {
    const fresh = this.waiting.get(id) ?? [];
    let rows: OwnedObject[];
    try {
      rows = this.select.all(id).map(objectOf);
    } catch (cause) {
      const message = "The store of who made what cannot answer at the moment.";
      throw new GatewayError("internal", { status: 503, message, retryAfter: 5, cause });
    }
    return [...rows, ...fresh.filter(({ provider }) => !rows.some((row) => row.provider === provider))];
  }

  override add(objects: readonly OwnedObject[]): void {
    for (const object of objects) {
      const others = this.waiting.get(object.id);
      if (!others) this.waiting.set(object.id, [object]);
      else if (!others.some(({ provider }) => provider === object.provider)) others.push(object);
    }
    if (this.waiting.size > WAITING) this.dropOldest();
    if (this.later === undefined) this.soon ??= setImmediate(() => this.write());
  }

  override async close(): Promise<void> {
    clearImmediate(this.soon);
    clearTimeout(this.later);
    await this.database
      .patiently(() => this.save())
      .catch((thrown: unknown) => {
        this.warn(`Who made ${this.waiting.size} objects is lost: ${(thrown as Error).message}.`);
      });
  }

  private write(): void {
    this.soon = this.later = undefined;
    try {
      this.save();
      if (this.delay > DELAY) this.warn("Who made which object is being written again.");
      this.delay = DELAY;
    } catch (thrown) {
      if (this.delay === DELAY * 2) this.warn(`Who made which object cannot be written: ${(thrown as Error).message}.`);
      this.later = setTimeout(() => this.write(), this.delay).unref();
      this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
    }
  }

  private save(): void {
    if (this.waiting.size === 0) return;
    const time = Date.now();
    this.database.transaction(() => {
      for (const objects of this.waiting.values())
        for (const { id, provider, key, group, model } of objects)
          this.insert.run(id, provider, key, group ?? null, model ?? null, time);
    });
    this.waiting.clear();
  }

  private dropOldest(): void {
    const count = Math.ceil(WAITING / 100);
    for (const id of [...this.waiting.keys()].slice(0, count)) this.waiting.delete(id);
    this.warn(`Who made ${count} objects is lost: the store cannot be written, and memory for it is full.`);
  }
}

const objectOf = ({ id, provider, key, group, model }: Record<string, SQLOutputValue>): OwnedObject => ({
  id: String(id),
  provider: String(provider),
  key: String(key),
  ...(group === null ? {} : { group: String(group) }),
  ...(model === null ? {} : { model: String(model) }),
});
