import { type JsonObject, ownProperty, writeJson } from "model-gateway/protocol";

/** A member or an element on a JSON path. */
type PathSegment = string | number;

/** A container that is open: which member of it comes next, and what it has. */
interface OpenContainer {
  /** Where it stands in the container around it; the root has none. */
  key: PathSegment | undefined;
  list: boolean;
  members: Set<PathSegment>;
}

/** Members and elements of a JSON path (RFC 9535) as far as they name one place: `.a`, `[0]`, `['a']`, `["a"]`. */
const SEGMENT = /\.([^.[\]*]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy;

/** An escape in a quoted name: those of JSON, and of either quote. */
const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|(.))/gs;
const CONTROLS: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

const unescapeName = (_: string, unit: string | undefined, character: string): string =>
  unit === undefined ? (ownProperty(CONTROLS, character) ?? character) : String.fromCharCode(Number.parseInt(unit, 16));

/**
 * Arguments that arrive as values with their JSON path (`partialArgs`), written as the text of one JSON object that only
 * grows. Values come in the order of the text; a string can come in pieces.
 */
export class PartialArguments {
  private readonly containers: OpenContainer[] = [];
  /** The path of the string whose end has not come; undefined when none is open. */
  private openString: string | undefined;

  /** What one entry adds. @throws Error when it cannot be added at the end, or names no place */
  add(entry: JsonObject): string {
    const path = String(entry["jsonPath"]);
    const continues = entry["willContinue"] === true;
    const text = entry["stringValue"];
    if (this.openString === path) {
      const more = typeof text === "string" ? stringBody(text) : "";
      if (!continues) this.openString = undefined;
      return continues ? more : `${more}"`;
    }
    const value = valueJson(entry);
    if (value === undefined) return "";
    const before = this.closeString() + this.moveTo(parseJsonPath(path));
    if (typeof text !== "string" || !continues) return before + value;
    this.openString = path;
    return before + value.slice(0, -1);
  }

  /** What closes the object. */
  end(): string {
    const start = this.containers.length === 0 ? "{" : "";
    if (start !== "") this.containers.push(newContainer(undefined, false));
    return start + this.closeString() + this.closeTo(0);
  }

  private closeString(): string {
    if (this.openString === undefined) return "";
    this.openString = undefined;
    return '"';
  }

  /** Everything from the last value to the next: containers closed, a comma, containers opened, the member's name. */
  private moveTo(path: readonly PathSegment[]): string {
    let text = this.containers.length === 0 ? "{" : "";
    if (text !== "") this.containers.push(newContainer(undefined, false));
    let shared = 0;
    while (
      shared < path.length - 1 &&
      this.containers[shared + 1]?.key === path[shared] &&
      shared + 1 < this.containers.length
    )
      shared++;
    text += this.closeTo(shared + 1);
    for (let i = shared; i < path.length; i++) {
      const inside = this.containers.at(-1) as OpenContainer;
      const segment = path[i] as PathSegment;
      if (inside.list !== (typeof segment === "number") || inside.members.has(segment))
        throw new Error("The arguments of a function call came out of order.");
      if (inside.members.size > 0) text += ",";
      inside.members.add(segment);
      if (!inside.list) text += `${JSON.stringify(segment)}:`;
      if (i === path.length - 1) break;
      const list = typeof path[i + 1] === "number";
      this.containers.push(newContainer(segment, list));
      text += list ? "[" : "{";
    }
    return text;
  }

  /** Closes containers until so many are open. */
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

/** A string as JSON without its quotes. Halves of a surrogate pair are escaped, and meet again when it is read. */
const stringBody = (text: string): string => JSON.stringify(text).slice(1, -1);

function valueJson(entry: JsonObject): string | undefined {
  const { stringValue, numberValue, boolValue } = entry;
  if ("nullValue" in entry) return "null";
  const value = stringValue ?? numberValue ?? boolValue;
  return value === undefined ? undefined : writeJson(value);
}

function parseJsonPath(path: string): PathSegment[] {
  const found: PathSegment[] = [];
  let at = path.startsWith("$") ? 1 : 0;
  SEGMENT.lastIndex = at;
  for (;;) {
    const match = SEGMENT.exec(path);
    if (!match) break;
    const [text, name, index, single, double] = match;
    at += text.length;
    found.push(index === undefined ? (name ?? (single ?? double ?? "").replace(ESCAPE, unescapeName)) : Number(index));
  }
  if (at < path.length || found.length === 0) throw new Error(`The path ${path} of an argument cannot be read.`);
  return found;
}
