import type { RecognizedObjects } from "../core/object-members.ts";
import { foldCase } from "../wire/any-case.ts";
import { MultiSearch } from "../wire/multi-search.ts";
import { asText, type JsonObject } from "../wire/values.ts";
import { matchesAcross } from "./match-across.ts";
import type { PathNode } from "./reference-path.ts";

/** The beginning of escapes of printable ASCII characters. */
const ESCAPES = new MultiSearch(["\\u00"]);
/** Such a character that occurs in names and addresses: an escape only serves to hide it, unlike one of `<`, `>` or `&`. */
const ESCAPED_CHARACTER = /\\u00(?:2[d-f]|3[0-9a]|5f|[46][1-9a-f]|[57][0-9a])/i;
const ESCAPE_LENGTH = 6;
const NUMBER = /^\d+$/;
/** Characters at the end of a name that are compared, for each of the strings below it: no name that is looked for is as long. */
const MAX_NAME = 64;

/** Finds strings in a body that name an object by their form, in members of any name. */
export class RecognizedObjectFinder {
  private readonly starts: MultiSearch;
  private readonly texts: ReadonlySet<string>;
  private readonly data: ReadonlySet<string>;
  private readonly content: ReadonlySet<unknown>;

  /**
   * @param skipped reports whether a member is not searched
   * @param listed reports whether the strings of a member are read anyway
   */
  constructor(
    private readonly recognized: RecognizedObjects,
    private readonly skipped: (name: string) => boolean,
    private readonly listed: (name: string) => boolean,
  ) {
    const { starts, texts = [], data = [], contentTypes = [] } = recognized;
    this.starts = new MultiSearch(starts.map((start) => `"${start}`));
    this.texts = new Set(texts.map(foldCase));
    this.data = new Set(data.map(foldCase));
    this.content = new Set(contentTypes);
  }

  /** Returns false if no string in a body may name an object. True: one may; only `find` can tell. */
  mayOccurIn(pieces: readonly Buffer[]): boolean {
    if (this.starts.occursIn(pieces)) return true;
    return ESCAPES.occursIn(pieces) && matchesAcross(pieces, ESCAPED_CHARACTER, ESCAPE_LENGTH);
  }

  /** Returns the id in a form field or a query parameter. */
  idInField(field: string, value: string): string | undefined {
    const word = foldCase(field);
    return this.texts.has(word) || this.data.has(word) ? undefined : this.recognized.id(value, field);
  }

  /** Calls back for each such string. */
  find(json: unknown, onFound: (id: string, path: PathNode) => void): void {
    this.walk(json, undefined, "", true, onFound);
  }

  /**
   * @param member the nearest member above that has a name
   * @param readsIds whether strings here are read, and not data
   */
  private walk(
    value: unknown,
    path: PathNode,
    member: string,
    readsIds: boolean,
    onFound: (id: string, path: PathNode) => void,
  ): void {
    if (typeof value === "string") {
      const id = readsIds && !this.texts.has(foldCase(member)) ? this.recognized.id(value, member) : undefined;
      if (id !== undefined) onFound(id, path);
    }
    if (typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length; i++) this.walk(value[i], { above: path, step: i }, member, readsIds, onFound);
      return;
    }
    const object = value as JsonObject;
    const read = readsIds || this.content.has(asText(object["type"]));
    for (const name in object) {
      const inner = object[name];
      if (inner === null || (typeof inner !== "object" && typeof inner !== "string") || this.skipped(name)) continue;
      const named = NUMBER.test(name) ? member : name.slice(-MAX_NAME);
      if (typeof inner === "string" && this.listed(name)) continue;
      this.walk(inner, { above: path, step: name }, named, read && !this.data.has(foldCase(named)), onFound);
    }
  }
}
