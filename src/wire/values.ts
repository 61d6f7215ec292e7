/** Reading values of parsed JSON that came from outside, where any type may stand anywhere. */

export type JsonObject = Record<string, unknown>;

/** The value as an object; undefined for arrays, null and everything else. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
}

/** A table's entry for a word from outside: `constructor` and its like are in every object, and in no table. */
export function entryOf<T>(table: Readonly<Record<string, T>>, word: string | undefined): T | undefined {
  return word !== undefined && Object.hasOwn(table, word) ? table[word] : undefined;
}

/** The value as a list, empty where it is none. */
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The value as a string; undefined for everything else. */
export const asText = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** The value as a count: an integer of 0 or more. Vendors also send null, floats and strings where a count belongs. */
export function asCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The members of an object that are counts; undefined where there are none. */
export function counts(value: unknown): Record<string, number> | undefined {
  const found = Object.entries(asObject(value) ?? {}).filter(([, count]) => asCount(count) !== undefined);
  return found.length === 0 ? undefined : (Object.fromEntries(found) as Record<string, number>);
}

/** The smaller of the two that are there. For a part that a vendor reports as larger than its whole. */
export function atMost(part: number | undefined, whole: number | undefined): number | undefined {
  return part === undefined || whole === undefined ? part : Math.min(part, whole);
}

/** The object without the members that are undefined. */
export function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: Record<string, unknown> = {};
  // A loop, because this runs for each answer: entries and their list cost ten times as much.
  for (const name in value) if (value[name] !== undefined) kept[name] = value[name];
  return kept as never;
}

/** All text of a message's content: the content itself, or the `text` of its parts, a line each. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const texts = asList(content).map((part) => asText(part) ?? asText(asObject(part)?.["text"]));
  return texts.filter((text) => text !== undefined).join("\n");
}
