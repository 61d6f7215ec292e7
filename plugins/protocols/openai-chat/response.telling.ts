import {
  type Citation,
  callIds,
  type Event,
  type EventOf,
  type JsonObject,
  type Opaque,
  type ResponseContext,
} from "model-gateway/protocol";
import { declareEnd, FINISH_WORDS } from "../openai/response.encode.ts";
import { dataUrl } from "../openai/wire.ts";
import { annotationOf } from "./citations.ts";
import { detailsOf } from "./reasoning.ts";

/** One block of the answer as far as it is told. */
interface Block {
  choice: Choice;
  kind: "text" | "reasoning" | "refusal" | "tool_call" | "media" | "server";
  /** Characters of the content before it. */
  before: number;
  /** Of a call: its place among the choice's calls; undefined where the client can take no further one. */
  call?: number;
  custom?: boolean;
  /** Whether any of a call's arguments came. */
  grown?: boolean;
  mime?: string;
  /** The media's kind. */
  media?: string;
  thought?: Thought;
  /** State that sits on this text. */
  sitting?: Thought;
  /** Sources that it names. */
  cited: Citation[];
}

/** A reasoning, kept until its choice ends: its envelope goes with its text, and in one piece. */
interface Thought {
  texts: string[];
  /** The last part of its summary. */
  part: number;
  summary: boolean;
  redacted: boolean;
  opaque?: Opaque;
  /** It sat on a text without a word, behind another. */
  behind?: boolean;
}

interface Choice {
  index: number;
  uses: boolean;
  calls: number;
  content: number;
  refused: boolean;
  thoughts: Thought[];
  annotations: JsonObject[];
}

/**
 * Tells events as additions to the messages of a completion: each is the inside of a JSON object, and what a reader that
 * adds them up holds at the end is the whole message. Where a reader may keep only the last value of a member that it
 * does not know (openai-node does), that member is told once, at the end: `reasoning_details` and `annotations`.
 */
export abstract class Telling {
  /** Those that are open. */
  private readonly blocks = new Map<number, Block>();
  private readonly choices = new Map<number, Choice>();
  private nextId: () => string = callIds("");
  /** The client speaks of functions in the older way, which knows one call an answer. */
  private readonly legacy: boolean;

  constructor(protected readonly context: ResponseContext) {
    this.legacy = Array.isArray(context.request["functions"]) && !Array.isArray(context.request["tools"]);
  }

  /** Adds members to a choice's message. `finish` and `logprobs` are JSON. */
  protected abstract add(choice: number, members: string, finish: string, logprobs: string): void;

  /** The answer's id as this protocol's clients know it, and when it was made. */
  protected head({ id, created }: EventOf<"start">): { id: string; created: number } {
    const own = id === "" ? this.context.id : id;
    this.nextId = callIds(own);
    return { id: own.startsWith("chatcmpl-") ? own : `chatcmpl-${own}`, created: created ?? this.context.created };
  }

  protected tell(event: Event): void {
    switch (event.type) {
      case "open":
        this.open(event);
        break;
      case "text":
        this.text(event);
        break;
      case "arguments":
        this.grow(this.blocks.get(event.block), event.text);
        break;
      case "opaque": {
        const thought = this.blocks.get(event.block)?.thought;
        if (thought) thought.opaque = event.opaque;
        break;
      }
      case "citation":
        this.blocks.get(event.block)?.cited.push(event.citation);
        break;
      case "media":
        this.media(this.blocks.get(event.block), event);
        break;
      case "close":
        this.close(this.blocks.get(event.block));
        this.blocks.delete(event.block);
        break;
      case "finish":
        this.finish(event);
        break;
    }
  }

  private choice(index: number): Choice {
    let choice = this.choices.get(index);
    if (!choice) {
      choice = { index, uses: false, calls: 0, content: 0, refused: false, thoughts: [], annotations: [] };
      this.choices.set(index, choice);
    }
    return choice;
  }

  /** Adds to a message, whose first addition says the role, and a content that is empty or none. */
  private say(choice: Choice, members: string, content = "null", finish = "null", logprobs = "null"): void {
    if (!choice.uses) {
      choice.uses = true;
      this.add(choice.index, `"role":"assistant","content":${content},"refusal":null`, "null", "null");
    }
    if (members !== "" || finish !== "null") this.add(choice.index, members, finish, logprobs);
  }

  private open(event: EventOf<"open">): void {
    const choice = this.choice(event.choice);
    const block: Block = { choice, kind: event.kind, before: choice.content, cited: [] };
    this.blocks.set(event.block, block);
    switch (event.kind) {
      case "text":
        if (!choice.uses) this.say(choice, "", '""');
        if (event.opaque) block.sitting = keep(choice, { ...event.opaque, on: "text" });
        break;
      case "reasoning":
        block.thought = { texts: [], part: 0, summary: event.summary === true, redacted: event.redacted === true };
        choice.thoughts.push(block.thought);
        break;
      case "tool_call":
        this.call(block, event);
        break;
      case "media":
        block.media = event.media;
        if (event.mime !== undefined) block.mime = event.mime;
        break;
      case "server":
        if (!event.result) this.context.drop(event.name, "Chat Completions does not show calls of the vendor's tools");
        break;
      case "refusal":
        choice.refused = true;
    }
  }

  private call(block: Block, event: EventOf<"open"> & { kind: "tool_call" }): void {
    const { choice } = block;
    block.custom = event.custom === true;
    if (this.legacy && choice.calls > 0) {
      this.context.drop("function_call", "a client of functions takes one call an answer");
      return;
    }
    block.call = choice.calls++;
    const name = JSON.stringify(event.name);
    if (this.legacy) {
      if (event.opaque) this.context.drop("function_call", "an older call has no place for what its vendor needs back");
      this.say(choice, `"function_call":{"name":${name},"arguments":""}`);
      return;
    }
    const id = event.id ?? this.nextId();
    const extra = event.opaque ? this.onCall(choice, id, event.opaque) : "";
    const inner = block.custom
      ? `"type":"custom","custom":{"name":${name},"input":""}`
      : `"type":"function","function":{"name":${name},"arguments":""}`;
    this.say(choice, `"tool_calls":[{"index":${block.call},"id":${JSON.stringify(id)},${inner}${extra}}]`);
  }

  private onCall(choice: Choice, call: string, opaque: Opaque): string {
    const sitting: Opaque = { ...opaque, on: { call } };
    keep(choice, sitting);
    this.context.remember(call, opaque);
    return `,"extra_content":{"google":{"thought_signature":"${this.context.seal(sitting)}"}}`;
  }

  private grow(block: Block | undefined, text: string): void {
    if (block?.call === undefined) return;
    block.grown = true;
    const json = JSON.stringify(text);
    const inner = block.custom ? `"custom":{"input":${json}}` : `"function":{"arguments":${json}}`;
    const call = `"tool_calls":[{"index":${block.call},${inner}}]`;
    this.say(block.choice, this.legacy ? `"function_call":{"arguments":${json}}` : call);
  }

  private text(event: EventOf<"text">): void {
    const block = this.blocks.get(event.block);
    if (!block) return;
    const { choice, kind, thought } = block;
    if (thought) {
      this.say(choice, `"reasoning_content":${JSON.stringify(thoughtOf(thought, event))}`);
      return;
    }
    const member = kind === "refusal" ? "refusal" : "content";
    if (kind === "text") choice.content += event.text.length;
    const logprobs = event.logprobs === undefined ? "null" : likelihoods(member, event.logprobs);
    this.say(choice, `"${member}":${JSON.stringify(event.text)}`, "null", "null", logprobs);
  }

  /** Pictures as OpenRouter has them; sound as OpenAI has it. */
  private media(block: Block | undefined, event: EventOf<"media">): void {
    if (!block) return;
    const { media, mime, choice } = block;
    if (media === "audio" && event.base64 !== undefined)
      this.say(choice, `"audio":{"id":"audio_${this.context.id}","data":${JSON.stringify(event.base64)}}`);
    else if (media === "image") {
      const url = event.url ?? dataUrl(mime ?? "image/png", event.base64 ?? "");
      this.say(choice, `"images":[{"type":"image_url","image_url":{"url":${JSON.stringify(url)}}}]`);
    } else this.context.drop(media ?? "media", "Chat Completions has no place for it");
  }

  private close(block: Block | undefined): void {
    if (!block) return;
    const { choice, before, sitting, kind } = block;
    // A call without arguments has an empty object of them.
    if (kind === "tool_call" && !block.grown && !block.custom) this.grow(block, "{}");
    const length = choice.content - before;
    if (sitting && before > 0 && length === 0) sitting.behind = true;
    // A source without a span backs the whole text.
    if (block.cited.some(({ url }) => url === undefined))
      this.context.drop("annotations", "a source without an address has no place in Chat Completions");
    for (const citation of block.cited.filter(({ url }) => url !== undefined))
      choice.annotations.push(annotationOf({ start: 0, end: length, ...citation }, before));
  }

  private finish(event: EventOf<"finish">): void {
    const choice = this.choice(event.choice);
    const members: string[] = [];
    const details = choice.thoughts.flatMap((thought, index) => this.detailsOf(thought, index));
    if (details.length > 0) members.push(`"reasoning_details":${JSON.stringify(details)}`);
    if (choice.annotations.length > 0) members.push(`"annotations":${JSON.stringify(choice.annotations)}`);
    if (members.length > 0) this.say(choice, members.join(","));
    declareEnd(event, choice.refused, this.context);
    // What was kept for the end is told.
    this.choices.delete(event.choice);
    this.say(choice, "", "null", `"${this.wordOf(event, choice)}"`);
  }

  private wordOf({ reason }: EventOf<"finish">, { refused }: Choice): string {
    if (reason === "refusal" && refused) return "stop";
    return reason === "tool_calls" && this.legacy ? "function_call" : FINISH_WORDS[reason];
  }

  private detailsOf({ opaque, texts, summary, redacted, behind }: Thought, index: number): JsonObject[] {
    if (!opaque) return [];
    const text = texts.join("");
    const uses = redacted || (summary && text === "") ? {} : summary ? { summary: text } : { text };
    return detailsOf(this.context.seal(opaque), index, { ...uses, ...(behind ? { behind } : {}) });
  }
}

/** State that sits on a call or text goes beside the thoughts, for clients that keep nothing on those. */
function keep(choice: Choice, opaque: Opaque): Thought {
  const thought: Thought = { texts: [], part: 0, summary: false, redacted: true, opaque };
  choice.thoughts.push(thought);
  return thought;
}

/** More of a thought; parts of a summary are paragraphs. */
function thoughtOf(thought: Thought, { text, part }: EventOf<"text">): string {
  const next = part !== undefined && part > thought.part && thought.texts.length > 0;
  if (part !== undefined) thought.part = part;
  const more = next ? `\n\n${text}` : text;
  thought.texts.push(more);
  return more;
}

/** Likelihoods of the tokens of content or refusal. */
function likelihoods(member: "content" | "refusal", tokens: unknown): string {
  const json = JSON.stringify(tokens);
  return member === "content" ? `{"content":${json},"refusal":null}` : `{"content":null,"refusal":${json}}`;
}
