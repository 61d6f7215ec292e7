import type { Frame, Protocol } from "model-gateway";

/** Bytes of text for a token where the protocol says nothing: most streams say prose or code in English. */
const BYTES = 4;
/** Frames that are looked into: the first ones with text, then one in so many, and all that are not of the usual length. */
const FIRST = 8;
const EVERY = 16;
/** Bytes by which a usual frame differs from the mean of those with text, at most. */
const USUAL = 48;
/** A shorter frame says nothing: a comment, a sign of life. */
const SMALLEST = 48;

/**
 * About how much text a stream has brought, should it break off before its provider tells the tokens. Most frames are only
 * measured: how their text grows with their length is nearly the same in all of a stream, and known from those that are
 * read. Some vendors say a text twice in a frame, and some fill frames up to hide its length.
 */
export class Delivered {
  /** Bytes of text in the frames that were read. */
  private text = 0;
  /** Of the usual frames with text that were read: how many, and sums of lengths, texts, squares and products. */
  private read = 0;
  private lengths = 0;
  private texts = 0;
  private squares = 0;
  private products = 0;
  /** Usual frames since the first ones; of those that were only measured: how many, and their bytes. */
  private usual = 0;
  private measured = 0;
  private bytes = 0;

  constructor(private readonly protocol: Protocol) {}

  see(frame: Frame): void {
    const { length } = frame.bytes;
    if (length < SMALLEST) return;
    const isUsual = this.read >= FIRST && Math.abs(length - this.lengths / this.read) <= USUAL;
    if (isUsual && this.usual % EVERY !== EVERY - 1) {
      this.usual++;
      this.measured++;
      this.bytes += length;
      return;
    }
    const text = this.textIn(frame);
    this.text += text;
    if (isUsual) this.usual++;
    // A usual frame may have none too; at first one without is none of the usual ones.
    if (text > USUAL || (text === 0 && !isUsual)) return;
    this.read++;
    this.lengths += length;
    this.texts += text;
    this.squares += length * length;
    this.products += length * text;
  }

  /** Tokens that came out, about. */
  get tokens(): number {
    return Math.ceil((this.text + this.unread()) / (this.protocol.tokenBytes ?? BYTES));
  }

  /** Bytes of text in the frames that were only measured: what a line through those that were read says. */
  private unread(): number {
    if (this.measured === 0) return 0;
    const [length, text] = [this.lengths / this.read, this.texts / this.read];
    const spread = this.squares / this.read - length * length;
    const slope = spread < 1 ? 0 : (this.products / this.read - length * text) / spread;
    const growth = Math.min(1, Math.max(0, slope)) * (this.bytes - length * this.measured);
    return Math.max(0, text * this.measured + growth);
  }

  /** Only pieces of texts: some protocols say a text once more when it is whole. */
  private textIn(frame: Frame): number {
    let bytes = 0;
    const json = frame.json();
    for (const { path, piece } of this.protocol.texts.response(json))
      if (piece !== undefined) bytes += Buffer.byteLength(String(at(json, path)));
    return bytes;
  }
}

const at = (json: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown>)[name], json);
