import { setTimeout as sleep } from "node:timers/promises";
import { GatewayError } from "../core/errors.ts";
import { type OwnedObject, Owners } from "./owners.ts";

/** Milliseconds between attempts while the store cannot be written, at first and at most. */
const DELAY = 50;
const LONGEST_DELAY = 10_000;
/** Milliseconds for which closing tries to write what waits. */
const CLOSING = 3_000;
/** Objects that may wait in memory for a store that is down. */
const WAITING = 100_000;

/** Owners that are written together at the end of a turn of the event loop, and wait in memory for a store that is down. */
export abstract class QueuedOwners extends Owners {
  /** Not in the store yet, by id. */
  private readonly waiting = new Map<string, OwnedObject[]>();
  private soon: NodeJS.Immediate | undefined;
  private later: NodeJS.Timeout | undefined;
  private delay = DELAY;
  /** What is being written. */
  private writing: Promise<void> | undefined;

  /** @param warn told when the store cannot be written, when objects are lost, and when all is well again */
  protected constructor(private readonly warn: (message: string) => void) {
    super();
  }

  override add(objects: readonly OwnedObject[]): void {
    for (const object of objects) {
      const others = this.waiting.get(object.id);
      if (!others) this.waiting.set(object.id, [object]);
      else if (!others.some(({ provider }) => provider === object.provider)) others.push(object);
    }
    if (this.waiting.size > WAITING) this.dropOldest();
    if (this.later === undefined && this.writing === undefined) this.soon ??= setImmediate(() => this.write());
  }

  override async close(): Promise<void> {
    clearImmediate(this.soon);
    clearTimeout(this.later);
    await this.writing;
    clearTimeout(this.later);
    const deadline = performance.now() + CLOSING;
    for (;;)
      try {
        return await this.saveAll();
      } catch (thrown) {
        if (performance.now() < deadline) await sleep(DELAY);
        else return this.warn(`Who made ${this.waiting.size} objects is lost: ${(thrown as Error).message}.`);
      }
  }

  /** Writes objects in one transaction; of an id that a provider has already, nothing changes. @throws Error when it cannot */
  protected abstract save(objects: readonly OwnedObject[]): void | Promise<void>;

  /** What the store has of an id, and what is on its way there. */
  protected together(id: string, stored: OwnedObject[]): OwnedObject[] {
    const fresh = this.waiting.get(id) ?? [];
    return [...stored, ...fresh.filter(({ provider }) => !stored.some((row) => row.provider === provider))];
  }

  private write(): void {
    this.soon = this.later = undefined;
    this.writing = this.saveAll().then(
      () => {
        this.writing = undefined;
        if (this.delay > DELAY) this.warn("Who made which object is being written again.");
        this.delay = DELAY;
        if (this.waiting.size > 0) this.soon ??= setImmediate(() => this.write());
      },
      (thrown: unknown) => {
        this.writing = undefined;
        if (this.delay === DELAY * 2)
          this.warn(`Who made which object cannot be written: ${(thrown as Error).message}.`);
        this.later = setTimeout(() => this.write(), this.delay).unref();
        this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
      },
    );
  }

  /** Begins at once: what needs no waiting is done when this returns. */
  private async saveAll(): Promise<void> {
    const objects = [...this.waiting.values()].flat();
    if (objects.length === 0) return;
    await this.save(objects);
    const saved = new Set(objects);
    for (const { id } of objects) {
      const left = this.waiting.get(id)?.filter((object) => !saved.has(object)) ?? [];
      if (left.length > 0) this.waiting.set(id, left);
      else this.waiting.delete(id);
    }
  }

  private dropOldest(): void {
    const count = Math.ceil(WAITING / 100);
    for (const id of [...this.waiting.keys()].slice(0, count)) this.waiting.delete(id);
    this.warn(`Who made ${count} objects is lost: the store cannot be written, and memory for it is full.`);
  }
}

/** What is said while nobody knows who made what. */
export const ownersSilent = (cause: unknown): GatewayError =>
  new GatewayError("internal", {
    status: 503,
    message: "The store of who made what cannot answer at the moment.",
    retryAfter: 5,
    store: "objects",
    cause,
  });

/** An object of a row of the table `object`. */
export const objectOf = ({ id, provider, key, group, model }: Record<string, unknown>): OwnedObject => ({
  id: String(id),
  provider: String(provider),
  key: String(key),
  ...(group === null ? {} : { group: String(group) }),
  ...(model === null ? {} : { model: String(model) }),
});
