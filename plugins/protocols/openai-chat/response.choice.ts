import { asList, asObject, asText, type Event, type EventOf, type JsonObject } from "model-gateway/protocol";
import { inlineOf } from "../openai/wire.ts";
import { citationOf } from "./citations.ts";
import { reasonOf } from "./finish.ts";
import { Calls } from "./response.calls.ts";
import type { Growing, Path, Reading } from "./response.reading.ts";
import type { Spot } from "./response.record.ts";
import { Thoughts } from "./response.thoughts.ts";

const isText = (value: unknown) => typeof value === "string";
const isObject = (value: unknown) => asObject(value) !== undefined;
const anything = () => true;
/** Members of a delta or message that are read, in the forms they are read in; what else is there is said to be lost. */
const FORMS: ReadonlyMap<string, (value: unknown) => boolean> = new Map([
  ["role", anything],
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
  // Together and Groq: which token, and which channel of the model; nothing of the answer.
  ["token_id", anything],
  ["channel", anything],
]);
/** Members of a citation and what they are here. */
const CITED = { url: "url", title: "title", quote: "content", start: "start_index", end: "end_index" } as const;

/** One choice as far as it is read. */
export class Choice implements Growing {
  private open: { block: number; kind: "text" | "refusal" | "reasoning" } | undefined;
  private readonly thoughts: Thoughts;
  private readonly calls: Calls;
  /** Characters of content so far, and before the open block. */
  private content = 0;
  private before = 0;
  private refused = false;
  private ended: { raw: string; sequence?: string; spots: Spot[] } | undefined;

  constructor(
    private readonly reading: Reading,
    readonly index: number,
  ) {
    this.thoughts = new Thoughts(reading, this);
    this.calls = new Calls(reading, index);
  }

  get growing(): "text" | "refusal" | "reasoning" | undefined {
    return this.open?.kind;
  }

  get finished(): boolean {
    return this.ended !== undefined;
  }

  /** A delta, or a whole message. @param at where it stands in the frame */
  read(delta: JsonObject, logprobs: JsonObject | undefined, at: Path): void {
    this.thoughts.read(delta, at);
    const { content, refusal, tool_calls: calls, function_call: legacy } = delta;
    if (typeof content === "string") {
      if (content !== "") this.text("text", content, logprobs?.["content"], [...at, "content"]);
    } else if (Array.isArray(content)) this.parts(content, [...at, "content"]);
    if (typeof refusal === "string" && refusal !== "")
      this.text("refusal", refusal, logprobs?.["refusal"], [...at, "refusal"]);
    if (delta["annotations"]) this.annotations(asList(delta["annotations"]), at);
    if (Array.isArray(calls) && calls.length > 0) {
      this.shut();
      this.calls.read(calls, at);
    }
    if (legacy) {
      this.shut();
      this.calls.legacy(legacy, at);
    }
    if (delta["audio"]) this.audio(asObject(delta["audio"]) ?? {}, at);
    if (delta["images"]) this.images(asList(delta["images"]), at);
    this.unread(delta, logprobs);
  }

  /**
   * Why it ended; told when the whole answer has.
   * @param stopped the sequence that ended it, where the vendor says that (vLLM's `stop_reason`, [S])
   */
  finish(raw: string, path: Path, stopped: string | undefined): void {
    const { record } = this.reading;
    const before = this.ended;
    const sequence = stopped || before?.sequence;
    this.ended = { raw, ...(sequence ? { sequence } : {}), spots: record?.later("raw", path) ?? [] };
    if (!before || !record) return;
    // Recorded from OpenRouter: told again beside the usage.
    if (before.raw === raw) this.ended.spots.push(...before.spots);
    else record.putBack(before.spots, before.raw);
  }

  /** Closes all of it and tells why it ended. */
  close(): void {
    this.shut();
    this.calls.close();
    const { ended } = this;
    const reason = reasonOf(ended?.raw, this.calls.any, this.refused);
    const sequence = reason === "stop" ? ended?.sequence : undefined;
    const event: Event = {
      type: "finish",
      choice: this.index,
      reason: sequence === undefined ? reason : "stop_sequence",
      ...(ended ? { raw: ended.raw } : {}),
      ...(sequence === undefined ? {} : { stopSequence: sequence }),
    };
    if (ended && ended.spots.length > 0) event.native = { spots: ended.spots };
    this.reading.out.push(event);
  }

  block(kind: "text" | "refusal" | "reasoning", opening?: { summary?: boolean; redacted?: boolean }): number {
    if (this.open?.kind === kind) return this.open.block;
    this.shut();
    const block = this.reading.next();
    this.reading.out.push({ type: "open", block, choice: this.index, kind, ...opening } as Event);
    this.open = { block, kind };
    this.before = this.content;
    return block;
  }

  shut(): void {
    if (!this.open) return;
    const { block, kind } = this.open;
    if (kind === "reasoning") this.thoughts.close(block);
    this.reading.out.push({ type: "close", block });
    this.open = undefined;
  }

  /** Says what nobody read: members that are not known or of another form, and likelihoods that go with no text. */
  private unread(delta: JsonObject, logprobs: JsonObject | undefined): void {
    for (const name in delta) {
      const value = delta[name];
      const form = FORMS.get(name);
      if (form ? value && !form(value) : value !== null) this.reading.lose(name);
    }
    for (const name in logprobs) {
      const read = (name === "content" || name === "refusal") && asText(delta[name]);
      if (!read && asList(logprobs[name]).length > 0) this.reading.lose("logprobs");
    }
  }

  /** Content in parts, as Mistral has it while it thinks or names its sources. */
  private parts(parts: readonly unknown[], at: Path): void {
    for (const [n, value] of parts.entries()) {
      const part = asObject(value);
      if (part) this.part(part, [...at, n]);
      else if (typeof value === "string") this.text("text", value, undefined, [...at, n]);
      else if (value !== null) this.reading.lose("content");
    }
  }

  private part(part: JsonObject, at: Path): void {
    const type = asText(part["type"]) ?? "text";
    // Also the names that Responses has for them.
    const kind = type === "refusal" ? type : "text";
    const member = type === "output_text" ? kind : type;
    const value = part[member];
    if (member === kind && typeof value === "string") {
      if (value !== "") this.text(kind, value, undefined, [...at, member]);
    } else if (type === "thinking" && (Array.isArray(value) || typeof value === "string"))
      this.thoughts.parts(typeof value === "string" ? [value] : value, [...at, type]);
    else if (type === "image_url" && value) this.image(value, [...at, type]);
    else {
      this.reading.lose(`content.${type}`);
      return;
    }
    for (const name in part)
      if (name !== "type" && name !== member && part[name] !== null) this.reading.lose(`content.${type}.${name}`);
  }

  private text(kind: "text" | "refusal", text: string, logprobs: unknown, path: Path): void {
    const { out, record } = this.reading;
    const event: EventOf<"text"> = { type: "text", block: this.block(kind), text };
    if (Array.isArray(logprobs)) event.logprobs = logprobs;
    out.push(event);
    if (kind === "text") this.content += text.length;
    else this.refused = true;
    if (!record) return;
    record.spot(event, "text", path);
    const choice = path.slice(0, 2);
    if (event.logprobs) record.spot(event, "logprobs", [...choice, "logprobs", path.at(-1) as string]);
    // Together writes each text twice.
    if (kind === "text") record.spot(event, "text", [...choice, "text"]);
  }

  private annotations(list: readonly unknown[], at: Path): void {
    for (const [n, annotation] of list.entries()) {
      const citation = citationOf(annotation, this.growing === "text" ? this.before : this.content);
      if (!citation) {
        this.reading.lose("annotations");
        continue;
      }
      const event: Event = { type: "citation", block: this.block("text"), citation };
      this.reading.out.push(event);
      for (const [of, name] of Object.entries(CITED))
        if (citation[of as keyof typeof CITED] !== undefined)
          this.reading.record?.spot(event, of, [...at, "annotations", n, "url_citation", name], this.before);
    }
  }

  private audio(audio: JsonObject, at: Path): void {
    if (audio["transcript"]) this.reading.lose("audio.transcript");
    const data = asText(audio["data"]);
    if (data) this.media({ media: "audio" }, { base64: data }, [...at, "audio", "data"]);
  }

  /** Pictures as OpenRouter has them. */
  private images(list: readonly unknown[], at: Path): void {
    for (const [n, value] of list.entries())
      this.image(asObject(value)?.["image_url"], [...at, "images", n, "image_url"]);
  }

  /** @param value an object with a URL, or the URL itself */
  private image(value: unknown, at: Path): void {
    const plain = asText(value);
    const url = plain ?? asText(asObject(value)?.["url"]);
    if (!url) {
      this.reading.lose("images");
      return;
    }
    const inline = inlineOf(url);
    const found = inline ? { base64: inline.base64 } : { url };
    const opening = { media: "image", ...(inline?.mime ? { mime: inline.mime } : {}) } as const;
    this.media(opening, found, plain === undefined ? [...at, "url"] : at);
  }

  private media(
    opening: { media: "image" | "audio"; mime?: string },
    content: { base64: string } | { url: string },
    path: Path,
  ): void {
    this.shut();
    const { out, record } = this.reading;
    const block = this.reading.next();
    const event: Event = { type: "media", block, ...content };
    out.push({ type: "open", block, choice: this.index, kind: "media", ...opening }, event, { type: "close", block });
    // A picture's bytes stay in the frame's `data:` URL.
    if ("url" in content) record?.spot(event, "url", path);
    else if (opening.media === "audio") record?.spot(event, "base64", path);
  }
}
