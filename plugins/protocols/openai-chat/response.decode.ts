import {
  asCount,
  asList,
  asObject,
  asText,
  type Event,
  type EventOf,
  type Fault,
  type Frame,
  GatewayError,
  type JsonObject,
  ownProperty,
  type ResponseDecoder,
  type ResponseSource,
  Steps,
  type Usage,
} from "model-gateway/protocol";
import { errorInChunk, errorInStreamFrame, parseError } from "../openai/errors.ts";
import { parseDataUrl } from "../openai/wire.ts";
import { CallReader } from "./response.decode.calls.ts";
import { countingReason, isFailure, reasonOf } from "./response.decode.reasons.ts";
import { readUsage } from "./usage.ts";
import { createOpaque, parseUrlCitation, type StateKind, textMember } from "./wire.ts";

/** Creates a decoder for a stream of chunks. */
export function createDecoder(source: ResponseSource): ResponseDecoder {
  return new ChatStreamReader(source);
}

class ChatStreamReader implements ResponseDecoder {
  private readonly completion: CompletionReader;

  constructor(source: ResponseSource) {
    this.completion = new CompletionReader(source);
  }

  frame(frame: Frame, out: Event[]): void {
    const { completion } = this;
    const { text } = frame;
    completion.out = out;
    // A comment, which keeps the connection alive.
    if (text === undefined) {
      if (!completion.ended) out.push({ type: "ping" });
      return;
    }
    if (completion.ended) return;
    const error = errorInStreamFrame(frame);
    const json = asObject(frame.json());
    if (error !== undefined) completion.fail(parseError(error));
    else if (json) completion.read(json, false);
    else if (text === "[DONE]" && completion.started) completion.end();
    else completion.fail(new GatewayError(text === "[DONE]" ? "upstream_truncated" : "upstream_invalid"));
  }

  /** Ends the stream. Some vendors send no `[DONE]`; a finish reason for every choice is sufficient. */
  end(out: Event[]): void {
    const { completion } = this;
    if (completion.ended) return;
    completion.out = out;
    if (completion.finished) completion.end();
    else completion.fail(new GatewayError("upstream_truncated"));
  }
}

/** Decodes a complete response. @throws GatewayError `upstream_invalid` if it is none */
export function* decodeResponse(bytes: Buffer, source: ResponseSource): Steps<Event[]> {
  const completion = new CompletionReader(source);
  const body = bodyFor(completion, yield* Steps.parsingJson(bytes));
  if (body)
    for (const part of partsOfBody(body)) {
      completion.read(part, true);
      if (completion.ended) break;
      yield;
    }
  if (!completion.ended) completion.end();
  return completion.out;
}

/** Returns the body of a complete response; undefined where it is an error, which is reported. */
function bodyFor(completion: CompletionReader, json: unknown): JsonObject | undefined {
  const body = asObject(json);
  const error = body && errorInChunk(body);
  if (!body || (!asList(body["choices"]).some(isObject) && error === undefined))
    throw new GatewayError("upstream_invalid");
  if (error === undefined) return body;
  completion.fail(parseError(error));
  return undefined;
}

/** Top-level members of some vendors that contain parts of the response. */
const UNMAPPED_MEMBERS = ["citations", "search_results", "moderation"] as const;

/**
 * Returns a complete response in parts without long lists. Reading them one after the other has the same result. The body itself is
 * the last one, without its choices: a copy for each part would take quadratic time where it has many members.
 */
function* partsOfBody(body: JsonObject): Iterable<JsonObject> {
  const { id, model, created, choices } = body;
  for (const [i, value] of asList(choices).entries()) {
    const choice = asObject(value);
    const index = choice && { index: asCount(choice["index"]) ?? i };
    for (const part of choice ? partsOfChoice(choice) : [])
      yield { id, model, created, choices: [{ ...part, ...index }] };
  }
  body["choices"] = [];
  yield body;
}

/** Elements of lists that are read together; images are long. */
const [READ_TOGETHER, IMAGES_TOGETHER] = [512, 8];
/** Returns a complete choice in parts, in the order in which `ChoiceReader` reads its members. */
function* partsOfChoice(choice: JsonObject): Iterable<JsonObject> {
  const message = asObject(choice["message"]) ?? asObject(choice["delta"]);
  const { content, refusal, annotations, tool_calls, function_call, audio, images, ...others } = message ?? {};
  const isLong = [content, tool_calls].some((list) => asList(list).length > READ_TOGETHER);
  if (!message || !(isLong || asList(images).length > IMAGES_TOGETHER)) {
    yield choice;
    return;
  }
  yield { message: others };
  const contents = [...Steps.partsOf(content, READ_TOGETHER)];
  const last = contents.pop();
  for (const part of contents) yield { message: { content: part } };
  yield { message: { content: last, refusal, annotations }, logprobs: choice["logprobs"] };
  for (const part of Steps.partsOf(tool_calls, READ_TOGETHER)) yield { message: { tool_calls: part } };
  yield { message: { function_call, audio } };
  for (const part of Steps.partsOf(images, IMAGES_TOGETHER)) yield { message: { images: part } };
  const { message: _, delta: __, logprobs: ___, ...ending } = choice;
  yield ending;
}

/** The maximum number of choices that a request may have; the SDKs accept no more either. [S] */
const MAX_CHOICES = 128;
/** Characters of opaque state that may be kept before an event carries it. */
const MAX_STATE = 8 * 1024 * 1024;

/**
 * Decodes chunks, or one complete response. Finish reasons and usage are emitted at the end: some vendors send both twice,
 * and the last one counts.
 */
class CompletionReader {
  out: Event[] = [];
  /** Whether the response has ended, successfully or not. */
  ended = false;
  /** Characters of opaque state that no event carries yet. */
  stateSize = 0;
  started = false;
  private readonly choices = new Map<number, ChoiceReader>();
  private usage: Usage | undefined;
  private blocks = 0;
  private readonly reported = new Set<string>();

  constructor(readonly source: ResponseSource) {}

  /** Returns the number of a new block. */
  nextBlock(): number {
    return this.blocks++;
  }

  /** Reports, once per path, a member that is not mapped. */
  reportUnmapped(path: string): void {
    if (this.reported.has(path)) return;
    this.reported.add(path);
    this.out.push({ type: "unmapped", path });
  }

  /** Whether every choice has a finish reason: the response is then complete even without `[DONE]`. */
  get finished(): boolean {
    for (const choice of this.choices.values()) if (!choice.finished) return false;
    return this.choices.size > 0;
  }

  /** Decodes a chunk or a complete response. */
  read(json: JsonObject, isComplete: boolean): void {
    const choices = asList(json["choices"]);
    // Azure's first chunk has no choices, no id and no model.
    if (choices.length > 0 && !this.started) this.begin(json);
    for (let i = 0; i < choices.length; i++) {
      const choice = asObject(choices[i]);
      if (choice) this.choice(choice, i, isComplete);
      if (this.stateSize > MAX_STATE) this.invalid("The provider's thoughts and calls carry more than 8 MiB of state.");
      if (this.ended) return;
    }
    if (json["usage"] || json["x_groq"]) this.usage = readUsage(json, this.usage);
    for (const name of UNMAPPED_MEMBERS) if (json[name]) this.reportUnmapped(name);
  }

  /** Ends a complete response: emits finish reasons and usage. */
  end(): void {
    this.ended = true;
    for (const choice of this.choices.values()) choice.close();
    if (this.usage) this.out.push({ type: "usage", usage: this.usage });
    this.out.push({ type: "end" });
  }

  /** Ends the response with an error. */
  fail(fault: Fault): void {
    this.ended = true;
    this.out.push({ type: "error", fault });
  }

  private invalid(message: string): void {
    this.fail(new GatewayError("upstream_invalid", { message }));
  }

  private begin(json: JsonObject): void {
    this.started = true;
    const created = asCount(json["created"]);
    this.out.push({
      type: "start",
      id: asText(json["id"]) ?? "",
      model: asText(json["model"]) ?? this.source.model,
      ...(created === undefined ? {} : { created }),
    });
  }

  private choice(json: JsonObject, i: number, isComplete: boolean): void {
    const index = asCount(json["index"]) ?? i;
    if (index >= MAX_CHOICES) {
      this.invalid(`The provider's answer has more than ${MAX_CHOICES} choices.`);
      return;
    }
    let choice = this.choices.get(index);
    if (!choice) {
      choice = new ChoiceReader(this, index);
      this.choices.set(index, choice);
    }
    // Some vendors' chunks have a `message`, and some complete responses have a `delta` beside the message.
    const delta = asObject(json[isComplete ? "message" : "delta"]) ?? asObject(json[isComplete ? "delta" : "message"]);
    if (delta) choice.read(delta, asObject(json["logprobs"]), isComplete);
    const reason = json["finish_reason"];
    if (typeof reason !== "string" || reason === "") return;
    if (isFailure(reason))
      this.fail(parseError(json["error"] ?? { code: reason, message: `The provider's model failed (${reason}).` }));
    else if (reason === "stop") choice.finish(reason, asText(json["stop_reason"]));
    else choice.finish(countingReason(reason, json["native_finish_reason"]), undefined);
  }
}

const isText = (value: unknown) => typeof value === "string";
const isObject = (value: unknown) => asObject(value) !== undefined;
const anyValue = () => true;
/** Members of a delta or message that are decoded, with their accepted types; all others are reported as not mapped. */
const MEMBER_TYPES: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ["role", anyValue],
  ["content", (value) => isText(value) || Array.isArray(value)],
  ["refusal", isText],
  ["tool_calls", Array.isArray],
  ["function_call", isObject],
  ["reasoning", isText],
  ["reasoning_content", isText],
  ["reasoning_details", Array.isArray],
  ["annotations", Array.isArray],
  ["audio", isObject],
  ["images", Array.isArray],
  ["extra_content", isObject],
  ["thought_signature", isText],
  // Together and Groq: the token's id and the model's channel, which are not content.
  ["token_id", anyValue],
  ["channel", anyValue],
]);

/** Decodes one choice. */
class ChoiceReader {
  private openBlock: { block: number; kind: "text" | "refusal" | "reasoning" } | undefined;
  private readonly thoughts: ThoughtReader;
  private readonly calls: CallReader;
  /** Characters of content so far, and before the open block. */
  private content = 0;
  private textStart = 0;
  private hasRefusal = false;
  private finishInfo: { raw: string; sequence?: string } | undefined;

  constructor(
    private readonly completion: CompletionReader,
    readonly index: number,
  ) {
    this.thoughts = new ThoughtReader(completion, this);
    this.calls = new CallReader(completion, index);
  }

  /** The kind of the open block: one of text, refusal and reasoning at a time. */
  get openKind(): "text" | "refusal" | "reasoning" | undefined {
    return this.openBlock?.kind;
  }

  get finished(): boolean {
    return this.finishInfo !== undefined;
  }

  /** Decodes a delta or a complete message. */
  read(delta: JsonObject, logprobs: JsonObject | undefined, isComplete: boolean): void {
    const { content, refusal, tool_calls: calls, function_call: legacy } = delta;
    // Reasoning closes the open text block. Its annotations, whose indices refer to it, must be emitted before.
    const citesOpenText = this.openKind === "text" && !content;
    if (citesOpenText) this.annotations(asList(delta["annotations"]));
    this.thoughts.read(delta);
    if (typeof content === "string") {
      if (content !== "") this.text("text", content, logprobs?.["content"]);
    } else if (Array.isArray(content)) this.parts(content);
    if (typeof refusal === "string" && refusal !== "") this.text("refusal", refusal, logprobs?.["refusal"]);
    if (!citesOpenText) this.annotations(asList(delta["annotations"]));
    if (Array.isArray(calls) && calls.length > 0) {
      this.closeBlock();
      this.calls.read(calls, isComplete);
    }
    if (legacy) {
      this.closeBlock();
      this.calls.legacy(legacy);
    }
    if (delta["audio"]) this.audio(asObject(delta["audio"]) ?? {});
    if (delta["images"]) this.images(asList(delta["images"]));
    this.reportUnread(delta, logprobs);
  }

  /**
   * Records the finish reason; the event is emitted at the end of the response.
   * @param stopSequence the matched stop sequence, from vendors that report it (vLLM's `stop_reason`, [S])
   */
  finish(raw: string, stopSequence: string | undefined): void {
    const sequence = stopSequence || this.finishInfo?.sequence;
    this.finishInfo = { raw, ...(sequence ? { sequence } : {}) };
  }

  /** Closes all blocks and emits the finish reason. */
  close(): void {
    this.closeBlock();
    this.calls.close();
    const { finishInfo: ended } = this;
    const reason = reasonOf(ended?.raw, this.calls.hasCalls, this.hasRefusal);
    const sequence = reason === "stop" ? ended?.sequence : undefined;
    this.completion.out.push({
      type: "finish",
      choice: this.index,
      reason: sequence === undefined ? reason : "stop_sequence",
      ...(ended ? { raw: ended.raw } : {}),
      ...(sequence === undefined ? {} : { stopSequence: sequence }),
    });
  }

  /** Returns the number of the open block of a kind, which it opens if necessary. */
  block(kind: "text" | "refusal" | "reasoning", opening?: { summary?: boolean; redacted?: boolean }): number {
    if (this.openBlock?.kind === kind) return this.openBlock.block;
    this.closeBlock();
    const block = this.completion.nextBlock();
    this.completion.out.push({ type: "open", block, choice: this.index, kind, ...opening } as Event);
    this.openBlock = { block, kind };
    this.textStart = this.content;
    return block;
  }

  /** Closes the open block. */
  closeBlock(): void {
    if (!this.openBlock) return;
    const { block, kind } = this.openBlock;
    if (kind === "reasoning") this.thoughts.close(block);
    this.completion.out.push({ type: "close", block });
    this.openBlock = undefined;
  }

  /** Reports what is not decoded: members of unknown names or types, and logprobs without text. */
  private reportUnread(delta: JsonObject, logprobs: JsonObject | undefined): void {
    for (const name in delta) {
      const value = delta[name];
      const accepts = MEMBER_TYPES.get(name);
      if (accepts ? value && !accepts(value) : value !== null) this.completion.reportUnmapped(name);
    }
    for (const name in logprobs) {
      const isRead = (name === "content" || name === "refusal") && asText(delta[name]);
      if (!isRead && asList(logprobs[name]).length > 0) this.completion.reportUnmapped("logprobs");
    }
  }

  /** Decodes content in parts, which Mistral sends for reasoning and sources. */
  private parts(parts: readonly unknown[]): void {
    for (const value of parts) {
      const part = asObject(value);
      if (part) this.part(part);
      else if (typeof value === "string") this.text("text", value, undefined);
      else if (value !== null) this.completion.reportUnmapped("content");
    }
  }

  private part(part: JsonObject): void {
    const type = asText(part["type"]) ?? "text";
    // Also accepts the types of Responses.
    const kind = type === "refusal" ? type : "text";
    const member = type === "output_text" ? kind : type;
    const value = part[member];
    if (member === kind && typeof value === "string") {
      if (value !== "") this.text(kind, value, undefined);
    } else if (type === "thinking" && (Array.isArray(value) || typeof value === "string"))
      this.thoughts.parts(typeof value === "string" ? [value] : value);
    else if (type === "image_url" && value) this.image(value);
    else {
      this.completion.reportUnmapped(`content.${type}`);
      return;
    }
    for (const name in part)
      if (name !== "type" && name !== member && part[name] !== null)
        this.completion.reportUnmapped(`content.${type}.${name}`);
  }

  private text(kind: "text" | "refusal", text: string, logprobs: unknown): void {
    const event: EventOf<"text"> = { type: "text", block: this.block(kind), text };
    if (Array.isArray(logprobs)) event.logprobs = logprobs;
    this.completion.out.push(event);
    if (kind === "text") this.content += text.length;
    else this.hasRefusal = true;
  }

  private annotations(list: readonly unknown[]): void {
    for (const annotation of list) {
      const citation = parseUrlCitation(annotation, this.openKind === "text" ? this.textStart : this.content);
      if (citation) this.completion.out.push({ type: "citation", block: this.block("text"), citation });
      else this.completion.reportUnmapped("annotations");
    }
  }

  private audio(audio: JsonObject): void {
    if (audio["transcript"]) this.completion.reportUnmapped("audio.transcript");
    const data = asText(audio["data"]);
    if (data) this.media({ media: "audio" }, { base64: data });
  }

  /** Decodes images in OpenRouter's format. */
  private images(list: readonly unknown[]): void {
    for (const value of list) this.image(asObject(value)?.["image_url"]);
  }

  /** @param value an object with a URL, or the URL itself */
  private image(value: unknown): void {
    const url = asText(value) ?? asText(asObject(value)?.["url"]);
    if (!url) {
      this.completion.reportUnmapped("images");
      return;
    }
    const inline = parseDataUrl(url);
    this.media(
      { media: "image", ...(inline?.mime ? { mime: inline.mime } : {}) },
      inline ? { base64: inline.base64 } : { url },
    );
  }

  private media(
    opening: { media: "image" | "audio"; mime?: string },
    content: { base64: string } | { url: string },
  ): void {
    this.closeBlock();
    const { out } = this.completion;
    const block = this.completion.nextBlock();
    out.push(
      { type: "open", block, choice: this.index, kind: "media", ...opening },
      { type: "media", block, ...content },
      { type: "close", block },
    );
  }
}

/** The properties of a reasoning block, by the type of its entries. */
const OPENINGS: Readonly<Record<string, { summary?: boolean; redacted?: boolean }>> = {
  "reasoning.summary": { summary: true },
  "reasoning.encrypted": { redacted: true },
};

/** What separates the texts of several entries in `reasoning_content`. */
const PARAGRAPH = "\n\n";

/** Decodes the reasoning of one choice, in the dialect of its vendor. */
class ThoughtReader {
  /** The source of the open block's text: a member, or the entries of `reasoning_details` with one type and index. */
  private textSource: string | undefined;
  /** The members of the open block's entry, except for its text. */
  private entry: JsonObject | undefined;
  /** The text of the open block, in pieces. */
  private texts: string[] = [];
  /** The text of `reasoning_content` or `reasoning` in all blocks, and how much of it entries of later deltas have repeated. */
  private plain = "";
  private repeated = 0;
  /** The text of the open block's entry that has not been emitted, as it repeats that text so far. */
  private unsent = "";

  constructor(
    private readonly completion: CompletionReader,
    private readonly choice: ChoiceReader,
  ) {}

  /**
   * Decodes `reasoning_details` (OpenRouter; `reasoning` repeats its text), else `reasoning_content` (DeepSeek), else
   * `reasoning` (Groq); and the state that Google's compatible API has on a message.
   */
  read(delta: JsonObject): void {
    const details = delta["reasoning_details"] ? asList(delta["reasoning_details"]) : [];
    if (details.length === 0 || !this.details(details))
      for (const name of ["reasoning_content", "reasoning"] as const) {
        const text = asText(delta[name]);
        if (!text) continue;
        this.switchTo(name);
        this.add(text);
        this.plain += text;
        break;
      }
    if (delta["extra_content"] || delta["thought_signature"]) this.messageState(delta);
  }

  /** Decodes Mistral's thinking, a content part; the sources among its texts cannot be expressed in other protocols. */
  parts(pieces: readonly unknown[]): void {
    for (const piece of pieces) {
      const text = asText(piece) ?? asText(asObject(piece)?.["text"]);
      if (text === undefined) this.completion.reportUnmapped("content.thinking");
      if (!text) continue;
      this.switchTo("thinking");
      this.add(text);
    }
  }

  /**
   * Emits the state that the next request must contain when the open block closes. It includes the text, because not every
   * client is shown reasoning, and vendors that reason between tool calls require it unchanged (DeepSeek, Moonshot).
   */
  close(block: number): void {
    const { textSource, entry } = this;
    const text = this.texts.join("");
    this.textSource = this.entry = undefined;
    this.texts = [];
    this.repeated += this.unsent.length;
    this.unsent = "";
    if (textSource === undefined) return;
    const { source, out } = this.completion;
    const member = entry && textMember(entry);
    const opaque = entry
      ? createOpaque("reasoning_details", JSON.stringify(member && text ? { ...entry, [member]: text } : entry), source)
      : createOpaque(textSource as StateKind, text, source);
    out.push({ type: "opaque", block, opaque });
  }

  /** Makes a member or entry the source of the next text; closes an open block with another source. */
  private switchTo(textSource: string, opening?: { summary?: boolean; redacted?: boolean }): void {
    if (this.textSource !== textSource && this.choice.openKind === "reasoning") this.choice.closeBlock();
    this.choice.block("reasoning", opening);
    this.textSource = textSource;
  }

  private add(text: string): void {
    this.emit(text);
    this.texts.push(text);
  }

  private emit(text: string): void {
    this.completion.out.push({ type: "text", block: this.choice.block("reasoning"), text });
  }

  /**
   * Adds text of an entry. It is not emitted while it repeats `reasoning_content` or `reasoning` of earlier deltas: some
   * gateways stream these, and the complete entries at the end.
   */
  private addDetail(text: string): void {
    if (this.texts.length === 0 && this.repeated > 0 && this.plain.startsWith(PARAGRAPH, this.repeated))
      this.repeated += PARAGRAPH.length;
    const mayRepeat = this.texts.length === 0 || this.unsent !== "";
    const pending = this.unsent + text;
    this.texts.push(text);
    // What is unsent has been compared: comparing all of it with each piece would take quadratic time.
    const repeats = mayRepeat && this.plain.startsWith(text, this.repeated + this.unsent.length);
    this.unsent = repeats ? pending : "";
    if (!repeats) this.emit(pending);
  }

  /** Whether the open block came as `reasoning_content` or `reasoning`, with this text: an entry with it is its state. */
  private repeatsOpenBlock(text: string): boolean {
    const isPlain = this.textSource === "reasoning_content" || this.textSource === "reasoning";
    return isPlain && this.choice.openKind === "reasoning" && this.texts.join("") === text;
  }

  /** Decodes the entries of `reasoning_details`. Returns whether they contain text. */
  private details(details: readonly unknown[]): boolean {
    let hasText = false;
    for (const value of details) {
      const entry = asObject(value);
      if (!entry) {
        this.completion.reportUnmapped("reasoning_details");
        continue;
      }
      const { text: entryText, summary, ...rest } = entry;
      const { type, index } = entry;
      const text = asText(entryText) || asText(summary);
      const textSource = JSON.stringify([type, index]);
      if (text && this.repeatsOpenBlock(text)) {
        this.textSource = textSource;
        this.repeated = this.plain.length;
        this.mergeDetail(rest);
        hasText = true;
        continue;
      }
      this.switchTo(textSource, ownProperty(OPENINGS, asText(type)));
      this.mergeDetail(rest);
      if (!text) continue;
      hasText = true;
      this.addDetail(text);
    }
    return hasText;
  }

  /** Merges the members of a later piece into the entry; null and empty texts change nothing. */
  private mergeDetail(rest: JsonObject): void {
    this.entry ??= {};
    for (const [name, value] of Object.entries(rest)) {
      const previous = this.entry[name];
      if (value === previous || ((value === null || value === "") && previous !== undefined)) continue;
      this.entry[name] = value;
      this.completion.stateSize += name.length + (typeof value === "string" ? value : JSON.stringify(value)).length;
    }
  }

  private messageState(delta: JsonObject): void {
    const { extra_content, thought_signature } = delta;
    const google = asObject(asObject(extra_content)?.["google"]);
    if (!asText(google?.["thought_signature"]) && !asText(thought_signature)) {
      if (asObject(extra_content)) this.completion.reportUnmapped("extra_content");
      return;
    }
    this.choice.closeBlock();
    const { out, source } = this.completion;
    const block = this.completion.nextBlock();
    const opaque = createOpaque("message", JSON.stringify({ extra_content, thought_signature }), source);
    out.push(
      { type: "open", block, choice: this.choice.index, kind: "reasoning", redacted: true },
      { type: "opaque", block, opaque },
      { type: "close", block },
    );
  }
}
