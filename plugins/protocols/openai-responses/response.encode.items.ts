import {
  asList,
  asObject,
  type EncodedFrame,
  type Event,
  type EventOf,
  type Opaque,
  type ResponseContext,
  writeJson,
} from "model-gateway/protocol";
import { JsonString, joined } from "./response.encode.json.ts";
import { SUMMARY_STATE } from "./wire.ts";

/** Numbers the events of one stream. */
export class SequenceWriter {
  private sequence = 0;

  /** @param withoutEvents whether no events are written, because only the items are needed */
  constructor(private readonly withoutEvents: boolean) {}

  /** Writes an event. @param members JSON text of the event's members, without braces. */
  write(type: string, members: string, out: EncodedFrame[]): void {
    if (this.withoutEvents) return;
    out.push({ name: type, data: `{"type":"${type}","sequence_number":${this.sequence++},${members}}` });
  }
}

/** The encoder of an item. */
export interface ItemWriter {
  /** Appends text, arguments, a citation, state or an image. */
  append(event: Event, out: EncodedFrame[]): void;
  /** Ends the block. The item may continue with another. */
  closeBlock(out: EncodedFrame[]): void;
  /** Ends the item; returns its JSON text. */
  finish(status: "completed" | "incomplete", out: EncodedFrame[]): string;
}

/** The id and index of an item, and what the writers of all items share. */
export interface ItemPlace {
  readonly id: string;
  readonly index: number;
  readonly frames: SequenceWriter;
  readonly context: ResponseContext;
}

const writeItemAdded = ({ frames, index }: ItemPlace, item: string, out: EncodedFrame[]): void =>
  frames.write("response.output_item.added", `"output_index":${index},"item":${item}`, out);

function writeItemDone({ frames, index }: ItemPlace, item: string, out: EncodedFrame[]): string {
  frames.write("response.output_item.done", `"output_index":${index},"item":${item}`, out);
  return item;
}

const itemPosition = ({ id, index }: ItemPlace): string => `"item_id":"${id}","output_index":${index}`;

/** Encodes a message: consecutive texts and refusals, a part each. */
export class MessageItemWriter implements ItemWriter {
  private readonly parts: string[] = [];
  private part: TextPartWriter | RefusalPartWriter | undefined;

  constructor(
    private readonly place: ItemPlace,
    out: EncodedFrame[],
  ) {
    writeItemAdded(place, this.json("in_progress"), out);
  }

  /** Begins the next part. */
  open(kind: "text" | "refusal", out: EncodedFrame[]): void {
    const at = `${itemPosition(this.place)},"content_index":${this.parts.length}`;
    this.part = kind === "text" ? new TextPartWriter(this.place, at) : new RefusalPartWriter(this.place, at);
    this.place.frames.write("response.content_part.added", `${at},"part":${this.part.json()}`, out);
  }

  append(event: Event, out: EncodedFrame[]): void {
    this.part?.append(event, out);
  }

  closeBlock(out: EncodedFrame[]): void {
    if (!this.part) return;
    const json = this.part.finish(out);
    this.place.frames.write("response.content_part.done", `${this.part.at},"part":${json}`, out);
    this.parts.push(json);
    this.part = undefined;
  }

  finish(status: "completed" | "incomplete", out: EncodedFrame[]): string {
    return writeItemDone(this.place, this.json(status), out);
  }

  private json(status: string): string {
    const { id } = this.place;
    return `{"id":"${id}","type":"message","status":"${status}","role":"assistant","content":[${joined(this.parts)}]}`;
  }
}

class TextPartWriter {
  private readonly text = new JsonString();
  private readonly logprobs: string[] = [];
  private readonly annotations: string[] = [];
  /** Citations that end with the text. */
  private readonly openCitations: EventOf<"citation">[] = [];
  private length = 0;

  constructor(
    private readonly place: ItemPlace,
    readonly at: string,
  ) {}

  append(event: Event, out: EncodedFrame[]): void {
    if (event.type === "text") {
      const logprobs = logprobsJson(event.logprobs);
      if (event.text === "" && logprobs === "") return;
      this.length += event.text.length;
      if (logprobs !== "") this.logprobs.push(logprobs);
      const members = `${this.at},"delta":${this.text.add(event.text)},"logprobs":[${logprobs}]`;
      this.place.frames.write("response.output_text.delta", members, out);
    } else if (event.type === "citation") {
      if (event.citation.end === undefined) this.openCitations.push(event);
      else this.writeCitation(event, out);
    }
  }

  finish(out: EncodedFrame[]): string {
    for (const event of this.openCitations) this.writeCitation(event, out);
    const text = String(this.text);
    const members = `${this.at},"text":${text},"logprobs":[${this.logprobs.join()}]`;
    this.place.frames.write("response.output_text.done", members, out);
    return this.json(text);
  }

  json(text = '""'): string {
    return `{"type":"output_text","annotations":[${this.annotations.join()}],"logprobs":[${this.logprobs.join()}],"text":${text}}`;
  }

  private writeCitation({ citation }: EventOf<"citation">, out: EncodedFrame[]): void {
    const path = `output.${this.place.index}.content.annotations`;
    if (citation.url === undefined) {
      this.place.context.drop(path, "A citation of a source without an address has no form in this protocol.");
      return;
    }
    if (citation.quote !== undefined)
      this.place.context.drop(`${path}.quote`, "A citation has no quoted text in this protocol.");
    const { start = 0, end = this.length, title = "" } = citation;
    const { url } = citation;
    const annotation = JSON.stringify({ type: "url_citation", url, title, start_index: start, end_index: end });
    const members = `${this.at},"annotation_index":${this.annotations.length},"annotation":${annotation}`;
    this.annotations.push(annotation);
    this.place.frames.write("response.output_text.annotation.added", members, out);
  }
}

class RefusalPartWriter {
  private readonly text = new JsonString();

  constructor(
    private readonly place: ItemPlace,
    readonly at: string,
  ) {}

  append(event: Event, out: EncodedFrame[]): void {
    if (event.type !== "text" || event.text === "") return;
    this.place.frames.write("response.refusal.delta", `${this.at},"delta":${this.text.add(event.text)}`, out);
  }

  finish(out: EncodedFrame[]): string {
    const text = String(this.text);
    this.place.frames.write("response.refusal.done", `${this.at},"refusal":${text}`, out);
    return this.json(text);
  }

  json(text = '""'): string {
    return `{"type":"refusal","refusal":${text}}`;
  }
}

/** Returns logprobs as JSON text without brackets; other protocols wrap the same list in an object. */
function logprobsJson(logprobs: unknown): string {
  const list = asList(asObject(logprobs)?.["content"] ?? logprobs);
  return list.length === 0 ? "" : writeJson(list).slice(1, -1);
}

/** Encodes reasoning: readable text as parts of a summary, and the state that must be sent back. */
export class ReasoningWriter implements ItemWriter {
  private readonly parts: string[] = [];
  private text = new JsonString();
  /** The open part, by its original number. */
  private part: number | undefined;
  private opaque: Opaque | undefined;

  constructor(
    private readonly place: ItemPlace,
    out: EncodedFrame[],
  ) {
    writeItemAdded(place, `{"id":"${place.id}","type":"reasoning","summary":[]}`, out);
  }

  /** True without state that only the vendor can read: at most the origin of the thoughts. */
  get isUnsigned(): boolean {
    return !this.opaque?.data;
  }

  append(event: Event, out: EncodedFrame[]): void {
    if (event.type === "opaque") this.opaque = event.opaque;
    if (event.type !== "text" || event.text === "") return;
    const { part = 0 } = event;
    if (this.part !== part) {
      this.closeBlock(out);
      this.part = part;
      this.write("part.added", '"part":{"type":"summary_text","text":""}', out);
    }
    this.write("text.delta", `"delta":${this.text.add(event.text)}`, out);
  }

  closeBlock(out: EncodedFrame[]): void {
    if (this.part === undefined) return;
    const text = String(this.text);
    const part = `{"type":"summary_text","text":${text}}`;
    this.write("text.done", `"text":${text}`, out);
    this.write("part.done", `"part":${part}`, out);
    this.parts.push(part);
    this.text = new JsonString();
    this.part = undefined;
  }

  finish(_status: string, out: EncodedFrame[]): string {
    const { id, context } = this.place;
    const state = this.opaque ? `,"encrypted_content":${JSON.stringify(context.seal(this.opaque))}` : "";
    return writeItemDone(
      this.place,
      `{"id":"${id}","type":"reasoning","summary":[${joined(this.parts)}]${state}}`,
      out,
    );
  }

  private write(type: string, members: string, out: EncodedFrame[]): void {
    const at = `${itemPosition(this.place)},"summary_index":${this.parts.length}`;
    this.place.frames.write(`response.reasoning_summary_${type}`, `${at},${members}`, out);
  }
}

/** Encodes a call of a function, or of a tool that takes free text. */
export class CallWriter implements ItemWriter {
  private readonly text = new JsonString();

  /** @param id of the call, which the client's result names; unique in the response */
  constructor(
    private readonly place: ItemPlace,
    private readonly opening: EventOf<"open"> & { kind: "tool_call" },
    private readonly id: string,
    out: EncodedFrame[],
  ) {
    writeItemAdded(place, this.json("in_progress"), out);
  }

  append(event: Event, out: EncodedFrame[]): void {
    if (event.type !== "arguments" || event.text === "") return;
    this.write("delta", `"delta":${this.text.add(event.text)}`, out);
  }

  closeBlock(out: EncodedFrame[]): void {
    // A function without arguments is called with an empty object; clients parse it.
    if (this.text.isEmpty && !this.opening.custom) this.append({ type: "arguments", block: 0, text: "{}" }, out);
    // Typed clients require the function's name here.
    const members = this.opening.custom ? '"input"' : `"name":${JSON.stringify(this.opening.name)},"arguments"`;
    this.write("done", `${members}:${this.text}`, out);
  }

  finish(status: "completed" | "incomplete", out: EncodedFrame[]): string {
    return writeItemDone(this.place, this.json(status), out);
  }

  private write(type: string, members: string, out: EncodedFrame[]): void {
    const itemName = this.opening.custom ? "custom_tool_call_input" : "function_call_arguments";
    this.place.frames.write(`response.${itemName}.${type}`, `${itemPosition(this.place)},${members}`, out);
  }

  private json(status: string): string {
    const { name, namespace, custom } = this.opening;
    const [type, member] = custom ? ["custom_tool_call", "input"] : ["function_call", "arguments"];
    const call = `"call_id":${JSON.stringify(this.id)},"name":${JSON.stringify(name)}`;
    const namespaceMember = namespace === undefined ? "" : `,"namespace":${JSON.stringify(namespace)}`;
    return `{"id":"${this.place.id}","type":"${type}","status":"${status}",${call}${namespaceMember},"${member}":${this.text}}`;
  }
}

/** Encodes a summary that replaces a conversation, sealed like the vendor's own. */
export class CompactionWriter implements ItemWriter {
  private readonly json: string;

  constructor(
    private readonly place: ItemPlace,
    summary: string,
    out: EncodedFrame[],
  ) {
    const json = (content: string) =>
      `{"id":"${place.id}","type":"compaction","encrypted_content":${JSON.stringify(content)}}`;
    writeItemAdded(place, json(""), out);
    this.json = json(place.context.seal({ ...SUMMARY_STATE, data: summary }));
  }

  append(): void {}

  closeBlock(): void {}

  finish(_status: string, out: EncodedFrame[]): string {
    return writeItemDone(this.place, this.json, out);
  }
}

/** Encodes an image that the model made. */
export class ImageWriter implements ItemWriter {
  private readonly pieces: string[] = [];

  constructor(
    private readonly place: ItemPlace,
    private readonly mime: string | undefined,
    out: EncodedFrame[],
  ) {
    writeItemAdded(place, this.json("in_progress", "null"), out);
    place.frames.write("response.image_generation_call.in_progress", itemPosition(place), out);
  }

  append(event: Event): void {
    if (event.type !== "media") return;
    if (event.base64 !== undefined) this.pieces.push(event.base64);
    if (event.url !== undefined) this.place.context.drop("output.image", "An image cannot be written by its URL.");
  }

  closeBlock(): void {}

  finish(_status: string, out: EncodedFrame[]): string {
    // There was only a URL: clients would take an empty string for the image.
    if (this.pieces.length === 0) return writeItemDone(this.place, this.json("failed", "null"), out);
    this.place.frames.write("response.image_generation_call.completed", itemPosition(this.place), out);
    return writeItemDone(this.place, this.json("completed", JSON.stringify(this.pieces.join(""))), out);
  }

  private json(status: string, result: string): string {
    const format = this.mime?.startsWith("image/") ? `,"output_format":${JSON.stringify(this.mime.slice(6))}` : "";
    return `{"id":"${this.place.id}","type":"image_generation_call","status":"${status}","result":${result}${format}}`;
  }
}
