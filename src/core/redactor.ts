import { hash } from "node:crypto";
import { cacheSlot } from "../wire/cache-slot.ts";
import type { HeaderList } from "../wire/headers.ts";
import { decodeBytes } from "../wire/query.ts";
import shapes from "./key-shapes.json" with { type: "json" };
import { SpelledSecrets } from "./spelled-secrets.ts";

/** The replacement for a secret: it has no meaning in JSON, HTML, SSE or a header. */
const MASK = "***";
/** Characters: a shorter text is not a secret, and occurs in too many others. */
const MIN_SECRET_LENGTH = 8;
/** Number of cached header values, and their maximum length; a provider can invent any number. */
const CACHE_SLOTS = 256;
const MAX_CACHED_LENGTH = 64;
/** A key begins at a word boundary; the letter of an escape (`\n`, `%20`) does not belong to a word. */
const START = "(?:(?<![A-Za-z0-9])|(?<=\\\\[bfnrt]|\\\\u[0-9a-f]{4}|%[0-9a-f]{2}))";
/** Everything that looks like a key, of any vendor. A key that a vendor has shortened itself (`sk-…****abcd`) does not match. */
const KEY_SHAPES = new RegExp(`${START}(?:${shapes.map(({ shape }) => shape).join("|")})`, "gi");
/** A text without any of these contains no key: what each shape begins with, or follows. Most texts are ids without one. */
const MARKERS = new RegExp(shapes.map(({ marker }) => marker).join("|"), "i");
/** A delimited part of a path. */
const PART = new RegExp(`[^/:;,=&]{${MIN_SECRET_LENGTH},}`, "g");
/** A text without any of these contains no escaped character. */
const ESCAPED = /[\\%&]/;

/**
 * Removes secrets from texts of others: a provider's errors may repeat the credential it was sent, and reach clients and the log.
 * First the gateway's own, literally and in every usual encoding, then everything that has the shape of a key.
 */
export class Redactor {
  /** Everything that looks like a key; for a text that arrives in pieces. */
  static readonly shapes = KEY_SHAPES;
  /** The secrets literally, in hexadecimal, and in base64 at any alignment. Longest first: one may be a part of another. */
  private readonly texts: readonly string[];
  private readonly spelled: SpelledSecrets;
  /** The last text and its result: a request id is redacted alone and again among its headers. */
  private last = "";
  private lastClean = "";
  /** Cached header values in which no secret was found, each in its slot. */
  private readonly cleanValues: string[] = new Array(CACHE_SLOTS).fill("");

  /**
   * @param secrets credentials, as they are sent; of one like `Basic …` the second word is a secret of its own too
   * @param hashes SHA-256 in hex of callers' keys, which are known only by hash
   */
  constructor(
    secrets: Iterable<string>,
    private readonly hashes: ReadonlySet<string> = new Set(),
  ) {
    const own = [...secrets].flatMap((secret) => [secret, ...(/^\w+ +(\S.*)$/.exec(secret)?.slice(1) ?? [])]);
    const long = [...new Set(own)]
      .filter((secret) => secret.length >= MIN_SECRET_LENGTH)
      .sort((a, b) => b.length - a.length);
    this.texts = [...long, ...long.flatMap(inBase64), ...long.flatMap(inHex)];
    this.spelled = new SpelledSecrets(long);
  }

  /**
   * Returns the text without secrets; the same string if there are none.
   * @param shown the keys that a client has sent, of any shape
   */
  text(text: string, shown?: readonly string[]): string {
    let clean = this.redactSecrets(text);
    if (shown) for (const key of shown) if (key.length >= MIN_SECRET_LENGTH) clean = clean.replaceAll(key, MASK);
    return clean;
  }

  /** Does the same for a path, in which segments and their parts are also compared with callers' keys. */
  path(path: string, shown?: readonly string[]): string {
    const clean = this.hashes.size === 0 ? path : path.replaceAll(PART, (part) => (this.isKey(part) ? MASK : part));
    return this.text(clean, shown);
  }

  private isKey(part: string): boolean {
    return this.hashes.has(hash("sha256", decodeBytes(part)));
  }

  private redactSecrets(text: string): string {
    if (text === this.last) return this.lastClean;
    let clean = text;
    for (const secret of this.texts) if (clean.includes(secret)) clean = clean.replaceAll(secret, MASK);
    if (ESCAPED.test(clean)) clean = this.spelled.replace(clean, MASK);
    if (MARKERS.test(clean)) clean = clean.replace(KEY_SHAPES, MASK);
    if (text.length <= MAX_CACHED_LENGTH) {
      this.last = text;
      this.lastClean = clean;
    }
    return clean;
  }

  /** Removes secrets from the header values in place. Nearly all values recur, and harmless ones are cached. */
  headers(headers: HeaderList): HeaderList {
    const { lines } = headers;
    for (let i = 1; i < lines.length; i += 2) {
      const value = lines[i] as string;
      if (value.length < MIN_SECRET_LENGTH) continue;
      const slot = cacheSlot(value, CACHE_SLOTS);
      if (this.cleanValues[slot] === value) continue;
      const clean = this.text(value);
      if (clean !== value) lines[i] = clean;
      else if (value.length <= MAX_CACHED_LENGTH) this.cleanValues[slot] = value;
    }
    return headers;
  }

  /**
   * Removes secrets from the message of a thrown value, in place.
   * @param shown as for `text`
   */
  error(thrown: unknown, shown?: readonly string[]): unknown {
    if (thrown instanceof Error) {
      const clean = this.text(thrown.message, shown);
      if (clean !== thrown.message) thrown.message = clean;
    }
    return thrown;
  }

  /** Returns the bytes without secrets, all others unchanged; the same buffer if there are none. */
  bytes(bytes: Buffer): Buffer {
    const text = bytes.toString("latin1");
    const clean = this.text(text);
    return clean === text ? bytes : Buffer.from(clean, "latin1");
  }
}

/**
 * Returns the characters that a secret always yields in the base64 of a text that contains it, for each of the three alignments
 * and both alphabets.
 */
function inBase64(secret: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.from("\0".repeat(before) + secret, "latin1")
      .toString("base64")
      .replace(/=+$/, "");
    // The first characters contain bits of the text before the secret, the last one bits of what follows.
    const whole = Math.floor(((before + secret.length) * 8) / 6);
    const unmixed = encoded.slice(Math.ceil((before * 8) / 6), whole);
    return [...new Set([unmixed, unmixed.replaceAll("+", "-").replaceAll("/", "_")])].filter(
      (text) => text.length >= MIN_SECRET_LENGTH,
    );
  });
}

/** Returns a secret in hexadecimal digits. */
function inHex(secret: string): string[] {
  const hex = Buffer.from(secret).toString("hex");
  return [hex, hex.toUpperCase()];
}
