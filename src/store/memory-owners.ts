import { type OwnedObject, Owners } from "./owners.ts";

/** Maximum number of ids; beyond that, the oldest are removed. */
const MAX_IDS = 100_000;

/** Owners in memory, by id. */
export class MemoryOwners extends Owners {
  private readonly objects = new Map<string, OwnedObject[]>();

  /** Number of ids. */
  get size(): number {
    return this.objects.size;
  }

  all(): OwnedObject[] {
    return [...this.objects.values()].flat();
  }

  override find(id: string): readonly OwnedObject[] {
    return this.objects.get(id) ?? [];
  }

  /** @returns whether it was new */
  remember(object: OwnedObject): boolean {
    const { id, provider } = object;
    const known = this.objects.get(id);
    if (known?.some((other) => other.provider === provider)) return false;
    if (known) known.push(object);
    else this.objects.set(id, [object]);
    if (this.objects.size > MAX_IDS) this.forgetOldest();
    return true;
  }

  override add(objects: readonly OwnedObject[]): void {
    for (const object of objects) this.remember(object);
  }

  forget(object: OwnedObject): void {
    const left = this.find(object.id).filter((other) => other !== object);
    if (left.length > 0) this.objects.set(object.id, left);
    else this.objects.delete(object.id);
  }

  override async close(): Promise<void> {}

  /** Removes one in a hundred, so that this does not run for each insert. */
  private forgetOldest(): void {
    let count = MAX_IDS / 100;
    for (const id of this.objects.keys()) {
      this.objects.delete(id);
      if (--count === 0) return;
    }
  }
}
