import { hash } from "node:crypto";
import type { HeaderList } from "../wire/headers.ts";
import { placeOf } from "../wire/place.ts";
import shapes from "./key-shapes.json" with { type: "json" };

/** What stands in the place of a secret: it means nothing in JSON, HTML, SSE or a header. */
const STARS = "***";
/** A shorter text is no secret, and stands in too many others. */
const SHORTEST = 8;
/** Places for values of headers that are remembered, and their length; a provider can make up any number. */
const PLACES = 256;
const LONGEST = 64;
/** A key begins where no word goes on: the letter of an escape (`\n`, `%20`) is none of a word's. */
const START = "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrt]|\\\\u[0-9a-f]{4}|%[0-9a-f]{2}))";
/** All that looks like a key, whoever's it is. What a vendor has shortened itself (`sk-…****abcd`) is none any more. */
const SHAPES = new RegExp(`${START}(?:${shapes.map(({ shape }) => shape).join("|")})`, "gi");
/** What stands alone in a path. */
const PART = new RegExp(`[^/:;,=&]{${SHORTEST},}`, "g");
/** A text with none of these has no letter written in another way. */
const ESCAPED = /[\\%&]/;

/**
 * Takes secrets out of what others say: a provider's errors may repeat the credential that it was shown, and reach clients
 * and the log. First the gateway's own, to the letter and in every usual spelling, then all that has the shape of a key.
 */
export class Redactor {
  /** All that looks like a key: for a text that comes in pieces. */
  static readonly shapes = SHAPES;
  /** As they are, in hexadecimal digits, and in base64, wherever they stand in it. Longest first: one may be a part of another. */
  private readonly texts: readonly string[];
  /** With each letter as it is or escaped as in JSON, an address or HTML. */
  private readonly spelled: RegExp | undefined;
  /** The text that was looked at last: a request's id is, once by itself and once among its headers. */
  private last = "";
  private lastClean = "";
  /** Values of headers in which nothing was found, each in its place. */
  private readonly harmless: string[] = new Array(PLACES).fill("");

  /**
   * @param secrets credentials, as they are sent; of one like `Basic …` the second word is one by itself too
   * @param hashes SHA-256 in hex of callers' keys, of which only that is known
   */
  constructor(
    secrets: Iterable<string>,
    private readonly hashes: ReadonlySet<string> = new Set(),
  ) {
    const own = [...secrets].flatMap((secret) => [secret, ...(/^\w+ +(\S.*)$/.exec(secret)?.slice(1) ?? [])]);
    const long = [...new Set(own)].filter((secret) => secret.length >= SHORTEST).sort((a, b) => b.length - a.length);
    this.texts = [...long, ...long.flatMap(inBase64), ...long.flatMap(inHex)];
    this.spelled = long.length === 0 ? undefined : new RegExp(long.map(anySpelling).join("|"), "g");
  }

  /**
   * The text without secrets; the same one where there are none.
   * @param shown what a client has shown as its keys, of any shape
   */
  text(text: string, shown?: readonly string[]): string {
    let clean = this.withoutOthers(text);
    if (shown) for (const key of shown) if (key.length >= SHORTEST) clean = clean.replaceAll(key, STARS);
    return clean;
  }

  /** The same of a path, in which no segment, or part of one, is a caller's key either. */
  path(path: string, shown?: readonly string[]): string {
    const clean = this.hashes.size === 0 ? path : path.replaceAll(PART, (part) => (this.isKey(part) ? STARS : part));
    return this.text(clean, shown);
  }

  private isKey(part: string): boolean {
    const plain = part.replaceAll(/%[0-9a-f]{2}/gi, (byte) => String.fromCharCode(Number(`0x${byte.slice(1)}`)));
    return this.hashes.has(hash("sha256", plain));
  }

  private withoutOthers(text: string): string {
    if (text === this.last) return this.lastClean;
    let clean = text;
    for (const secret of this.texts) if (clean.includes(secret)) clean = clean.replaceAll(secret, STARS);
    if (this.spelled && ESCAPED.test(clean)) clean = clean.replace(this.spelled, STARS);
    clean = clean.replace(SHAPES, STARS);
    if (text.length <= LONGEST) {
      this.last = text;
      this.lastClean = clean;
    }
    return clean;
  }

  /** The same headers, their values without secrets: nearly all have one of a few, and are remembered. */
  headers(headers: HeaderList): HeaderList {
    const { lines } = headers;
    for (let i = 1; i < lines.length; i += 2) {
      const value = lines[i] as string;
      if (value.length < SHORTEST) continue;
      const place = placeOf(value, PLACES);
      if (this.harmless[place] === value) continue;
      const clean = this.text(value);
      if (clean !== value) lines[i] = clean;
      else if (value.length <= LONGEST) this.harmless[place] = value;
    }
    return headers;
  }

  /** What was thrown, its message without secrets. @param shown as for `text` */
  error(thrown: unknown, shown?: readonly string[]): unknown {
    if (thrown instanceof Error) {
      const clean = this.text(thrown.message, shown);
      if (clean !== thrown.message) thrown.message = clean;
    }
    return thrown;
  }

  /** The bytes without secrets, all others as they were; the same buffer where there are none. */
  bytes(bytes: Buffer): Buffer {
    const text = bytes.toString("latin1");
    const clean = this.text(text);
    return clean === text ? bytes : Buffer.from(clean, "latin1");
  }
}

/**
 * What of a secret is always the same in base64 of a text that holds it, at each of the three places where it may begin; of
 * both alphabets.
 */
function inBase64(secret: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.from("\0".repeat(before) + secret, "latin1")
      .toString("base64")
      .replace(/=+$/, "");
    // The first letters hold bits of what stands before, the last one those of what follows.
    const whole = Math.floor(((before + secret.length) * 8) / 6);
    const steady = encoded.slice(Math.ceil((before * 8) / 6), whole);
    return [...new Set([steady, steady.replaceAll("+", "-").replaceAll("/", "_")])].filter(
      (text) => text.length >= SHORTEST,
    );
  });
}

/** What a secret is in hexadecimal digits. */
function inHex(secret: string): string[] {
  const hex = Buffer.from(secret).toString("hex");
  return [hex, hex.toUpperCase()];
}

/** A pattern for a text in which any letter may be escaped. */
function anySpelling(secret: string): string {
  return [...secret]
    .map((letter) => {
      const code = letter.charCodeAt(0);
      const hex = [...code.toString(16).padStart(2, "0")].map((digit) => `[${digit}${digit.toUpperCase()}]`).join("");
      const plain = letter.replace(/[^A-Za-z0-9]/, "\\$&");
      // In JSON that stands in JSON, backslashes are escaped once more.
      return `(?:\\\\{0,8}${plain}|\\\\{1,8}u00${hex}|%(?:25){0,4}${hex}|&#(?:0{0,4}${code}|[xX]0{0,4}${hex});${NAMED[letter] ?? ""})`;
    })
    .join("");
}

/** Letters that HTML has a name for. */
const NAMED: Readonly<Record<string, string>> = {
  "&": "|&amp;",
  "<": "|&lt;",
  ">": "|&gt;",
  '"': "|&quot;",
  "'": "|&apos;",
  "+": "|&plus;",
  "/": "|&sol;",
  "=": "|&equals;",
  _: "|&lowbar;",
};
