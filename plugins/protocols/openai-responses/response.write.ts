/**
 * Writes output items, piece by piece. The vendor's SDK follows every step: an item is added before anything of it is
 * said, each part is added, grows, and is then said again as a whole, and so are item and answer. [S]
 */
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
import { summaryOf } from "./request.compaction.ts";
import { annotationOf } from "./response.words.ts";

/** Numbers the events of one stream. */
export class Tape {
  private sequence = 0;

  /** @param silent nothing is written: only the items are wanted. */
  constructor(private readonly silent: boolean) {}

  /** @param members JSON text of the event's members, without braces. */
  write(type: string, members: string, out: EncodedFrame[]): void {
    if (this.silent) return;
    out.push({ name: type, data: `{"type":"${type}","sequence_number":${this.sequence++},${members}}` });
  }
}

/** An item while it is written. */
export interface Item {
  /** More of it: a text, arguments, a citation, state, or a picture. */
  grow(event: Event, out: EncodedFrame[]): void;
  /** The block has ended. The item may go on with another. */
  close(out: EncodedFrame[]): void;
  /** The item has ended; answers its JSON text. */
  done(status: "completed" | "incomplete", out: EncodedFrame[]): string;
}

/** What every item has. */
export interface Place {
  readonly id: string;
  readonly index: number;
  readonly tape: Tape;
  readonly context: ResponseContext;
}

const added = ({ tape, index }: Place, item: string, out: EncodedFrame[]): void =>
  tape.write("response.output_item.added", `"output_index":${index},"item":${item}`, out);

function done({ tape, index }: Place, item: string, out: EncodedFrame[]): string {
  tape.write("response.output_item.done", `"output_index":${index},"item":${item}`, out);
  return item;
}

const addressOf = ({ id, index }: Place): string => `"item_id":"${id}","output_index":${index}`;

/** A message: neighbouring texts and refusals, a part each. */
export class Message implements Item {
  private readonly parts: string[] = [];
  private part: TextPart | RefusalPart | undefined;

  constructor(
    private readonly place: Place,
    out: EncodedFrame[],
  ) {
    added(place, this.json("in_progress"), out);
  }

  /** The next part begins. */
  open(kind: "text" | "refusal", out: EncodedFrame[]): void {
    const at = `${addressOf(this.place)},"content_index":${this.parts.length}`;
    this.part = kind === "text" ? new TextPart(this.place, at) : new RefusalPart(this.place, at);
    this.place.tape.write("response.content_part.added", `${at},"part":${this.part.json()}`, out);
  }

  grow(event: Event, out: EncodedFrame[]): void {
    this.part?.grow(event, out);
  }

  close(out: EncodedFrame[]): void {
    if (!this.part) return;
    const json = this.part.done(out);
    this.place.tape.write("response.content_part.done", `${this.part.at},"part":${json}`, out);
    this.parts.push(json);
    this.part = undefined;
  }

  done(status: "completed" | "incomplete", out: EncodedFrame[]): string {
    return done(this.place, this.json(status), out);
  }

  private json(status: string): string {
    const { id } = this.place;
    return `{"id":"${id}","type":"message","status":"${status}","role":"assistant","content":[${this.parts.join()}]}`;
  }
}

class TextPart {
  private readonly pieces: string[] = [];
  private readonly logprobs: string[] = [];
  private readonly annotations: string[] = [];
  /** Citations whose end is that of the text. */
  private readonly open: EventOf<"citation">[] = [];
  private length = 0;

  constructor(
    private readonly place: Place,
    readonly at: string,
  ) {}

  grow(event: Event, out: EncodedFrame[]): void {
    if (event.type === "text") {
      const likely = likelihoods(event.logprobs);
      if (event.text === "" && likely === "") return;
      this.pieces.push(event.text);
      this.length += event.text.length;
      if (likely !== "") this.logprobs.push(likely);
      const members = `${this.at},"delta":${JSON.stringify(event.text)},"logprobs":[${likely}]`;
      this.place.tape.write("response.output_text.delta", members, out);
    } else if (event.type === "citation") {
      if (event.citation.end === undefined) this.open.push(event);
      else this.cite(event, out);
    }
  }

  done(out: EncodedFrame[]): string {
    for (const event of this.open) this.cite(event, out);
    const text = JSON.stringify(this.pieces.join(""));
    const members = `${this.at},"text":${text},"logprobs":[${this.logprobs.join()}]`;
    this.place.tape.write("response.output_text.done", members, out);
    return this.json(text);
  }

  json(text = '""'): string {
    return `{"type":"output_text","annotations":[${this.annotations.join()}],"logprobs":[${this.logprobs.join()}],"text":${text}}`;
  }

  private cite({ citation }: EventOf<"citation">, out: EncodedFrame[]): void {
    const path = `output.${this.place.index}.content`;
    if (citation.url === undefined) {
      this.place.context.drop(path, "A citation of a source without an address has no form in this protocol.");
      return;
    }
    if (citation.quote !== undefined)
      this.place.context.drop(path, "A citation does not say the words that it quotes.");
    const { start = 0, end = this.length, title = "" } = citation;
    const annotation = JSON.stringify(annotationOf({ ...citation, title, start, end }));
    const members = `${this.at},"annotation_index":${this.annotations.length},"annotation":${annotation}`;
    this.annotations.push(annotation);
    this.place.tape.write("response.output_text.annotation.added", members, out);
  }
}

class RefusalPart {
  private readonly pieces: string[] = [];

  constructor(
    private readonly place: Place,
    readonly at: string,
  ) {}

  grow(event: Event, out: EncodedFrame[]): void {
    if (event.type !== "text" || event.text === "") return;
    this.pieces.push(event.text);
    this.place.tape.write("response.refusal.delta", `${this.at},"delta":${JSON.stringify(event.text)}`, out);
  }

  done(out: EncodedFrame[]): string {
    const text = JSON.stringify(this.pieces.join(""));
    this.place.tape.write("response.refusal.done", `${this.at},"refusal":${text}`, out);
    return this.json(text);
  }

  json(text = '""'): string {
    return `{"type":"refusal","refusal":${text}}`;
  }
}

/** Likelihoods of tokens as JSON text without brackets; other protocols wrap the same list in an object. */
function likelihoods(logprobs: unknown): string {
  const list = asList(asObject(logprobs)?.["content"] ?? logprobs);
  return list.length === 0 ? "" : writeJson(list).slice(1, -1);
}

/** Reasoning: what can be read of it as parts of a summary, and the state that must come back. */
export class Reasoning implements Item {
  private readonly parts: string[] = [];
  private pieces: string[] = [];
  /** The part that is open, by the number it came with. */
  private part: number | undefined;
  private opaque: Opaque | undefined;

  constructor(
    private readonly place: Place,
    out: EncodedFrame[],
  ) {
    added(place, `{"id":"${place.id}","type":"reasoning","summary":[]}`, out);
  }

  grow(event: Event, out: EncodedFrame[]): void {
    if (event.type === "opaque") this.opaque = event.opaque;
    if (event.type !== "text" || event.text === "") return;
    const { part = 0 } = event;
    if (this.part !== part) {
      this.close(out);
      this.part = part;
      this.write("part.added", '"part":{"type":"summary_text","text":""}', out);
    }
    this.pieces.push(event.text);
    this.write("text.delta", `"delta":${JSON.stringify(event.text)}`, out);
  }

  close(out: EncodedFrame[]): void {
    if (this.part === undefined) return;
    const text = JSON.stringify(this.pieces.join(""));
    const part = `{"type":"summary_text","text":${text}}`;
    this.write("text.done", `"text":${text}`, out);
    this.write("part.done", `"part":${part}`, out);
    this.parts.push(part);
    this.pieces = [];
    this.part = undefined;
  }

  done(_status: string, out: EncodedFrame[]): string {
    const { id, context } = this.place;
    const state = this.opaque ? `,"encrypted_content":${JSON.stringify(context.seal(this.opaque))}` : "";
    return done(this.place, `{"id":"${id}","type":"reasoning","summary":[${this.parts.join()}]${state}}`, out);
  }

  private write(type: string, members: string, out: EncodedFrame[]): void {
    const at = `${addressOf(this.place)},"summary_index":${this.parts.length}`;
    this.place.tape.write(`response.reasoning_summary_${type}`, `${at},${members}`, out);
  }
}

/** A call of a function, or of a tool that takes free text. */
export class Call implements Item {
  private readonly pieces: string[] = [];
  private text = '""';

  /** @param id what the client's result names; unique in the answer. */
  constructor(
    private readonly place: Place,
    private readonly opening: EventOf<"open"> & { kind: "tool_call" },
    private readonly id: string,
    out: EncodedFrame[],
  ) {
    added(place, this.json("in_progress"), out);
  }

  grow(event: Event, out: EncodedFrame[]): void {
    if (event.type !== "arguments" || event.text === "") return;
    this.pieces.push(event.text);
    this.write("delta", `"delta":${JSON.stringify(event.text)}`, out);
  }

  close(out: EncodedFrame[]): void {
    // A function without arguments is called with an empty object; clients parse it.
    if (this.pieces.length === 0 && !this.opening.custom) this.grow({ type: "arguments", block: 0, text: "{}" }, out);
    this.text = JSON.stringify(this.pieces.join(""));
    this.write("done", `"${this.opening.custom ? "input" : "arguments"}":${this.text}`, out);
  }

  done(status: "completed" | "incomplete", out: EncodedFrame[]): string {
    return done(this.place, this.json(status), out);
  }

  private write(type: string, members: string, out: EncodedFrame[]): void {
    const what = this.opening.custom ? "custom_tool_call_input" : "function_call_arguments";
    this.place.tape.write(`response.${what}.${type}`, `${addressOf(this.place)},${members}`, out);
  }

  private json(status: string): string {
    const { name, namespace, custom } = this.opening;
    const [type, member] = custom ? ["custom_tool_call", "input"] : ["function_call", "arguments"];
    const call = `"call_id":${JSON.stringify(this.id)},"name":${JSON.stringify(name)}`;
    const space = namespace === undefined ? "" : `,"namespace":${JSON.stringify(namespace)}`;
    return `{"id":"${this.place.id}","type":"${type}","status":"${status}",${call}${space},"${member}":${this.text}}`;
  }
}

/** A summary in place of what was said, sealed like the vendor's own. */
export class Compaction implements Item {
  private readonly json: string;

  constructor(
    private readonly place: Place,
    summary: string,
    out: EncodedFrame[],
  ) {
    const json = (content: string) =>
      `{"id":"${place.id}","type":"compaction","encrypted_content":${JSON.stringify(content)}}`;
    added(place, json(""), out);
    this.json = json(place.context.seal(summaryOf(summary)));
  }

  grow(): void {}

  close(): void {}

  done(_status: string, out: EncodedFrame[]): string {
    return done(this.place, this.json, out);
  }
}

/** An image the model made. */
export class Picture implements Item {
  private readonly pieces: string[] = [];

  constructor(
    private readonly place: Place,
    private readonly mime: string | undefined,
    out: EncodedFrame[],
  ) {
    added(place, this.json("in_progress", "null"), out);
    place.tape.write("response.image_generation_call.in_progress", addressOf(place), out);
  }

  grow(event: Event): void {
    if (event.type !== "media") return;
    if (event.base64 !== undefined) this.pieces.push(event.base64);
    if (event.url !== undefined) this.place.context.drop("output.image", "An image cannot be told by its URL.");
  }

  close(): void {}

  done(_status: string, out: EncodedFrame[]): string {
    this.place.tape.write("response.image_generation_call.completed", addressOf(this.place), out);
    return done(this.place, this.json("completed", JSON.stringify(this.pieces.join(""))), out);
  }

  private json(status: string, result: string): string {
    const format = this.mime?.startsWith("image/") ? `,"output_format":${JSON.stringify(this.mime.slice(6))}` : "";
    return `{"id":"${this.place.id}","type":"image_generation_call","status":"${status}","result":${result}${format}}`;
  }
}
