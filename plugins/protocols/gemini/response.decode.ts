import {
  asCount,
  asList,
  asObject,
  asText,
  callIds,
  dropUndefined,
  type Event,
  type EventOf,
  type Fault,
  type Frame,
  GatewayError,
  type JsonObject,
  type Opaque,
  type Opening,
  parseExact,
  RawJson,
  type ResponseDecoder,
  type ResponseSource,
  Steps,
  TextKey,
  type Usage,
  writeJson,
} from "model-gateway/protocol";
import { parseRpcError } from "./errors.ts";
import { PartialArguments } from "./response.decode.arguments.ts";
import { explainFinish, isBrokenFinish, isFailureReason, meaningOfFinish } from "./response.decode.reasons.ts";
import { CandidateSources } from "./response.decode.sources.ts";
import { readUsage } from "./usage.ts";
import { EXECUTED_MEMBERS, GEMINI, mediaKind, PART_KIND, RAW_PART_MEMBERS, rawReason } from "./wire.ts";

/** Members of parts that contain JSON which must keep its text; what has none of them is parsed with `JSON.parse`. */
const EXACT_MEMBERS = ["functionCall", "toolCall", "toolResponse", "functionResponse"];
const NEEDS_EXACT_PARSE = new RegExp(`"(?:${EXACT_MEMBERS.join("|")})"`);

/** The maximum number of candidates per response. */
const MAX_CANDIDATES = 128;

/** Creates a decoder for a stream: SSE events, or the elements of one array. */
export const createDecoder = (source: ResponseSource): ResponseDecoder => new GenerateContentReader(source);

/**
 * Decodes a complete response. A body without a finish reason is complete as well, and finishes as `other`.
 * @throws GatewayError `upstream_invalid` if it is no response
 */
export function* decodeResponse(bytes: Buffer, source: ResponseSource): Steps<Event[]> {
  const reader = new GenerateContentReader(source);
  const events: Event[] = [];
  let raw: NameSet | undefined;
  for (const name of EXACT_MEMBERS) {
    if (bytes.includes(`"${name}"`)) raw = RAW_PART_MEMBERS;
    yield;
  }
  try {
    yield* reader.readInSteps(yield* Steps.parsingJson(bytes, raw), events);
  } catch (thrown) {
    throw GatewayError.from(thrown, "upstream_invalid");
  }
  reader.end(events, true);
  const last = events.at(-1);
  if (last?.type === "error" && last.fault.code === "upstream_truncated") throw new GatewayError("upstream_invalid");
  return events;
}

const parse = (text: string): unknown =>
  NEEDS_EXACT_PARSE.test(text) ? parseExact(text, RAW_PART_MEMBERS) : JSON.parse(text);

/** Returns the JSON of an error that is sent among events without `data:`. [F] */
function bareText({ kind, bytes }: Frame): string | undefined {
  const text = kind === "event" ? bytes.toString().trim() : "";
  return text.startsWith("{") || text.startsWith("[") ? text : undefined;
}

const elementsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** @throws Error if a value is not a response */
function responseIn(value: unknown): JsonObject {
  const response = asObject(value);
  if (!response) throw new Error("This is not an answer.");
  return response;
}

class GenerateContentReader implements ResponseDecoder {
  readonly keepsText = true;
  private readonly candidates = new Map<number, CandidateReader>();
  private numbering: Numbering = { nextBlock: 0, nextId: () => undefined };
  private started = false;
  private ended = false;
  /** Why the prompt was blocked. */
  private promptBlock: { raw: string; message: string } | undefined;
  private readonly unmapped = new UnmappedMembers("");
  /** The usage of frames without a total, and the last frame that had one. */
  private partialUsage: Usage | undefined;
  private lastWithTotal: JsonObject | undefined;

  constructor(private readonly source: ResponseSource) {}

  frame(frame: Frame, out: Event[]): void {
    if (this.ended || (frame.kind !== "event" && frame.kind !== "element")) return;
    const text = frame.text ?? bareText(frame);
    // Some providers of this protocol end their streams with OpenAI's terminator.
    if (text === undefined || text.trim() === "" || text === "[DONE]") return;
    try {
      // Another stage may already have parsed the frame.
      this.read(frame.text === undefined || NEEDS_EXACT_PARSE.test(text) ? parse(text) : frame.json(), out);
    } catch (thrown) {
      this.fail(out, GatewayError.from(thrown, "upstream_invalid"));
    }
  }

  /** Decodes one parsed frame. @throws Error if it is not a response */
  read(value: unknown, out: Event[]): void {
    for (const element of elementsOf(value)) {
      const response = responseIn(element);
      if (!this.begin(response, out)) continue;
      asList(response["candidates"]).forEach((candidate, position) => {
        this.readerOf(candidate, position).read(asObject(candidate) ?? {}, out);
      });
      this.complete(response, out);
    }
  }

  /** Does the same in steps. @throws Error if it is not a response */
  *readInSteps(value: unknown, out: Event[]): Steps<void> {
    for (const element of elementsOf(value)) {
      const response = responseIn(element);
      if (!this.begin(response, out)) continue;
      for (const [position, candidate] of asList(response["candidates"]).entries())
        yield* this.readerOf(candidate, position).readInSteps(asObject(candidate) ?? {}, out);
      this.complete(response, out);
    }
  }

  /** Ends the response. @param complete whether it was one body, which cannot be truncated */
  end(out: Event[], complete = false): void {
    if (this.ended) return;
    const candidates = [...this.candidates.values()].sort((a, b) => a.index - b.index);
    const ended = candidates.every(({ finishReason }) => finishReason !== undefined) || complete || this.promptBlock;
    if (!this.started || !ended || (candidates.length === 0 && !this.promptBlock))
      out.push({ type: "error", fault: new GatewayError("upstream_truncated") });
    else this.tryFinish(candidates, out);
    this.ended = true;
  }

  private tryFinish(candidates: readonly CandidateReader[], out: Event[]): void {
    try {
      this.finish(candidates, out);
    } catch (thrown) {
      this.fail(out, GatewayError.from(thrown, "upstream_invalid"));
    }
  }

  private finish(candidates: readonly CandidateReader[], out: Event[]): void {
    for (const candidate of candidates) candidate.end(out);
    const finishes = candidates.map((candidate) => candidate.finishEvent(this.promptBlock));
    const failure = candidates.some(({ hasAnswer }, n) => hasAnswer && !isBrokenFinish(finishes[n]))
      ? undefined
      : finishes.find((finish) => isFailureReason(finish.reason) || isBrokenFinish(finish));
    if (failure) {
      const when = candidates.some(({ hasAnswer }) => hasAnswer) ? "in the middle of its answer" : "before any output";
      const message = failure.message ?? `The model failed ${when}: ${failure.raw ?? "no reason given"}.`;
      this.fail(out, new GatewayError("upstream_model_failed", { message }));
      return;
    }
    out.push(...candidates.map(({ hasToolCall }, n) => explainFinish(finishes[n] as EventOf<"finish">, hasToolCall)));
    if (candidates.length === 0) out.push({ type: "finish", choice: 0, reason: "content_filter", ...this.promptBlock });
    const usage = this.knownUsage();
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "end" });
  }

  private fail(out: Event[], fault: Fault): void {
    this.ended = true;
    out.push({ type: "error", fault });
  }

  /** Returns whether the response is read: what follows an error is not. */
  private begin(response: JsonObject, out: Event[]): boolean {
    if (this.ended) return false;
    if (response["error"] !== undefined && response["error"] !== null) {
      this.fail(out, parseRpcError(502, response["error"]));
      return false;
    }
    this.start(response, out);
    return true;
  }

  private complete(response: JsonObject, out: Event[]): void {
    const feedback = asObject(response["promptFeedback"]);
    const raw = rawReason(feedback?.["blockReason"]);
    if (raw !== undefined)
      this.promptBlock = {
        raw,
        message: asText(feedback?.["blockReasonMessage"]) || `The prompt was blocked: ${raw}.`,
      };
    this.unmapped.reportOthers(response, MAPPED_MEMBERS.frame, "", out);
    if (feedback) this.unmapped.reportOthers(feedback, MAPPED_MEMBERS.feedback, "promptFeedback.", out);
    this.recordUsage(response);
  }

  private start(response: JsonObject, out: Event[]): void {
    if (this.started) return;
    this.started = true;
    const id = asText(response["responseId"]) ?? "";
    const model = asText(response["modelVersion"]) ?? this.source.model;
    if (id !== "") this.numbering.nextId = callIds(id);
    const created = Math.floor(Date.parse(asText(response["createTime"]) ?? "") / 1000);
    const first = readUsage(response);
    out.push({
      type: "start",
      id,
      model,
      ...(first ? { usage: first } : {}),
      ...(Number.isFinite(created) ? { created } : {}),
    });
  }

  /** @throws GatewayError `upstream_invalid` if there are too many candidates */
  private readerOf(json: unknown, position: number): CandidateReader {
    const index = asCount(asObject(json)?.["index"]) ?? position;
    let candidate = this.candidates.get(index);
    if (!candidate) {
      if (this.candidates.size >= MAX_CANDIDATES)
        throw new GatewayError("upstream_invalid", {
          message: `The provider's answer has more than ${MAX_CANDIDATES} candidates.`,
        });
      candidate = new CandidateReader(index, this.source, this.numbering);
      this.candidates.set(index, candidate);
    }
    return candidate;
  }

  /** Keeps a frame's usage. Each frame repeats the usage so far, so that only the first and the last one are decoded. */
  private recordUsage(response: JsonObject): void {
    const metadata = asObject(response["usageMetadata"]);
    if (!metadata) return;
    if (metadata["totalTokenCount"] !== undefined) this.lastWithTotal = response;
    else {
      this.partialUsage = readUsage(response, this.knownUsage());
      this.lastWithTotal = undefined;
    }
  }

  private knownUsage(): Usage | undefined {
    return this.lastWithTotal ? readUsage(this.lastWithTotal) : this.partialUsage;
  }
}

/** Numbers that all candidates of a response share. */
interface Numbering {
  nextBlock: number;
  /** Generates an id for a call without one. */
  nextId: () => string | undefined;
}

/** A call whose arguments arrive in pieces. */
interface StreamedCall {
  block: number;
  id: string | undefined;
  /** Whether its first piece had a signature. `lateSignature` is one that arrives with a later piece. */
  signed: boolean;
  lateSignature?: Opaque;
  arguments: PartialArguments;
}

/** The kind of a part; `server` is anything that only this protocol has. */
type PartKind = "call" | "thought" | "text" | "inlineData" | "fileData" | "server";

/**
 * Returns the kind of a part. A part without content is an empty text. Media among the thoughts are drafts, which clients of
 * other protocols would take for the response; media without data cannot be expressed in other protocols.
 */
function partKind(part: JsonObject): PartKind {
  if (asObject(part["functionCall"])) return "call";
  if (typeof part["text"] === "string" || hasNoContent(part)) return part["thought"] === true ? "thought" : "text";
  if (part["thought"] === true) return "server";
  if (typeof asObject(part["inlineData"])?.["data"] === "string") return "inlineData";
  return typeof asObject(part["fileData"])?.["fileUri"] === "string" ? "fileData" : "server";
}

function hasNoContent(part: JsonObject): boolean {
  for (const name in part) if (name !== "thought" && name !== "thoughtSignature") return false;
  return true;
}

/**
 * Decodes one candidate: its parts become blocks. Adjacent texts of one kind are one block, also across frames, as in the
 * vendor's complete responses.
 */
class CandidateReader {
  /** The finish reason so far: a later frame may bring more text and another reason. */
  finishReason: string | undefined;
  /** Whether there is a text, a call or media, not only thoughts or parts of kind `server`. */
  hasAnswer = false;
  hasToolCall = false;
  private message: string | undefined;
  private openBlock: { block: number; kind: "text" | "thought"; closed: boolean } | undefined;
  /**
   * The text of the open text block, needed to find the positions of citations: these are counted in bytes and arrive after
   * the text, in the last frame. `citationMetadata` arrives without being requested.
   */
  private text: string[] = [];
  /** Logprobs of this frame's text that no event has carried yet. */
  private logprobs: unknown[] | undefined;
  private partialCall: StreamedCall | undefined;
  private readonly sources = new CandidateSources();
  private readonly unmapped: UnmappedMembers;

  constructor(
    readonly index: number,
    private readonly source: ResponseSource,
    private readonly numbering: Numbering,
  ) {
    this.unmapped = new UnmappedMembers(`candidates.${index}.`);
  }

  read(candidate: JsonObject, out: Event[]): void {
    for (const part of this.begin(candidate)) this.readPart(asObject(part) ?? {}, out);
    this.complete(candidate, out);
  }

  /** Does the same in steps. */
  *readInSteps(candidate: JsonObject, out: Event[]): Steps<void> {
    for (const [n, part] of this.begin(candidate).entries()) {
      this.readPart(asObject(part) ?? {}, out);
      if (Steps.endsStep(n)) yield;
    }
    this.complete(candidate, out);
  }

  /** Returns the candidate's parts. */
  private begin(candidate: JsonObject): readonly unknown[] {
    this.sources.read(candidate);
    this.logprobs = candidate["logprobsResult"] ? decodeLogprobs(candidate["logprobsResult"]) : undefined;
    return asList(asObject(candidate["content"])?.["parts"]);
  }

  private complete(candidate: JsonObject, out: Event[]): void {
    const content = asObject(candidate["content"]) ?? {};
    this.pushLogprobs(out);
    this.unmapped.reportOthers(content, MAPPED_MEMBERS.content, "content.", out);
    this.unmapped.reportOthers(candidate, MAPPED_MEMBERS.candidate, "", out);
    const grounding = asObject(candidate["groundingMetadata"]);
    if (grounding) this.unmapped.reportOthers(grounding, MAPPED_MEMBERS.grounding, "groundingMetadata.", out);
    this.finishReason = rawReason(candidate["finishReason"]) ?? this.finishReason;
    // For STOP the message has no other information: "Model generated function call(s)." [F]
    if (this.finishReason !== "STOP") this.message = asText(candidate["finishMessage"]) ?? this.message;
  }

  /** Closes what is open. Arguments that were cut off stay incomplete. */
  end(out: Event[]): void {
    this.closePartialCall(out);
    this.closeBlock(out, true);
    if (this.sources.hasUncited) this.unmapped.report("groundingMetadata", out);
  }

  /** @param block why the prompt was blocked */
  finishEvent(block: { raw: string; message: string } | undefined): EventOf<"finish"> {
    const { finishReason } = this;
    if (finishReason === undefined && block)
      return { type: "finish", choice: this.index, reason: "content_filter", ...block };
    return {
      type: "finish",
      choice: this.index,
      reason: finishReason === undefined ? "other" : meaningOfFinish(finishReason, this.hasToolCall),
      ...dropUndefined({ raw: finishReason, message: this.message }),
    };
  }

  private readPart(part: JsonObject, out: Event[]): void {
    const signature = asText(part["thoughtSignature"]);
    const opaque = signature === undefined ? undefined : this.signatureState(signature);
    const kind = partKind(part);
    switch (kind) {
      case "thought":
        this.readThought(asText(part["text"]) ?? "", opaque, out);
        break;
      case "text":
        this.readText(asText(part["text"]) ?? "", opaque, out);
        break;
      case "call":
        this.readCall(asObject(part["functionCall"]) as JsonObject, opaque, out);
        break;
      case "inlineData":
      case "fileData":
        this.readMedia(asObject(part[kind]) as JsonObject, kind, opaque, out);
        break;
      case "server":
        this.readServerPart(part, out);
        break;
    }
    if (kind !== "server") this.unmapped.reportOthers(part, MAPPED_PART_MEMBERS[kind], "content.parts.", out);
  }

  private signatureState(data: string): Opaque {
    const { account, model } = this.source;
    return { protocol: GEMINI, account, model, kind: "thoughtSignature", data };
  }

  /** Decodes a thought as a summary: the vendor shows no thoughts in full. [D] */
  private readThought(text: string, opaque: Opaque | undefined, out: Event[]): void {
    if (text === "" && !opaque) return;
    if (this.openBlock?.kind !== "thought" || this.openBlock.closed)
      this.beginBlock("thought", { kind: "reasoning", summary: true }, out);
    const { block } = this.openBlock as { block: number };
    if (text !== "") out.push({ type: "text", block, text });
    if (!opaque) return;
    out.push({ type: "opaque", block, opaque });
    // A second signature in the same block would replace this one.
    if (this.openBlock) this.openBlock.closed = true;
  }

  private readText(text: string, opaque: Opaque | undefined, out: Event[]): void {
    if (text === "" && !opaque) {
      this.pushLogprobs(out);
      return;
    }
    if (opaque) this.beginBlock("text", { kind: "text", opaque }, out);
    else if (this.openBlock?.kind !== "text") this.beginBlock("text", { kind: "text" }, out);
    if (text === "" || !this.openBlock) return;
    this.hasAnswer = true;
    this.text.push(text);
    const { block } = this.openBlock;
    const { logprobs } = this;
    this.logprobs = undefined;
    out.push(logprobs ? { type: "text", block, text, logprobs } : { type: "text", block, text });
  }

  /** Logprobs without text, like those of the token that ends the response, are added to the preceding text. */
  private pushLogprobs(out: Event[]): void {
    const { logprobs } = this;
    if (!logprobs) return;
    this.logprobs = undefined;
    if (this.openBlock?.kind === "text") out.push({ type: "text", block: this.openBlock.block, text: "", logprobs });
    else this.unmapped.report("logprobsResult", out);
  }

  private readCall(call: JsonObject, opaque: Opaque | undefined, out: Event[]): void {
    const name = asText(call["name"]);
    this.unmapped.reportOthers(call, MAPPED_MEMBERS.call, "content.parts.functionCall.", out);
    if (name === undefined) {
      this.continueCall(call, opaque, out);
      return;
    }
    this.closeBlock(out);
    this.closePartialCall(out);
    const id = asText(call["id"]) || this.numbering.nextId();
    const block = this.numbering.nextBlock++;
    this.hasToolCall = this.hasAnswer = true;
    out.push({ type: "open", block, choice: this.index, kind: "tool_call", name, ...dropUndefined({ id, opaque }) });
    if (call["willContinue"] === true || call["partialArgs"] !== undefined) {
      this.partialCall = { block, id, signed: opaque !== undefined, arguments: new PartialArguments() };
      this.readPartialArgs(call, out);
      return;
    }
    if (call["args"] !== undefined) out.push({ type: "arguments", block, text: writeJson(call["args"]) });
    out.push({ type: "close", block });
  }

  /** Decodes a call without a name: it continues the call whose arguments arrive in pieces. */
  private continueCall(call: JsonObject, opaque: Opaque | undefined, out: Event[]): void {
    if (!this.partialCall) {
      // The last piece of a call may be followed by an empty one.
      if (Object.keys(call).length > 0) this.unmapped.report("content.parts.functionCall", out);
      return;
    }
    if (opaque && !this.partialCall.signed) this.partialCall.lateSignature = opaque;
    this.readPartialArgs(call, out);
  }

  private readPartialArgs(call: JsonObject, out: Event[]): void {
    if (!this.partialCall) return;
    const { block, arguments: partial } = this.partialCall;
    for (const entry of asList(call["partialArgs"])) {
      const text = partial.add(asObject(entry) ?? {});
      if (text !== "") out.push({ type: "arguments", block, text });
    }
    if (call["willContinue"] === true) return;
    out.push({ type: "arguments", block, text: partial.end() });
    this.closePartialCall(out);
  }

  /** Closes a call whose arguments arrived in pieces. Arguments that were never completed stay incomplete. */
  private closePartialCall(out: Event[]): void {
    const { partialCall } = this;
    if (!partialCall) return;
    this.partialCall = undefined;
    out.push({ type: "close", block: partialCall.block });
    if (partialCall.lateSignature) this.pushLateSignature(partialCall.lateSignature, partialCall.id, out);
  }

  /** Emits a signature that arrived after its call was opened, as redacted reasoning that names the call. */
  private pushLateSignature(opaque: Opaque, id: string | undefined, out: Event[]): void {
    if (id === undefined) {
      this.unmapped.report("content.parts.thoughtSignature", out);
      return;
    }
    this.pushState({ ...opaque, on: { call: id } }, out);
  }

  private readMedia(blob: JsonObject, name: string, opaque: Opaque | undefined, out: Event[]): void {
    this.hasAnswer = true;
    const data = asText(blob["data"]);
    // Other protocols have no place for a signature on an image.
    if (opaque && data !== undefined) this.pushState({ ...opaque, on: { media: TextKey.ofMedia(data) } }, out);
    else if (opaque) this.unmapped.report("content.parts.thoughtSignature", out);
    this.unmapped.reportOthers(blob, MAPPED_MEMBERS.media, `content.parts.${name}.`, out);
    const mime = asText(blob["mimeType"]);
    const block = this.pushOpen({ kind: "media", media: mediaKind(mime), ...dropUndefined({ mime }) }, out);
    const content = dropUndefined({ base64: data, url: asText(blob["fileUri"]) });
    out.push({ type: "media", block, ...content }, { type: "close", block });
  }

  /** Decodes executed code, tools that the vendor ran, and parts of unknown kinds. */
  private readServerPart(part: JsonObject, out: Event[]): void {
    const names = Object.keys(part).filter((name) => name !== "thought" && name !== "thoughtSignature");
    const name = names[0] ?? "part";
    const block = this.pushOpen({ kind: "server", name }, out);
    const json = new RawJson(writeJson(part));
    out.push({ type: "server", block, json }, { type: "close", block });
    if (RETURNED_PARTS.has(name)) this.pushState({ ...this.signatureState(json.text), kind: PART_KIND }, out);
  }

  /** Emits state that fits on no part of the client's format, as redacted reasoning. */
  private pushState(opaque: Opaque, out: Event[]): void {
    const block = this.pushOpen({ kind: "reasoning", redacted: true }, out);
    out.push({ type: "opaque", block, opaque }, { type: "close", block });
  }

  /** Opens a block that arrives in one piece. */
  private pushOpen(opening: Opening, out: Event[]): number {
    this.closeBlock(out);
    const block = this.numbering.nextBlock++;
    out.push({ type: "open", block, choice: this.index, ...opening });
    return block;
  }

  private beginBlock(kind: "text" | "thought", opening: Opening, out: Event[]): void {
    this.openBlock = { block: this.pushOpen(opening, out), kind, closed: false };
  }

  private closeBlock(out: Event[], last = false): void {
    if (!this.openBlock) return;
    const { block, kind } = this.openBlock;
    this.openBlock = undefined;
    if (kind === "text" && this.text.length > 0)
      for (const citation of this.sources.takeCitations(this.text.join(""), last))
        out.push({ type: "citation", block, citation });
    this.text = [];
    out.push({ type: "close", block });
  }
}

/**
 * Parts that the vendor executed itself and requires in the next request with their signature: the whole part is kept as
 * opaque state. [D: thought signatures, code execution]
 */
const RETURNED_PARTS: ReadonlySet<string> = new Set(EXECUTED_MEMBERS);

type NameSet = ReadonlySet<string>;

/** Members that any part may have: they are mapped, or have no meaning in other protocols. */
const COMMON_MEMBERS = ["thought", "thoughtSignature", "partMetadata"];

const partMembers = (name: string): NameSet => new Set([name, ...COMMON_MEMBERS]);

/** Members that are mapped, and metadata that has no meaning in other protocols. */
const MAPPED_MEMBERS = {
  frame: new Set([
    "candidates",
    "promptFeedback",
    "usageMetadata",
    "modelVersion",
    "responseId",
    "createTime",
    "error",
  ]) as NameSet,
  feedback: new Set(["blockReason", "blockReasonMessage", "safetyRatings"]) as NameSet,
  candidate: new Set([
    "index",
    "content",
    "finishReason",
    "finishMessage",
    "logprobsResult",
    "groundingMetadata",
    "citationMetadata",
    "avgLogprobs",
    "score",
    "tokenCount",
    "safetyRatings",
  ]) as NameSet,
  content: new Set(["role", "parts"]) as NameSet,
  grounding: new Set(["groundingChunks", "groundingSupports"]) as NameSet,
  call: new Set(["id", "name", "args", "partialArgs", "willContinue"]) as NameSet,
  media: new Set(["mimeType", "data", "fileUri"]) as NameSet,
};

/** The same for a part, by its kind; parts of kind `server` are mapped as a whole. */
const MAPPED_PART_MEMBERS: Readonly<Record<Exclude<PartKind, "server">, NameSet>> = {
  call: partMembers("functionCall"),
  text: partMembers("text"),
  thought: partMembers("text"),
  inlineData: partMembers("inlineData"),
  fileData: partMembers("fileData"),
};

/** Members of a response that other protocols cannot express. Each is reported once, in an `unmapped` event. */
class UnmappedMembers {
  private readonly reported = new Set<string>();

  /** @param at path of the object that has the members, with its dot */
  constructor(private readonly at: string) {}

  report(name: string, out: Event[]): void {
    if (this.reported.has(name)) return;
    this.reported.add(name);
    out.push({ type: "unmapped", path: `${this.at}${name}` });
  }

  /** Reports all members of an object that are not mapped. @param path of the object, with its dot */
  reportOthers(object: JsonObject, mapped: NameSet, path: string, out: Event[]): void {
    for (const name in object) if (!mapped.has(name) && object[name] !== null) this.report(`${path}${name}`, out);
  }
}

/** One token of a text event's logprobs, in OpenAI's format, which most clients know. */
interface TokenLogprob {
  token: string;
  logprob: number;
  bytes: number[] | null;
  top_logprobs: { token: string; logprob: number; bytes: number[] | null }[];
}

/** Decodes a candidate's `logprobsResult`; undefined if it contains no tokens. */
export function decodeLogprobs(result: unknown): TokenLogprob[] | undefined {
  const members = asObject(result);
  const top = asList(members?.["topCandidates"]);
  const tokens = asList(members?.["chosenCandidates"]).map((chosen, n) => ({
    ...decodeLogprob(chosen),
    top_logprobs: asList(asObject(top[n])?.["candidates"]).map(decodeLogprob),
  }));
  return tokens.length === 0 ? undefined : tokens;
}

/** The logprob that stands for minus infinity, which JSON cannot express. */
const MIN_LOGPROB = -9999;

function decodeLogprob(value: unknown) {
  const { token, logProbability = 0 } = asObject(value) ?? {};
  const text = asText(token) ?? "";
  // Proto JSON writes numbers that JSON cannot express as strings.
  const number = typeof logProbability === "string" ? Number(logProbability) : logProbability;
  const logprob = typeof number === "number" && Number.isFinite(number) ? number : MIN_LOGPROB;
  return { token: text, logprob, bytes: [...Buffer.from(text)] };
}
