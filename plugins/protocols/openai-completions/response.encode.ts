import {
  asList,
  asObject,
  asText,
  type EncodedFrame,
  type Event,
  type EventOf,
  type JsonObject,
  type ResponseContext,
  type ResponseEncoder,
  Steps,
  type Usage,
} from "model-gateway/protocol";
import { CHAT_FINISH_REASONS, declareFinish } from "../openai/response.encode.ts";
import { requestsUsage, writeUsage } from "../openai/usage.ts";

/** A piece of one choice's text, or its end. */
interface CompletionPiece {
  choice: number;
  text: string;
  logprobs?: CompletionLogprobs;
  finish: string | null;
}

/** Logprobs in the format of text completions: parallel lists. */
interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: JsonObject[] | null;
  text_offset: number[];
}

/** Encodes events as pieces of text: texts and refusals. Nothing else can be expressed. */
class CompletionTextWriter {
  usage: Usage | undefined;
  id = "";
  created = 0;
  /** The choice of each block; undefined if the block is not written. */
  private readonly blocks: (number | undefined)[] = [];
  /** Characters written so far, by choice. */
  private readonly lengths = new Map<number, number>();
  /** Choices whose text is a refusal. */
  private readonly refused = new Set<number>();
  private readonly echo: string;
  private readonly hasTopLogprobs: boolean;

  constructor(private readonly context: ResponseContext) {
    const { prompt } = context.request;
    this.hasTopLogprobs = (context.conversation.logprobs ?? 0) > 0;
    this.echo = context.request["echo"] === true ? (asText(prompt) ?? asText(asList(prompt)[0]) ?? "") : "";
  }

  /** Returns the pieces for an event. */
  pieces(event: Event): CompletionPiece[] {
    switch (event.type) {
      case "start":
        this.id = event.id === "" ? this.context.id : event.id;
        if (!this.id.startsWith("cmpl-")) this.id = `cmpl-${this.id}`;
        this.created = event.created ?? this.context.created;
        return [];
      case "open":
        return this.open(event);
      case "text": {
        const choice = this.blocks[event.block];
        return choice === undefined ? [] : [this.text(choice, event)];
      }
      case "usage":
        this.usage = event.usage;
        return [];
      case "citation":
        this.context.drop("citations", "text completions name no sources");
        return [];
      case "finish": {
        declareFinish(event, this.refused.has(event.choice), this.context);
        // This protocol has no tool calls.
        const finish = event.reason === "tool_calls" ? "stop" : CHAT_FINISH_REASONS[event.reason];
        return [...this.echoOnce(event.choice), { choice: event.choice, text: "", finish }];
      }
      default:
        return [];
    }
  }

  private open(event: EventOf<"open">): CompletionPiece[] {
    const isText = event.kind === "text" || event.kind === "refusal";
    this.blocks[event.block] = isText ? event.choice : undefined;
    if (event.kind === "refusal") this.refused.add(event.choice);
    if (!isText) this.context.drop(event.kind, "text completions contain only text");
    return isText ? this.echoOnce(event.choice) : [];
  }

  /** Returns the prompt, where the client requested an echo. */
  private echoOnce(choice: number): CompletionPiece[] {
    if (this.lengths.has(choice)) return [];
    this.lengths.set(choice, this.echo.length);
    return this.echo === "" ? [] : [{ choice, text: this.echo, finish: null }];
  }

  private text(choice: number, { text, logprobs }: EventOf<"text">): CompletionPiece {
    const offset = this.lengths.get(choice) ?? 0;
    this.lengths.set(choice, offset + text.length);
    if (!Array.isArray(logprobs)) return { choice, text, finish: null };
    return {
      choice,
      text,
      finish: null,
      logprobs: completionLogprobs(logprobs, offset, this.hasTopLogprobs),
    };
  }
}

function completionLogprobs(tokens: readonly unknown[], start: number, top: boolean): CompletionLogprobs {
  let offset = start;
  const lists: CompletionLogprobs = { tokens: [], token_logprobs: [], top_logprobs: top ? [] : null, text_offset: [] };
  for (const value of tokens) {
    const token = asObject(value) ?? {};
    const text = asText(token["token"]) ?? "";
    lists.tokens.push(text);
    lists.token_logprobs.push(typeof token["logprob"] === "number" ? token["logprob"] : null);
    lists.text_offset.push(offset);
    offset += text.length;
    lists.top_logprobs?.push(Object.fromEntries(asList(token["top_logprobs"]).flatMap(topLogprob)));
  }
  return lists;
}

/** Returns a top token as an object's entry; none where it is not a token. */
function topLogprob(value: unknown): [token: string, logprob: unknown][] {
  const { token, logprob } = asObject(value) ?? {};
  return typeof token === "string" ? [[token, logprob]] : [];
}

/** Returns an encoder for a stream of text completions. Usage, if requested, is in a last chunk without choices. */
export function createEncoder(context: ResponseContext): ResponseEncoder {
  const writer = new CompletionTextWriter(context);
  const includesUsage = requestsUsage(context.request);
  const model = JSON.stringify(context.model);
  const chunk = (choices: string, usage: string): EncodedFrame => {
    const head = `{"id":${JSON.stringify(writer.id)},"object":"text_completion","created":${writer.created},"model":${model}`;
    return { data: `${head},"choices":[${choices}]${includesUsage ? `,"usage":${usage}` : ""}}` };
  };
  return {
    event(event, out) {
      for (const { choice, text, logprobs, finish } of writer.pieces(event)) {
        const logprobsJson = logprobs ? JSON.stringify(logprobs) : "null";
        const reason = JSON.stringify(finish);
        const json = `{"index":${choice},"text":${JSON.stringify(text)},"logprobs":${logprobsJson},"finish_reason":${reason}}`;
        out.push(chunk(json, "null"));
      }
      if (event.type !== "end") return;
      if (includesUsage && writer.usage) out.push(chunk("", JSON.stringify(writeUsage(writer.usage))));
      out.push({ data: "[DONE]" });
    },
  };
}

interface MergedCompletionChoice {
  text: string;
  index: number;
  logprobs: CompletionLogprobs | null;
  finish_reason: string | null;
}

/** Encodes a complete text completion from its pieces. */
export function* encodeResponse(events: readonly Event[], context: ResponseContext): Steps<string> {
  const completion = new CompletionMerger(context);
  yield* Steps.forEachEvent(events, (event) => completion.add(event));
  return yield* Steps.writingJson(completion.body);
}

/** Merges pieces into a complete text completion. */
class CompletionMerger {
  private readonly writer: CompletionTextWriter;
  private readonly choices = new Map<number, MergedCompletionChoice>();

  constructor(private readonly context: ResponseContext) {
    this.writer = new CompletionTextWriter(context);
  }

  add(event: Event): void {
    const { choices } = this;
    for (const piece of this.writer.pieces(event)) {
      const choice = choices.get(piece.choice) ?? {
        text: "",
        index: piece.choice,
        logprobs: null,
        finish_reason: null,
      };
      choices.set(piece.choice, choice);
      choice.text += piece.text;
      choice.finish_reason = piece.finish ?? choice.finish_reason;
      if (!piece.logprobs) continue;
      if (choice.logprobs) appendLogprobs(choice.logprobs, piece.logprobs);
      else choice.logprobs = piece.logprobs;
    }
  }

  get body(): JsonObject {
    const { id, created, usage } = this.writer;
    return {
      id,
      object: "text_completion",
      created,
      model: this.context.model,
      choices: [...this.choices.values()].sort((a, b) => a.index - b.index),
      ...(usage ? { usage: writeUsage(usage) } : {}),
    };
  }
}

/** Appends to the lists in place: a response has many pieces. */
function appendLogprobs(lists: CompletionLogprobs, added: CompletionLogprobs): void {
  for (const token of added.tokens) lists.tokens.push(token);
  for (const logprob of added.token_logprobs) lists.token_logprobs.push(logprob);
  for (const others of added.top_logprobs ?? []) lists.top_logprobs?.push(others);
  for (const offset of added.text_offset) lists.text_offset.push(offset);
}
