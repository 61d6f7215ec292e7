import type { Frame, Protocol } from "model-gateway";
import { estimateTokens, tokenWeights } from "./token-count.ts";
import { valueAt } from "./value-at.ts";

/** A called tool's name: in the frame that begins a call, or in each. */
const CALL_NAME = /"name" ?: ?"[^"]/;
/** Frames that are parsed: the first ones with text, then one in so many, and all of unusual length. */
const FIRST_FRAMES = 8;
const SAMPLE_INTERVAL = 16;
/** Maximum difference in bytes between a usual frame and the mean of those with text. */
const MAX_USUAL_DIFFERENCE = 48;
/** Characters of a call from which its own text counts. */
const LONG_CALL = 256;
/** Characters at a text's beginning and end by which a repetition is recognised. */
const EDGE_LENGTH = 32;
/** Bytes: a shorter frame holds no text: a comment, a ping. */
const MIN_FRAME_BYTES = 48;

/**
 * Estimates the text that a stream has delivered, in case it breaks off before its provider reports tokens. Most frames are
 * only measured: within a stream, a frame's text grows with its length at nearly the same rate, which is known from the parsed
 * frames. Some vendors repeat a text within a frame, and some pad frames to hide its length.
 *
 * Reasoning that is hidden counts instead of its summary. What has begun and not ended counts as its text so far, often nothing:
 * nobody knows how far it had come, and a usual amount would be charged even to a client that left at once.
 */
export class DeliveredTokens {
  /** Tokens of the text in parsed frames, as a usual tokenizer counts them. */
  private found = 0;
  /** Tool calls that began in them. */
  private calls = 0;
  /**
   * Whether calls are streamed in pieces; otherwise each is whole in one frame, and these are their tokens, and abbreviated
   * texts.
   */
  private callsStreamed = false;
  private wholeCallTokens = 0;
  private readonly wholeCalls = new Set<string>();
  /** Of the parsed usual frames with text: their number, and sums of lengths, tokens, squares and products. */
  private read = 0;
  private lengths = 0;
  private counts = 0;
  private squares = 0;
  private products = 0;
  /** Usual frames since the first ones; of those only measured: their number, and their bytes. */
  private usual = 0;
  private measured = 0;
  private bytes = 0;
  private readonly mediaTokens = { audio: 0, image: 0 };
  /** Whether the last parsed text is reasoning; tokens of reasoning in parsed frames, and the frames measured after such. */
  private isReasoning = false;
  private foundReasoning = 0;
  private measuredReasoning = 0;
  /** Hidden reasoning, and the tokens of summaries that are counted as text too. */
  private hidden = 0;
  private summaries = 0;
  private readonly hiddenIn: ReturnType<NonNullable<Protocol["hiddenReasoning"]>> | undefined;
  /** Whether the last piece ended in a space, which tokenizers join to the next word. */
  private endsInSpace = false;
  private readonly weights: NonNullable<Protocol["tokenEstimate"]>;

  /** @param model the vendor's name of the model that responds */
  constructor(
    private readonly protocol: Protocol,
    model = "",
  ) {
    this.weights = tokenWeights(protocol, model);
    this.hiddenIn = protocol.hiddenReasoning?.();
  }

  observe(frame: Frame): void {
    const { length } = frame.bytes;
    if (length < MIN_FRAME_BYTES) return;
    const isUsual = this.read >= FIRST_FRAMES && Math.abs(length - this.lengths / this.read) <= MAX_USUAL_DIFFERENCE;
    if (isUsual && this.usual % SAMPLE_INTERVAL !== SAMPLE_INTERVAL - 1) {
      this.usual++;
      this.measured++;
      this.bytes += length;
      if (this.isReasoning) this.measuredReasoning++;
      return;
    }
    const { tokens, text } = this.textIn(frame);
    this.found += tokens;
    if (isUsual) this.usual++;
    // A usual frame may have no text too; among the first ones, a frame without text does not count as usual.
    if (text > MAX_USUAL_DIFFERENCE || (text === 0 && !isUsual)) return;
    this.read++;
    this.lengths += length;
    this.counts += tokens;
    this.squares += length * length;
    this.products += length * tokens;
  }

  /** The estimated output tokens of audio and of images. */
  get media(): { audio?: number; image?: number } {
    const { audio, image } = this.mediaTokens;
    return { ...(audio > 0 && { audio: Math.ceil(audio) }), ...(image > 0 && { image }) };
  }

  /** The estimated tokens of hidden reasoning. */
  get reasoning(): number {
    return Math.round(this.hidden);
  }

  /** Whether there is a trace of reasoning: its text, its summary, its state. */
  get hasReasoning(): boolean {
    return this.hidden > 0 || this.foundReasoning > 0;
  }

  /** The estimated output tokens, with those of media and without hidden reasoning. */
  get shown(): number {
    return this.sum(0);
  }

  /** The estimated output tokens, with those of media. */
  get tokens(): number {
    return this.sum(this.hidden - this.summaries * this.weights.textFactor);
  }

  private sum(hidden: number): number {
    const { textFactor, perToolCall, perAnswer = 0 } = this.weights;
    const whole = this.callsStreamed ? 0 : this.wholeCallTokens;
    const tokens = (this.found + whole + this.estimateUnread()) * textFactor + this.calls * perToolCall + hidden;
    const { audio = 0, image = 0 } = this.media;
    return (tokens > 0 ? Math.max(1, Math.round(tokens + perAnswer)) : 0) + audio + image;
  }

  /** Estimates tokens in frames that were only measured, by linear regression over the parsed ones. */
  private estimateUnread(): number {
    if (this.measured === 0) return 0;
    const [length, tokens] = [this.lengths / this.read, this.counts / this.read];
    const spread = this.squares / this.read - length * length;
    const slope = spread < 1 ? 0 : (this.products / this.read - length * tokens) / spread;
    const growth = Math.min(1, Math.max(0, slope)) * (this.bytes - length * this.measured);
    return Math.max(0, tokens * this.measured + growth);
  }

  /** Adds hidden reasoning that has ended in a frame. */
  private addHidden(json: unknown): void {
    for (const [kind, tokens] of this.hiddenIn?.(json) ?? []) {
      this.hidden += tokens;
      if (kind === "omitted") continue;
      const unread = this.measured === 0 ? 0 : (this.estimateUnread() * this.measuredReasoning) / this.measured;
      this.summaries = this.foundReasoning + unread;
    }
  }

  /** Counts a call that arrives whole: some protocols repeat it, and short ones are covered by the weights. */
  private addWholeCall(text: string): void {
    if (text.length < LONG_CALL) return;
    const short = `${text.length} ${text.slice(0, EDGE_LENGTH)} ${text.slice(-EDGE_LENGTH)}`;
    if (this.wholeCalls.has(short)) return;
    this.wholeCalls.add(short);
    this.wholeCallTokens += estimateTokens(text);
  }

  /**
   * Counts only streamed pieces of text, each once: some protocols repeat a text when it is complete, and some vendors send it
   * in two members.
   */
  private textIn(frame: Frame): { tokens: number; text: number } {
    let [tokens, bytes, calls] = [0, 0, false];
    const json = frame.json();
    for (const [kind, tokens] of this.protocol.streamedMedia?.(json) ?? []) this.mediaTokens[kind] += tokens;
    const seen = new Set<string>();
    for (const { path, piece, kind } of this.protocol.texts.response(json)) {
      const text = String(valueAt(json, path));
      if (kind === "tool_call") this.callsStreamed ||= piece !== undefined;
      if (piece === undefined) {
        if (kind === "tool_call" && !this.callsStreamed) this.addWholeCall(text);
        continue;
      }
      bytes += Buffer.byteLength(text);
      calls ||= kind === "tool_call" && /^\s*(?:\{|$)/.test(text);
      if (seen.has(text)) continue;
      seen.add(text);
      const joined = this.endsInSpace ? ` ${text}` : text;
      this.endsInSpace = joined.endsWith(" ");
      const count = estimateTokens(this.endsInSpace ? joined.slice(0, -1) : joined);
      tokens += count;
      this.isReasoning = kind === "reasoning";
      if (this.isReasoning) this.foundReasoning += count;
    }
    this.addHidden(json);
    if (this.weights.perToolCall > 0 && isCall(frame, calls)) this.calls++;
    return { tokens, text: bytes };
  }
}

const isCall = (frame: Frame, begins: boolean): boolean =>
  (begins || frame.bytes.includes("tool_use")) && CALL_NAME.test(frame.text ?? "");
