import { createHash, hash } from "node:crypto";
import type { Part, Turn } from "./conversation.ts";
import { endsStep, piecesOfText, type Steps, writeJsonInSteps } from "./steps.ts";

/** Characters that some protocol does not accept in the id of a tool call. */
const UNSAFE = /[^a-zA-Z0-9_-]/g;
/** Characters that every protocol accepts. */
const MAX_ID_LENGTH = 64;

/** Unusual ids that some vendors make, and need back: their models read ids in the prompt and know only their own form. */
const DOTTED = /^(?:[\w.:-]{1,64}|functions\.[\w.-]{1,64}:\d{1,5})$/;
const DOTS = "-.:";
const ESCAPED_PREFIX = "gw1id_";

/**
 * Returns a tool call's id that every protocol accepts: `[a-zA-Z0-9_-]`, at most 64 characters. A valid id is unchanged;
 * others end in a hash, so that different ids stay different, and the same id always maps to the same one, on the call and
 * on its result.
 * @param dots what becomes of ids with dots and colons instead, which may be a little longer; `restoreId` undoes `escape`
 */
export function safeId(id: string, dots?: "keep" | "escape"): string {
  const safe = id.replace(UNSAFE, "_");
  if (safe === id && id.length <= MAX_ID_LENGTH && id !== "") return id;
  if (dots && DOTTED.test(id))
    return dots === "keep" ? id : ESCAPED_PREFIX + id.replace(/[-.:]/g, (dot) => `-${DOTS.indexOf(dot)}`);
  const hash = createHash("sha256").update(id).digest("hex").slice(0, 12);
  return `${safe.slice(0, MAX_ID_LENGTH - 13)}_${hash}`;
}

/** Undoes an escape; other ids stay. */
export function restoreId(id: string): string {
  if (!id.startsWith(ESCAPED_PREFIX)) return id;
  const original = id.slice(ESCAPED_PREFIX.length).replace(/-(\d)/g, (_, n) => DOTS[n] ?? "");
  return safeId(original, "escape") === id ? original : id;
}

/**
 * Returns an id for a call that none of the calls before it has: clients and some vendors find a call by its id alone.
 * `functions.name:0` counts all calls of a conversation.
 * @param used the ids of the calls before it
 */
export function unusedId(id: string, used: Pick<ReadonlySet<string>, "has" | "size">): string {
  let unused = id;
  // The steps double: a client that has taken many numbers in a row would have all of them counted again for each call.
  for (let n = used.size, step = 1; used.has(unused); n += step, step *= 2) unused = withNumber(id, n);
  return unused;
}

/** Returns an id with another number at its end. */
function withNumber(id: string, n: number): string {
  // Found from the end: a pattern would search an id of a million digits from each of them.
  const digits = id.lastIndexOf(":") + 1;
  return digits > 0 && /^\d+$/.test(id.slice(digits)) ? id.slice(0, digits) + n : `${id}_${n}`;
}

/** Returns a generator of call ids for a response whose vendor gives none: `call_<seed>_<n>`, the same for the same response. */
export function callIds(seed: string): () => string {
  const stem = safeId(seed).slice(-24);
  let count = 0;
  return () => `call_${stem}_${count++}`;
}

/** Characters at a text's end that identify it, with its length. */
const TAIL_LENGTH = 64;

/**
 * A key that identifies a text among the responses to one conversation; built piece by piece with the text. Another
 * conversation may hold the same text: `PrefixKey` distinguishes them.
 */
export class TextKey {
  private length = 0;
  private tail = "";

  /** @param signed the text has state of its own: state remembered for an unsigned copy of the text does not apply */
  constructor(private readonly signed = false) {}

  /** Returns the key of media: a hash of their bytes, because clients move them. */
  static ofMedia(base64: string): string {
    return `media:${hash("sha256", base64, "base64url")}`;
  }

  /**
   * Returns the key of an answer's place: of the conversation's first turn that is no instruction, and the last one before the
   * answer. Some vendors' ids of calls occur in every conversation (`functions.name:0`).
   */
  static ofPlace(turns: readonly Turn[]): string {
    const first = turns.find(({ role }) => role !== "system" && role !== "developer");
    const texts = [first, turns.at(-1)].map((turn) => lastText(turn?.parts ?? []));
    const tails = texts.map((text) => `${text.length} ${text.slice(-TURN_TAIL)}`);
    return hash("sha256", tails.join("\n"), "base64url");
  }

  add(text: string): this {
    this.length += text.length;
    this.tail = text.length >= TAIL_LENGTH ? text.slice(-TAIL_LENGTH) : (this.tail + text).slice(-TAIL_LENGTH);
    return this;
  }

  toString(): string {
    return `${this.signed ? "signed text" : "text"}:${this.length}:${this.tail}`;
  }
}

/** Characters of a turn that identify it among others. */
const TURN_TAIL = 1024;

function lastText(parts: readonly Part[]): string {
  const last = parts.findLast(({ kind }) => kind === "text" || kind === "tool_result");
  if (last?.kind === "text") return last.text;
  return last?.kind === "tool_result" ? lastText(last.parts) : "";
}

/** Keys that identify the beginning of a conversation: all content up to a turn, with roles. */
export class PrefixKey {
  private digest = "";
  private nextTurn = 0;

  /** @param turns may still grow at their end */
  constructor(private readonly turns: readonly Turn[]) {}

  /** Returns a key for all turns before this one; numbers must ascend. Its cost is the content since the previous number. */
  turn(number: number): string {
    while (this.nextTurn < number) {
      const keyed = this.takeTurn();
      if (keyed) this.digest = hash("sha256", JSON.stringify(keyed), "base64url");
    }
    return this.digest;
  }

  /** Does the same in steps. */
  *turnInSteps(number: number): Steps<string> {
    while (this.nextTurn < number) {
      const keyed = this.takeTurn();
      if (keyed) this.digest = yield* hashInSteps(keyed);
      if (endsStep(this.nextTurn)) yield;
    }
    return this.digest;
  }

  /** Returns what the key changes by with the next turn; undefined for a turn without content. */
  private takeTurn(): unknown {
    const { role, parts } = this.turns[this.nextTurn++] as Turn;
    const content = parts.flatMap(comparableContent);
    return content.length > 0 ? [this.digest, role, content] : undefined;
  }
}

function* hashInSteps(value: unknown): Steps<string> {
  const json = yield* writeJsonInSteps(value);
  const sha = createHash("sha256");
  for (const [n, piece] of [...piecesOfText(json)].entries()) {
    if (n > 0) yield;
    sha.update(piece);
  }
  return sha.digest("base64url");
}

/** Returns a part without what clients may move or omit between two requests: marks, reasoning, state, places. */
function comparableContent(part: Part): unknown[] {
  switch (part.kind) {
    case "text":
    case "refusal":
      return part.text === "" ? [] : [part.text];
    case "media":
      return [part.source];
    case "tool_call":
      return [[restoreId(part.id), part.name, part.arguments]];
    case "tool_result":
      return [[restoreId(part.callId), part.json, ...part.parts.flatMap(comparableContent)]];
    default:
      return [];
  }
}
