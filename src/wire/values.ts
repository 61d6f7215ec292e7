/** Functions that read JSON from outside, where any value may have any type. */

/** A parsed JSON object. */
export type JsonObject = Record<string, unknown>;

/** Parses JSON; undefined for a text that is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the value as an object; undefined for arrays, null and everything else. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
}

/**
 * Returns a table's entry for a key from outside: `constructor` and the like are inherited by every object, but not in the table.
 */
export function ownProperty<T>(table: Readonly<Record<string, T>>, key: string | undefined): T | undefined {
  return key !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;
}

/** Returns the value as an array; empty if it is none. */
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Returns the value as a string; undefined for everything else. */
export const asText = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Returns the value as a count: an integer of 0 or more. Vendors also send null, floats and strings in place of a count. */
export function asCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Returns the members of an object that are counts; undefined if there are none. */
export function asCounts(value: unknown): Record<string, number> | undefined {
  const counts = Object.entries(asObject(value) ?? {}).filter(([, count]) => asCount(count) !== undefined);
  return counts.length === 0 ? undefined : (Object.fromEntries(counts) as Record<string, number>);
}

/** Returns the smaller one, if both are defined, else `part`. For a part that a vendor reports as larger than its whole. */
export function atMost(part: number | undefined, total: number | undefined): number | undefined {
  return part === undefined || total === undefined ? part : Math.min(part, total);
}

/** Returns the object without its undefined members. */
export function dropUndefined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const result: Record<string, unknown> = {};
  // A loop, because this runs for each response: Object.entries costs ten times as much.
  for (const name in value) if (value[name] !== undefined) result[name] = value[name];
  return result as never;
}

/** Returns the object without these members. */
export function omit<T extends object, Name extends keyof T>(value: T, ...names: readonly Name[]): Omit<T, Name> {
  const result = { ...value };
  for (const name of names) delete result[name];
  return result;
}

/** Returns the object with these members alone. */
export function pick<T extends object, Name extends keyof T>(value: T, ...names: readonly Name[]): Pick<T, Name> {
  return Object.fromEntries(names.map((name) => [name, value[name]])) as Pick<T, Name>;
}

/** Returns the text of a message's content: the content itself, or the `text` of its parts joined by newlines. */
export function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  const texts = asList(content).map((part) => asText(part) ?? asText(asObject(part)?.["text"]));
  return texts.filter((text) => text !== undefined).join("\n");
}
