import { type HeaderName, headerName, literalName } from "./header-names.ts";

/** Request headers in which clients send only a key. */
export const KEY_HEADERS = ["x-api-key", "x-goog-api-key", "api-key"];

/**
 * The header that a 401 must have (RFC 9110 §15.5.2): clients of Java and Android throw without it, instead of showing the error.
 * Browsers ask nobody for a password of this kind.
 */
export const CHALLENGE = ["www-authenticate", 'Bearer realm="model-gateway"'] as const;

/** Request headers with a client's own credentials, which must not reach a provider. */
export const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set([
  ...KEY_HEADERS,
  "authorization",
  "cookie",
  "proxy-authorization",
]);

/**
 * Header lines in their original order and spelling. Names are case-insensitive; a line can occur more than once. Framing headers
 * can be removed, but not added: the engine sets content-length, transfer-encoding and connection.
 */
export class HeaderList {
  /** The bits of all names that occur or have occurred: most names that are looked for do not. */
  private bits = 0;

  /**
   * @param lines name, value, name, value, … as in node's `rawHeaders`
   * @param names what is known about the name of each line; both arrays then belong to the list
   */
  constructor(
    readonly lines: string[] = [],
    private readonly names: HeaderName[] = namesOf(lines),
  ) {
    for (let i = 0; i < names.length; i++) this.bits |= (names[i] as HeaderName).bit;
  }

  /** The first value of a header, or undefined. */
  get(name: string): string | undefined {
    const index = this.indexOf(literalName(name));
    return index < 0 ? undefined : this.lines[2 * index + 1];
  }

  has(name: string): boolean {
    return this.indexOf(literalName(name)) >= 0;
  }

  /**
   * Replaces all lines of that name by one; appends it if there was none.
   * @throws TypeError for an invalid name or value, and for a header that frames the message
   */
  set(name: string, value: string): this {
    const header = checkHeader(name, value);
    const index = this.indexOf(header);
    if (index < 0) return this.append(name, value);
    this.lines[2 * index + 1] = value;
    for (let i = this.names.length - 1; i > index; i--) if (this.keyAt(i) === header.key) this.removeAt(i);
    return this;
  }

  /** @throws TypeError for an invalid name or value, and for a header that frames the message */
  append(name: string, value: string): this {
    const header = checkHeader(name, value);
    this.lines.push(name, value);
    this.names.push(header);
    this.bits |= header.bit;
    return this;
  }

  delete(name: string): boolean {
    const header = literalName(name);
    let removed = false;
    for (let index = this.indexOf(header); index >= 0; index = this.indexOf(header, index)) {
      this.removeAt(index);
      removed = true;
    }
    return removed;
  }

  /**
   * Removes every line whose lower-case name and value the test accepts; returns the number of removed lines. All lines are tested
   * before one is removed, so that a test may read the list.
   */
  deleteWhere(test: (key: string, value: string) => boolean): number {
    const { names, lines } = this;
    let removed: number[] | undefined;
    for (let i = 0; i < names.length; i++) {
      if (!test(this.keyAt(i), lines[2 * i + 1] as string)) continue;
      // With the index, as the first `push` takes room for 17.
      if (removed) removed.push(i);
      else removed = [i];
    }
    if (!removed) return 0;
    let kept = removed[0] as number;
    for (let i = kept, next = 0; i < names.length; i++)
      if (i === removed[next]) next++;
      else this.move(i, kept++);
    this.truncate(kept);
    return removed.length;
  }

  /** Yields lower-case name and value of each line, in order. */
  *entries(): Generator<[name: string, value: string]> {
    for (let i = 0; i < this.names.length; i++) yield [this.keyAt(i), this.lines[2 * i + 1] as string];
  }

  /** Returns the first of these lower-case names that occurs in more than one line. */
  repeated(names: Iterable<string>): string | undefined {
    for (const name of names) {
      const header = literalName(name);
      const first = this.indexOf(header);
      if (first >= 0 && this.indexOf(header, first + 1) >= 0) return name;
    }
    return undefined;
  }

  /** Returns a list of the lines whose lower-case name the test accepts. */
  filter(test: (key: string) => boolean): HeaderList {
    // A copy that shrinks: lists that grow take room for 17 entries, and are copied.
    const filtered = new HeaderList(this.lines.slice(), this.names.slice());
    const { length } = this.names;
    let kept = 0;
    for (let i = 0; i < length; i++) {
      if (!test(filtered.keyAt(i))) continue;
      if (kept !== i) filtered.move(i, kept);
      kept++;
    }
    filtered.truncate(kept);
    return filtered;
  }

  /** A loop, because cached names are compared by reference where `Array.indexOf` compares characters. */
  private indexOf({ key, bit }: HeaderName, from = 0): number {
    if ((this.bits & bit) === 0) return -1;
    for (let i = from; i < this.names.length; i++) if (this.keyAt(i) === key) return i;
    return -1;
  }

  private keyAt(i: number): string {
    return (this.names[i] as HeaderName).key;
  }

  private move(from: number, to: number): void {
    const { names, lines } = this;
    names[to] = names[from] as HeaderName;
    lines[2 * to] = lines[2 * from] as string;
    lines[2 * to + 1] = lines[2 * from + 1] as string;
  }

  /** Keeps only the first lines. An element at a time: `splice`, and setting a length, take longer. */
  private truncate(length: number): void {
    const { names, lines } = this;
    while (names.length > length) {
      names.pop();
      lines.pop();
      lines.pop();
    }
  }

  private removeAt(i: number): void {
    this.names.splice(i, 1);
    this.lines.splice(2 * i, 2);
  }
}

/** Looks up the name of each line. */
export function namesOf(lines: readonly string[]): HeaderName[] {
  const names: HeaderName[] = [];
  for (let i = 0; i < lines.length; i += 2) names.push(headerName(lines[i] as string));
  return names;
}

/** Reports whether a content type is that of an event stream, in any case (RFC 9110 §8.3.1). */
export const isEventStream = (type: string | undefined): boolean => type !== undefined && EVENT_STREAM.test(type);

const EVENT_STREAM = /^text\/event-stream\b/i;

/** Returns the values of every line of that lower-case name. */
export const headerValues = (headers: HeaderList, name: string): string[] =>
  Array.from(headers.entries()).flatMap(([key, value]) => (key === name ? [value] : []));

/** Returns header lines in the form that node's own clients and servers use. @param more lines: name, value, … */
export function headerObject(headers: HeaderList, more: readonly string[] = []): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = {};
  const add = (name: string, value: string): void => {
    const existing = object[name];
    object[name] = existing === undefined ? value : [...(Array.isArray(existing) ? existing : [existing]), value];
  };
  for (const [name, value] of headers.entries()) add(name, value);
  for (let i = 0; i < more.length; i += 2) add(headerName(more[i] as string).key, more[i + 1] as string);
  return object;
}

const LENGTH = "content-length";
const LENGTHS: ReadonlySet<string> = new Set([LENGTH]);

/** Matches a character that no value may contain. Searched unanchored, as V8 then tests many characters at once. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/;

/** Reports whether a value may be written to a socket: it is latin1 without CR, LF, NUL and other control characters. */
export const isSendable = (value: string): boolean => !UNSENDABLE.test(value);

const NOT_IN_PATH = /[^\x21-\xff]/;

/** Reports whether a value may be written into the first line of a request: it is a text of latin1 without spaces and control characters. */
export const isSendableInPath = (value: string): boolean => typeof value === "string" && !NOT_IN_PATH.test(value);

/** Returns the name of a header that may be added to a message with this value. The value may be a secret and is not put into the error. */
function checkHeader(name: string, value: string): HeaderName {
  const header = headerName(name);
  if (typeof name !== "string" || !header.isToken)
    throw new TypeError(`${JSON.stringify(name)} cannot be the name of a header.`);
  if (header.isHopByHop || header.key === LENGTH) throw framingError(name);
  if (typeof value !== "string" || !isSendable(value))
    throw new TypeError(`The header ${name} has a value that cannot be sent.`);
  return header;
}

/** The error for a header that the engine alone sets: another value would change where the message ends. */
const framingError = (name: string): TypeError =>
  new TypeError(`The header ${name} belongs to the connection, and the gateway sets it.`);

/**
 * Checks flat name, value lines that are added to a message.
 * @throws TypeError for an invalid name or value, for a name without a value, and for a header that frames the message
 */
export function checkHeaderLines(lines: readonly string[]): void {
  for (let i = 0; i < lines.length; i += 2) {
    checkHeader(lines[i] as string, lines[i + 1] as string);
  }
}

/** Returns headers with this length of the body: only who writes the body may say where it ends. */
export const withLength = (headers: HeaderList, bytes: number): HeaderList =>
  new HeaderList([...withoutHeaders(headers.lines, LENGTHS), LENGTH, String(bytes)]);

/** Adds the headers that a request or a response lacks. */
export function addMissing(
  headers: HeaderList,
  defaults: readonly (readonly [name: string, value: string])[] = [],
): void {
  for (const [name, value] of defaults) if (!headers.has(name)) headers.append(name, value);
}

/** Returns a copy of flat name, value lines without those whose lower-case name is in the set. */
export function withoutHeaders(lines: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < lines.length; i += 2) {
    const name = lines[i] as string;
    if (!names.has(headerName(name).key)) kept.push(name, lines[i + 1] as string);
  }
  return kept;
}
