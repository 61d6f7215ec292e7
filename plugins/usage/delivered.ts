import type { Frame, Protocol } from "model-gateway";
import { tokensOf } from "./token-count.ts";

/** Models whose tokens are as those of their own protocol, whichever they answer in. */
const CLAUDE = { model: /\bclaude\b/i, times: 1.32, call: 32 };
/** Where a protocol says nothing. */
const USUAL_TOKENS = { times: 1, call: 0 };
/** The name of a tool that is called: it stands in the frame that begins a call, or in each. */
const NAMED = /"name" ?: ?"[^"]/;
/** Frames that are looked into: the first ones with text, then one in so many, and all that are not of the usual length. */
const FIRST = 8;
const EVERY = 16;
/** Bytes by which a usual frame differs from the mean of those with text, at most. */
const USUAL = 48;
/** Letters of a call from which on its own text counts. */
const LONG = 256;
/** Letters by which a text is known again, at its beginning and its end. */
const SHORT = 32;
/** A shorter frame says nothing: a comment, a sign of life. */
const SMALLEST = 48;

/**
 * About how much text a stream has brought, should it break off before its provider tells the tokens. Most frames are only
 * measured: how their text grows with their length is nearly the same in all of a stream, and known from those that are
 * read. Some vendors say a text twice in a frame, and some fill frames up to hide its length.
 */
export class Delivered {
  /** Tokens of the text in the frames that were read, as a usual tokenizer has them. */
  private found = 0;
  /** Calls of tools that began there. */
  private calls = 0;
  /** Whether calls come in pieces; else each comes whole in a frame, and these are their tokens, and their texts in short. */
  private inPieces = false;
  private whole = 0;
  private readonly wholes = new Set<string>();
  /** Of the usual frames with text that were read: how many, and sums of lengths, tokens, squares and products. */
  private read = 0;
  private lengths = 0;
  private counts = 0;
  private squares = 0;
  private products = 0;
  /** Usual frames since the first ones; of those that were only measured: how many, and their bytes. */
  private usual = 0;
  private measured = 0;
  private bytes = 0;
  private readonly weights: NonNullable<Protocol["tokens"]>;

  /** @param model the vendor's name of the one that answers */
  constructor(
    private readonly protocol: Protocol,
    model = "",
  ) {
    this.weights = CLAUDE.model.test(model) ? CLAUDE : (protocol.tokens ?? USUAL_TOKENS);
  }

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
    const { tokens, text } = this.textIn(frame);
    this.found += tokens;
    if (isUsual) this.usual++;
    // A usual frame may have none too; at first one without is none of the usual ones.
    if (text > USUAL || (text === 0 && !isUsual)) return;
    this.read++;
    this.lengths += length;
    this.counts += tokens;
    this.squares += length * length;
    this.products += length * tokens;
  }

  /** Tokens that came out, about. */
  get tokens(): number {
    const { times, call } = this.weights;
    const whole = this.inPieces ? 0 : this.whole;
    const tokens = (this.found + whole + this.unread()) * times + this.calls * call;
    return tokens > 0 ? Math.max(1, Math.round(tokens)) : 0;
  }

  /** Tokens in the frames that were only measured: what a line through those that were read says. */
  private unread(): number {
    if (this.measured === 0) return 0;
    const [length, tokens] = [this.lengths / this.read, this.counts / this.read];
    const spread = this.squares / this.read - length * length;
    const slope = spread < 1 ? 0 : (this.products / this.read - length * tokens) / spread;
    const growth = Math.min(1, Math.max(0, slope)) * (this.bytes - length * this.measured);
    return Math.max(0, tokens * this.measured + growth);
  }

  /** A call that comes whole: some protocols say it again, and what short ones cost is in the weights. */
  private seeWhole(text: string): void {
    if (text.length < LONG) return;
    const short = `${text.length} ${text.slice(0, SHORT)} ${text.slice(-SHORT)}`;
    if (this.wholes.has(short)) return;
    this.wholes.add(short);
    this.whole += tokensOf(text);
  }

  /** Only pieces of texts, each once: some protocols say a text once more when it is whole, and some vendors in two members. */
  private textIn(frame: Frame): { tokens: number; text: number } {
    let [tokens, bytes, calls] = [0, 0, false];
    const json = frame.json();
    const seen: string[] = [];
    for (const { path, piece, kind } of this.protocol.texts.response(json)) {
      const text = String(at(json, path));
      if (kind === "tool_call") this.inPieces ||= piece !== undefined;
      if (piece === undefined) {
        if (kind === "tool_call" && !this.inPieces) this.seeWhole(text);
        continue;
      }
      bytes += Buffer.byteLength(text);
      calls ||= kind === "tool_call" && /^\s*(?:\{|$)/.test(text);
      if (seen.includes(text)) continue;
      seen.push(text);
      tokens += tokensOf(text);
    }
    if (this.weights.call > 0 && isCall(frame, calls)) this.calls++;
    return { tokens, text: bytes };
  }
}

const isCall = (frame: Frame, begins: boolean): boolean =>
  (begins || frame.bytes.includes("tool_use")) && NAMED.test(frame.text ?? "");

const at = (json: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown>)[name], json);
