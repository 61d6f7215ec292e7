import { Frame } from "../wire/frame.ts";
import type { JsonPath } from "../wire/paths.ts";
import { splice } from "../wire/splice.ts";
import { parseJson } from "../wire/values.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol, TextKind, TextPlace } from "./protocol.ts";
import type { Stage } from "./stage.ts";
import { type Replace, type TextMatch, type TextOutput, TextPattern, TextReplacer } from "./text-replacer.ts";
import { createTextOutput, filterPlaces, replaceText, textAt, textEdits } from "./texts.ts";

/** Maximum bytes of a response that is not streamed. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Maximum number of held-back frames, and of texts that are tracked. */
const MAX_TRACKED = 64;

/** A text in a frame, before and after replacement. */
interface FrameText {
  readonly place: TextPlace;
  readonly before: string;
  after: string;
}

/** A frame that is held back. */
interface PendingFrame {
  readonly frame: Frame;
  readonly texts: readonly FrameText[];
}

/** A text that arrives in pieces. */
interface PartialText {
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
export class ResponseTextReplacer {
  private readonly pattern: TextPattern;
  private readonly kinds: readonly TextKind[] | undefined;
  private readonly partialTexts = new Map<string, PartialText>();
  private pendingFrames: PendingFrame[] = [];
  /** True if several texts of a kind grow in parallel, as with several choices. */
  private interleaved = false;
  private latestPiece: string | undefined;

  /** @throws SyntaxError for a pattern that can match the empty string */
  constructor(
    private readonly texts: NonNullable<Protocol["texts"]>,
    match: TextMatch,
    private readonly replace: Replace,
  ) {
    this.pattern = new TextPattern(match);
    this.kinds = match.kinds;
  }

  /** The stage for a stream. */
  readonly stage: Stage = (frame) => {
    if (frame.kind === "end")
      return this.pendingFrames.length === 0 ? frame : [...this.endCompleted(() => true), frame];
    // The position of a comment does not matter; that of an array's end does.
    if (frame.text === undefined && frame.kind === "event") return frame;
    const places = this.placesOf(frame.json());
    const completed = this.pendingFrames.length === 0 ? [] : this.endCompleted(this.completedBy(places));
    const pending = this.read(frame, places);
    this.pendingFrames.push(pending);
    const released = this.releaseFrames();
    return completed.length === 0 && released.length === 1 && released[0] === frame
      ? frame
      : [...completed, ...released];
  };

  /**
   * Returns the stage for a complete response in chunks with arbitrary boundaries. A body that is not JSON passes.
   * @param reserve counts what it buffers, as `Head.reserve`
   */
  readonly wholeStage = (reserve?: (bytes: number) => void): Stage => {
    const pieces: Frame[] = [];
    let length = 0;
    return (frame) => {
      if (frame.kind !== "end") {
        pieces.push(frame);
        length += frame.bytes.length;
        if (length > MAX_BYTES) throw new GatewayError("upstream_invalid", { message: "The answer is over 64 MiB." });
        reserve?.(frame.bytes.length);
        return [];
      }
      reserve?.(-length);
      const bytes = Buffer.concat(pieces.map((piece) => piece.bytes));
      const edits = this.editsOf(bytes);
      if (edits.length === 0) return [...pieces, frame];
      return [new Frame("piece", Buffer.concat(splice([bytes], edits))), frame];
    };
  };

  private editsOf(bytes: Buffer) {
    const json = parseJson(bytes.toString());
    const texts = this.placesOf(json).map((place) => this.replaceWhole(place, textAt(json, place.path)));
    return textEdits(bytes, changedTexts(texts));
  }

  private placesOf(json: unknown): TextPlace[] {
    return typeof json === "object" && json !== null ? filterPlaces(this.texts.response(json), this.kinds) : [];
  }

  private replaceWhole(place: TextPlace, before: string): FrameText {
    return { place, before, after: replaceText(before, place, this.createReplacer) };
  }

  private readonly createReplacer = (encode?: (text: string) => string): TextOutput =>
    new TextReplacer(this.pattern, this.replace, encode);

  private read(frame: Frame, places: readonly TextPlace[]): PendingFrame {
    const json = places.length === 0 ? undefined : frame.json();
    const texts = places.map((place): FrameText => {
      const before = textAt(json, place.path);
      const { kind, piece } = place;
      if (piece === undefined) return this.replaceWhole(place, before);
      const text: FrameText = { place, before, after: before };
      let partial = this.partialTexts.get(piece);
      if (partial && this.latestPiece !== piece && this.partialTexts.get(this.latestPiece ?? "")?.kind === kind)
        this.interleaved = true;
      this.latestPiece = piece;
      if (!partial) {
        partial = { kind, output: createTextOutput(place, this.createReplacer), last: text };
        this.evictOldest();
        this.partialTexts.set(piece, partial);
      }
      const out = partial.output.push(before);
      const { carriedOver } = partial.output;
      // Text that was held back and is no match returns to its original frame.
      if (carriedOver > 0) partial.last.after += out.slice(0, carriedOver);
      text.after = out.slice(carriedOver);
      partial.last = text;
      return text;
    });
    return { frame, texts };
  }

  /** Forgets the oldest text where there are MAX_TRACKED, unless a part of it is held back. */
  private evictOldest(): void {
    if (this.partialTexts.size < MAX_TRACKED) return;
    for (const [piece, { output }] of this.partialTexts) {
      if (output.isPending) continue;
      this.partialTexts.delete(piece);
      return;
    }
  }

  /** Returns a predicate for open texts that a frame with these places shows to be complete. */
  private completedBy(places: readonly TextPlace[]): (piece: string, partial: PartialText) => boolean {
    if (this.pendingFrames.length >= MAX_TRACKED) return () => true;
    const next = new Set(places.map(({ piece }) => piece));
    return (piece, { kind }) => {
      if (next.has(piece)) return false;
      const sibling = places.some((place) => place.kind === kind && place.piece !== undefined);
      return !sibling && !(places.length === 0 && this.interleaved);
    };
  }

  /** Decides on open texts that are complete. Returns the frames that are no longer held back, in order. */
  private endCompleted(isCompleted: (piece: string, partial: PartialText) => boolean): Frame[] {
    for (const [piece, partial] of this.partialTexts)
      if (partial.output.isPending && isCompleted(piece, partial)) partial.last.after += partial.output.end();
    return this.releaseFrames();
  }

  /** Releases frames in order, up to the first that must still be held back. */
  private releaseFrames(): Frame[] {
    const open = new Set(
      [...this.partialTexts.values()].flatMap(({ output, last }) => (output.isPending ? [last] : [])),
    );
    const first = this.pendingFrames.findIndex(({ texts }) => texts.some((text) => open.has(text)));
    const released = this.pendingFrames.splice(0, first < 0 ? this.pendingFrames.length : first);
    return released.map(({ frame, texts }) => {
      const changes = changedTexts(texts);
      return changes.length === 0 ? frame : frame.edited(textEdits(frame.data, changes));
    });
  }
}

const changedTexts = (texts: readonly FrameText[]): [path: JsonPath, text: string][] =>
  texts.flatMap(({ place, before, after }) => (after === before ? [] : [[place.path, after]]));
