import {
  asCount,
  asList,
  asObject,
  asText,
  callIds,
  defined,
  type Event,
  type Fault,
  type Frame,
  GatewayError,
  type JsonObject,
  parseExact,
  type ResponseDecoder,
  type ResponseSource,
  type Usage,
} from "model-gateway/protocol";
import { Choice, type Numbering } from "./response.choice.ts";
import { faultOf } from "./response.failure.ts";
import { isFailure, rawReason } from "./response.finish.ts";
import { type FrameForm, formOf, type Seen } from "./response.native.ts";
import { TOLD, Unsaid } from "./response.unsaid.ts";
import { usage } from "./usage.ts";

export { failure } from "./response.failure.ts";

/** Only frames with such parts hold JSON whose text must stay as it is; the others take the engine's own parser. */
const EXACT = /"(?:functionCall|toolCall|toolResponse|functionResponse)"/;
const RAW: ReadonlySet<string> = new Set(["args", "response"]);

/** The most candidates that one answer may have. */
const MOST = 128;

/** Reads a stream of answers: events, or elements of one array. */
export const decoder = (source: ResponseSource): ResponseDecoder => new Reader(source);

/**
 * Reads a whole answer. A body that says nothing of how it ended is whole all the same, and finishes as `other`.
 * @throws GatewayError `upstream_invalid` when it is no answer
 */
export function decode(text: string, source: ResponseSource): Event[] {
  const reader = new Reader(source);
  const events: Event[] = [];
  try {
    reader.read(parse(text), events);
  } catch (thrown) {
    throw GatewayError.from(thrown, "upstream_invalid");
  }
  reader.end(events, true);
  const last = events.at(-1);
  if (last?.type === "error" && last.fault.code === "upstream_truncated") throw new GatewayError("upstream_invalid");
  return events;
}

const parse = (text: string): unknown => (EXACT.test(text) ? parseExact(text, RAW) : JSON.parse(text));

/** The JSON of an error that stands among events on its own, without `data:`. [F] */
function bare({ kind, bytes }: Frame): string | undefined {
  const text = kind === "event" ? bytes.toString().trim() : "";
  return text.startsWith("{") || text.startsWith("[") ? text : undefined;
}

class Reader implements ResponseDecoder {
  private readonly choices = new Map<number, Choice>();
  private numbering: Numbering = { block: 0, id: () => undefined };
  private start: { id: string; model: string } | undefined;
  private over = false;
  private block: { raw: string; message?: string } | undefined;
  private readonly unsaid = new Unsaid("");
  /** Usage of frames that told no total, and the last frame that did. */
  private told: Usage | undefined;
  private latest: JsonObject | undefined;
  /** The form of the last frame, held back until it is known whether its finish reason was the last. */
  private form: FrameForm | undefined;

  constructor(private readonly source: ResponseSource) {}

  frame(frame: Frame, out: Event[]): void {
    if (this.over || (frame.kind !== "event" && frame.kind !== "element")) return;
    const text = frame.text ?? bare(frame);
    // Some that speak this protocol end their streams with the literal of another one.
    if (text === undefined || text.trim() === "" || text === "[DONE]") return;
    try {
      // Another stage may have parsed the frame already.
      this.read(frame.text === undefined || EXACT.test(text) ? parse(text) : frame.json(), out);
    } catch (thrown) {
      this.fail(out, GatewayError.from(thrown, "upstream_invalid"));
    }
  }

  /** Reads one parsed frame. @throws Error when it is none */
  read(value: unknown, out: Event[]): void {
    for (const each of Array.isArray(value) ? value : [value]) {
      const doc = asObject(each);
      if (!doc) throw new Error("This is not an answer.");
      if (!this.over) this.doc(doc, out);
    }
  }

  /** @param whole the answer was one body, so that its end is no question */
  end(out: Event[], whole = false): void {
    if (this.over) return;
    const choices = [...this.choices.values()].sort((one, other) => one.index - other.index);
    const ended = choices.every((choice) => choice.raw !== undefined) || whole || this.block;
    if (!this.start || !ended || (choices.length === 0 && !this.block))
      out.push({ type: "error", fault: new GatewayError("upstream_truncated") });
    else this.finish(choices, out);
    this.over = true;
  }

  private finish(choices: readonly Choice[], out: Event[]): void {
    for (const choice of choices) choice.end(out);
    const finishes = choices.map((choice) => choice.finish(this.block));
    const failed = choices.some(({ answered }) => answered)
      ? undefined
      : finishes.find(({ reason }) => isFailure(reason));
    if (failed && !this.source.native) {
      const message =
        failed.message ?? `The model failed before it said anything: ${failed.raw ?? "no reason is told"}.`;
      this.fail(out, new GatewayError("upstream_invalid", { message }));
      return;
    }
    out.push(...finishes);
    if (choices.length === 0) out.push({ type: "finish", choice: 0, reason: "content_filter", ...this.block });
    const known = this.known();
    if (known) out.push({ type: "usage", usage: known });
    if (this.form) out.push({ type: "ping", native: this.form });
    out.push({ type: "end" });
  }

  private fail(out: Event[], fault: Fault): void {
    this.over = true;
    out.push({ type: "error", fault });
  }

  private doc(doc: JsonObject, out: Event[]): void {
    if (doc["error"] !== undefined && doc["error"] !== null) {
      this.fail(out, faultOf(502, doc["error"]));
      return;
    }
    this.flush(out);
    this.begin(doc, out);
    const seen: Seen | undefined = this.source.native ? { pieces: [], calls: [] } : undefined;
    asList(doc["candidates"]).forEach((each, position) => {
      const candidate = asObject(each) ?? {};
      this.choiceOf(asCount(candidate["index"]) ?? position).read(candidate, out, seen);
    });
    const feedback = asObject(doc["promptFeedback"]);
    const raw = rawReason(feedback?.["blockReason"]);
    if (raw !== undefined) this.block = { raw, ...defined({ message: asText(feedback?.["blockReasonMessage"]) }) };
    this.unsaid.others(doc, TOLD.frame, "", out);
    if (feedback) this.unsaid.others(feedback, TOLD.feedback, "promptFeedback.", out);
    this.count(doc, out);
    if (seen && this.start) this.form = formOf(doc, this.start, seen);
  }

  private begin(doc: JsonObject, out: Event[]): void {
    if (this.start) return;
    const id = asText(doc["responseId"]) ?? "";
    const model = asText(doc["modelVersion"]) ?? this.source.model;
    this.start = { id, model };
    if (id !== "") this.numbering.id = callIds(id);
    const created = Math.floor(Date.parse(asText(doc["createTime"]) ?? "") / 1000);
    const first = usage(doc);
    out.push({
      type: "start",
      ...this.start,
      ...(first ? { usage: first } : {}),
      ...(Number.isFinite(created) ? { created } : {}),
      ...(this.source.native ? { native: true } : {}),
    });
  }

  /** @throws GatewayError `upstream_invalid` when there are too many */
  private choiceOf(index: number): Choice {
    let choice = this.choices.get(index);
    if (!choice) {
      if (this.choices.size >= MOST)
        throw new GatewayError("upstream_invalid", { message: `The provider gives more than ${MOST} candidates.` });
      choice = new Choice(index, this.source, this.numbering);
      this.choices.set(index, choice);
    }
    return choice;
  }

  /** Each frame repeats the usage so far: only the first and the last are worth a reading. */
  private count(doc: JsonObject, out: Event[]): void {
    const told = asObject(doc["usageMetadata"]);
    if (!told) return;
    if (told["totalTokenCount"] !== undefined) this.latest = doc;
    else {
      this.told = usage(doc, this.known());
      this.latest = undefined;
    }
    const known = this.source.native ? this.known() : undefined;
    if (known) out.push({ type: "usage", usage: known });
  }

  private known(): Usage | undefined {
    return this.latest ? usage(this.latest) : this.told;
  }

  private flush(out: Event[]): void {
    if (!this.form) return;
    out.push({ type: "ping", native: this.form });
    this.form = undefined;
  }
}
