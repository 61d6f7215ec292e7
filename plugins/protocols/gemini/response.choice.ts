import {
  asList,
  asObject,
  asText,
  defined,
  type Event,
  type EventOf,
  type JsonObject,
  type Opaque,
  type Opening,
  RawJson,
  type ResponseSource,
  writeJson,
} from "model-gateway/protocol";
import { mediaOf } from "./media.ts";
import { Sources } from "./response.citations.ts";
import { rawReason, reasonOf } from "./response.finish.ts";
import { likelihoods } from "./response.logprobs.ts";
import { kindOf, type Seen } from "./response.native.ts";
import { PartialArguments } from "./response.partial.ts";
import { TOLD, TOLD_OF_PART, Unsaid } from "./response.unsaid.ts";

/** What all candidates of an answer count together. */
export interface Numbering {
  /** The number of the next block. */
  block: number;
  /** The next id for a call that came without one. */
  id: () => string | undefined;
}

/** A call whose arguments come in pieces. */
interface Partial {
  block: number;
  id: string | undefined;
  /** Its first piece bore a signature; `late`: a later one does. */
  signed: boolean;
  late?: Opaque;
  arguments: PartialArguments;
}

/**
 * One candidate of an answer: its parts become blocks. Texts of one kind that follow each other are one block, across
 * frames too, as the vendor itself joins them in a whole answer.
 */
export class Choice {
  /** The finish reason so far: a later frame may bring more text and another reason. */
  raw: string | undefined;
  /** It has a text, a call or media: more than thoughts, and what only its own protocol can say. */
  answered = false;
  private message: string | undefined;
  private open: { block: number; kind: "text" | "thought"; closed: boolean } | undefined;
  /**
   * The open text block's text, to find the places of citations in: they are counted in bytes and come behind the text, with
   * the last frame, and those of `citationMetadata` come unasked.
   */
  private text: string[] = [];
  /** Likelihoods of this frame's text that no event has carried yet. */
  private logprobs: unknown[] | undefined;
  private called = false;
  private partial: Partial | undefined;
  private readonly sources = new Sources();
  private readonly unsaid: Unsaid;

  constructor(
    readonly index: number,
    private readonly source: ResponseSource,
    private readonly numbering: Numbering,
  ) {
    this.unsaid = new Unsaid(`candidates.${index}.`);
  }

  read(candidate: JsonObject, out: Event[], seen: Seen | undefined): void {
    this.sources.learn(candidate);
    this.logprobs = candidate["logprobsResult"] ? likelihoods(candidate["logprobsResult"]) : undefined;
    const content = asObject(candidate["content"]) ?? {};
    for (const part of asList(content["parts"])) this.part(asObject(part) ?? {}, out, seen);
    this.likely(out);
    this.unsaid.others(content, TOLD.content, "content.", out);
    this.unsaid.others(candidate, TOLD.candidate, "", out);
    const grounding = asObject(candidate["groundingMetadata"]);
    if (grounding) this.unsaid.others(grounding, TOLD.grounding, "groundingMetadata.", out);
    this.raw = rawReason(candidate["finishReason"]) ?? this.raw;
    this.message = asText(candidate["finishMessage"]) ?? this.message;
  }

  /** The answer ends: what is open is closed. Arguments that broke off stay as they came. */
  end(out: Event[]): void {
    this.breakOff(out);
    this.close(out, true);
    if (this.sources.waiting) this.unsaid.say("groundingMetadata", out);
  }

  /** How it ended. @param block why the prompt was blocked */
  finish(block: { raw: string; message?: string } | undefined): EventOf<"finish"> {
    const { raw } = this;
    if (raw === undefined && block) return { type: "finish", choice: this.index, reason: "content_filter", ...block };
    return {
      type: "finish",
      choice: this.index,
      reason: raw === undefined ? "other" : reasonOf(raw, this.called),
      ...defined({ raw, message: this.message }),
    };
  }

  private part(part: JsonObject, out: Event[], seen: Seen | undefined): void {
    const signature = asText(part["thoughtSignature"]);
    const opaque = signature === undefined ? undefined : this.opaque(signature);
    const kind = kindOf(part);
    switch (kind) {
      case "thought":
        this.thought(asText(part["text"]) ?? "", opaque, out);
        break;
      case "text":
        this.uses(asText(part["text"]) ?? "", opaque, out);
        break;
      case "call":
        this.call(asObject(part["functionCall"]) as JsonObject, opaque, out, seen);
        break;
      case "inlineData":
      case "fileData":
        this.media(asObject(part[kind]) as JsonObject, kind, out);
        if (opaque) this.unsaid.say("content.parts.thoughtSignature", out);
        break;
      case "server":
        this.server(part, out);
        break;
    }
    if (kind !== "server") this.unsaid.others(part, TOLD_OF_PART[kind], "content.parts.", out);
  }

  private opaque(data: string): Opaque {
    const { account, model } = this.source;
    return { protocol: "gemini", account, model, kind: "thoughtSignature", data };
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

  private uses(text: string, opaque: Opaque | undefined, out: Event[]): void {
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
    // Between equals the frame's form has them.
    if (this.source.native) return;
    if (this.open?.kind === "text") out.push({ type: "text", block: this.open.block, text: "", logprobs });
    else this.unsaid.say("logprobsResult", out);
  }

  private call(call: JsonObject, opaque: Opaque | undefined, out: Event[], seen: Seen | undefined): void {
    const name = asText(call["name"]);
    this.unsaid.others(call, TOLD.call, "content.parts.functionCall.", out);
    if (name === undefined) {
      this.goOn(call, opaque, out, seen);
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
      seen?.calls.push("begins");
      this.pieces(call, out, seen);
      return;
    }
    seen?.calls.push("whole");
    if (call["args"] !== undefined) out.push({ type: "arguments", block, text: writeJson(call["args"]) });
    out.push({ type: "close", block });
  }

  /** A call without a name is more of the one whose arguments come in pieces. */
  private goOn(call: JsonObject, opaque: Opaque | undefined, out: Event[], seen: Seen | undefined): void {
    if (!this.partial) {
      seen?.calls.push("nothing");
      // The last piece of a call can be an empty one more.
      if (Object.keys(call).length > 0) this.unsaid.say("content.parts.functionCall", out);
      return;
    }
    seen?.calls.push("goes on");
    // Between equals the frame's form has it.
    if (opaque && !this.partial.signed && !this.source.native) this.partial.late = opaque;
    this.pieces(call, out, seen);
  }

  private pieces(call: JsonObject, out: Event[], seen: Seen | undefined): void {
    if (!this.partial) return;
    const { block, arguments: partial } = this.partial;
    for (const entry of asList(call["partialArgs"])) {
      const piece = partial.add(asObject(entry) ?? {});
      seen?.pieces.push(piece);
      if (piece.text !== "") out.push({ type: "arguments", block, text: piece.text });
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

  /** A signature that came after its call had opened follows it, and says where it belongs. */
  private late(opaque: Opaque, id: string | undefined, out: Event[]): void {
    if (id === undefined) {
      this.unsaid.say("content.parts.thoughtSignature", out);
      return;
    }
    const block = this.whole({ kind: "reasoning", redacted: true }, out);
    out.push({ type: "opaque", block, opaque: { ...opaque, on: { call: id } } }, { type: "close", block });
  }

  private media(told: JsonObject, name: string, out: Event[]): void {
    this.answered = true;
    this.unsaid.others(told, TOLD.media, `content.parts.${name}.`, out);
    const mime = asText(told["mimeType"]);
    const block = this.whole({ kind: "media", media: mediaOf(mime), ...defined({ mime }) }, out);
    const content = defined({ base64: asText(told["data"]), url: asText(told["fileUri"]) });
    out.push({ type: "media", block, ...content }, { type: "close", block });
  }

  /** Code that ran, tools that the vendor ran, and what is new. */
  private server(part: JsonObject, out: Event[]): void {
    const names = Object.keys(part).filter((name) => name !== "thought" && name !== "thoughtSignature");
    const name = names[0] ?? "part";
    const result = /Result$|Response$/.test(name);
    const block = this.whole({ kind: "server", name, result }, out);
    out.push({ type: "server", block, json: new RawJson(writeJson(part)) }, { type: "close", block });
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
