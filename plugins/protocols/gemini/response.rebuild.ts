import {
  type EncodedFrame,
  type Event,
  type EventOf,
  type JsonObject,
  type RawJson,
  type ResponseEncoder,
  type Usage,
  writeJson,
} from "model-gateway/protocol";
import { type CandidateForm, type FrameForm, type PartForm, without } from "./response.native.ts";
import { usageMetadata } from "./response.usage.ts";

/** What the events of one candidate said and no frame has taken yet, in order. */
class Values {
  readonly texts: string[] = [];
  readonly signatures: string[] = [];
  readonly calls: { name: string; id: string | undefined }[] = [];
  readonly arguments: string[] = [];
  readonly media: { mime: string | undefined; base64: string | undefined; url: string | undefined }[] = [];
  readonly server: RawJson[] = [];
  finish: EventOf<"finish"> | undefined;
}

/** Writes the very frames that an answer of this protocol was read from; the forms say which value stood where. */
export class Rebuilder implements ResponseEncoder {
  private readonly values = new Map<number, Values>();
  private readonly choiceOf: number[] = [];
  private readonly mimes: (string | undefined)[] = [];
  private start = { id: "", model: "" };
  private usage: Usage | undefined;

  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    switch (event.type) {
      case "start":
        this.start = event;
        break;
      case "open":
        this.open(event);
        break;
      case "usage":
        this.usage = event.usage;
        break;
      case "finish":
        this.of(event.choice).finish = event;
        break;
      case "ping":
        if (event.native) out.push({ data: writeJson(this.frame(event.native as FrameForm)) });
        break;
      case "text":
        this.block(event.block).texts.push(event.text);
        break;
      case "arguments":
        this.block(event.block).arguments.push(event.text);
        break;
      case "opaque":
        this.block(event.block).signatures.push(event.opaque.data);
        break;
      case "media":
        this.block(event.block).media.push({ mime: this.mimes[event.block], base64: event.base64, url: event.url });
        break;
      case "server":
        this.block(event.block).server.push(event.json);
        break;
    }
  }

  private open(event: EventOf<"open">): void {
    this.choiceOf[event.block] = event.choice;
    const values = this.of(event.choice);
    if (event.kind === "media") this.mimes[event.block] = event.mime;
    if (event.kind === "tool_call") values.calls.push({ name: event.name, id: event.id });
    if ((event.kind === "tool_call" || event.kind === "text") && event.opaque)
      values.signatures.push(event.opaque.data);
  }

  private block(block: number): Values {
    return this.of(this.choiceOf[block] ?? 0);
  }

  private of(choice: number): Values {
    let values = this.values.get(choice);
    if (!values) {
      values = new Values();
      this.values.set(choice, values);
    }
    return values;
  }

  private frame(form: FrameForm): JsonObject {
    const raw = (this.usage?.raw ?? {}) as JsonObject;
    const told = this.usage ? { ...usageMetadata(this.usage), ...without(raw, COUNTS) } : {};
    return {
      ...form.more,
      ...(form.candidates ? { candidates: form.candidates.map((each) => this.candidate(each)) } : {}),
      ...(form.usage ? { usageMetadata: Object.fromEntries(form.usage.map((name) => [name, told[name]])) } : {}),
      ...(form.id ? { responseId: this.start.id } : {}),
      ...(form.model ? { modelVersion: this.start.model } : {}),
    };
  }

  private candidate(form: CandidateForm): JsonObject {
    const values = this.of(form.choice);
    const { finish } = values;
    const number = finish?.raw !== undefined && /^\d+$/.test(finish.raw);
    const last = number ? Number(finish?.raw) : finish?.raw;
    const parts = form.parts && { parts: form.parts.map((part) => rebuilt(part, values)) };
    return {
      ...form.more,
      ...(form.content ? { content: { ...form.content, ...parts } } : {}),
      ...("finish" in form ? { finishReason: finish ? last : form.finish } : {}),
      ...("message" in form ? { finishMessage: finish ? finish.message : form.message } : {}),
    };
  }
}

/** What is told of tokens by the vocabulary; it has no words for their split into modalities in every detail. */
const COUNTS = [
  "promptTokenCount",
  "cachedContentTokenCount",
  "candidatesTokenCount",
  "toolUsePromptTokenCount",
  "thoughtsTokenCount",
  "totalTokenCount",
];

function rebuilt(form: PartForm, values: Values): JsonObject {
  if (form.raw) return form.raw;
  if (form.kind === "server") return values.server.shift()?.value as JsonObject;
  const signed = form.signed ? { thoughtSignature: values.signatures.shift() } : {};
  const has = (name: string) => form.has?.includes(name) === true;
  if (form.kind === "text") return { ...form.more, ...(has("text") ? { text: values.texts.shift() } : {}), ...signed };
  if (form.kind === "call") return { ...form.more, functionCall: call(form, values, has), ...signed };
  const media = values.media.shift();
  const data = form.kind === "inlineData" ? { data: media?.base64 } : { fileUri: media?.url };
  const mime = has("mimeType") ? { mimeType: media?.mime } : {};
  return { ...form.more, [form.kind]: { ...form.inner, ...mime, ...data } };
}

function call(form: PartForm, values: Values, has: (name: string) => boolean): JsonObject {
  const head = has("name") ? values.calls.shift() : undefined;
  const partial = form.partial?.map(({ member, text, lead, tail, more }) => {
    const piece = text ? (values.arguments.shift() ?? "") : "";
    const value = piece.slice(lead, piece.length - tail);
    if (member === undefined) return more;
    return { ...more, [member]: JSON.parse(member === "stringValue" ? `"${value}"` : value) as unknown };
  });
  const whole = has("args") ? (JSON.parse(values.arguments.shift() ?? "") as unknown) : undefined;
  if (form.closes) values.arguments.shift();
  return {
    ...form.inner,
    ...(head ? { name: head.name } : {}),
    ...(has("id") ? { id: head?.id } : {}),
    ...(has("args") ? { args: whole } : {}),
    ...(partial ? { partialArgs: partial } : {}),
  };
}
