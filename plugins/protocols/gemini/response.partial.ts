import { entryOf, type JsonObject, writeJson } from "model-gateway/protocol";

type Segment = string | number;

/** A container that is open: which member of it comes next, and what it has. */
interface Open {
  /** Where it stands in the container around it; the root has none. */
  at: Segment | undefined;
  list: boolean;
  has: Set<Segment>;
}

/** More of the text; the value itself stands between `lead` and `tail` characters. */
export interface Piece {
  text: string;
  lead: number;
  tail: number;
}

/** Members and elements of a JSON path (RFC 9535) as far as they name one place: `.a`, `[0]`, `['a']`, `["a"]`. */
const SEGMENT = /\.([^.[\]*]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy;

/** An escape in a quoted name: those of JSON, and of either quote. */
const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|(.))/gs;
const CONTROLS: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

const unescaped = (_: string, unit: string | undefined, character: string): string =>
  unit === undefined ? (entryOf(CONTROLS, character) ?? character) : String.fromCharCode(Number.parseInt(unit, 16));

/**
 * Arguments that arrive as values with their JSON path (`partialArgs`), written as the text of one JSON object that only
 * grows. Values come in the order of the text; a string can come in pieces.
 */
export class PartialArguments {
  private readonly open: Open[] = [];
  /** The path of the string that goes on; undefined when none is open. */
  private string: string | undefined;

  /** What one entry adds. @throws Error when it cannot be added at the end, or names no place */
  add(entry: JsonObject): Piece {
    const path = String(entry["jsonPath"]);
    const goesOn = entry["willContinue"] === true;
    const text = entry["stringValue"];
    if (this.string === path) {
      const more = typeof text === "string" ? inner(text) : "";
      if (!goesOn) this.string = undefined;
      return { text: goesOn ? more : `${more}"`, lead: 0, tail: goesOn ? 0 : 1 };
    }
    const value = jsonOf(entry);
    if (value === undefined) return { text: "", lead: 0, tail: 0 };
    const before = this.closeString() + this.place(segments(path));
    if (typeof text !== "string") return { text: before + value, lead: before.length, tail: 0 };
    if (goesOn) this.string = path;
    const tail = goesOn ? 0 : 1;
    return { text: before + (goesOn ? value.slice(0, -1) : value), lead: before.length + 1, tail };
  }

  /** What closes the object. */
  end(): string {
    const start = this.open.length === 0 ? "{" : "";
    if (start !== "") this.open.push(container(undefined, false));
    return start + this.closeString() + this.leave(0);
  }

  private closeString(): string {
    if (this.string === undefined) return "";
    this.string = undefined;
    return '"';
  }

  /** Everything from the last value to the next: containers closed, a comma, containers opened, the member's name. */
  private place(path: readonly Segment[]): string {
    let text = this.open.length === 0 ? "{" : "";
    if (text !== "") this.open.push(container(undefined, false));
    let shared = 0;
    while (shared < path.length - 1 && this.open[shared + 1]?.at === path[shared] && shared + 1 < this.open.length)
      shared++;
    text += this.leave(shared + 1);
    for (let i = shared; i < path.length; i++) {
      const inside = this.open.at(-1) as Open;
      const segment = path[i] as Segment;
      if (inside.list !== (typeof segment === "number") || inside.has.has(segment))
        throw new Error("The arguments of a function call came out of order.");
      if (inside.has.size > 0) text += ",";
      inside.has.add(segment);
      if (!inside.list) text += `${JSON.stringify(segment)}:`;
      if (i === path.length - 1) break;
      const list = typeof path[i + 1] === "number";
      this.open.push(container(segment, list));
      text += list ? "[" : "{";
    }
    return text;
  }

  /** Closes containers until so many are open. */
  private leave(depth: number): string {
    let text = "";
    while (this.open.length > depth) text += this.open.pop()?.list ? "]" : "}";
    return text;
  }
}

const container = (at: Segment | undefined, list: boolean): Open => ({ at, list, has: new Set() });

/** A string as JSON without its quotes. Halves of a surrogate pair are escaped, and meet again when it is read. */
const inner = (text: string): string => JSON.stringify(text).slice(1, -1);

function jsonOf(entry: JsonObject): string | undefined {
  const { stringValue, numberValue, boolValue } = entry;
  if ("nullValue" in entry) return "null";
  const value = stringValue ?? numberValue ?? boolValue;
  return value === undefined ? undefined : writeJson(value);
}

function segments(path: string): Segment[] {
  const found: Segment[] = [];
  let at = path.startsWith("$") ? 1 : 0;
  SEGMENT.lastIndex = at;
  for (;;) {
    const match = SEGMENT.exec(path);
    if (!match) break;
    const [text, name, index, single, double] = match;
    at += text.length;
    found.push(index === undefined ? (name ?? (single ?? double ?? "").replace(ESCAPE, unescaped)) : Number(index));
  }
  if (at < path.length || found.length === 0) throw new Error(`The path ${path} of an argument cannot be read.`);
  return found;
}
