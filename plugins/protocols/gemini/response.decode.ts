import {
  asCount,
  asList,
  asObject,
  asText,
  callIds,
  defined,
  type Event,
  type EventOf,
  entryOf,
  type Fault,
  type FinishReason,
  type Frame,
  GatewayError,
  type JsonObject,
  type Opaque,
  type Opening,
  parseExact,
  RawJson,
  type ResponseDecoder,
  type ResponseSource,
  TextKey,
  type Usage,
  writeJson,
} from "model-gateway/protocol";
import { faultOf } from "./errors.ts";
import { CandidateSources } from "./response.decode.sources.ts";
import { usage } from "./usage.ts";
import { mediaKind, NAME, PART, rawReason } from "./wire.ts";

/** Only frames with such parts hold JSON whose text must stay as it is; the others take the engine's own parser. */
const EXACT = /"(?:functionCall|toolCall|toolResponse|functionResponse)"/;
const RAW: ReadonlySet<string> = new Set(["args", "response"]);

/** The most candidates that one answer may have. */
const MOST = 128;

/** Reads a stream of answers: events, or elements of one array. */
export const decoder = (source: ResponseSource): ResponseDecoder => new GenerateContentReader(source);

/**
 * Reads a whole answer. A body without a finish reason is whole all the same, and finishes as `other`.
 * @throws GatewayError `upstream_invalid` when it is no answer
 */
export function decode(text: string, source: ResponseSource): Event[] {
  const reader = new GenerateContentReader(source);
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
function bareText({ kind, bytes }: Frame): string | undefined {
  const text = kind === "event" ? bytes.toString().trim() : "";
  return text.startsWith("{") || text.startsWith("[") ? text : undefined;
}

class GenerateContentReader implements ResponseDecoder {
  private readonly candidates = new Map<number, CandidateReader>();
  private numbering: Numbering = { block: 0, id: () => undefined };
  private started = false;
  private over = false;
  /** Why the prompt was blocked. */
  private block: { raw: string; message: string } | undefined;
  private readonly unmapped = new UnmappedMembers("");
  /** Usage of frames without a total, and the last frame that had one. */
  private partialUsage: Usage | undefined;
  private latest: JsonObject | undefined;

  constructor(private readonly source: ResponseSource) {}

  frame(frame: Frame, out: Event[]): void {
    if (this.over || (frame.kind !== "event" && frame.kind !== "element")) return;
    const text = frame.text ?? bareText(frame);
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
      const response = asObject(each);
      if (!response) throw new Error("This is not an answer.");
      if (!this.over) this.response(response, out);
    }
  }

  /** @param whole the answer was one body, so that its end is no question */
  end(out: Event[], whole = false): void {
    if (this.over) return;
    const candidates = [...this.candidates.values()].sort((one, other) => one.index - other.index);
    const ended = candidates.every(({ raw }) => raw !== undefined) || whole || this.block;
    if (!this.started || !ended || (candidates.length === 0 && !this.block))
      out.push({ type: "error", fault: new GatewayError("upstream_truncated") });
    else this.finish(candidates, out);
    this.over = true;
  }

  private finish(candidates: readonly CandidateReader[], out: Event[]): void {
    for (const candidate of candidates) candidate.end(out);
    const finishes = candidates.map((candidate) => candidate.finish(this.block));
    const failed = candidates.some(({ answered }, n) => answered && !isBroken(finishes[n]))
      ? undefined
      : finishes.find((finish) => isFailure(finish.reason) || isBroken(finish));
    if (failed) {
      const when = candidates.some(({ answered }) => answered)
        ? "in the middle of its answer"
        : "before it said anything";
      const message = failed.message ?? `The model failed ${when}: ${failed.raw ?? "no reason is told"}.`;
      this.fail(out, new GatewayError("upstream_invalid", { message }));
      return;
    }
    out.push(...candidates.map(({ called }, n) => told(finishes[n] as EventOf<"finish">, called)));
    if (candidates.length === 0) out.push({ type: "finish", choice: 0, reason: "content_filter", ...this.block });
    const known = this.knownUsage();
    if (known) out.push({ type: "usage", usage: known });
    out.push({ type: "end" });
  }

  private fail(out: Event[], fault: Fault): void {
    this.over = true;
    out.push({ type: "error", fault });
  }

  private response(response: JsonObject, out: Event[]): void {
    if (response["error"] !== undefined && response["error"] !== null) {
      this.fail(out, faultOf(502, response["error"]));
      return;
    }
    this.begin(response, out);
    asList(response["candidates"]).forEach((each, position) => {
      const candidate = asObject(each) ?? {};
      this.candidateOf(asCount(candidate["index"]) ?? position).read(candidate, out);
    });
    const feedback = asObject(response["promptFeedback"]);
    const raw = rawReason(feedback?.["blockReason"]);
    if (raw !== undefined)
      this.block = { raw, message: asText(feedback?.["blockReasonMessage"]) || `The prompt was blocked: ${raw}.` };
    this.unmapped.others(response, MAPPED.frame, "", out);
    if (feedback) this.unmapped.others(feedback, MAPPED.feedback, "promptFeedback.", out);
    this.count(response);
  }

  private begin(response: JsonObject, out: Event[]): void {
    if (this.started) return;
    this.started = true;
    const id = asText(response["responseId"]) ?? "";
    const model = asText(response["modelVersion"]) ?? this.source.model;
    if (id !== "") this.numbering.id = callIds(id);
    const created = Math.floor(Date.parse(asText(response["createTime"]) ?? "") / 1000);
    const first = usage(response);
    out.push({
      type: "start",
      id,
      model,
      ...(first ? { usage: first } : {}),
      ...(Number.isFinite(created) ? { created } : {}),
    });
  }

  /** @throws GatewayError `upstream_invalid` when there are too many */
  private candidateOf(index: number): CandidateReader {
    let candidate = this.candidates.get(index);
    if (!candidate) {
      if (this.candidates.size >= MOST)
        throw new GatewayError("upstream_invalid", { message: `The provider gives more than ${MOST} candidates.` });
      candidate = new CandidateReader(index, this.source, this.numbering);
      this.candidates.set(index, candidate);
    }
    return candidate;
  }

  /** Each frame repeats the usage so far: only the first and the last are worth a reading. */
  private count(response: JsonObject): void {
    const metadata = asObject(response["usageMetadata"]);
    if (!metadata) return;
    if (metadata["totalTokenCount"] !== undefined) this.latest = response;
    else {
      this.partialUsage = usage(response, this.knownUsage());
      this.latest = undefined;
    }
  }

  private knownUsage(): Usage | undefined {
    return this.latest ? usage(this.latest) : this.partialUsage;
  }
}

/** What all candidates of an answer count together. */
interface Numbering {
  /** The number of the next block. */
  block: number;
  /** The next id for a call that came without one. */
  id: () => string | undefined;
}

/** A call whose arguments come in pieces. */
interface StreamedCall {
  block: number;
  id: string | undefined;
  /** Its first piece bore a signature; `late`: a later one does. */
  signed: boolean;
  late?: Opaque;
  arguments: PartialArguments;
}

/** What a part is; `server` is all that only this protocol understands. */
type PartKind = "call" | "thought" | "text" | "inlineData" | "fileData" | "server";

/**
 * What a part is. One that holds nothing is a text without words. Media among the thoughts are drafts, which other
 * protocols would take for the answer; media without data have no place in other protocols.
 */
function kindOf(part: JsonObject): PartKind {
  if (asObject(part["functionCall"])) return "call";
  if (typeof part["text"] === "string" || isBare(part)) return part["thought"] === true ? "thought" : "text";
  if (part["thought"] === true) return "server";
  if (typeof asObject(part["inlineData"])?.["data"] === "string") return "inlineData";
  return typeof asObject(part["fileData"])?.["fileUri"] === "string" ? "fileData" : "server";
}

function isBare(part: JsonObject): boolean {
  for (const name in part) if (name !== "thought" && name !== "thoughtSignature") return false;
  return true;
}

/**
 * One candidate of an answer: its parts become blocks. Texts of one kind that follow each other are one block, across
 * frames too, as the vendor itself joins them in a whole answer.
 */
class CandidateReader {
  /** The finish reason so far: a later frame may bring more text and another reason. */
  raw: string | undefined;
  /** It has a text, a call or media, not only thoughts or parts of kind `server`. */
  answered = false;
  private message: string | undefined;
  private open: { block: number; kind: "text" | "thought"; closed: boolean } | undefined;
  /**
   * The open text block's text, to find the places of citations in: they are counted in bytes and come behind the text,
   * with the last frame. Those of `citationMetadata` come unasked.
   */
  private text: string[] = [];
  /** Likelihoods of this frame's text that no event has carried yet. */
  private logprobs: unknown[] | undefined;
  /** It has a call. */
  called = false;
  private partial: StreamedCall | undefined;
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
    this.sources.learn(candidate);
    this.logprobs = candidate["logprobsResult"] ? likelihoods(candidate["logprobsResult"]) : undefined;
    const content = asObject(candidate["content"]) ?? {};
    for (const part of asList(content["parts"])) this.part(asObject(part) ?? {}, out);
    this.likely(out);
    this.unmapped.others(content, MAPPED.content, "content.", out);
    this.unmapped.others(candidate, MAPPED.candidate, "", out);
    const grounding = asObject(candidate["groundingMetadata"]);
    if (grounding) this.unmapped.others(grounding, MAPPED.grounding, "groundingMetadata.", out);
    this.raw = rawReason(candidate["finishReason"]) ?? this.raw;
    // Of an end that is as it should be it only says so: "Model generated function call(s)." [F]
    if (this.raw !== "STOP") this.message = asText(candidate["finishMessage"]) ?? this.message;
  }

  /** The answer ends: what is open is closed. Arguments that broke off stay as they came. */
  end(out: Event[]): void {
    this.breakOff(out);
    this.close(out, true);
    if (this.sources.waiting) this.unmapped.report("groundingMetadata", out);
  }

  /** How it ended. @param block why the prompt was blocked */
  finish(block: { raw: string; message: string } | undefined): EventOf<"finish"> {
    const { raw } = this;
    if (raw === undefined && block) return { type: "finish", choice: this.index, reason: "content_filter", ...block };
    return {
      type: "finish",
      choice: this.index,
      reason: raw === undefined ? "other" : reasonOf(raw, this.called),
      ...defined({ raw, message: this.message }),
    };
  }

  private part(part: JsonObject, out: Event[]): void {
    const signature = asText(part["thoughtSignature"]);
    const opaque = signature === undefined ? undefined : this.opaque(signature);
    const kind = kindOf(part);
    switch (kind) {
      case "thought":
        this.thought(asText(part["text"]) ?? "", opaque, out);
        break;
      case "text":
        this.plainText(asText(part["text"]) ?? "", opaque, out);
        break;
      case "call":
        this.call(asObject(part["functionCall"]) as JsonObject, opaque, out);
        break;
      case "inlineData":
      case "fileData":
        this.media(asObject(part[kind]) as JsonObject, kind, opaque, out);
        break;
      case "server":
        this.server(part, out);
        break;
    }
    if (kind !== "server") this.unmapped.others(part, MAPPED_OF_PART[kind], "content.parts.", out);
  }

  private opaque(data: string): Opaque {
    const { account, model } = this.source;
    return { protocol: NAME, account, model, kind: "thoughtSignature", data };
  }

  /** The vendor shows summaries of its thoughts, not the thoughts. [D] */
  private thought(text: string, opaque: Opaque | undefined, out: Event[]): void {
    if (text === "" && !opaque) return;
    if (this.open?.kind !== "thought" || this.open.closed)
      this.begin("thought", { kind: "reasoning", summary: true }, out);
    const { block } = this.open as { block: number };
    if (text !== "") out.push({ type: "text", block, text });
    if (!opaque) return;
    out.push({ type: "opaque", block, opaque });
    // A second signature would take the place of this one.
    if (this.open) this.open.closed = true;
  }

  private plainText(text: string, opaque: Opaque | undefined, out: Event[]): void {
    if (text === "" && !opaque) {
      this.likely(out);
      return;
    }
    if (opaque) this.begin("text", { kind: "text", opaque }, out);
    else if (this.open?.kind !== "text") this.begin("text", { kind: "text" }, out);
    if (text === "" || !this.open) return;
    this.answered = true;
    this.text.push(text);
    const { block } = this.open;
    const { logprobs } = this;
    this.logprobs = undefined;
    out.push(logprobs ? { type: "text", block, text, logprobs } : { type: "text", block, text });
  }

  /** Likelihoods without a word, like those of the token that ends the answer, follow the text before. */
  private likely(out: Event[]): void {
    const { logprobs } = this;
    if (!logprobs) return;
    this.logprobs = undefined;
    if (this.open?.kind === "text") out.push({ type: "text", block: this.open.block, text: "", logprobs });
    else this.unmapped.report("logprobsResult", out);
  }

  private call(call: JsonObject, opaque: Opaque | undefined, out: Event[]): void {
    const name = asText(call["name"]);
    this.unmapped.others(call, MAPPED.call, "content.parts.functionCall.", out);
    if (name === undefined) {
      this.continueCall(call, opaque, out);
      return;
    }
    this.close(out);
    this.breakOff(out);
    const id = asText(call["id"]) || this.numbering.id();
    const block = this.numbering.block++;
    this.called = this.answered = true;
    out.push({ type: "open", block, choice: this.index, kind: "tool_call", name, ...defined({ id, opaque }) });
    if (call["willContinue"] === true || call["partialArgs"] !== undefined) {
      this.partial = { block, id, signed: opaque !== undefined, arguments: new PartialArguments() };
      this.pieces(call, out);
      return;
    }
    if (call["args"] !== undefined) out.push({ type: "arguments", block, text: writeJson(call["args"]) });
    out.push({ type: "close", block });
  }

  /** A call without a name is more of the one whose arguments come in pieces. */
  private continueCall(call: JsonObject, opaque: Opaque | undefined, out: Event[]): void {
    if (!this.partial) {
      // The last piece of a call can be an empty one more.
      if (Object.keys(call).length > 0) this.unmapped.report("content.parts.functionCall", out);
      return;
    }
    if (opaque && !this.partial.signed) this.partial.late = opaque;
    this.pieces(call, out);
  }

  private pieces(call: JsonObject, out: Event[]): void {
    if (!this.partial) return;
    const { block, arguments: partial } = this.partial;
    for (const entry of asList(call["partialArgs"])) {
      const text = partial.add(asObject(entry) ?? {});
      if (text !== "") out.push({ type: "arguments", block, text });
    }
    if (call["willContinue"] === true) return;
    out.push({ type: "arguments", block, text: partial.end() });
    this.breakOff(out);
  }

  /** Closes a call whose arguments came in pieces; if they were never completed, they stay as they came. */
  private breakOff(out: Event[]): void {
    const { partial } = this;
    if (!partial) return;
    this.partial = undefined;
    out.push({ type: "close", block: partial.block });
    if (partial.late) this.late(partial.late, partial.id, out);
  }

  /** A signature that came after its call had opened follows as redacted reasoning that names the call. */
  private late(opaque: Opaque, id: string | undefined, out: Event[]): void {
    if (id === undefined) {
      this.unmapped.report("content.parts.thoughtSignature", out);
      return;
    }
    this.state({ ...opaque, on: { call: id } }, out);
  }

  private media(sent: JsonObject, name: string, opaque: Opaque | undefined, out: Event[]): void {
    this.answered = true;
    const data = asText(sent["data"]);
    // No other protocol has a place for it on a picture.
    if (opaque && data !== undefined) this.state({ ...opaque, on: { media: TextKey.ofMedia(data) } }, out);
    else if (opaque) this.unmapped.report("content.parts.thoughtSignature", out);
    this.unmapped.others(sent, MAPPED.media, `content.parts.${name}.`, out);
    const mime = asText(sent["mimeType"]);
    const block = this.whole({ kind: "media", media: mediaKind(mime), ...defined({ mime }) }, out);
    const content = defined({ base64: data, url: asText(sent["fileUri"]) });
    out.push({ type: "media", block, ...content }, { type: "close", block });
  }

  /** Code that ran, tools that the vendor ran, and what is new. */
  private server(part: JsonObject, out: Event[]): void {
    const names = Object.keys(part).filter((name) => name !== "thought" && name !== "thoughtSignature");
    const name = names[0] ?? "part";
    const result = /Result$|Response$/.test(name);
    const block = this.whole({ kind: "server", name, result }, out);
    const json = new RawJson(writeJson(part));
    out.push({ type: "server", block, json }, { type: "close", block });
    if (COMING_BACK.has(name)) this.state({ ...this.opaque(json.text), kind: PART }, out);
  }

  /** State that no part of the client's can bear follows as redacted reasoning. */
  private state(opaque: Opaque, out: Event[]): void {
    const block = this.whole({ kind: "reasoning", redacted: true }, out);
    out.push({ type: "opaque", block, opaque }, { type: "close", block });
  }

  /** Opens a block that arrives in one piece. */
  private whole(opening: Opening, out: Event[]): number {
    this.close(out);
    const block = this.numbering.block++;
    out.push({ type: "open", block, choice: this.index, ...opening });
    return block;
  }

  private begin(kind: "text" | "thought", opening: Opening, out: Event[]): void {
    this.open = { block: this.whole(opening, out), kind, closed: false };
  }

  private close(out: Event[], last = false): void {
    if (!this.open) return;
    const { block, kind } = this.open;
    this.open = undefined;
    if (kind === "text" && this.text.length > 0)
      for (const citation of this.sources.of(this.text.join(""), last)) out.push({ type: "citation", block, citation });
    this.text = [];
    out.push({ type: "close", block });
  }
}

/**
 * What the vendor ran itself and wants back in the next request, with its signature: the part travels as state. [D: thought
 * signatures, code execution]
 */
const COMING_BACK: ReadonlySet<string> = new Set(["executableCode", "codeExecutionResult", "toolCall", "toolResponse"]);

type NameSet = ReadonlySet<string>;

/** What may stand beside a part of any kind and is mapped, or means nothing elsewhere. */
const ABOUT = ["thought", "thoughtSignature", "partMetadata"];

const partMembers = (name: string): NameSet => new Set([name, ...ABOUT]);

/** Members that are mapped, or that are numbers and marks which mean nothing elsewhere. */
const MAPPED = {
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

/** The same of a part, by its kind; parts of kind `server` are mapped whole. */
const MAPPED_OF_PART: Readonly<Record<Exclude<PartKind, "server">, NameSet>> = {
  call: partMembers("functionCall"),
  text: partMembers("text"),
  thought: partMembers("text"),
  inlineData: partMembers("inlineData"),
  fileData: partMembers("fileData"),
};

/** Members of an answer that no other protocol has a word for. Each is named once, in an `unsaid` event. */
class UnmappedMembers {
  private readonly named = new Set<string>();

  /** @param at the path of what it is about, with its dot */
  constructor(private readonly at: string) {}

  report(name: string, out: Event[]): void {
    if (this.named.has(name)) return;
    this.named.add(name);
    out.push({ type: "unsaid", path: `${this.at}${name}` });
  }

  /** Names all members of an object besides those that are mapped. @param path of the object, with its dot */
  others(object: JsonObject, mapped: NameSet, path: string, out: Event[]): void {
    for (const name in object) if (!mapped.has(name) && object[name] !== null) this.report(`${path}${name}`, out);
  }
}

/** What the vendor's words mean; a word that is not here means `other`. STOP also ends an answer that calls functions. */
const MEANINGS: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries({
    STOP: "stop",
    MAX_TOKENS: "length",
    // Its answer can be continued with a token that only this vendor takes.
    CONTINUATION: "length",
    SAFETY: "content_filter",
    RECITATION: "content_filter",
    BLOCKLIST: "content_filter",
    PROHIBITED_CONTENT: "content_filter",
    SPII: "content_filter",
    MODEL_ARMOR: "content_filter",
    JAILBREAK: "content_filter",
    IMAGE_SAFETY: "content_filter",
    IMAGE_PROHIBITED_CONTENT: "content_filter",
    IMAGE_RECITATION: "content_filter",
    MALFORMED_FUNCTION_CALL: "malformed_call",
    UNEXPECTED_TOOL_CALL: "malformed_call",
  } satisfies Record<string, FinishReason>),
);

/** Clients can ask for enums as numbers [F]; the same ones in both forms of the protocol up to 5, and all filters up to 8. */
const REASON_NUMBERS = [
  "",
  "STOP",
  "MAX_TOKENS",
  "SAFETY",
  "RECITATION",
  "OTHER",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
];

/**
 * What a finish reason means; `called`: the answer holds a call of a client's function. A call that the vendor did not
 * expect is one all the same: it can be answered.
 */
function reasonOf(raw: string, called: boolean): FinishReason {
  const meaning = MEANINGS.get(/^\d+$/.test(raw) ? (REASON_NUMBERS[Number(raw)] ?? "OTHER") : raw) ?? "other";
  return called && (meaning === "stop" || raw === "UNEXPECTED_TOOL_CALL") ? "tool_calls" : meaning;
}

/**
 * True for ends that an answer has only when something went wrong, like MALFORMED_FUNCTION_CALL. With nothing said before
 * it such an answer would look like one that is done.
 */
const isFailure = (reason: FinishReason): boolean => reason === "malformed_call" || reason === "other";

/** Words for turns that broke although nothing is wrong with the text before: what was to follow it is missing. */
const BROKEN = new Set(["TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"]);

/** True for ends that are failures behind a text or a call too: agents would take that for all there is. */
const isBroken = (finish: EventOf<"finish"> | undefined): boolean =>
  finish !== undefined && (finish.reason === "malformed_call" || BROKEN.has(finish.raw ?? ""));

/**
 * An end that is not the model's own, and why. OTHER, LANGUAGE and what is newer behind a text leave it unfinished: of the words
 * that other protocols have, that of a filter is nearest. Behind a call there is something to go on with.
 */
function told(finish: EventOf<"finish">, called: boolean): EventOf<"finish"> {
  const { raw, reason, message } = finish;
  if (raw === undefined || (reason !== "content_filter" && (reason !== "other" || called))) return finish;
  const what = reason === "other" ? "broken off" : "held back";
  return { ...finish, reason: "content_filter", message: message || `The answer was ${what}: ${raw}.` };
}

/** One token of an answer as the vocabulary's text events carry it: the shape that most clients know. */
interface TokenLikelihood {
  token: string;
  logprob: number;
  bytes: number[] | null;
  top_logprobs: { token: string; logprob: number; bytes: number[] | null }[];
}

/** Likelihoods in the common shape from a candidate's `logprobsResult`; undefined where it holds none. */
export function likelihoods(result: unknown): TokenLikelihood[] | undefined {
  const members = asObject(result);
  const top = asList(members?.["topCandidates"]);
  const found = asList(members?.["chosenCandidates"]).map((chosen, n) => ({
    ...likely(chosen),
    top_logprobs: asList(asObject(top[n])?.["candidates"]).map(likely),
  }));
  return found.length === 0 ? undefined : found;
}

/** What clients know for a token of hardly any likelihood; JSON has no number for its logarithm. */
const HARDLY = -9999;

function likely(value: unknown) {
  const { token, logProbability = 0 } = asObject(value) ?? {};
  const text = asText(token) ?? "";
  // Proto JSON writes numbers that JSON has not as strings.
  const number = typeof logProbability === "string" ? Number(logProbability) : logProbability;
  const logprob = typeof number === "number" && Number.isFinite(number) ? number : HARDLY;
  return { token: text, logprob, bytes: [...Buffer.from(text)] };
}

type PathSegment = string | number;

/** A container that is open: which member of it comes next, and what it has. */
interface OpenContainer {
  /** Where it stands in the container around it; the root has none. */
  at: PathSegment | undefined;
  list: boolean;
  has: Set<PathSegment>;
}

/** Members and elements of a JSON path (RFC 9535) as far as they name one place: `.a`, `[0]`, `['a']`, `["a"]`. */
const SEGMENT = /\.([^.[\]*]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy;

/** An escape in a quoted name: those of JSON, and of either quote. */
const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|(.))/gs;
const CONTROLS: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

const unescaped = (_: string, unit: string | undefined, character: string): string =>
  unit === undefined ? (entryOf(CONTROLS, character) ?? character) : String.fromCharCode(Number.parseInt(unit, 16));

/**
 * Arguments that arrive as values with their JSON path (`partialArgs`), written as the text of one JSON object that only
 * grows. Values come in the order of the text; a string can come in pieces.
 */
export class PartialArguments {
  private readonly open: OpenContainer[] = [];
  /** The path of the string whose end has not come; undefined when none is open. */
  private string: string | undefined;

  /** What one entry adds. @throws Error when it cannot be added at the end, or names no place */
  add(entry: JsonObject): string {
    const path = String(entry["jsonPath"]);
    const continues = entry["willContinue"] === true;
    const text = entry["stringValue"];
    if (this.string === path) {
      const more = typeof text === "string" ? inner(text) : "";
      if (!continues) this.string = undefined;
      return continues ? more : `${more}"`;
    }
    const value = jsonOf(entry);
    if (value === undefined) return "";
    const before = this.closeString() + this.place(segments(path));
    if (typeof text !== "string" || !continues) return before + value;
    this.string = path;
    return before + value.slice(0, -1);
  }

  /** What closes the object. */
  end(): string {
    const start = this.open.length === 0 ? "{" : "";
    if (start !== "") this.open.push(container(undefined, false));
    return start + this.closeString() + this.leave(0);
  }

  private closeString(): string {
    if (this.string === undefined) return "";
    this.string = undefined;
    return '"';
  }

  /** Everything from the last value to the next: containers closed, a comma, containers opened, the member's name. */
  private place(path: readonly PathSegment[]): string {
    let text = this.open.length === 0 ? "{" : "";
    if (text !== "") this.open.push(container(undefined, false));
    let shared = 0;
    while (shared < path.length - 1 && this.open[shared + 1]?.at === path[shared] && shared + 1 < this.open.length)
      shared++;
    text += this.leave(shared + 1);
    for (let i = shared; i < path.length; i++) {
      const inside = this.open.at(-1) as OpenContainer;
      const segment = path[i] as PathSegment;
      if (inside.list !== (typeof segment === "number") || inside.has.has(segment))
        throw new Error("The arguments of a function call came out of order.");
      if (inside.has.size > 0) text += ",";
      inside.has.add(segment);
      if (!inside.list) text += `${JSON.stringify(segment)}:`;
      if (i === path.length - 1) break;
      const list = typeof path[i + 1] === "number";
      this.open.push(container(segment, list));
      text += list ? "[" : "{";
    }
    return text;
  }

  /** Closes containers until so many are open. */
  private leave(depth: number): string {
    let text = "";
    while (this.open.length > depth) text += this.open.pop()?.list ? "]" : "}";
    return text;
  }
}

const container = (at: PathSegment | undefined, list: boolean): OpenContainer => ({ at, list, has: new Set() });

/** A string as JSON without its quotes. Halves of a surrogate pair are escaped, and meet again when it is read. */
const inner = (text: string): string => JSON.stringify(text).slice(1, -1);

function jsonOf(entry: JsonObject): string | undefined {
  const { stringValue, numberValue, boolValue } = entry;
  if ("nullValue" in entry) return "null";
  const value = stringValue ?? numberValue ?? boolValue;
  return value === undefined ? undefined : writeJson(value);
}

function segments(path: string): PathSegment[] {
  const found: PathSegment[] = [];
  let at = path.startsWith("$") ? 1 : 0;
  SEGMENT.lastIndex = at;
  for (;;) {
    const match = SEGMENT.exec(path);
    if (!match) break;
    const [text, name, index, single, double] = match;
    at += text.length;
    found.push(index === undefined ? (name ?? (single ?? double ?? "").replace(ESCAPE, unescaped)) : Number(index));
  }
  if (at < path.length || found.length === 0) throw new Error(`The path ${path} of an argument cannot be read.`);
  return found;
}
