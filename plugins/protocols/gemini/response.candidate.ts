import {
  asObject,
  type EncodedFrame,
  type EventOf,
  type FinishReason,
  GatewayError,
  type Opaque,
  type ResponseContext,
  weightOf,
} from "model-gateway/protocol";
import { wordOf } from "./response.finish.ts";
import { Grounding } from "./response.grounding.ts";
import { joins, type Shape } from "./response.joined.ts";
import { logprobsResult } from "./response.logprobs.ts";

/** What a block's number may stand on. */
type Growth = EventOf<"open" | "text" | "arguments" | "opaque" | "citation" | "media" | "server" | "close">;

/** The weight of what may wait for the block before to end. */
const MOST_WAITING = 8 * 1024 * 1024;

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
  /** The block that is written. Others that are open wait, in their order, because parts come one after the other. */
  private block: number | undefined;
  private readonly waiting = new Map<number, Growth[]>();
  private held = 0;
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
  /** How many parts there are as clients join them, and the bytes of the last one's text in blocks that have ended. */
  private parts = 0;
  private bytes = 0;
  /** The open block's text, as long as citations may point into it, and where it goes on. */
  private uses: string[] = [];
  private blockStart = { part: 0, before: 0 };
  private readonly grounding = new Grounding();
  private refused = false;
  private ending: EventOf<"finish"> | undefined;
  /** The call whose arguments are no object. */
  private unfit: string | undefined;
  private readonly tail: string;
  private readonly show: boolean;

  /** @param about the members of each frame behind its candidates, and the closing brace */
  constructor(
    private readonly index: number,
    private readonly about: string,
    private readonly context: ResponseContext,
  ) {
    this.tail = `],"role":"model"},"index":${index}`;
    this.show = context.conversation.reasoning?.show === true;
  }

  /** @throws GatewayError `upstream_invalid` when too much waits */
  event(event: Growth, out: EncodedFrame[]): void {
    if (event.type === "open" && this.block === undefined) this.block = event.block;
    if (event.block !== this.block) this.hold(event);
    else {
      this.take(event, out);
      if (event.type === "close") this.next(out);
    }
  }

  finish(event: EventOf<"finish">): void {
    this.ending = event;
    if (event.reason === "pause") this.context.drop("finishReason", "The turn was paused; ask again to let it go on.");
  }

  /** The candidate of the last frame. @throws GatewayError `upstream_invalid` when a call's arguments are no object */
  end(out: EncodedFrame[]): string {
    while (this.block !== undefined) this.event({ type: "close", block: this.block }, out);
    if (this.unfit !== undefined) this.judge(this.unfit);
    const parts = [...this.calls];
    if (this.sealed) parts.push(this.thoughtSignature());
    const filtered = this.ending?.reason === "content_filter" && this.last === undefined;
    if (parts.length === 0 && !filtered) parts.push('{"text":""}');
    const content =
      parts.length === 0 ? `{"index":${this.index}` : `{"content":{"parts":[${parts.join(",")}${this.tail}`;
    const { reason = "other", message } = this.ending ?? {};
    const finish = `,"finishReason":${JSON.stringify(wordOf(reason, this.refused))}`;
    const why = message === undefined ? "" : `,"finishMessage":${JSON.stringify(message)}`;
    return `${content}${finish}${why}${this.sources()}}`;
  }

  /** A call whose arguments are no object is left out where the answer was cut in the middle of it. */
  private judge(name: string): void {
    if (!CUT.has(this.ending?.reason ?? "other"))
      throw new GatewayError("upstream_invalid", {
        message: `The model called ${name} with arguments that are not a JSON object, which Gemini clients cannot be told.`,
      });
    this.context.drop(
      `candidates.${this.index}.content.functionCall`,
      `The answer was cut within the call of ${name}.`,
    );
  }

  private sources(): string {
    if (this.grounding.empty) return "";
    if (this.grounding.unquoted)
      this.context.drop(`candidates.${this.index}.citations.quote`, "Gemini does not say what a page says.");
    return `,"groundingMetadata":${this.grounding.json()}`;
  }

  private hold(event: Growth): void {
    if (event.type === "open") this.waiting.set(event.block, []);
    const held = this.waiting.get(event.block);
    if (!held) return;
    held.push(event);
    this.held += weightOf(event);
    if (this.held > MOST_WAITING)
      throw new GatewayError("upstream_invalid", { message: "The provider's blocks grow side by side beyond 8 MiB." });
  }

  /** The blocks that waited say what they had to say, as far as each one before has ended. */
  private next(out: EncodedFrame[]): void {
    this.block = undefined;
    for (const [block, held] of this.waiting) {
      this.waiting.delete(block);
      this.block = block;
      for (const each of held) {
        this.held -= weightOf(each);
        this.take(each, out);
      }
      if (held.at(-1)?.type !== "close") return;
      this.block = undefined;
    }
  }

  private take(event: Growth, out: EncodedFrame[]): void {
    switch (event.type) {
      case "open":
        this.open(event, out);
        break;
      case "text":
        if (this.opening?.kind === "reasoning") this.thought(event, out);
        else if (event.text !== "" || event.logprobs !== undefined) this.text(event, out);
        break;
      case "arguments":
        this.arguments.push(event.text);
        break;
      case "opaque":
        this.sealed = event.opaque;
        break;
      case "citation":
        this.grounding.cite(event.citation);
        break;
      case "media":
        this.media(event, out);
        break;
      case "server":
        this.server(event, out);
        break;
      case "close":
        this.close(out);
        break;
    }
  }

  private open(event: EventOf<"open">, out: EncodedFrame[]): void {
    this.opening = event;
    this.summary = undefined;
    this.flush(out);
    const own = ownState(event);
    this.signature = own && this.context.seal(own);
    if (event.kind === "refusal") this.refused = true;
    // Some clients send no thoughts back, but what sits on a call, which is where the vendor has it. [S: gemini-cli]
    if (event.kind === "tool_call" && !own && this.sealed && this.sealed.on === undefined) {
      this.signature = this.context.seal(this.sealed);
      if (!this.show) this.sealed = undefined;
    }
    if (this.sealed) this.write(this.thoughtSignature(), { kind: "thought", signed: true, empty: true }, out);
    const goesOn = joins(this.last, { kind: "text", signed: this.signature !== undefined, empty: false });
    const part = goesOn ? (this.last?.part ?? 0) : this.parts;
    this.blockStart = { part, before: goesOn ? this.bytes : 0 };
  }

  private text({ text, logprobs }: EventOf<"text">, out: EncodedFrame[]): void {
    const { signature } = this;
    this.signature = undefined;
    const signed = signature !== undefined;
    const likely = logprobs === undefined ? undefined : logprobsResult(logprobs);
    const more = likely ? `,"logprobsResult":${JSON.stringify(likely)}` : "";
    this.write(partOf(text, signature), signed ? SIGNED : PLAIN, out, more);
    this.uses.push(text);
  }

  private thought({ text, part }: EventOf<"text">, out: EncodedFrame[]): void {
    if (!this.show || text === "") return;
    const next = this.summary !== undefined && part !== undefined && part !== this.summary;
    this.summary = part;
    const json = JSON.stringify(next ? `\n\n${text}` : text);
    this.write(`{"text":${json},"thought":true}`, { kind: "thought", signed: false, empty: false }, out);
  }

  private media({ base64, url }: EventOf<"media">, out: EncodedFrame[]): void {
    const mime = this.opening?.kind === "media" ? this.opening.mime : undefined;
    const data =
      base64 === undefined
        ? { fileData: { mimeType: mime, fileUri: url } }
        : { inlineData: { mimeType: mime, data: base64 } };
    this.write(JSON.stringify(data), OTHER, out);
  }

  private server({ json }: EventOf<"server">, out: EncodedFrame[]): void {
    const part = asObject(json.value);
    if (part && OWN.some((own) => part[own] !== undefined)) {
      this.write(oneLine(json.text), OTHER, out);
      return;
    }
    const name = this.opening?.kind === "server" ? this.opening.name : "";
    this.context.drop(`candidates.${this.index}.content.${name}`, `Gemini has no part for ${name}.`);
  }

  private close(out: EncodedFrame[]): void {
    const { opening, signature } = this;
    if (opening?.kind === "tool_call") this.call(opening);
    else if (signature !== undefined) this.write(partOf("", signature), { ...SIGNED, empty: true }, out);
    this.signature = undefined;
    this.opening = undefined;
    const text = this.uses.join("");
    this.uses = [];
    this.grounding.place(text, this.blockStart.part, this.blockStart.before);
    this.bytes += Buffer.byteLength(text);
  }

  private call({ name, kind, ...open }: EventOf<"open"> & { kind: "tool_call" }): void {
    const text = this.arguments.join("");
    // The free text of a custom tool that this client cannot have offered.
    const args = open.custom ? JSON.stringify({ input: text }) : objectText(text);
    this.arguments = [];
    if (args === undefined) {
      this.unfit = name;
      return;
    }
    const id = open.id === undefined ? "" : `"id":${JSON.stringify(open.id)},`;
    const signature = this.signature === undefined ? "" : `,"thoughtSignature":${JSON.stringify(this.signature)}`;
    this.calls.push(`{"functionCall":{${id}"name":${JSON.stringify(name)},"args":${args}}${signature}}`);
  }

  private thoughtSignature(): string {
    const signature = JSON.stringify(this.context.seal(this.sealed as Opaque));
    this.sealed = undefined;
    return `{"text":"","thought":true,"thoughtSignature":${signature}}`;
  }

  /** Writes the calls that waited. */
  private flush(out: EncodedFrame[]): void {
    const { calls } = this;
    if (calls.length === 0) return;
    this.calls = [];
    for (const call of calls) this.write(call, OTHER, out);
  }

  private write(part: string, shape: Shape, out: EncodedFrame[], more = ""): void {
    if (joins(this.last, shape))
      this.last = { ...shape, signed: shape.signed || this.last?.signed === true, part: this.last?.part ?? 0 };
    else {
      this.last = { ...shape, part: this.parts++ };
      this.bytes = 0;
    }
    out.push({ data: `{"candidates":[{"content":{"parts":[${part}${this.tail}${more}}],${this.about}` });
  }
}

/** Ends that may come in the middle of a call. */
const CUT: ReadonlySet<FinishReason> = new Set(["length", "content_filter"]);

const PLAIN: Shape = { kind: "text", signed: false, empty: false };
const SIGNED: Shape = { kind: "text", signed: true, empty: false };
const OTHER: Shape = { kind: "other", signed: false, empty: false };

function partOf(text: string, signature: string | undefined): string {
  const signed = signature === undefined ? "" : `,"thoughtSignature":${JSON.stringify(signature)}`;
  return `{"text":${JSON.stringify(text)}${signed}}`;
}

/** JSON whose line ends, which stand between values only, do not end a frame's line. */
const oneLine = (json: string): string => json.replace(/[\r\n]+/g, " ");

/** Arguments as the text of a JSON object; undefined where they are none. */
function objectText(text: string): string | undefined {
  if (text.trim() === "") return "{}";
  try {
    return asObject(JSON.parse(text)) && oneLine(text.trim());
  } catch {
    return undefined;
  }
}
