import {
  asList,
  asObject,
  asText,
  type Encoder,
  type Event,
  type EventOf,
  type FinishReason,
  type JsonObject,
  type Usage,
  type Wish,
  type Written,
} from "model-gateway";
import { asksUsage } from "../openai/chunks.ts";
import { writeUsage } from "../openai/usage.ts";

const WORDS: Readonly<Record<FinishReason, string>> = {
  stop: "stop",
  length: "length",
  tool_calls: "stop",
  content_filter: "content_filter",
  refusal: "content_filter",
  stop_sequence: "stop",
  pause: "stop",
  context_window: "length",
  malformed_call: "stop",
  other: "stop",
};

/** More of one choice's text, or its end. */
interface Piece {
  choice: number;
  text: string;
  logprobs?: Likelihoods;
  finish: string | null;
}

/** Likelihoods of tokens as text completions have them: lists side by side. */
interface Likelihoods {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: JsonObject[] | null;
  text_offset: number[];
}

/** Tells events as pieces of text. Text and refusals are text here; nothing else has a place. */
class Texts {
  used: Usage | undefined;
  id = "";
  created = 0;
  /** By block: its choice, or undefined where nothing of it is told. */
  private readonly blocks: (number | undefined)[] = [];
  /** By choice: characters so far. */
  private readonly lengths = new Map<number, number>();
  private readonly echo: string;

  constructor(private readonly wish: Wish) {
    const { prompt } = wish.request;
    this.echo = wish.request["echo"] === true ? (asText(prompt) ?? asText(asList(prompt)[0]) ?? "") : "";
  }

  /** The pieces an event adds. */
  tell(event: Event): Piece[] {
    switch (event.type) {
      case "start":
        this.id = event.id === "" ? this.wish.id : event.id;
        if (!this.id.startsWith("cmpl-")) this.id = `cmpl-${this.id}`;
        this.created = event.created ?? this.wish.created;
        return [];
      case "open":
        return this.open(event);
      case "text": {
        const choice = this.blocks[event.block];
        return choice === undefined ? [] : [this.text(choice, event)];
      }
      case "usage":
        this.used = event.usage;
        return [];
      case "finish":
        return [...this.begun(event.choice), { choice: event.choice, text: "", finish: WORDS[event.reason] }];
      case "unsaid":
        this.wish.lose(event.path, "text completions have no place for it");
        return [];
      default:
        return [];
    }
  }

  private open(event: EventOf<"open">): Piece[] {
    const told = event.kind === "text" || event.kind === "refusal";
    this.blocks[event.block] = told ? event.choice : undefined;
    if (!told) this.wish.lose(event.kind, "text completions hold text only");
    return told ? this.begun(event.choice) : [];
  }

  /** The prompt, where the client wants it before the answer. */
  private begun(choice: number): Piece[] {
    if (this.lengths.has(choice)) return [];
    this.lengths.set(choice, this.echo.length);
    return this.echo === "" ? [] : [{ choice, text: this.echo, finish: null }];
  }

  private text(choice: number, { text, logprobs }: EventOf<"text">): Piece {
    const offset = this.lengths.get(choice) ?? 0;
    this.lengths.set(choice, offset + text.length);
    if (!Array.isArray(logprobs)) return { choice, text, finish: null };
    return { choice, text, finish: null, logprobs: likelihoods(logprobs, offset, (this.wish.asked.logprobs ?? 0) > 0) };
  }
}

function likelihoods(tokens: readonly unknown[], start: number, top: boolean): Likelihoods {
  let offset = start;
  const lists: Likelihoods = { tokens: [], token_logprobs: [], top_logprobs: top ? [] : null, text_offset: [] };
  for (const value of tokens) {
    const token = asObject(value) ?? {};
    const text = asText(token["token"]) ?? "";
    lists.tokens.push(text);
    lists.token_logprobs.push(typeof token["logprob"] === "number" ? token["logprob"] : null);
    lists.text_offset.push(offset);
    offset += text.length;
    const others = asList(token["top_logprobs"]).map((other) => asObject(other) ?? {});
    lists.top_logprobs?.push(Object.fromEntries(others.map((other) => [other["token"], other["logprob"]])));
  }
  return lists;
}

/** Writes a stream of text completions. Usage is told where the client asked for it, in a last chunk without choices. */
export function encoder(wish: Wish): Encoder {
  const texts = new Texts(wish);
  const counts = asksUsage(wish.request);
  const model = JSON.stringify(wish.model);
  const chunk = (choices: string, usage: string): Written => {
    const head = `{"id":${JSON.stringify(texts.id)},"object":"text_completion","created":${texts.created},"model":${model}`;
    return { data: `${head},"choices":[${choices}]${counts ? `,"usage":${usage}` : ""}}` };
  };
  return {
    event(event, out) {
      for (const { choice, text, logprobs, finish } of texts.tell(event)) {
        const likely = logprobs ? JSON.stringify(logprobs) : "null";
        const reason = JSON.stringify(finish);
        const said = `{"index":${choice},"text":${JSON.stringify(text)},"logprobs":${likely},"finish_reason":${reason}}`;
        out.push(chunk(said, "null"));
      }
      if (event.type !== "end") return;
      if (counts && texts.used) out.push(chunk("", JSON.stringify(writeUsage(texts.used))));
      out.push({ data: "[DONE]" });
    },
  };
}

/** Writes a whole text completion: its pieces put together. */
export function encode(events: readonly Event[], wish: Wish): string {
  const texts = new Texts(wish);
  const choices = new Map<
    number,
    { text: string; index: number; logprobs: Likelihoods | null; finish_reason: string | null }
  >();
  for (const piece of events.flatMap((event) => texts.tell(event))) {
    const choice = choices.get(piece.choice) ?? { text: "", index: piece.choice, logprobs: null, finish_reason: null };
    choices.set(piece.choice, choice);
    choice.text += piece.text;
    choice.finish_reason = piece.finish ?? choice.finish_reason;
    if (piece.logprobs) choice.logprobs = together(choice.logprobs, piece.logprobs);
  }
  const { id, created, used } = texts;
  return JSON.stringify({
    id,
    object: "text_completion",
    created,
    model: wish.model,
    choices: [...choices.values()].sort((a, b) => a.index - b.index),
    ...(used ? { usage: writeUsage(used) } : {}),
  });
}

const together = (before: Likelihoods | null, more: Likelihoods): Likelihoods =>
  before
    ? {
        tokens: [...before.tokens, ...more.tokens],
        token_logprobs: [...before.token_logprobs, ...more.token_logprobs],
        top_logprobs: before.top_logprobs && [...before.top_logprobs, ...(more.top_logprobs ?? [])],
        text_offset: [...before.text_offset, ...more.text_offset],
      }
    : more;
