import {
  asList,
  asObject,
  type BlockKind,
  type EncodedFrame,
  type Event,
  type EventOf,
  type FinishReason,
  GatewayError,
  isEmptyArguments,
  type JsonObject,
  type Opaque,
  parseExact,
  parseJson,
  type ResponseContext,
  type ResponseEncoder,
  Steps,
  type Usage,
  weightOf,
} from "model-gateway/protocol";
import { GroundingWriter } from "./response.encode.grounding.ts";
import { usageMetadata } from "./usage.ts";
import { EXECUTED_MEMBERS, GEMINI, partFromState, RAW_PART_MEMBERS } from "./wire.ts";

/** Creates an encoder for a stream: each frame is a response with what is new; the last one has finish reasons and usage. */
export const createEncoder = (context: ResponseContext): ResponseEncoder => new GenerateContentWriter(context);

class GenerateContentWriter implements ResponseEncoder {
  readonly keepsText = true;
  private readonly candidates = new Map<number, CandidateWriter>();
  private readonly byBlock: CandidateWriter[] = [];
  private usage: Usage | undefined;
  private frameTail = "";

  private readonly showThoughts: boolean;

  constructor(private readonly context: ResponseContext) {
    this.showThoughts = context.conversation.reasoning?.show === true;
  }

  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    switch (event.type) {
      case "start":
        this.start(event);
        break;
      case "open":
        this.byBlock[event.block] = this.candidateAt(event.choice);
        this.byBlock[event.block]?.event(event, out);
        break;
      case "usage":
        this.usage = event.usage;
        break;
      case "finish":
        this.candidateAt(event.choice).finish(event);
        break;
      case "end":
        this.end(out);
        break;
      case "ping":
      case "unmapped":
        break;
      default:
        this.byBlock[event.block]?.event(event, out);
    }
  }

  private start(event: EventOf<"start">): void {
    this.usage = event.usage;
    const modelVersion = this.context.model || event.model;
    this.frameTail = JSON.stringify({ modelVersion, responseId: event.id || this.context.id }).slice(1);
  }

  private candidateAt(choice: number): CandidateWriter {
    const create = () => new CandidateWriter(choice, NO_COUNTS + this.frameTail, this.showThoughts, this.context);
    return this.candidates.getOrInsertComputed(choice, create);
  }

  private end(out: EncodedFrame[]): void {
    // Clients take the first candidate for the response.
    const inOrder = [...this.candidates].sort(([a], [b]) => a - b);
    const candidates = inOrder.map(([, candidate]) => candidate.end(out));
    out.push({
      data: frameJson(candidates, usageMember(this.usage ? usageMetadata(this.usage) : {}) + this.frameTail),
    });
  }
}

/**
 * Encodes a complete response: the parts of all frames, with adjacent texts of one kind joined, as clients do. A text with a
 * signature of its own begins a new part.
 * @throws GatewayError `upstream_invalid` if a call's arguments are not an object
 */
export function* encodeResponse(events: readonly Event[], context: ResponseContext): Steps<string> {
  const writer = createEncoder(context);
  const out: EncodedFrame[] = [];
  const frames: JsonObject[] = [];
  yield* Steps.forEachEvent(events, (event) => {
    if (event.type !== "error") writer.event(event, out);
    for (let frame = out[frames.length]; frame; frame = out[frames.length])
      frames.push(parseExact(frame.data, RAW_PART_MEMBERS) as JsonObject);
  });
  const last = frames.at(-1);
  if (!last) throw new GatewayError("upstream_invalid");
  if (frames.length === 1) return out[0]?.data ?? "";
  const candidates: JsonObject[] = [];
  for (const candidate of asList(last["candidates"]))
    candidates.push(yield* joinCandidate(asObject(candidate) ?? {}, frames));
  return yield* Steps.writingJson({ ...last, candidates });
}

/** Events of one block. */
type PartEvent = EventOf<"open" | "text" | "arguments" | "opaque" | "citation" | "media" | "server" | "close">;

/** Bytes of events that may be buffered until the preceding block ends. */
const MAX_BUFFERED = 8 * 1024 * 1024;

/** Returns the usage as a member, as text. Each frame of the vendor has one, and BAML drops the text of a frame without it. */
const usageMember = (usage: JsonObject): string => `"usageMetadata":${JSON.stringify(usage)},`;

/** The usage of frames before the last one. Rig drops the text of a frame without these counts; LangChain.js adds some of them up. */
const NO_COUNTS = usageMember({ promptTokenCount: 0, totalTokenCount: 0 });

/** Returns a frame as JSON text. @param tail the members after the candidates, with the closing brace */
const frameJson = (candidates: readonly string[], tail: string): string =>
  `{"candidates":[${candidates.join(",")}],${tail}`;

/** Parts that only this protocol's own server tools have. */
const SERVER_PARTS = [...EXECUTED_MEMBERS, "functionResponse", "inlineData"];

/** Returns the opaque state of a text or call, marked as its own: a call may also carry the state of a thought. */
function partState(event: EventOf<"open">): Opaque | undefined {
  if (event.kind === "text" && event.opaque) return { ...event.opaque, on: "text" };
  return event.kind === "tool_call" && event.opaque ? { ...event.opaque, on: { call: event.id ?? "" } } : undefined;
}

/** Blocks between a thought and a call that do not separate them. */
const HOLDING_KINDS: ReadonlySet<BlockKind> = new Set(["text", "refusal", "server"]);

/** Encodes the parts of one candidate in the order of its blocks. */
class CandidateWriter {
  /** The block being written. Events of other open blocks are buffered, because parts are sequential. */
  private block: number | undefined;
  private readonly waiting = new Map<number, PartEvent[]>();
  private waitingWeight = 0;
  private openEvent: EventOf<"open"> | undefined;
  /** The arguments of a function call, which are written in one piece. */
  private arguments: string[] = [];
  /** The sealed state of the open text or call until it is written. */
  private signature: string | undefined;
  /** State of a reasoning block that has ended, until it is written. */
  private thoughtState: Opaque | undefined;
  /** The characters of text behind that reasoning. */
  private textBehind = 0;
  /** Complete calls, written with the next part or with the last frame, so that the end needs no frame of its own. */
  private calls: string[] = [];
  private summaryPart: number | undefined;
  private last: (PartShape & { part: number }) | undefined;
  /** The number of parts after clients have joined them, and the bytes of the last one's text in closed blocks. */
  private partCount = 0;
  private partBytes = 0;
  /** The open block's text, kept for citations that refer to it, and the part and byte where it begins. */
  private text: string[] = [];
  private blockStart = { part: 0, before: 0 };
  private readonly grounding = new GroundingWriter();
  private refused = false;
  private finishEvent: EventOf<"finish"> | undefined;
  /** The name of a called tool whose arguments are not an object. */
  private malformedCall: string | undefined;
  private readonly contentTail: string;

  /** @param frameTail the members of each frame after its candidates, with the closing brace */
  constructor(
    private readonly index: number,
    private readonly frameTail: string,
    private readonly showThoughts: boolean,
    private readonly context: ResponseContext,
  ) {
    this.contentTail = `],"role":"model"},"index":${index}`;
  }

  /** Encodes an event of a block. @throws GatewayError `upstream_invalid` if too much is buffered */
  event(event: PartEvent, out: EncodedFrame[]): void {
    if (event.type === "open" && this.block === undefined) this.block = event.block;
    if (event.block !== this.block) this.buffer(event);
    else {
      this.writeEvent(event, out);
      if (event.type === "close") this.resume(out);
    }
  }

  finish(event: EventOf<"finish">): void {
    this.finishEvent = event;
    if (event.stopSequence !== undefined)
      this.context.drop("stop_sequence", "No finish reason says which sequence matched.");
    if (event.reason === "pause")
      this.context.drop("finishReason", "The vendor paused the turn: send the request again to continue it.");
  }

  /**
   * Returns the candidate of the last frame.
   * @throws GatewayError `upstream_invalid` if a call's arguments are not an object
   */
  end(out: EncodedFrame[]): string {
    while (this.block !== undefined) this.event({ type: "close", block: this.block }, out);
    if (this.malformedCall !== undefined) this.refuseOrDrop(this.malformedCall);
    const parts = [...this.calls];
    if (this.thoughtState) parts.push(this.signaturePart());
    const filtered = this.finishEvent?.reason === "content_filter" && this.last === undefined;
    if (parts.length === 0 && !filtered) parts.push('{"text":""}');
    const content =
      parts.length === 0 ? `{"index":${this.index}` : `{"content":{"parts":[${parts.join(",")}${this.contentTail}`;
    const { reason = "other", message } = this.finishEvent ?? {};
    const finish = `,"finishReason":${JSON.stringify(wireFinishReason(reason, this.refused))}`;
    const finishMessage = message === undefined ? "" : `,"finishMessage":${JSON.stringify(message)}`;
    return `${content}${finish}${finishMessage}${this.groundingMember()}}`;
  }

  /** Leaves out a call whose arguments are not an object if the response was truncated within it; throws otherwise. */
  private refuseOrDrop(name: string): void {
    if (!TRUNCATING_REASONS.has(this.finishEvent?.reason ?? "other"))
      throw new GatewayError("upstream_invalid", {
        message: `The model called ${name} with arguments that are not a JSON object, which Gemini clients cannot receive.`,
      });
    this.context.drop(
      `candidates.${this.index}.content.functionCall`,
      `The answer was cut within the call of ${name}.`,
    );
  }

  private groundingMember(): string {
    if (this.grounding.isEmpty) return "";
    if (this.grounding.hasDroppedQuote)
      this.context.drop(`candidates.${this.index}.citations.quote`, "Gemini's sources have no quotes.");
    return `,"groundingMetadata":${this.grounding.json()}`;
  }

  private buffer(event: PartEvent): void {
    if (event.type === "open") this.waiting.set(event.block, []);
    const events = this.waiting.get(event.block);
    if (!events) return;
    events.push(event);
    this.waitingWeight += weightOf(event);
    if (this.waitingWeight > MAX_BUFFERED)
      throw new GatewayError("upstream_invalid", { message: "The provider's blocks grow side by side beyond 8 MiB." });
  }

  /** Writes the buffered blocks, up to the first one that is still open. */
  private resume(out: EncodedFrame[]): void {
    this.block = undefined;
    for (const [block, events] of this.waiting) {
      this.waiting.delete(block);
      this.block = block;
      for (const event of events) {
        this.waitingWeight -= weightOf(event);
        this.writeEvent(event, out);
      }
      if (events.at(-1)?.type !== "close") return;
      this.block = undefined;
    }
  }

  private writeEvent(event: PartEvent, out: EncodedFrame[]): void {
    switch (event.type) {
      case "open":
        this.openBlock(event, out);
        break;
      case "text":
        if (this.openEvent?.kind === "reasoning") this.writeThought(event, out);
        else if (event.text !== "" || event.logprobs !== undefined) this.writeText(event, out);
        break;
      case "arguments":
        this.arguments.push(event.text);
        break;
      case "opaque":
        // State that is a whole part has already been written as that part.
        if (partFromState(event.opaque) !== undefined) break;
        this.thoughtState = event.opaque;
        this.textBehind = 0;
        break;
      case "citation":
        this.grounding.addCitation(event.citation);
        break;
      case "media":
        this.writeMedia(event, out);
        break;
      case "server":
        this.writeServerPart(event, out);
        break;
      case "close":
        this.closeBlock(out);
        break;
    }
  }

  private openBlock(event: EventOf<"open">, out: EncodedFrame[]): void {
    this.openEvent = event;
    this.summaryPart = undefined;
    this.flush(out);
    const state = partState(event);
    this.signature = state && this.context.seal(state);
    if (event.kind === "refusal") this.refused = true;
    if (this.thoughtState && !this.holdsThoughtState(event.kind)) this.writeThoughtState(event.kind, out);
    const continues = continuesPart(this.last, { kind: "text", signed: this.signature !== undefined, empty: false });
    const part = continues ? (this.last?.part ?? 0) : this.partCount;
    this.blockStart = { part, before: continues ? this.partBytes : 0 };
  }

  /**
   * Reports whether a thought's state is held for a later call, on which the vendor puts it [F]: some clients send no thoughts
   * back [S: gemini-cli], or signatures of calls only [S: LangChain.js]. State that the vendor itself put on a thought stays
   * there.
   */
  private holdsThoughtState(kind: BlockKind): boolean {
    return HOLDING_KINDS.has(kind) && this.isThoughtStateFree && this.thoughtState?.protocol !== GEMINI;
  }

  /** Whether no call or media own the state. */
  private get isThoughtStateFree(): boolean {
    return this.thoughtState?.on === undefined || this.thoughtState.on === "reasoning";
  }

  /** Writes a thought's state: on the call that begins, unless it has its own, or in a part of its own. */
  private writeThoughtState(kind: BlockKind, out: EncodedFrame[]): void {
    if (kind === "tool_call" && this.signature === undefined && this.isThoughtStateFree) {
      this.signature = this.sealThoughtState();
      return;
    }
    const partKind = this.thoughtState?.on === "reasoning" ? "text" : "thought";
    this.write(this.signaturePart(), { kind: partKind, signed: true, empty: true }, out);
  }

  /** Marks a held state: a text now stands between it and its thought. */
  private markThoughtState(text: string): void {
    if (!this.thoughtState || !this.holdsThoughtState("text")) return;
    if (this.thoughtState.on !== "reasoning") this.thoughtState = { ...this.thoughtState, on: "reasoning" };
    this.textBehind += text.length;
  }

  private sealThoughtState(): string {
    const state = this.thoughtState as Opaque;
    this.thoughtState = undefined;
    return this.context.seal(state.on === "reasoning" ? { ...state, textBehind: this.textBehind } : state);
  }

  private writeText({ text, logprobs }: EventOf<"text">, out: EncodedFrame[]): void {
    const { signature } = this;
    this.signature = undefined;
    this.markThoughtState(text);
    const signed = signature !== undefined;
    const logprobsResult = logprobs === undefined ? undefined : encodeLogprobs(logprobs);
    const logprobsMember = logprobsResult ? `,"logprobsResult":${JSON.stringify(logprobsResult)}` : "";
    this.write(textPart(text, signature), signed ? SIGNED_TEXT : PLAIN_TEXT, out, logprobsMember);
    this.text.push(text);
  }

  private writeThought({ text, part }: EventOf<"text">, out: EncodedFrame[]): void {
    if (!this.showThoughts || text === "") return;
    const startsPart = this.summaryPart !== undefined && part !== undefined && part !== this.summaryPart;
    this.summaryPart = part;
    const json = JSON.stringify(startsPart ? `\n\n${text}` : text);
    this.write(`{"text":${json},"thought":true}`, { kind: "thought", signed: false, empty: false }, out);
  }

  private writeMedia({ base64, url }: EventOf<"media">, out: EncodedFrame[]): void {
    const mime = this.openEvent?.kind === "media" ? this.openEvent.mime : undefined;
    const data =
      base64 === undefined
        ? { fileData: { mimeType: mime, fileUri: url } }
        : { inlineData: { mimeType: mime, data: base64 } };
    this.write(JSON.stringify(data), OTHER_PART, out);
  }

  private writeServerPart({ json }: EventOf<"server">, out: EncodedFrame[]): void {
    const part = asObject(json.value);
    if (part && SERVER_PARTS.some((name) => part[name] !== undefined)) {
      this.write(oneLine(json.text), OTHER_PART, out);
      return;
    }
    const name = this.openEvent?.kind === "server" ? this.openEvent.name : "";
    this.context.drop(`candidates.${this.index}.content.${name}`, `Gemini has no part for ${name}.`);
  }

  private closeBlock(out: EncodedFrame[]): void {
    const { openEvent, signature } = this;
    if (openEvent?.kind === "tool_call") this.addCall(openEvent);
    else if (signature !== undefined) this.write(textPart("", signature), { ...SIGNED_TEXT, empty: true }, out);
    this.signature = undefined;
    this.openEvent = undefined;
    const { text } = this;
    this.text = [];
    if (this.grounding.hasOpenCitations)
      this.grounding.placeCitations(text.join(""), this.blockStart.part, this.blockStart.before);
    this.partBytes += bytesOf(text);
  }

  private addCall({ name, kind, ...open }: EventOf<"open"> & { kind: "tool_call" }): void {
    const text = this.arguments.join("");
    // A call of a custom tool, which the clients of this protocol cannot declare: its free text becomes an argument.
    const args = open.custom ? JSON.stringify({ input: text }) : argumentsJson(text);
    this.arguments = [];
    if (args === undefined) {
      this.malformedCall = name;
      return;
    }
    const id = open.id === undefined ? "" : `"id":${JSON.stringify(open.id)},`;
    const signature = this.signature === undefined ? "" : `,"thoughtSignature":${JSON.stringify(this.signature)}`;
    this.calls.push(`{"functionCall":{${id}"name":${JSON.stringify(name)},"args":${args}}${signature}}`);
  }

  /** Returns the thought's state as a part: as the end of a turn without calls [F], or an empty thought. */
  private signaturePart(): string {
    const { on } = this.thoughtState as Opaque;
    const signature = JSON.stringify(this.sealThoughtState());
    return `{"text":"",${on === "reasoning" ? "" : '"thought":true,'}"thoughtSignature":${signature}}`;
  }

  /** Writes the complete calls. */
  private flush(out: EncodedFrame[]): void {
    const { calls } = this;
    if (calls.length === 0) return;
    this.calls = [];
    for (const call of calls) this.write(call, OTHER_PART, out);
  }

  private write(part: string, shape: PartShape, out: EncodedFrame[], moreMembers = ""): void {
    if (continuesPart(this.last, shape))
      this.last = { ...shape, signed: shape.signed || this.last?.signed === true, part: this.last?.part ?? 0 };
    else {
      this.last = { ...shape, part: this.partCount++ };
      this.partBytes = 0;
    }
    out.push({
      data: `{"candidates":[{"content":{"parts":[${part}${this.contentTail}${moreMembers}}],${this.frameTail}`,
    });
  }
}

/** Returns the bytes of a text in UTF-8, of which the pieces may cut a surrogate pair: its halves alone are three bytes each. */
function bytesOf(pieces: readonly string[]): number {
  let bytes = 0;
  let last = "";
  for (const piece of pieces) {
    if (piece === "") continue;
    bytes += Buffer.byteLength(piece) - ((last + piece.slice(0, 1)).isWellFormed() && last !== "" ? 2 : 0);
    last = piece.slice(-1).isWellFormed() ? "" : piece.slice(-1);
  }
  return bytes;
}

/** Finish reasons that can occur in the middle of a call. */
const TRUNCATING_REASONS: ReadonlySet<FinishReason> = new Set(["length", "content_filter"]);

const PLAIN_TEXT: PartShape = { kind: "text", signed: false, empty: false };
const SIGNED_TEXT: PartShape = { kind: "text", signed: true, empty: false };
const OTHER_PART: PartShape = { kind: "other", signed: false, empty: false };

function textPart(text: string, signature: string | undefined): string {
  const signed = signature === undefined ? "" : `,"thoughtSignature":${JSON.stringify(signature)}`;
  return `{"text":${JSON.stringify(text)}${signed}}`;
}

/** Returns JSON without line breaks, which would end a line of the frame; they occur only between values. */
const oneLine = (json: string): string => json.replace(/[\r\n]+/g, " ");

/** Returns the arguments as the text of a JSON object; undefined if they are not an object. */
function argumentsJson(text: string): string | undefined {
  if (isEmptyArguments(text)) return "{}";
  return asObject(parseJson(text)) && oneLine(text.trim());
}

const WIRE_FINISH_REASONS: Readonly<Record<FinishReason, string>> = {
  stop: "STOP",
  stop_sequence: "STOP",
  tool_calls: "STOP",
  pause: "STOP",
  length: "MAX_TOKENS",
  context_window: "MAX_TOKENS",
  content_filter: "SAFETY",
  refusal: "SAFETY",
  malformed_call: "MALFORMED_FUNCTION_CALL",
  other: "OTHER",
};

/** Returns the vendor's finish reason. @param refused whether the response contains a refusal, which is no ordinary STOP */
const wireFinishReason = (reason: FinishReason, refused: boolean): string =>
  refused && WIRE_FINISH_REASONS[reason] === "STOP" ? "SAFETY" : WIRE_FINISH_REASONS[reason];

/** The properties that determine whether a part continues the preceding one. */
export interface PartShape {
  kind: "text" | "thought" | "other";
  signed: boolean;
  empty: boolean;
}

/**
 * Reports whether clients that join adjacent texts join these. A text with a signature begins a part, and is continued by
 * texts without one, as in the vendor's streams [F]; the signature of a thought ends its part.
 */
export function continuesPart(last: PartShape | undefined, next: PartShape): boolean {
  if (!last || last.kind !== next.kind || last.kind === "other") return false;
  if (last.kind === "text") return !next.signed;
  return !last.signed && (!next.signed || next.empty);
}

function partShape(part: JsonObject): PartShape {
  const kind = typeof part["text"] !== "string" ? "other" : part["thought"] === true ? "thought" : "text";
  return { kind, signed: part["thoughtSignature"] !== undefined, empty: part["text"] === "" };
}

/** Joins adjacent texts of one kind; empty texts are left out if there are other parts. */
function* joinParts(frames: readonly JsonObject[]): Steps<JsonObject[]> {
  const joined: JsonObject[] = [];
  for (const [n, frame] of frames.entries()) {
    for (const value of asList(asObject(frame["content"])?.["parts"])) {
      const part = asObject(value) ?? {};
      const last = joined.at(-1);
      const shape = partShape(part);
      if (last && continuesPart(partShape(last), shape))
        joined[joined.length - 1] = { ...last, ...part, text: `${last["text"]}${part["text"]}` };
      else if (joined.length === 0 || shape.kind === "other" || !shape.empty || shape.signed) joined.push(part);
    }
    if (Steps.endsStep(n)) yield;
  }
  moveSignatureToText(joined, frames.at(-1));
  return joined.length > 1 && isEmptyPart(joined[0]) ? joined.slice(1) : joined;
}

/**
 * Moves the state of thoughts that is in the last frame to the text before it: the vendor's whole answers have signatures on
 * their texts [F: 59 of 59], and chats of its SDK for Go forget a turn in which a part has no content [S].
 */
function moveSignatureToText(joined: JsonObject[], lastFrame: JsonObject | undefined): void {
  const end = asObject(asList(asObject(lastFrame?.["content"])?.["parts"]).at(-1));
  const [text, last] = joined.slice(-2).map(partShape);
  if (!end || joined.at(-1) !== end || last?.kind !== "text" || !last.signed) return;
  if (text?.kind !== "text" || text.signed || text.empty) return;
  joined.splice(-2, 2, { ...joined.at(-2), thoughtSignature: end["thoughtSignature"] });
}

function isEmptyPart(part: JsonObject | undefined): boolean {
  const { kind, signed, empty } = partShape(part ?? {});
  return kind !== "other" && !signed && empty;
}

/** Returns a candidate of the last frame with the parts of all frames, in steps. */
export function* joinCandidate(candidate: JsonObject, frames: readonly JsonObject[]): Steps<JsonObject> {
  const all = frames.flatMap((frame) => asList(frame["candidates"]).map((each) => asObject(each) ?? {}));
  const matching = all.filter((each) => each["index"] === candidate["index"]);
  const hasContent = matching.some((each) => asObject(each["content"]) !== undefined);
  const parts = yield* joinParts(matching);
  const logprobs = joinLogprobs(matching.map((each) => each["logprobsResult"]));
  return {
    ...candidate,
    ...(hasContent ? { content: { parts, role: "model" } } : {}),
    ...(logprobs ? { logprobsResult: logprobs } : {}),
  };
}

/** Encodes logprobs in OpenAI's format as `logprobsResult`; undefined for any other format. */
export function encodeLogprobs(logprobs: unknown): JsonObject | undefined {
  const tokens = asList(Array.isArray(logprobs) ? logprobs : asObject(logprobs)?.["content"]).map(asObject);
  if (tokens.length === 0) return undefined;
  return {
    chosenCandidates: tokens.map(encodeLogprob),
    topCandidates: tokens.map((token) => ({
      candidates: asList(token?.["top_logprobs"]).map(asObject).map(encodeLogprob),
    })),
  };
}

const encodeLogprob = (token: JsonObject | undefined): JsonObject => ({
  token: token?.["token"],
  logProbability: token?.["logprob"],
});

/** Joins the `logprobsResult` of all frames; undefined if there are none. */
export function joinLogprobs(results: readonly unknown[]): JsonObject | undefined {
  const present = results.map(asObject).filter((result) => result !== undefined);
  if (present.length === 0) return undefined;
  const concat = (name: string) => present.flatMap((result) => asList(result[name]));
  return { chosenCandidates: concat("chosenCandidates"), topCandidates: concat("topCandidates") };
}
