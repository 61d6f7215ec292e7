import { createHash, hash } from "node:crypto";
import type { Part, Turn } from "./conversation.ts";

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

/**
 * What a text is recognised by among answers to one conversation; grows with the text, a piece at a time. In another
 * conversation the same text may stand: `PrefixKey` tells them apart.
 */
export class TextKey {
  private length = 0;
  private tail = "";

  /** @param signed the text bears state of its own: what is remembered of others with these words is not meant */
  constructor(private readonly signed = false) {}

  /** What media are recognised by: their bytes, for clients put them into other places. */
  static ofMedia(base64: string): string {
    return `media:${hash("sha256", base64, "base64url")}`;
  }

  add(text: string): this {
    this.length += text.length;
    this.tail = text.length >= TAIL ? text.slice(-TAIL) : (this.tail + text).slice(-TAIL);
    return this;
  }

  toString(): string {
    return `${this.signed ? "signed text" : "text"}:${this.length}:${this.tail}`;
  }
}

/** What is recognised of a conversation: everything that was said in it up to some turn, and by whom. */
export class PrefixKey {
  private digest = "";
  private next = 0;

  /** @param turns may still grow at their end */
  constructor(private readonly turns: readonly Turn[]) {}

  /** A key for all turns before this one; the numbers that are asked for ascend. Costs as much as was said since. */
  turn(number: number): string {
    for (; this.next < number; this.next++) {
      const { role, parts } = this.turns[this.next] as Turn;
      const words = parts.flatMap(wordsOf);
      if (words.length > 0) this.digest = hash("sha256", JSON.stringify([this.digest, role, words]), "base64url");
    }
    return this.digest;
  }
}

/** A part without what clients may move or leave out between two requests: marks, thoughts, state, places. */
function wordsOf(part: Part): unknown[] {
  switch (part.kind) {
    case "text":
    case "refusal":
      return part.text === "" ? [] : [part.text];
    case "media":
      return [part.source];
    case "tool_call":
      return [[part.id, part.name, part.arguments]];
    case "tool_result":
      return [[part.callId, part.json, ...part.parts.flatMap(wordsOf)]];
    default:
      return [];
  }
}
