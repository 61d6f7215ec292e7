import type { Frame, Protocol } from "model-gateway";
import { type ExchangeClock, TextPace } from "./text-pace.ts";
import { estimateTokens, tokenWeights } from "./token-count.ts";
import { valueAt } from "./value-at.ts";

/** A called tool's name: in the frame that begins a call, or in each. */
const CALL_NAME = /"name" ?: ?"[^"]/;
/** What marks a call in frames where its arguments need not be text, or are not yet. */
const CALL_MARK = /"(?:functionCall|(?:[a-z]+_)?tool_use)"|"function" ?: ?\{ ?"name" ?: ?"[^"]*" ?\}/g;
/** How the arguments of a call begin. */
const CALL_START = /^\s*(?:\{|$)/;
/** Frames that are parsed: the first ones with text, then one in so many, and all of unusual length. */
const FIRST_FRAMES = 8;
const SAMPLE_INTERVAL = 16;
/** Maximum difference in bytes between a usual frame and the mean of those with text, and maximum bytes of its text. */
const MAX_USUAL_DIFFERENCE = 48;
/** Characters at a text's beginning and end by which a repetition is recognised, and the most texts that are. */
const EDGE_LENGTH = 32;
const MAX_WHOLE_CALLS = 1000;
/** Bytes: a shorter frame holds no text: a comment, a ping. */
const MIN_FRAME_BYTES = 48;
/** Where in the first line of an event with a name the names differ of those that begin something and those with text. */
const [NAME_START, NAME_END] = [16, 24];
const LETTER_E = 0x65;

/** The clock of a stream whose times are unknown. */
const STOPPED: ExchangeClock = { elapsed: 0 };

/** A call's arguments, or a text in them, that arrive in one frame; the name is not always in it. */
interface WholeCall {
  name: unknown;
  text: string;
}

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
  private parsedTokens = 0;
  /** Tool calls that began in them. */
  private calls = 0;
  /**
   * Whether calls are streamed in pieces, or announced before they are complete; otherwise each is whole in one frame, and these
   * are their tokens, and their names by abbreviated texts.
   */
  private callsStreamed = false;
  private callsAnnounced = false;
  private wholeCallTokens = 0;
  private readonly wholeCalls = new Map<string, Set<unknown>>();
  private rememberedCalls = 0;
  /** Of the parsed usual frames with text: their number, and the sums from which the regression is computed. */
  private parsedFrames = 0;
  private lengthSum = 0;
  private tokenSum = 0;
  private squareSum = 0;
  private productSum = 0;
  /** The beginning of the last parsed frame with text: one of another name may begin a call, whatever its length. */
  private readonly lastStart = Buffer.alloc(NAME_END);
  /** Usual frames since the first ones; of those only measured: their number, and their bytes. */
  private usualFrames = 0;
  private measuredFrames = 0;
  private measuredBytes = 0;
  private readonly mediaTokens = { audio: 0, image: 0 };
  /** Whether the last parsed text is reasoning; tokens of reasoning in parsed frames, and the frames measured after such. */
  private isReasoning = false;
  private parsedReasoning = 0;
  private measuredReasoningFrames = 0;
  /** Hidden reasoning, and the tokens of summaries that are counted as text too. */
  private hiddenTokens = 0;
  private summaryTokens = 0;
  /** Reasoning of which only the end is known: its usual tokens, and its parts. */
  private assumedTokens = 0;
  private assumedParts = 0;
  private readonly hiddenIn: ReturnType<NonNullable<Protocol["hiddenReasoning"]>> | undefined;
  /** Whether the last piece ended in a space, which tokenizers join to the next word. */
  private endsInSpace = false;
  private readonly weights: NonNullable<Protocol["tokenEstimate"]>;
  /** Of the parsed frames. */
  private readonly pace: TextPace;

  /** @param model the vendor's name of the model that responds */
  constructor(
    private readonly protocol: Protocol,
    model = "",
    clock: ExchangeClock = STOPPED,
  ) {
    this.pace = new TextPace(clock);
    this.weights = tokenWeights(protocol, model);
    this.hiddenIn = protocol.hiddenReasoning?.();
  }

  observe(frame: Frame): void {
    const { length } = frame.bytes;
    if (length < MIN_FRAME_BYTES) return;
    const isUsual =
      this.parsedFrames >= FIRST_FRAMES &&
      Math.abs(length - this.lengthSum / this.parsedFrames) <= MAX_USUAL_DIFFERENCE &&
      this.hasUsualName(frame.bytes);
    if (isUsual && this.usualFrames % SAMPLE_INTERVAL !== SAMPLE_INTERVAL - 1) {
      this.usualFrames++;
      this.measuredFrames++;
      this.measuredBytes += length;
      if (this.isReasoning) this.measuredReasoningFrames++;
      return;
    }
    const { tokens, textBytes } = this.textIn(frame);
    this.parsedTokens += tokens;
    if (tokens > 0) this.pace.observe(this.shown);
    if (textBytes > 0) frame.bytes.copy(this.lastStart, 0, 0, NAME_END);
    if (isUsual) this.usualFrames++;
    // A usual frame may have no text too; among the first ones, a frame without text does not count as usual.
    if (textBytes > MAX_USUAL_DIFFERENCE || (textBytes === 0 && !isUsual)) return;
    this.parsedFrames++;
    this.lengthSum += length;
    this.tokenSum += tokens;
    this.squareSum += length * length;
    this.productSum += length * tokens;
  }

  /** Reports whether an event may have the name of the last one with text. */
  private hasUsualName(bytes: Buffer): boolean {
    if (bytes[0] !== LETTER_E) return true;
    for (let i = NAME_START; i < NAME_END; i++) if (bytes[i] !== this.lastStart[i]) return false;
    return true;
  }

  /** The estimated output tokens of audio and of images. */
  get media(): { audio?: number; image?: number } {
    const { audio, image } = this.mediaTokens;
    return { ...(audio > 0 && { audio: Math.ceil(audio) }), ...(image > 0 && { image }) };
  }

  /** The estimated tokens of hidden reasoning. */
  get reasoning(): number {
    return Math.round(this.hiddenTokens + this.assumedTokens);
  }

  /**
   * The parts of reasoning that have ended and tell nothing of how much they were: those of which only the end is known, or else one
   * before an output. 0: its text, its summary or its state tells, or no output has come.
   */
  get unseenParts(): number {
    if (this.hiddenTokens > 0 || this.parsedReasoning > 0) return 0;
    return this.assumedParts > 0 ? this.assumedParts : Math.min(1, this.shown);
  }

  /**
   * Returns the tokens of reasoning that the time before the text tells, where nothing else tells of any; undefined: something does,
   * or the text's pace is not known.
   * @param sentAt when its provider got the request, in milliseconds since the exchange began
   */
  tokensByTime(sentAt: number): number | undefined {
    return this.assumedParts === 0 && this.unseenParts > 0 ? this.pace.tokensBefore(sentAt) : undefined;
  }

  /** The estimated output tokens, with those of media and without hidden reasoning. */
  get shown(): number {
    return this.sum(0);
  }

  /** The estimated output tokens, with those of media. */
  get tokens(): number {
    return this.sum(this.hiddenTokens + this.assumedTokens - this.summaryTokens * this.weights.textFactor);
  }

  private sum(hidden: number): number {
    const { textFactor, perToolCall, perAnswer = 0 } = this.weights;
    const whole = this.callsStreamed ? 0 : this.wholeCallTokens;
    const tokens = (this.parsedTokens + whole + this.estimateUnread()) * textFactor + this.calls * perToolCall + hidden;
    const { audio = 0, image = 0 } = this.media;
    return (tokens > 0 ? Math.max(1, Math.round(tokens + perAnswer)) : 0) + audio + image;
  }

  /** Estimates tokens in frames that were only measured, by linear regression over the parsed ones. */
  private estimateUnread(): number {
    if (this.measuredFrames === 0) return 0;
    const [length, tokens] = [this.lengthSum / this.parsedFrames, this.tokenSum / this.parsedFrames];
    const spread = this.squareSum / this.parsedFrames - length * length;
    const slope = spread < 1 ? 0 : (this.productSum / this.parsedFrames - length * tokens) / spread;
    const growth = Math.min(1, Math.max(0, slope)) * (this.measuredBytes - length * this.measuredFrames);
    return Math.max(0, tokens * this.measuredFrames + growth);
  }

  /** Adds hidden reasoning that has ended in a frame. */
  private addHidden(json: unknown): void {
    for (const [kind, tokens] of this.hiddenIn?.(json) ?? []) {
      if (kind === "assumed") {
        this.assumedTokens += tokens;
        this.assumedParts++;
        continue;
      }
      this.hiddenTokens += tokens;
      if (kind === "omitted") continue;
      const unread =
        this.measuredFrames === 0 ? 0 : (this.estimateUnread() * this.measuredReasoningFrames) / this.measuredFrames;
      this.summaryTokens = this.parsedReasoning + unread;
    }
  }

  /**
   * Counts the texts of calls that arrive whole, but not those that an earlier frame had: some protocols repeat them, and not
   * always with the call's name.
   * @returns how many are new
   */
  private addWholeCalls(calls: readonly WholeCall[]): number {
    const added = calls.filter(({ name, text }) => {
      const names = this.wholeCalls.get(edgesOf(text));
      return !names || !(name === "" || names.has(name) || names.has(""));
    });
    for (const { name, text } of added) {
      this.wholeCallTokens += estimateTokens(text);
      if (this.rememberedCalls >= MAX_WHOLE_CALLS) continue;
      this.rememberedCalls++;
      this.wholeCalls.set(edgesOf(text), (this.wholeCalls.get(edgesOf(text)) ?? new Set()).add(name));
    }
    return added.length;
  }

  /**
   * Counts only streamed pieces of text, each once: some protocols repeat a text when it is complete, and some vendors send it
   * in two members.
   */
  private textIn(frame: Frame): { tokens: number; textBytes: number } {
    let [tokens, textBytes, announced] = [0, 0, 0];
    const wholeCalls: WholeCall[] = [];
    const json = frame.json();
    for (const [kind, tokens] of this.protocol.streamedMedia?.(json) ?? []) this.mediaTokens[kind] += tokens;
    const seen = new Set<string>();
    for (const { path, piece, kind } of this.protocol.texts.response(json)) {
      const text = String(valueAt(json, path));
      if (kind === "tool_call") this.callsStreamed ||= piece !== undefined;
      if (piece === undefined) {
        if (kind !== "tool_call") continue;
        if (text === "") announced++;
        else if (!this.callsStreamed)
          wholeCalls.push({ name: valueAt(json, [...path.slice(0, -1), "name"]) ?? "", text });
        continue;
      }
      textBytes += Buffer.byteLength(text);
      if (kind === "tool_call" && CALL_START.test(text)) announced++;
      if (seen.has(text)) continue;
      seen.add(text);
      const joined = this.endsInSpace ? ` ${text}` : text;
      this.endsInSpace = joined.endsWith(" ");
      const count = estimateTokens(this.endsInSpace ? joined.slice(0, -1) : joined);
      tokens += count;
      this.isReasoning = kind === "reasoning";
      if (this.isReasoning) this.parsedReasoning += count;
    }
    this.addHidden(json);
    this.countCalls(frame, announced, this.addWholeCalls(wholeCalls));
    return { tokens, textBytes };
  }

  /**
   * Counts the calls that begin in a frame.
   * @param announced their number, if the beginnings of their arguments follow or are in the frame
   * @param whole those that are complete in it
   */
  private countCalls(frame: Frame, announced: number, whole: number): void {
    if (this.weights.perToolCall === 0) return;
    const { text = "" } = frame;
    if (!CALL_NAME.test(text)) return;
    const marked = text.match(CALL_MARK)?.length ?? 0;
    this.callsAnnounced ||= announced > 0;
    this.calls += marked || announced || (this.callsAnnounced ? 0 : whole);
  }
}

/** Abbreviates a text so that its repetition is recognised. */
const edgesOf = (text: string): string => `${text.length} ${text.slice(0, EDGE_LENGTH)} ${text.slice(-EDGE_LENGTH)}`;
