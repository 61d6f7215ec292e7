import type { PostgresQuery } from "./database.ts";

/** Maximum cached numbers. */
const MAX_CACHED = 10_000;

/** Stores values that many rows share once, under a number; numbers are cached. */
export class PostgresDictionary {
  private readonly numbers = new Map<string, number>();
  private readonly insert: string;
  private readonly select: string;
  private readonly names: readonly string[];

  /**
   * @param table has a `number` besides its columns
   * @param columns names with their types
   * @param long the column whose texts may be too long for an index, which has their digests instead
   */
  constructor(table: string, columns: Readonly<Record<string, "text" | "integer">>, long?: string) {
    const names = Object.keys(columns);
    const list = names.join(", ");
    const shape = names.map((name, at) => `${name} ${Object.values(columns)[at]}`).join(", ");
    const given = `json_to_recordset(?::text::json) as given (place integer, ${shape})`;
    // Inserted in one order, so that concurrent writers cannot deadlock.
    this.insert = `insert into ${table} (${list}) select distinct ${list} from ${given} order by ${list} on conflict do nothing`;
    const digests = long === undefined ? "" : `where md5(given.${long}) = md5(${table}.${long})`;
    this.select = `select place, number from ${given} join ${table} using (${list}) ${digests}`;
    this.names = names;
  }

  /**
   * Returns the numbers of kinds, and inserts new ones outside of the rows' transaction: no number is ever rolled back.
   * @throws PostgresError when a kind is wrong
   */
  async numbersFor(ask: PostgresQuery, kinds: readonly (readonly unknown[])[]): Promise<number[]> {
    if (this.numbers.size > MAX_CACHED) this.numbers.clear();
    const texts = kinds.map((kind) => JSON.stringify(kind));
    const unknown = new Map<string, readonly unknown[]>();
    for (const [i, text] of texts.entries())
      if (!this.numbers.has(text)) unknown.set(text, kinds[i] as readonly unknown[]);
    if (unknown.size > 0) await this.resolveNumbers(ask, [...unknown.keys()], [...unknown.values()]);
    return texts.map((text) => this.numbers.get(text) as number);
  }

  private async resolveNumbers(
    ask: PostgresQuery,
    texts: readonly string[],
    kinds: readonly (readonly unknown[])[],
  ): Promise<void> {
    const rows = kinds.map((kind, index) => ({
      place: index,
      ...Object.fromEntries(this.names.map((name, at) => [name, kind[at]])),
    }));
    const given = JSON.stringify(rows);
    let found = await ask(this.select, given);
    if (found.length < kinds.length) {
      const known = new Set(found.map(({ place }) => Number(place)));
      // Without those that exist: each attempt takes a number, of which there are two billion.
      await ask(this.insert, JSON.stringify(rows.filter(({ place }) => !known.has(place))));
      found = await ask(this.select, given);
    }
    if (found.length < kinds.length) throw new Error("what rows have in common could not be written");
    for (const { place, number } of found) this.numbers.set(texts[Number(place)] as string, Number(number));
  }
}
