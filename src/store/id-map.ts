/** Number of lists that ids are distributed over; a power of two. */
const LISTS = 4096;
/** Characters at the end of an id by which it is distributed: those of an exchange's id are random. */
const CHARACTERS = 6;

interface IdEntry<Value> {
  readonly id: string;
  value: Value;
  next: IdEntry<Value> | undefined;
}

/**
 * A map with ids of exchanges, each of which is in it briefly. V8's own `Map` first puts every new text into a table of all texts:
 * that costs more than the map itself, and each time that table grows it takes milliseconds in one turn of the event loop.
 */
export class IdMap<Value> {
  private readonly lists: (IdEntry<Value> | undefined)[] = Array.from({ length: LISTS });
  private count = 0;

  get size(): number {
    return this.count;
  }

  get(id: string): Value | undefined {
    return this.find(id)?.value;
  }

  set(id: string, value: Value): void {
    const list = listOf(id);
    const known = this.find(id, list);
    if (known) {
      known.value = value;
      return;
    }
    this.lists[list] = { id, value, next: this.lists[list] };
    this.count++;
  }

  /** Removes an id. Returns its value; undefined for an unknown one. */
  delete(id: string): Value | undefined {
    const list = listOf(id);
    let previous: IdEntry<Value> | undefined;
    for (let entry = this.lists[list]; entry; previous = entry, entry = entry.next) {
      if (entry.id !== id) continue;
      if (previous) previous.next = entry.next;
      else this.lists[list] = entry.next;
      this.count--;
      return entry.value;
    }
    return undefined;
  }

  /** Returns what is in it now, in no order. */
  entries(): [id: string, value: Value][] {
    const entries: [id: string, value: Value][] = [];
    for (const first of this.lists)
      for (let entry = first; entry; entry = entry.next) entries.push([entry.id, entry.value]);
    return entries;
  }

  private find(id: string, list = listOf(id)): IdEntry<Value> | undefined {
    let entry = this.lists[list];
    while (entry && entry.id !== id) entry = entry.next;
    return entry;
  }
}

function listOf(id: string): number {
  let hash = 0;
  for (let i = Math.max(0, id.length - CHARACTERS); i < id.length; i++) hash = Math.imul(hash, 31) + id.charCodeAt(i);
  return hash & (LISTS - 1);
}
