import { Frame } from "../wire/frame.ts";
import type { JsonPath } from "../wire/paths.ts";
import { splice } from "../wire/splice.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol, TextKind, TextPlace } from "./protocol.ts";
import type { Stage } from "./stage.ts";
import { type Replace, type TextMatch, type TextOutput, TextPattern, TextReplacer } from "./text-replacer.ts";
import { outputFor, placesIn, replaced, textAt, textEdits } from "./texts.ts";

/** What to search for in the texts of a response. */
export interface AnswerTextMatch extends TextMatch {
  /** Default: all kinds. */
  kinds?: readonly TextKind[];
}

/** Maximum bytes of a response that is not streamed. */
const LARGEST = 64 * 1024 * 1024;
/** Maximum number of held-back frames, and of texts that are tracked. */
const MOST = 64;

/** A text in a frame, before and after replacement. */
interface FrameText {
  readonly place: TextPlace;
  readonly before: string;
  after: string;
}

/** A frame that is held back. */
interface Waiting {
  readonly frame: Frame;
  readonly texts: readonly FrameText[];
}

/** A text that arrives in pieces. */
interface GrowingText {
  readonly kind: TextKind;
  readonly output: TextOutput;
  /** The place of its last piece: the held-back rest goes there, unless the text continues. */
  last: FrameText;
}

/**
 * Replaces what a pattern matches in the texts of a response: with the same result streamed as not streamed, however it is cut.
 * No frame is added or lost. A frame whose text ends in a possible match is held back until the next piece of that text; the
 * replacement of a match across frames is put into its last frame.
 */
export class AnswerTexts {
  private readonly pattern: TextPattern;
  private readonly kinds: readonly TextKind[] | undefined;
  private readonly growing = new Map<string, GrowingText>();
  private waiting: Waiting[] = [];
  /** True if several texts of a kind grow in parallel, as with several choices. */
  private sideBySide = false;
  private latest: string | undefined;

  /** @throws SyntaxError for a pattern that can match the empty string */
  constructor(
    private readonly texts: NonNullable<Protocol["texts"]>,
    match: AnswerTextMatch,
    private readonly replace: Replace,
  ) {
    this.pattern = new TextPattern(match);
    this.kinds = match.kinds;
  }

  /** The stage for a stream. */
  readonly stage: Stage = (frame) => {
    if (frame.kind === "end") return this.waiting.length === 0 ? frame : [...this.settle(() => true), frame];
    // The position of a comment does not matter; that of an array's end does.
    if (frame.text === undefined && frame.kind === "event") return frame;
    const places = this.placesOf(frame.json());
    const ahead = this.waiting.length === 0 ? [] : this.settle(this.overBefore(places));
    const waits = this.read(frame, places);
    this.waiting.push(waits);
    const free = this.letGo();
    return ahead.length === 0 && free.length === 1 && free[0] === frame ? frame : [...ahead, ...free];
  };

  /** The stage for a complete response in chunks with arbitrary boundaries. A body that is not JSON passes. */
  readonly wholeStage = (): Stage => {
    const pieces: Frame[] = [];
    let length = 0;
    return (frame) => {
      if (frame.kind !== "end") {
        pieces.push(frame);
        length += frame.bytes.length;
        if (length > LARGEST) throw new GatewayError("upstream_invalid", { message: "The answer is over 64 MiB." });
        return [];
      }
      const bytes = Buffer.concat(pieces.map((piece) => piece.bytes));
      const edits = this.editsOf(bytes);
      if (edits.length === 0) return [...pieces, frame];
      return [new Frame("piece", Buffer.concat(splice([bytes], edits))), frame];
    };
  };

  private editsOf(bytes: Buffer) {
    let json: unknown;
    try {
      json = JSON.parse(bytes.toString());
    } catch {
      return [];
    }
    const texts = this.placesOf(json).map((place) => this.whole(place, textAt(json, place.path)));
    return textEdits(bytes, changed(texts));
  }

  private placesOf(json: unknown): TextPlace[] {
    return typeof json === "object" && json !== null ? placesIn(this.texts.response(json), this.kinds) : [];
  }

  private whole(place: TextPlace, before: string): FrameText {
    return { place, before, after: replaced(before, place, this.output) };
  }

  private readonly output = (encode?: (text: string) => string): TextOutput =>
    new TextReplacer(this.pattern, this.replace, encode);

  private read(frame: Frame, places: readonly TextPlace[]): Waiting {
    const json = places.length === 0 ? undefined : frame.json();
    const texts = places.map((place): FrameText => {
      const before = textAt(json, place.path);
      const { kind, piece } = place;
      if (piece === undefined) return this.whole(place, before);
      const text: FrameText = { place, before, after: before };
      let growing = this.growing.get(piece);
      if (growing && this.latest !== piece && this.growing.get(this.latest ?? "")?.kind === kind)
        this.sideBySide = true;
      this.latest = piece;
      if (!growing) {
        growing = { kind, output: outputFor(place, this.output), last: text };
        this.growing.set(piece, growing);
        this.forget();
      }
      const out = growing.output.push(before);
      const { back } = growing.output;
      // Text that was held back and is no match returns to its original frame.
      if (back > 0) growing.last.after += out.slice(0, back);
      text.after = out.slice(back);
      growing.last = text;
      return text;
    });
    return { frame, texts };
  }

  /** Forgets the oldest text beyond MOST, unless a part of it is held back. */
  private forget(): void {
    if (this.growing.size <= MOST) return;
    for (const [piece, { output }] of this.growing) {
      if (output.waits) continue;
      this.growing.delete(piece);
      return;
    }
  }

  /** Returns a predicate for open texts that a frame with these places shows to be complete. */
  private overBefore(places: readonly TextPlace[]): (piece: string, growing: GrowingText) => boolean {
    if (this.waiting.length >= MOST) return () => true;
    const next = new Set(places.map(({ piece }) => piece));
    return (piece, { kind }) => {
      if (next.has(piece)) return false;
      const sibling = places.some((place) => place.kind === kind && place.piece !== undefined);
      return !sibling && !(places.length === 0 && this.sideBySide);
    };
  }

  /** Decides on open texts that are complete. Returns the frames that are no longer held back, in order. */
  private settle(over: (piece: string, growing: GrowingText) => boolean): Frame[] {
    for (const [piece, growing] of this.growing)
      if (growing.output.waits && over(piece, growing)) growing.last.after += growing.output.end();
    return this.letGo();
  }

  /** Releases frames in order, up to the first that must still be held back. */
  private letGo(): Frame[] {
    const open = new Set([...this.growing.values()].flatMap(({ output, last }) => (output.waits ? [last] : [])));
    const first = this.waiting.findIndex(({ texts }) => texts.some((text) => open.has(text)));
    const free = this.waiting.splice(0, first < 0 ? this.waiting.length : first);
    return free.map(({ frame, texts }) => {
      const changes = changed(texts);
      return changes.length === 0 ? frame : frame.edited(textEdits(frame.data, changes));
    });
  }
}

const changed = (texts: readonly FrameText[]): [path: JsonPath, text: string][] =>
  texts.flatMap(({ place, before, after }) => (after === before ? [] : [[place.path, after]]));
