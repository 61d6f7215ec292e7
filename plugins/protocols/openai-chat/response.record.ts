import { asObject, type Event, type JsonObject } from "model-gateway/protocol";

/** A place in the frames of an answer that a member of an event is written to. */
export interface Spot {
  frame: number;
  /** The event's member, or what is read from it; see `spotValue` in response.same.ts. */
  of: string;
  path: readonly (string | number)[];
  /** Characters of the content before the block that a citation counts from. */
  before?: number;
}

/** What an event holds besides the vocabulary, only filled for encoding in this protocol. */
export interface AnswerNative {
  /** A frame without what the events carry, or the text of one that is no JSON object. */
  frame?: JsonObject | string;
  name?: string;
  spots?: Spot[];
}

/** Takes out of each frame what events carry, so that the same frames can be written from the events again. */
export class Recording {
  private frame: JsonObject = {};
  private count = -1;
  private readonly frames: JsonObject[] = [];

  /** A new frame; what it holds is carried by an event of its own. */
  begin(json: unknown, text: string, name: string | undefined, out: Event[]): void {
    this.count++;
    const object = asObject(json);
    this.frame = object ? structuredClone(object) : {};
    this.frames.push(this.frame);
    const native: AnswerNative = { frame: object ? this.frame : text, ...(name === undefined ? {} : { name }) };
    out.push({ type: "ping", native });
  }

  /** An event carries the value at a path of this frame, which is taken out. */
  spot(event: Event, of: string, path: readonly (string | number)[], before?: number): void {
    if (!this.take(path)) return;
    const native = (event.native ?? {}) as AnswerNative;
    native.spots ??= [];
    native.spots.push({ frame: this.count, of, path, ...(before === undefined ? {} : { before }) });
    event.native = native;
  }

  /** A value for an event that comes later. */
  later(of: string, path: readonly (string | number)[]): Spot[] {
    return this.take(path) ? [{ frame: this.count, of, path }] : [];
  }

  /** A value that no event carries after all. */
  putBack(spots: readonly Spot[], value: unknown): void {
    for (const { frame, path } of spots) {
      const parent = at(this.frames[frame], path.slice(0, -1));
      if (parent) parent[path.at(-1) as string] = value;
    }
  }

  private take(path: readonly (string | number)[]): boolean {
    const last = path.at(-1) as string;
    const parent = at(this.frame, path.slice(0, -1));
    if (!parent || !Object.hasOwn(parent, last)) return false;
    delete parent[last];
    return true;
  }
}

/** The object or list at a path. */
export function at(root: unknown, path: readonly (string | number)[]): JsonObject | undefined {
  let value = root;
  for (const step of path) value = (value as JsonObject | undefined)?.[step as string];
  return typeof value === "object" && value !== null ? (value as JsonObject) : undefined;
}
