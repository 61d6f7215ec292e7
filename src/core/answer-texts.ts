import { Frame } from "../wire/frame.ts";
import type { JsonPath } from "../wire/paths.ts";
import { splice } from "../wire/splice.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol, TextKind, TextPlace } from "./protocol.ts";
import type { Stage } from "./stage.ts";
import { type Replace, type TextMatch, type TextOutput, TextPattern, TextReplacer } from "./text-replacer.ts";
import { outputFor, placesIn, replaced, textAt, textEdits } from "./texts.ts";

/** What is looked for in the texts of an answer. */
export interface AnswerTextMatch extends TextMatch {
  /** All when absent. */
  kinds?: readonly TextKind[];
}

/** Bytes of an answer that is not streamed. */
const LARGEST = 64 * 1024 * 1024;
/** Frames that wait for a text to go on, and texts that are known, at most. */
const MOST = 64;

/** A text in a frame, with what becomes of it. */
interface FrameText {
  readonly place: TextPlace;
  readonly before: string;
  after: string;
}

/** A frame that has not been let go. */
interface Waiting {
  readonly frame: Frame;
  readonly texts: readonly FrameText[];
}

/** A text that comes in pieces. */
interface GrowingText {
  readonly kind: TextKind;
  readonly output: TextOutput;
  /** Where its last piece stood: what is still open goes there, unless the text goes on. */
  last: FrameText;
}

/**
 * Replaces what a pattern matches in the texts of an answer: the same in a stream as in the whole, however it is cut. No
 * frame is added or lost. One whose text ends in what could still become a match waits for the next piece of that text; what
 * becomes of a match that is cut stands in its last frame.
 */
export class AnswerTexts {
  private readonly pattern: TextPattern;
  private readonly kinds: readonly TextKind[] | undefined;
  private readonly growing = new Map<string, GrowingText>();
  private waiting: Waiting[] = [];
  /** Several texts of a kind grow side by side, as those of several answers do. */
  private sideBySide = false;
  private latest: string | undefined;

  /** @throws SyntaxError for a pattern that matches nothing at all */
  constructor(
    private readonly texts: NonNullable<Protocol["texts"]>,
    match: AnswerTextMatch,
    private readonly replace: Replace,
  ) {
    this.pattern = new TextPattern(match);
    this.kinds = match.kinds;
  }

  /** For a stream. */
  readonly stage: Stage = (frame) => {
    if (frame.kind === "end") return this.waiting.length === 0 ? frame : [...this.settle(() => true), frame];
    // A comment says nothing that would have to keep its place; the end of a list does.
    if (frame.text === undefined && frame.kind === "event") return frame;
    const places = this.placesOf(frame.json());
    const ahead = this.waiting.length === 0 ? [] : this.settle(this.overBefore(places));
    const waits = this.read(frame, places);
    this.waiting.push(waits);
    const free = this.letGo();
    return ahead.length === 0 && free.length === 1 && free[0] === frame ? frame : [...ahead, ...free];
  };

  /** For a whole answer, which comes in pieces cut anywhere. What is not JSON passes. */
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
      // What had waited and is no match stays where it stood.
      if (back > 0) growing.last.after += out.slice(0, back);
      text.after = out.slice(back);
      growing.last = text;
      return text;
    });
    return { frame, texts };
  }

  /** Lets go of the oldest text of too many, unless it waits. */
  private forget(): void {
    if (this.growing.size <= MOST) return;
    for (const [piece, { output }] of this.growing) {
      if (output.waits) continue;
      this.growing.delete(piece);
      return;
    }
  }

  /** Which of the open texts a frame with these places shows to be over. */
  private overBefore(places: readonly TextPlace[]): (piece: string, growing: GrowingText) => boolean {
    if (this.waiting.length >= MOST) return () => true;
    const next = new Set(places.map(({ piece }) => piece));
    return (piece, { kind }) => {
      if (next.has(piece)) return false;
      const sibling = places.some((place) => place.kind === kind && place.piece !== undefined);
      return !sibling && !(places.length === 0 && this.sideBySide);
    };
  }

  /** Decides on open texts as they are. The frames that no longer wait, in order. */
  private settle(over: (piece: string, growing: GrowingText) => boolean): Frame[] {
    for (const [piece, growing] of this.growing)
      if (growing.output.waits && over(piece, growing)) growing.last.after += growing.output.end();
    return this.letGo();
  }

  /** Takes the frames away that do not wait, up to the first that does. */
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
