import { JsonError, type Member, type Scan, Scanner } from "../wire/json.ts";
import type { FormError } from "../wire/multipart.ts";
import { countMembers, firstElements } from "../wire/paths.ts";
import { type ByteSpan, type Edit, movedSpan, splice } from "../wire/splice.ts";
import { GatewayError } from "./errors.ts";

/** Bytes of a string that every scan has checked. */
const CHECKED = 256;
/** More names than any body may have: its scan has judged that. */
const MANY_KEYS = 1 << 30;
const DEEP = 1 << 12;
const DEEP_INSIDE = Buffer.from("[[");
/** Characters of a member's name that a refusal repeats. */
const LONGEST_NAME = 64;

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

  /** The value of a top-level member, parsed; undefined when there is no such member. @throws GatewayError `invalid_json` */
  value(name: string): unknown {
    const member = this.member(name);
    return member && this.reading(() => JSON.parse(this.slice(member.start, member.end).toString()));
  }

  /**
   * Checks top-level members to their end: of long strings the scan has seen the start only.
   * @param but those that are left as the scan has seen them
   * @throws GatewayError `invalid_json`
   */
  check(but: readonly string[] = []): void {
    if (this.length <= CHECKED) return;
    for (const { name, start, end } of this.scan?.members ?? [])
      if (end - start > CHECKED && !but.includes(name)) this.checkWhole(start, end);
  }

  private checkWhole(start: number, end: number): void {
    const scanner = new Scanner({ strings: "whole", maxDepth: DEEP, maxKeys: MANY_KEYS });
    try {
      // Deep inside nothing is remembered, and so tokens are passed many times as fast.
      scanner.push(DEEP_INSIDE);
      scanner.push(this.slice(start, end));
    } catch (cause) {
      throw this.fault() ?? GatewayError.from(cause, "invalid_json");
    }
  }

  /** The first elements of a top-level member that is an array, parsed; none where it is none. @throws GatewayError `invalid_json` */
  elements(name: string, count: number): unknown[] {
    const member = this.member(name);
    if (member?.kind !== "array") return [];
    const elements = firstElements(this.slice(member.start, member.end), count);
    return this.reading(() => elements.map((element) => JSON.parse(element.toString()) as unknown));
  }

  /** The whole body, parsed once; what it answers is shared. @throws GatewayError `invalid_json` */
  json(): unknown {
    this.parsed ??= { value: this.reading(() => JSON.parse(this.bytes().toString())) };
    return this.parsed.value;
  }

  /**
   * What somebody reads from the text. The scan looks at long strings at their start only: what a parser finds behind it is
   * told as the scan would have told it.
   * @throws GatewayError `invalid_json` with member and byte for a SyntaxError
   */
  reading<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (thrown) {
      if (thrown instanceof SyntaxError || (thrown instanceof GatewayError && thrown.code === "invalid_json"))
        throw this.fault() ?? GatewayError.from(thrown, "invalid_json");
      throw thrown;
    }
  }

  private fault(): GatewayError | undefined {
    const scanner = new Scanner({ strings: "whole" });
    try {
      for (const piece of this.buffers) scanner.push(piece);
      scanner.end();
      return undefined;
    } catch (error) {
      return notJson(error as JsonError);
    }
  }

  /**
   * The same for who must see all of it: of members named twice a parser keeps one, and another parser the other.
   * @throws GatewayError `invalid_json` where a member of any object is named twice
   */
  uniqueJson(): unknown {
    const value = this.json();
    this.unique ??= countMembers(this.bytes()) === membersOf(value);
    if (!this.unique) throw namedTwice();
    return value;
  }

  /** The same of one top-level member. @throws GatewayError `invalid_json` */
  uniqueValue(name: string): unknown {
    const member = this.member(name);
    if (!member) return undefined;
    const value = this.value(name);
    if (countMembers(this.slice(member.start, member.end)) !== membersOf(value)) throw namedTwice();
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

const namedTwice = (): GatewayError =>
  new GatewayError("invalid_json", {
    message: "An object of the request body names a member twice.",
    hint: "Name each member once: readers differ in which one they take.",
  });

/**
 * The value of a JSON text that all readers read alike.
 * @throws GatewayError `invalid_json` for what is no JSON, and where a member of any object is named twice
 */
export function uniquely(json: Buffer): unknown {
  try {
    const value: unknown = JSON.parse(json.toString());
    if (countMembers(json) === membersOf(value)) return value;
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
  throw namedTwice();
}

/** What the scanner says, in words for the one who sent the body. */
export function notJson(error: JsonError): GatewayError {
  const { member } = error;
  const where = member === undefined ? "" : `, in its member ${JSON.stringify(member.slice(0, LONGEST_NAME))}`;
  return new GatewayError("invalid_json", {
    message: `The request body is not valid JSON${where}. ${error.message}`,
    cause: error,
    ...(member === undefined ? {} : { param: member.slice(0, LONGEST_NAME) }),
  });
}

/** What is wrong with a form, in words for the one who sent it. */
export const notForm = (error: FormError): GatewayError =>
  new GatewayError("invalid_form", {
    message: `The form is malformed, or not read alike by everybody, at byte ${error.at}: ${error.message}`,
    hint: "Let a library for multipart/form-data write it.",
    cause: error,
  });

/** How many members the objects of a parsed value have together. The scanner bounds its depth. */
function membersOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let sum = 0;
  if (Array.isArray(value)) {
    for (const each of value) if (typeof each === "object") sum += membersOf(each);
    return sum;
  }
  // A list of the names of an object that has very many takes longer than going through them.
  for (const name in value) {
    const each: unknown = (value as Record<string, unknown>)[name];
    sum += typeof each === "object" ? 1 + membersOf(each) : 1;
  }
  return sum;
}

/**
 * Of a body that was written here. A client's request that was just within bounds is not refused for what other words make of
 * it: a message has more names in one protocol than in another, and arguments that were a text are objects.
 */
const WRITTEN = { maxDepth: 256, maxKeys: 200_000 } as const;

function scanned(pieces: readonly Buffer[]): Scan {
  const scanner = new Scanner(WRITTEN);
  try {
    for (const piece of pieces) scanner.push(piece);
    return scanner.end();
  } catch (cause) {
    const { fault } = cause as JsonError;
    if (fault !== "depth" && fault !== "keys")
      throw new GatewayError("plugin_failed", { message: "A plugin left a body that is not JSON.", cause });
    throw new GatewayError("not_translatable", {
      message:
        fault === "depth"
          ? `In the provider's protocol the request is nested deeper than ${WRITTEN.maxDepth} levels.`
          : `In the provider's protocol the request has more than ${WRITTEN.maxKeys} names.`,
      hint: "Arguments of calls are counted as the JSON that they are: send fewer or flatter arguments, schemas and messages.",
      cause,
    });
  }
}
