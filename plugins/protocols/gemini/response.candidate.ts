import { asObject, type EventOf, GatewayError, type Opaque, type Wish, type Written } from "model-gateway";
import { type Cited, groundingMetadata } from "./response.citations.ts";
import { wordOf } from "./response.finish.ts";
import { joins, type Shape } from "./response.joined.ts";
import { logprobsResult } from "./response.logprobs.ts";

/** What a block's number may stand on. */
type Growth = EventOf<"open" | "text" | "arguments" | "opaque" | "citation" | "media" | "server" | "close">;

/** A block that is open; all but the first wait, because parts come one after the other. */
interface Waiting {
  block: number;
  held: Growth[];
}

/** A frame as JSON text. @param rest the members behind the candidates and the closing brace */
export const frameOf = (candidates: readonly string[], rest: string): string =>
  `{"candidates":[${candidates.join(",")}],${rest}`;

/** Parts that only this protocol's own server tools have. */
const OWN = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse", "functionResponse", "inlineData"];

/** What sits on the block itself; it says so, because the state of a thought may travel on a call too. */
function ownState(event: EventOf<"open">): Opaque | undefined {
  if (event.kind === "text" && event.opaque) return { ...event.opaque, on: "text" };
  return event.kind === "tool_call" && event.opaque ? { ...event.opaque, on: { call: event.id ?? "" } } : undefined;
}

/** Writes the parts of one candidate in the order of its blocks. */
export class Candidate {
  private readonly queue: Waiting[] = [];
  private opening: EventOf<"open"> | undefined;
  /** A function call's arguments; they are written whole. */
  private arguments: string[] = [];
  /** What sits on the open text and was not written yet. */
  private signature: string | undefined;
  /** State of a reasoning block that has ended, on its way to the next part. */
  private sealed: Opaque | undefined;
  /** Calls that are complete; they wait for the next part or the end, which then is no frame of its own. */
  private calls: string[] = [];
  private summary: number | undefined;
  private last: (Shape & { part: number }) | undefined;
  /** The text of each part as clients join them; citations point into it. */
  private readonly texts: (string[] | undefined)[] = [];
  private length = 0;
  private blockStart = { part: 0, from: 0 };
  private readonly cited: (Cited & { block: number })[] = [];
  private refused = false;
  private ending: EventOf<"finish"> | undefined;
  private readonly tail: string;
  private readonly show: boolean;

  /** @param about the members of each frame behind its candidates, and the closing brace */
  constructor(
    private readonly index: number,
    private readonly about: string,
    private readonly wish: Wish,
  ) {
    this.tail = `],"role":"model"},"index":${index}`;
    this.show = wish.asked.reasoning?.show === true;
  }

  event(event: Growth, out: Written[]): void {
    if (event.type === "open") this.queue.push({ block: event.block, held: [] });
    const first = this.queue[0];
    if (first?.block !== event.block) {
      this.queue.find(({ block }) => block === event.block)?.held.push(event);
      return;
    }
    this.step(event, out);
  }

  finish(event: EventOf<"finish">): void {
    this.ending = event;
    if (event.reason === "pause") this.wish.lose("finishReason", "The turn was paused; ask again to let it go on.");
  }

  /** The candidate of the last frame. */
  end(out: Written[]): string {
    for (let next = this.queue[0]; next; next = this.queue[0]) this.step({ type: "close", block: next.block }, out);
    const parts = [...this.calls];
    if (this.sealed) parts.push(this.thoughtSignature());
    const filtered = this.ending?.reason === "content_filter" && this.last === undefined;
    if (parts.length === 0 && !filtered) parts.push('{"text":""}');
    const content =
      parts.length === 0 ? `{"index":${this.index}` : `{"content":{"parts":[${parts.join(",")}${this.tail}`;
    const { reason = "other", message } = this.ending ?? {};
    const finish = `,"finishReason":${JSON.stringify(wordOf(reason, this.refused))}`;
    const why = message === undefined ? "" : `,"finishMessage":${JSON.stringify(message)}`;
    return `${content}${finish}${why}${this.grounding()}}`;
  }

  private grounding(): string {
    if (this.cited.length === 0) return "";
    if (this.cited.some(({ citation }) => citation.url !== undefined && citation.quote !== undefined))
      this.wish.lose(`candidates.${this.index}.citations.quote`, "Gemini does not say what a page says.");
    const texts = this.texts.map((pieces) => pieces?.join(""));
    return `,"groundingMetadata":${JSON.stringify(groundingMetadata(this.cited, texts))}`;
  }

  /** An event of the first block that is open; when that ends, the next one says what it had to say. */
  private step(event: Growth, out: Written[]): void {
    this.take(event, out);
    if (event.type !== "close") return;
    this.queue.shift();
    const next = this.queue[0];
    if (!next) return;
    const { held } = next;
    next.held = [];
    for (const each of held) this.step(each, out);
  }

  private take(event: Growth, out: Written[]): void {
    switch (event.type) {
      case "open":
        this.open(event, out);
        break;
      case "text":
        if (event.text === "") break;
        if (this.opening?.kind === "reasoning") this.thought(event, out);
        else this.text(event, out);
        break;
      case "arguments":
        this.arguments.push(event.text);
        break;
      case "opaque":
        this.sealed = event.opaque;
        break;
      case "citation":
        this.cited.push({ citation: event.citation, block: event.block, ...this.blockStart, to: 0 });
        break;
      case "media":
        this.media(event, out);
        break;
      case "server":
        this.server(event, out);
        break;
      case "close":
        this.close(event.block, out);
        break;
    }
  }

  private open(event: EventOf<"open">, out: Written[]): void {
    this.opening = event;
    this.summary = undefined;
    this.flush(out);
    const own = ownState(event);
    this.signature = own && this.wish.seal(own);
    if (event.kind === "refusal") this.refused = true;
    // Some clients send no thoughts back, but what sits on a call, which is where the vendor has it. [S: gemini-cli]
    if (event.kind === "tool_call" && !own && this.sealed) {
      this.signature = this.wish.seal(this.sealed);
      if (!this.show) this.sealed = undefined;
    }
    if (this.sealed) this.write(this.thoughtSignature(), { kind: "thought", signed: true, empty: true }, out);
    const goesOn = joins(this.last, { kind: "text", signed: this.signature !== undefined, empty: false });
    const part = goesOn ? (this.last?.part ?? 0) : this.texts.length;
    this.blockStart = { part, from: goesOn ? this.length : 0 };
  }

  private text({ text, logprobs }: EventOf<"text">, out: Written[]): void {
    const { signature } = this;
    this.signature = undefined;
    const signed = signature !== undefined;
    const likely = logprobs === undefined ? undefined : logprobsResult(logprobs);
    const more = likely ? `,"logprobsResult":${JSON.stringify(likely)}` : "";
    this.write(partOf(text, signature), signed ? SIGNED : PLAIN, out, more);
    this.texts[this.last?.part ?? 0]?.push(text);
    this.length += text.length;
  }

  private thought({ text, part }: EventOf<"text">, out: Written[]): void {
    if (!this.show) return;
    const next = this.summary !== undefined && part !== undefined && part !== this.summary;
    this.summary = part;
    const json = JSON.stringify(next ? `\n\n${text}` : text);
    this.write(`{"text":${json},"thought":true}`, { kind: "thought", signed: false, empty: false }, out);
  }

  private media({ base64, url }: EventOf<"media">, out: Written[]): void {
    const mime = this.opening?.kind === "media" ? this.opening.mime : undefined;
    const data =
      base64 === undefined
        ? { fileData: { mimeType: mime, fileUri: url } }
        : { inlineData: { mimeType: mime, data: base64 } };
    this.write(JSON.stringify(data), OTHER, out);
  }

  private server({ json }: EventOf<"server">, out: Written[]): void {
    const part = asObject(json.value);
    if (part && OWN.some((own) => part[own] !== undefined)) {
      this.write(oneLine(json.text), OTHER, out);
      return;
    }
    const name = this.opening?.kind === "server" ? this.opening.name : "";
    this.wish.lose(`candidates.${this.index}.content.${name}`, `Gemini has no part for ${name}.`);
  }

  private close(block: number, out: Written[]): void {
    const { opening, signature } = this;
    if (opening?.kind === "tool_call") this.calls.push(this.call(opening));
    else if (signature !== undefined) this.write(partOf("", signature), { ...SIGNED, empty: true }, out);
    this.signature = undefined;
    for (const each of this.cited) if (each.block === block) each.to = this.length;
    this.opening = undefined;
  }

  /** @throws GatewayError `upstream_invalid` when the arguments are no object */
  private call({ name, kind, ...open }: EventOf<"open"> & { kind: "tool_call" }): string {
    const text = this.arguments.join("");
    // The free text of a custom tool that this client cannot have offered.
    const args = open.custom ? JSON.stringify({ input: text }) : objectText(text, name);
    this.arguments = [];
    const id = open.id === undefined ? "" : `"id":${JSON.stringify(open.id)},`;
    const signature = this.signature === undefined ? "" : `,"thoughtSignature":${JSON.stringify(this.signature)}`;
    return `{"functionCall":{${id}"name":${JSON.stringify(name)},"args":${args}}${signature}}`;
  }

  private thoughtSignature(): string {
    const signature = JSON.stringify(this.wish.seal(this.sealed as Opaque));
    this.sealed = undefined;
    return `{"text":"","thought":true,"thoughtSignature":${signature}}`;
  }

  /** Writes the calls that waited. */
  private flush(out: Written[]): void {
    const { calls } = this;
    if (calls.length === 0) return;
    this.calls = [];
    for (const call of calls) this.write(call, OTHER, out);
  }

  private write(part: string, shape: Shape, out: Written[], more = ""): void {
    if (joins(this.last, shape))
      this.last = { ...shape, signed: shape.signed || this.last?.signed === true, part: this.last?.part ?? 0 };
    else {
      this.last = { ...shape, part: this.texts.length };
      this.texts.push(shape.kind === "text" ? [] : undefined);
      this.length = 0;
    }
    out.push({ data: `{"candidates":[{"content":{"parts":[${part}${this.tail}${more}}],${this.about}` });
  }
}

const PLAIN: Shape = { kind: "text", signed: false, empty: false };
const SIGNED: Shape = { kind: "text", signed: true, empty: false };
const OTHER: Shape = { kind: "other", signed: false, empty: false };

function partOf(text: string, signature: string | undefined): string {
  const signed = signature === undefined ? "" : `,"thoughtSignature":${JSON.stringify(signature)}`;
  return `{"text":${JSON.stringify(text)}${signed}}`;
}

/** JSON whose line ends, which stand between values only, do not end a frame's line. */
const oneLine = (json: string): string => json.replace(/[\r\n]+/g, " ");

/** Arguments as the text of a JSON object. */
function objectText(text: string, name: string): string {
  if (text.trim() === "") return "{}";
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (asObject(value)) return oneLine(text.trim());
  throw new GatewayError("upstream_invalid", {
    message: `The model called ${name} with arguments that are not a JSON object, which Gemini clients cannot be told.`,
  });
}
