import { createHash } from "node:crypto";

/** What every protocol takes as the id of a tool call. */
const UNSAFE = /[^a-zA-Z0-9_-]/g;
const LONGEST = 64;

/**
 * An id of a tool call that every protocol takes: `[a-zA-Z0-9_-]`, at most 64 characters. One that fits is unchanged;
 * of another the end is a hash, so that different ids stay different, and the same id always gives the same one, on the
 * call and on its result.
 */
export function safeId(id: string): string {
  const safe = id.replace(UNSAFE, "_");
  if (safe === id && id.length <= LONGEST && id !== "") return id;
  const hash = createHash("sha256").update(id).digest("hex").slice(0, 12);
  return `${safe.slice(0, LONGEST - 13)}_${hash}`;
}

/** Ids for tool calls of an answer whose vendor gives none: `call_<seed>_<n>`, the same for the same answer. */
export function callIds(seed: string): () => string {
  const stem = safeId(seed).slice(-24);
  let count = 0;
  return () => `call_${stem}_${count++}`;
}

/** Characters at the end of a text that it is recognised by, with its length. */
const TAIL = 64;

/** What a text is remembered by when it cannot carry anything itself; grows with the text, a piece at a time. */
export class TextKey {
  private length = 0;
  private tail = "";

  add(text: string): this {
    this.length += text.length;
    this.tail = text.length >= TAIL ? text.slice(-TAIL) : (this.tail + text).slice(-TAIL);
    return this;
  }

  toString(): string {
    return `text:${this.length}:${this.tail}`;
  }
}
