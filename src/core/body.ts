import { isUtf8 } from "node:buffer";
import { parseClientJson } from "../wire/client-json.ts";
import { JsonError, type JsonFault, type Member, type Scan, Scanner } from "../wire/json.ts";
import type { FormError } from "../wire/multipart.ts";
import { countMembers, firstElements } from "../wire/paths.ts";
import { joinPieces } from "../wire/pieces.ts";
import { recentText } from "../wire/recent-texts.ts";
import { type ByteSpan, type Edit, shiftSpan, splice } from "../wire/splice.ts";
import { mayEscapeNames } from "../wire/watch.ts";
import { GatewayError } from "./errors.ts";

/** Bytes of a string that every scan checks. */
const CHECKED_BYTES = 256;
/** More names than any body can have: its scan has already checked the limit. */
const UNLIMITED_KEYS = 1 << 30;
const UNLIMITED_DEPTH = 1 << 12;
const NESTED_START = Buffer.from("[[");
/** Maximum characters of a member's name that an error repeats. */
const MAX_SHOWN_NAME = 64;

/**
 * A request's body: its bytes, and the positions of its top-level members. Parsed on demand. Immutable: edits create a new one.
 */
export class Body {
  static readonly empty = new Body([], undefined);

  readonly length: number;
  private joined: Buffer | undefined;
  private parsed: { value: unknown } | undefined;
  private unique: boolean | undefined;
  /** Where each buffer starts; known once several are sliced. */
  private starts: readonly number[] | undefined;

  /**
   * @param found positions of its members; `json`: it is JSON, scanned on demand; undefined: it is not JSON
   * @param modelField of a form: the position of the value of its field `model`
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

  /**
   * Positions of its top-level members; undefined when it is not JSON.
   * @throws GatewayError when an edit has made it invalid
   */
  get scan(): Scan | undefined {
    if (this.found === "json") this.found = scanWritten(this.buffers);
    return this.found;
  }

  /**
   * Returns the body with edits applied, whose offsets refer to this one; this one itself when there are none. Bytes outside the
   * edits are not copied.
   * @throws GatewayError `plugin_failed` when the result is not JSON; Error when edits overlap or exceed the body
   */
  edited(edits: readonly Edit[]): Body {
    if (edits.length === 0) return this;
    const field = this.modelField && shiftSpan(this.modelField, edits);
    const pieces = splice(this.buffers, edits);
    return new Body(pieces, this.scanEdited(pieces, edits), field);
  }

  /**
   * Checks edits at once, while it is known whose they are; the text is scanned again only where they change parts of members.
   * @throws GatewayError `plugin_failed`; `invalid_json` for a fault that was there before
   */
  private scanEdited(pieces: readonly Buffer[], edits: readonly Edit[]): Scan | "json" | undefined {
    const { found } = this;
    if (found === undefined) return undefined;
    if (found !== "json" && edits.every((edit) => changesMember(found, edit))) return "json";
    try {
      return scanWritten(pieces, "whole");
    } catch (error) {
      throw this.findFault() ?? error;
    }
  }

  /** The original bytes, decompressed if they were compressed; a single buffer once they have been joined. */
  get pieces(): readonly Buffer[] {
    return this.buffers;
  }

  /** Returns a top-level member. */
  member(name: string): Member | undefined {
    return this.scan?.find(name);
  }

  /** Returns bytes `start` to `end`; copied only when they span several buffers. */
  slice(start: number, end: number): Buffer {
    if (this.buffers.length === 1) return (this.buffers[0] as Buffer).subarray(start, end);
    const parts: Buffer[] = [];
    let index = this.indexAt(start);
    let base = this.starts?.[index] ?? 0;
    for (let piece = this.buffers[index]; piece && base < end; piece = this.buffers[++index]) {
      const from = Math.max(start - base, 0);
      const to = Math.min(end - base, piece.length);
      if (from < to) parts.push(from === 0 && to === piece.length ? piece : piece.subarray(from, to));
      base += piece.length;
    }
    return joinPieces(parts);
  }

  /** Returns the text of some bytes. */
  text({ start, end }: ByteSpan): string {
    const { buffers } = this;
    return buffers.length === 1 ? recentText(buffers[0] as Buffer, start, end) : this.slice(start, end).toString();
  }

  /** Returns the index of the buffer with an offset: a search through all of them for each slice would be quadratic. */
  private indexAt(offset: number): number {
    if (!this.starts) {
      const starts: number[] = [];
      let at = 0;
      for (const { length } of this.buffers) {
        starts.push(at);
        at += length;
      }
      this.starts = starts;
    }
    let [low, high] = [0, this.starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /**
   * Returns the parsed value of a top-level member; undefined when there is none.
   * @throws GatewayError `invalid_json`
   */
  value(name: string): unknown {
    const member = this.member(name);
    if (!member) return undefined;
    if (this.parsed) return (this.parsed.value as Record<string, unknown>)[name];
    if (member.kind === "number") return Number(this.text(member));
    return this.parse(() => this.parseBytes(this.slice(member.start, member.end)));
  }

  /**
   * Checks top-level members completely: the scan checks only the start of long strings.
   * @param but members that are not checked again
   * @throws GatewayError `invalid_json`
   */
  check(but: readonly string[] = []): void {
    if (this.length <= CHECKED_BYTES) return;
    for (const { name, start, end } of this.scan?.members ?? [])
      if (end - start > CHECKED_BYTES && !but.includes(name)) this.checkWhole(start, end);
  }

  private checkWhole(start: number, end: number): void {
    const scanner = new Scanner({ strings: "whole", maxDepth: UNLIMITED_DEPTH, maxKeys: UNLIMITED_KEYS });
    try {
      // Deep inside, the scanner keeps no names, and so reads tokens many times as fast.
      scanner.push(NESTED_START);
      scanner.push(this.slice(start, end));
    } catch (cause) {
      throw this.findFault() ?? GatewayError.from(cause, "invalid_json");
    }
  }

  /** Returns its top-level members, each parsed on access: most readers need one or two of them. */
  lazyMembers(): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    for (const { name } of this.scan?.members ?? [])
      Object.defineProperty(members, name, { get: () => this.value(name), enumerable: true, configurable: true });
    return members;
  }

  /**
   * Returns the first elements of a top-level array, parsed; none if the member is not an array.
   * @throws GatewayError `invalid_json`
   */
  elements(name: string, count: number): unknown[] {
    const member = this.member(name);
    if (member?.kind !== "array") return [];
    const elements = firstElements(this.slice(member.start, member.end), count);
    return this.parse(() => elements.map((element) => this.parseBytes(element)));
  }

  /**
   * Parses the whole body, once; callers share the value.
   * @throws GatewayError `invalid_json`
   */
  json(): unknown {
    this.parsed ??= { value: this.parse(() => this.parseBytes(this.bytes())) };
    return this.parsed.value;
  }

  private parseBytes(json: Buffer): unknown {
    const { found } = this;
    return parseClientJson(json, typeof found === "object" ? mayEscapeNames(found) : undefined);
  }

  /**
   * Runs a function that parses the text. The scan checks only the start of long strings: errors that a parser finds later are
   * reported as the scan would report them.
   * @throws GatewayError `invalid_json` with member and byte for a SyntaxError
   */
  parse<Result>(read: () => Result): Result {
    try {
      return read();
    } catch (thrown) {
      if (thrown instanceof SyntaxError || (thrown instanceof GatewayError && thrown.code === "invalid_json"))
        throw this.findFault() ?? GatewayError.from(thrown, "invalid_json");
      throw thrown;
    }
  }

  private findFault(): GatewayError | undefined {
    const scanner = new Scanner({ ...WRITTEN_LIMITS, strings: "whole" });
    try {
      for (const piece of this.buffers) scanner.push(piece);
      scanner.end();
      return undefined;
    } catch (error) {
      return invalidJsonError(error as JsonError);
    }
  }

  /**
   * Parses the whole body for a reader that must see all of it: of duplicate members one parser keeps the first, another the
   * last.
   * @throws GatewayError `invalid_json` where a member of any object is named twice
   */
  uniqueJson(): unknown {
    const value = this.json();
    this.unique ??= countMembers(this.bytes()) === countParsedMembers(value);
    if (!this.unique) throw duplicateMemberError();
    return value;
  }

  /**
   * Does the same for one top-level member.
   * @throws GatewayError `invalid_json`
   */
  uniqueValue(name: string): unknown {
    const member = this.member(name);
    if (!member) return undefined;
    const value = this.value(name);
    if (member.kind !== "object" && member.kind !== "array") return value;
    if (countMembers(this.slice(member.start, member.end)) !== countParsedMembers(value)) throw duplicateMemberError();
    return value;
  }

  /** Lets go of the parsed value: who needs it again parses it again. */
  releaseParsed(): void {
    this.parsed = undefined;
  }

  /** Returns the whole body in one buffer, joined once. */
  bytes(): Buffer {
    if (!this.joined) {
      this.joined = joinPieces(this.buffers);
      if (this.buffers.length > 1) this.buffers = [this.joined];
    }
    return this.joined;
  }
}

const duplicateMemberError = (): GatewayError =>
  new GatewayError("invalid_json", {
    message: "An object of the request body names a member twice.",
    hint: "Name each member once: readers differ in which one they take.",
  });

/**
 * Parses a JSON text that all parsers read alike.
 * @throws GatewayError `invalid_json` for invalid JSON, and where a member of any object is named twice
 */
export function parseUnambiguous(json: Buffer): unknown {
  try {
    const value = parseClientJson(json);
    if (countMembers(json) === countParsedMembers(value)) return value;
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
  throw duplicateMemberError();
}

/** Returns a scanner's error as an error for the client. */
export function invalidJsonError(error: JsonError): GatewayError {
  const { member } = error;
  const where = member === undefined ? "" : `, in its member ${JSON.stringify(member.slice(0, MAX_SHOWN_NAME))}`;
  return new GatewayError("invalid_json", {
    message: `The request body is not valid JSON${where}. ${error.message}`,
    cause: error,
    ...(member === undefined ? {} : { param: member.slice(0, MAX_SHOWN_NAME) }),
  });
}

/** Returns a form's error as an error for the client, which names the field at fault, if it is one. */
export const invalidFormError = (error: FormError): GatewayError =>
  error.field !== undefined
    ? new GatewayError("invalid_field", { message: error.message, param: error.field, cause: error })
    : new GatewayError("invalid_form", {
        message: `The form is malformed, or not read alike by everybody, at byte ${error.at}: ${error.message}`,
        hint: "Let a library for multipart/form-data write it.",
        cause: error,
      });

/** Returns the total number of members of all objects in a parsed value. The scanner limits its depth. */
function countParsedMembers(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let sum = 0;
  if (Array.isArray(value)) {
    for (const each of value) if (typeof each === "object") sum += countParsedMembers(each);
    return sum;
  }
  // For an object with very many names, Object.keys takes longer than iteration.
  for (const name in value) {
    const each: unknown = (value as Record<string, unknown>)[name];
    sum += typeof each === "object" ? 1 + countParsedMembers(each) : 1;
  }
  return sum;
}

/**
 * Limits for a body written by the gateway. They are higher, so that a client's request just within its limits is not refused
 * after translation: a message has more names in one protocol than in another, and arguments that were a string become objects.
 */
const WRITTEN_LIMITS = { maxDepth: 256, maxKeys: 200_000 } as const;

/** How such a body goes beyond a limit, by the scanner's fault. */
const LIMIT_MESSAGES: ReadonlyMap<JsonFault, string> = new Map([
  ["depth", `is nested deeper than ${WRITTEN_LIMITS.maxDepth} levels`],
  ["keys", `has more than ${WRITTEN_LIMITS.maxKeys} names`],
  ["name", "has a name that is too long"],
]);

/**
 * Reports whether an edit replaces, adds or removes a whole member, so that the body stays JSON.
 * @throws GatewayError `plugin_failed` where the new value is not JSON
 */
function changesMember(scan: Scan, { start, end, bytes, member }: Edit): boolean {
  if (member) {
    if (member.scan !== scan) return false;
    if (!member.gone) checkJson(bytes, `{${bytes.toString()}}`);
    return true;
  }
  if (!scan.members.some((each) => each.start === start && each.end === end)) return false;
  checkJson(bytes, bytes.toString());
  return true;
}

/** @throws GatewayError `plugin_failed` */
function checkJson(bytes: Buffer, text: string): void {
  try {
    JSON.parse(text);
  } catch (cause) {
    throw notJsonError(cause);
  }
  if (!isUtf8(bytes)) throw notJsonError("The text is not UTF-8.");
}

const notJsonError = (cause: unknown): GatewayError =>
  new GatewayError("plugin_failed", { message: "A plugin left a body that is not JSON.", cause });

function scanWritten(pieces: readonly Buffer[], strings: "start" | "whole" = "start"): Scan {
  const scanner = new Scanner({ ...WRITTEN_LIMITS, strings });
  try {
    for (const piece of pieces) scanner.push(piece);
    return scanner.end();
  } catch (cause) {
    const beyond = LIMIT_MESSAGES.get((cause as JsonError).fault);
    if (beyond === undefined) throw notJsonError(cause);
    throw new GatewayError("not_translatable", {
      message: `In the provider's protocol the request ${beyond}.`,
      hint: "Arguments of calls are counted as the JSON that they are: send fewer or flatter arguments, schemas and messages.",
      cause,
    });
  }
}
