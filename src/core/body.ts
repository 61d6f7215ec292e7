import { type Member, type Scan, Scanner } from "../wire/json.ts";
import { countMembers } from "../wire/paths.ts";
import { type ByteSpan, type Edit, movedSpan, splice } from "../wire/splice.ts";
import { GatewayError } from "./errors.ts";

/**
 * A request's body: its bytes, and where its top-level members stand. Parsed when somebody asks. It never changes: an edit
 * makes another body.
 */
export class Body {
  static readonly empty = new Body([], undefined);

  readonly length: number;
  private joined: Buffer | undefined;
  private parsed: { value: unknown } | undefined;
  private unique: boolean | undefined;

  /**
   * @param found where its members stand; `json`: it is JSON, and scanned when somebody asks; undefined: it is not JSON
   * @param modelField of a form: where the value of its field `model` stands
   */
  constructor(
    private buffers: readonly Buffer[],
    private found: Scan | "json" | undefined,
    readonly modelField?: ByteSpan,
  ) {
    let length = 0;
    for (const piece of buffers) length += piece.length;
    this.length = length;
  }

  /** Where its top-level members stand; undefined when it is not JSON. @throws GatewayError when an edit has broken it */
  get scan(): Scan | undefined {
    if (this.found === "json") this.found = scanned(this.buffers);
    return this.found;
  }

  /**
   * The same body with edits, whose offsets are those of this one; this one itself when there are none. What no edit touches
   * is not copied.
   * @throws Error when edits overlap or reach beyond the body.
   */
  edited(edits: readonly Edit[]): Body {
    if (edits.length === 0) return this;
    const field = this.modelField && movedSpan(this.modelField, edits);
    return new Body(splice(this.buffers, edits), this.found && "json", field);
  }

  /** The bytes as they came, decoded if they were compressed; one piece once they have been joined. */
  get pieces(): readonly Buffer[] {
    return this.buffers;
  }

  /** A top-level member. */
  member(name: string): Member | undefined {
    return this.scan?.find(name);
  }

  /** Bytes `start` to `end`; copied only when several pieces hold them. */
  slice(start: number, end: number): Buffer {
    if (this.buffers.length === 1) return (this.buffers[0] as Buffer).subarray(start, end);
    const parts: Buffer[] = [];
    let base = 0;
    for (const piece of this.buffers) {
      const from = Math.max(start - base, 0);
      const to = Math.min(end - base, piece.length);
      if (from < to) parts.push(from === 0 && to === piece.length ? piece : piece.subarray(from, to));
      base += piece.length;
      if (base >= end) break;
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  /** The value of a top-level member, parsed; undefined when there is no such member. */
  value(name: string): unknown {
    const member = this.member(name);
    return member && JSON.parse(this.slice(member.start, member.end).toString());
  }

  /** The whole body, parsed once; what it answers is shared. @throws GatewayError `invalid_json` */
  json(): unknown {
    if (!this.parsed) {
      try {
        this.parsed = { value: JSON.parse(this.bytes().toString()) };
      } catch (cause) {
        throw new GatewayError("invalid_json", { cause });
      }
    }
    return this.parsed.value;
  }

  /**
   * The same for who must see all of it: of members named twice a parser keeps one, and another parser the other.
   * @throws GatewayError `invalid_json` where a member of any object is named twice
   */
  uniqueJson(): unknown {
    const value = this.json();
    this.unique ??= countMembers(this.bytes()) === membersOf(value);
    if (!this.unique)
      throw new GatewayError("invalid_json", {
        message: "An object of the request body names a member twice.",
        hint: "Name each member once: readers differ in which one they take.",
      });
    return value;
  }

  /** The whole body in one buffer, joined once. */
  bytes(): Buffer {
    if (!this.joined) {
      this.joined = this.buffers.length === 1 ? (this.buffers[0] as Buffer) : Buffer.concat(this.buffers);
      if (this.buffers.length > 1) this.buffers = [this.joined];
    }
    return this.joined;
  }
}

/** How many members the objects of a parsed value have together. The scanner bounds its depth. */
function membersOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
  return inner.reduce((sum: number, each) => sum + membersOf(each), Array.isArray(value) ? 0 : inner.length);
}

function scanned(pieces: readonly Buffer[]): Scan {
  const scanner = new Scanner();
  try {
    for (const piece of pieces) scanner.push(piece);
    return scanner.end();
  } catch (cause) {
    throw new GatewayError("plugin_failed", { message: "A plugin left a body that is not JSON.", cause });
  }
}
