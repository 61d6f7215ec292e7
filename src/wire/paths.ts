import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from "./grammar.ts";
import type { Edit } from "./splice.ts";
import type { JsonObject } from "./values.ts";

/** The path of a value in JSON: member names and element indexes, from the outside in. */
export type JsonPath = readonly (string | number)[];

/** A string within a value, and the object that has it; an empty one where a list has it. */
interface StringPlace {
  readonly path: JsonPath;
  readonly holder: JsonObject;
}

/** The maximum depth, as in the JSON parser: paths of deeper JSON would take memory quadratic in the depth. */
const MAX_DEPTH = 512;

/** Yields all strings within a value, in document order. @param path the value's */
export function* stringsIn(value: unknown, path: JsonPath): Generator<StringPlace> {
  const pending: (StringPlace & { value: unknown })[] = [{ value, path, holder: {} }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { value, path } = next;
    if (typeof value === "string") yield next;
    else if (path.length >= MAX_DEPTH) continue;
    else if (Array.isArray(value))
      for (let i = value.length - 1; i >= 0; i--) pending.push({ value: value[i], path: [...path, i], holder: {} });
    else if (typeof value === "object" && value !== null)
      for (const name of Object.keys(value).reverse())
        pending.push({ value: (value as JsonObject)[name], path: [...path, name], holder: value as JsonObject });
  }
}

/** Changes of values in a JSON text, by path. */
interface PathChanges {
  /** Values to remove, each with its name and one comma. */
  readonly remove?: Iterable<JsonPath>;
  /**
   * JSON to put at a path: replaces the existing value, even a removed one, or is added as the last member of an object, or with the
   * index -1 as the first element of a list that keeps others. Ignored below a removed or replaced value.
   */
  readonly replace?: Iterable<readonly [path: JsonPath, json: string]>;
}

/**
 * Returns the edits for these changes; all other bytes are kept. Paths that do not exist are otherwise ignored.
 * @param text valid JSON; of duplicate members, of which parsers read one or the other, all are changed
 */
export function pathEdits(text: Buffer, { remove = [], replace = [] }: PathChanges): Edit[] {
  const root = new PathTree();
  for (const path of remove) root.nodeAt(path).isRemoved = true;
  for (const [path, json] of replace) root.nodeAt(path).replacement = json;
  const edits: Edit[] = [];
  new PathWalker(text, edits).value(skipSpace(text, 0), root);
  return edits;
}

/**
 * Returns the bytes of each of the first elements of an array.
 * @param text valid JSON that is an array
 */
export function firstElements(text: Buffer, count: number): Buffer[] {
  const elements: Buffer[] = [];
  let at = skipSpace(text, skipSpace(text, 0) + 1);
  while (elements.length < count && at < text.length && text[at] !== CLOSE_ARRAY) {
    const end = skipValue(text, at);
    elements.push(text.subarray(at, end));
    at = skipSpace(text, end);
    if (text[at] === COMMA) at = skipSpace(text, at + 1);
  }
  return elements;
}

/**
 * Counts the members of all objects in a JSON text, duplicates included.
 * @param text valid JSON
 */
export function countMembers(text: Buffer): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === QUOTE) at = skipString(text, at) - 1;
    else if (text[at] === COLON) count++;
  }
  return count;
}

const ESCAPE = Buffer.from("\\u");

/**
 * Returns the same JSON with names that have no `\u`, except for control characters and lone surrogates, which have no other form.
 * A text that is no valid JSON stays none.
 * @throws SyntaxError for a name that is not valid
 */
export function withPlainNames(text: Buffer): Buffer {
  const pieces: Buffer[] = [];
  let copied = 0;
  let nextEscape = text.indexOf(ESCAPE);
  for (let at = text.indexOf(QUOTE); at >= 0 && nextEscape >= 0; ) {
    const end = skipString(text, at);
    if (nextEscape < at) nextEscape = text.indexOf(ESCAPE, at);
    if (nextEscape >= 0 && nextEscape < end) {
      if (text[skipSpace(text, end)] === COLON) {
        const name: unknown = JSON.parse(text.toString("utf8", at, end));
        pieces.push(text.subarray(copied, at), Buffer.from(JSON.stringify(name)));
        copied = end;
      }
      nextEscape = text.indexOf(ESCAPE, end);
    }
    at = text.indexOf(QUOTE, end);
  }
  return pieces.length === 0 ? text : Buffer.concat([...pieces, text.subarray(copied)]);
}

/** One node in the tree of searched paths. */
class PathTree {
  isRemoved = false;
  replacement: string | undefined;
  children: Map<string | number, PathTree> | undefined;

  nodeAt(path: JsonPath): PathTree {
    let node: PathTree = this;
    for (const name of path) {
      node.children ??= new Map();
      let next = node.children.get(name);
      if (!next) {
        next = new PathTree();
        node.children.set(name, next);
      }
      node = next;
    }
    return node;
  }
}

const EMPTY = Buffer.alloc(0);

/** The start (of a member: its name) and end of a member or element. */
interface ChildSpan {
  start: number;
  end: number;
  isRemoved: boolean;
}

class PathWalker {
  constructor(
    private readonly text: Buffer,
    private readonly edits: Edit[],
  ) {}

  /** Reads the value at an offset, and makes the changes below it. Returns the offset after it. */
  value(start: number, node: PathTree | undefined): number {
    if (!node) return skipValue(this.text, start);
    const { children, replacement } = node;
    if (children && replacement === undefined) return this.container(start, children);
    const end = skipValue(this.text, start);
    if (replacement !== undefined) this.edits.push({ start, end, bytes: Buffer.from(replacement) });
    return end;
  }

  private container(start: number, nodes: ReadonlyMap<string | number, PathTree>): number {
    const { text } = this;
    const open = text[start];
    if (open !== OPEN_OBJECT && open !== OPEN_ARRAY) return skipValue(text, start);
    const children: ChildSpan[] = [];
    const names = new Set<string>();
    let at = skipSpace(text, start + 1);
    while (text[at] !== CLOSE_OBJECT && text[at] !== CLOSE_ARRAY) {
      const begin = at;
      let name: string | number = children.length;
      if (open === OPEN_OBJECT) {
        at = skipString(text, at);
        name = JSON.parse(text.toString("utf8", begin, at)) as string;
        at = skipSpace(text, skipSpace(text, at) + 1);
      }
      const node = nodes.get(name);
      if (typeof name === "string") names.add(name);
      const isRemoved = node?.isRemoved === true && node.replacement === undefined;
      at = this.value(at, isRemoved ? undefined : node);
      children.push({ start: begin, end: at, isRemoved });
      at = skipSpace(text, at);
      if (text[at] === COMMA) at = skipSpace(text, at + 1);
    }
    const first = nodes.get(-1)?.replacement;
    if (first !== undefined && open === OPEN_ARRAY)
      this.edits.push({ start: start + 1, end: start + 1, bytes: Buffer.from(`${first},`) });
    this.remove(children, start, at + 1);
    if (open === OPEN_OBJECT) this.add(nodes, names, at, children.some(({ isRemoved }) => !isRemoved) ? "," : "");
    return at + 1;
  }

  /** Adds the members that the object lacks, after its last one. */
  private add(
    nodes: ReadonlyMap<string | number, PathTree>,
    names: ReadonlySet<string>,
    end: number,
    separator: string,
  ): void {
    const added: string[] = [];
    for (const [name, { replacement }] of nodes)
      if (typeof name === "string" && replacement !== undefined && !names.has(name))
        added.push(`${JSON.stringify(name)}:${replacement}`);
    if (added.length > 0) this.edits.push({ start: end, end, bytes: Buffer.from(separator + added.join(",")) });
  }

  /** Removes each run of children with the comma after it, the last run with the comma before it. */
  private remove(children: readonly ChildSpan[], start: number, end: number): void {
    for (let i = 0; i < children.length; i++) {
      const first = i;
      while (children[i]?.isRemoved) i++;
      if (i === first) continue;
      const before = children[first - 1];
      const after = children[i];
      if (after) this.cut((children[first] as ChildSpan).start, after.start);
      else if (before) this.cut(before.end, (children[i - 1] as ChildSpan).end);
      else this.cut(start + 1, end - 1);
    }
  }

  private cut(start: number, end: number): void {
    this.edits.push({ start, end, bytes: EMPTY });
  }
}

function skipSpace(text: Buffer, from: number): number {
  let at = from;
  while (at < text.length && (text[at] as number) <= 0x20) at++;
  return at;
}

/** Bytes of a string that are read one by one before its end is searched for: a call for each escaped quote would cost 20 times as much. */
const MAX_BYTEWISE = 64;

/** Returns the offset after a string whose opening quote is at `from`. */
function skipString(text: Buffer, from: number): number {
  let at = from + 1;
  for (;;) {
    for (const near = Math.min(at + MAX_BYTEWISE, text.length); at < near; at++) {
      const byte = text[at];
      if (byte === QUOTE) return at + 1;
      if (byte === BACKSLASH) at++;
    }
    const quote = text.indexOf(QUOTE, at);
    if (quote < 0) return text.length;
    let slashStart = quote;
    while (slashStart > at && text[slashStart - 1] === BACKSLASH) slashStart--;
    if ((quote - slashStart) % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function skipValue(text: Buffer, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const byte = text[at];
    if (byte === QUOTE) at = skipString(text, at);
    else {
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++;
      else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--;
      else if (depth === 0) return scalarEnd(text, at);
      at++;
    }
  } while (depth > 0 && at < text.length);
  return at;
}

function scalarEnd(text: Buffer, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const byte = text[at] as number;
    if (byte <= 0x20 || byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) break;
  }
  return at;
}
