import { type JsonObject, ownProperty, writeJson } from "model-gateway/protocol";

/** A member name or an array index of a JSON path. */
type PathSegment = string | number;

/** An object or array that is still open, with the members written so far. */
interface OpenContainer {
  /** The container's own key in its parent; undefined for the root. */
  key: PathSegment | undefined;
  list: boolean;
  members: Set<PathSegment>;
}

/** One segment of a JSON path (RFC 9535) that selects a single value: `.a`, `[0]`, `['a']` or `["a"]`. */
const SEGMENT = /\.([^.[\]*]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy;

/** An escape in a quoted name: one of JSON's, or an escaped quote of either kind. */
const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|(.))/gs;
const CONTROLS: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

const unescapeName = (_: string, unit: string | undefined, character: string): string =>
  unit === undefined ? (ownProperty(CONTROLS, character) ?? character) : String.fromCharCode(Number.parseInt(unit, 16));

/**
 * Builds the JSON text of arguments from values that arrive with their JSON path (`partialArgs`). Text is only appended:
 * values arrive in document order, and a string may arrive in pieces.
 */
export class PartialArguments {
  private readonly containers: OpenContainer[] = [];
  /** The path of a string whose end has not arrived; undefined if none is open. */
  private openString: string | undefined;

  /**
   * Returns the text that an entry adds.
   * @throws Error if the entry cannot be appended, or its path selects no single value
   */
  add(entry: JsonObject): string {
    const path = String(entry["jsonPath"]);
    const continues = entry["willContinue"] === true;
    const text = entry["stringValue"];
    if (this.openString === path) {
      const continuation = typeof text === "string" ? stringBody(text) : "";
      if (!continues) this.openString = undefined;
      return continues ? continuation : `${continuation}"`;
    }
    const value = valueJson(entry);
    if (value === undefined) return "";
    const prefix = this.closeString() + this.moveTo(parseJsonPath(path));
    if (typeof text !== "string" || !continues) return prefix + value;
    this.openString = path;
    return prefix + value.slice(0, -1);
  }

  /** Returns the text that closes the object. */
  end(): string {
    return this.openRoot() + this.closeString() + this.closeTo(0);
  }

  /** Opens the object if it is not open yet. */
  private openRoot(): string {
    if (this.containers.length > 0) return "";
    this.containers.push(newContainer(undefined, false));
    return "{";
  }

  private closeString(): string {
    if (this.openString === undefined) return "";
    this.openString = undefined;
    return '"';
  }

  /** Returns the text between the last value and the next: closed containers, a comma, opened containers, the member's name. */
  private moveTo(path: readonly PathSegment[]): string {
    let text = this.openRoot();
    let sharedDepth = 0;
    while (
      sharedDepth < path.length - 1 &&
      this.containers[sharedDepth + 1]?.key === path[sharedDepth] &&
      sharedDepth + 1 < this.containers.length
    )
      sharedDepth++;
    text += this.closeTo(sharedDepth + 1);
    for (let i = sharedDepth; i < path.length; i++) {
      const container = this.containers.at(-1) as OpenContainer;
      const segment = path[i] as PathSegment;
      if (container.list !== (typeof segment === "number") || container.members.has(segment))
        throw new Error("The arguments of a function call came out of order.");
      if (container.members.size > 0) text += ",";
      container.members.add(segment);
      if (!container.list) text += `${JSON.stringify(segment)}:`;
      if (i === path.length - 1) break;
      const list = typeof path[i + 1] === "number";
      this.containers.push(newContainer(segment, list));
      text += list ? "[" : "{";
    }
    return text;
  }

  /** Closes containers until `depth` are open. */
  private closeTo(depth: number): string {
    let text = "";
    while (this.containers.length > depth) text += this.containers.pop()?.list ? "]" : "}";
    return text;
  }
}

const newContainer = (key: PathSegment | undefined, list: boolean): OpenContainer => ({
  key,
  list,
  members: new Set(),
});

/** Returns a string as JSON without its quotes. A surrogate half is escaped, and is joined with its other half when parsed. */
const stringBody = (text: string): string => JSON.stringify(text).slice(1, -1);

function valueJson(entry: JsonObject): string | undefined {
  const { stringValue, numberValue, boolValue } = entry;
  if ("nullValue" in entry) return "null";
  const value = stringValue ?? numberValue ?? boolValue;
  return value === undefined ? undefined : writeJson(value);
}

function parseJsonPath(path: string): PathSegment[] {
  const segments: PathSegment[] = [];
  let at = path.startsWith("$") ? 1 : 0;
  SEGMENT.lastIndex = at;
  for (;;) {
    const match = SEGMENT.exec(path);
    if (!match) break;
    const [text, name, index, singleQuoted, doubleQuoted] = match;
    at += text.length;
    segments.push(
      index === undefined
        ? (name ?? (singleQuoted ?? doubleQuoted ?? "").replace(ESCAPE, unescapeName))
        : Number(index),
    );
  }
  if (at < path.length || segments.length === 0) throw new Error(`The path ${path} of an argument cannot be read.`);
  return segments;
}
