import {
  asList,
  asObject,
  asText,
  defined,
  type EncodedFrame,
  type Event,
  type JsonObject,
  type ResponseContext,
  type ResponseEncoder,
  type Usage,
} from "model-gateway/protocol";
import { asksUsage, writeUsage } from "../openai/usage.ts";
import { servedTier } from "../openai/wire.ts";
import { isSame, SameFrames } from "./response.same.ts";
import { Telling } from "./response.telling.ts";

/** Writes a stream of chunks. Usage is told where the client asked for it, in a last chunk without choices. */
export function encoder(context: ResponseContext): ResponseEncoder {
  return new StreamWriter(context);
}

class StreamWriter extends Telling implements ResponseEncoder {
  private same: SameFrames | undefined;
  private out: EncodedFrame[] = [];
  /** All that stands before the choices of each chunk, and behind them. */
  private before = "";
  private readonly behind: string;
  private used: Usage | undefined;
  private readonly counts: boolean;

  constructor(context: ResponseContext) {
    super(context);
    this.counts = asksUsage(context.request);
    this.behind = this.counts ? ',"usage":null}' : "}";
  }

  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    this.out = out;
    if (this.same || isSame(event)) this.again(event, out);
    else this.write(event, out);
  }

  private write(event: Event, out: EncodedFrame[]): void {
    switch (event.type) {
      case "start": {
        const { id, created } = this.head(event);
        const [ownId, model] = [JSON.stringify(id), JSON.stringify(this.context.model)];
        this.before = `{"id":${ownId},"object":"chat.completion.chunk","created":${created},"model":${model},"choices":[`;
        break;
      }
      case "usage":
        this.used = event.usage;
        break;
      case "end":
        if (this.counts && this.used)
          out.push({ data: `${this.before}],${JSON.stringify(spent(this.used)).slice(1)}` });
        out.push({ data: "[DONE]" });
        break;
      default:
        this.tell(event);
    }
  }

  protected add(choice: number, members: string, finish: string, logprobs: string): void {
    const rest = `"delta":{${members}},"logprobs":${logprobs},"finish_reason":${finish}}]`;
    this.out.push({ data: `${this.before}{"index":${choice},${rest}${this.behind}` });
  }

  /** The very frames that were read; all at the end. */
  private again(event: Event, out: EncodedFrame[]): void {
    this.same ??= new SameFrames();
    this.same.event(event);
    if (event.type === "end") out.push(...this.same.written());
  }
}

/** Writes a whole completion: what a reader of the stream holds at its end, and usage in any case. */
export function encode(events: readonly Event[], context: ResponseContext): string {
  if (events.some(isSame)) {
    const same = new SameFrames();
    for (const event of events) same.event(event);
    return same.written()[0]?.data ?? "{}";
  }
  const writer = new WholeWriter(context);
  for (const event of events) writer.event(event);
  return JSON.stringify(writer.body);
}

/** What an answer took, and the tier that served it where the provider told one. */
const spent = (usage: Usage): JsonObject => ({
  usage: writeUsage(usage),
  ...defined({ service_tier: servedTier(usage) }),
});

interface Folded {
  index: number;
  message: JsonObject;
  logprobs: JsonObject | null;
  finish_reason: unknown;
}

class WholeWriter extends Telling {
  readonly body: JsonObject = { id: "", object: "chat.completion", created: 0, model: this.context.model, choices: [] };
  private readonly folded = new Map<number, Folded>();

  event(event: Event): void {
    if (event.type === "start") Object.assign(this.body, this.head(event));
    else if (event.type === "usage") Object.assign(this.body, spent(event.usage));
    else if (event.type === "end") this.body["choices"] = [...this.folded.values()].sort((a, b) => a.index - b.index);
    else this.tell(event);
  }

  protected add(index: number, members: string, finish: string, logprobs: string): void {
    let choice = this.folded.get(index);
    if (!choice) {
      choice = { index, message: {}, logprobs: null, finish_reason: null };
      this.folded.set(index, choice);
    }
    fold(choice.message, JSON.parse(`{${members}}`) as JsonObject);
    if (logprobs !== "null") {
      choice.logprobs ??= { content: null, refusal: null };
      fold(choice.logprobs, JSON.parse(logprobs) as JsonObject);
    }
    if (finish !== "null") choice.finish_reason = JSON.parse(finish);
  }
}

/** Adds a delta to a message as the SDKs do: texts and lists grow, calls grow by their index. */
function fold(message: JsonObject, delta: JsonObject): void {
  for (const [name, value] of Object.entries(delta)) {
    if (value === null) message[name] ??= null;
    else if (name === "tool_calls") foldCalls(message, asList(value));
    else if (name === "function_call" || name === "audio") foldInner(message, name, asObject(value) ?? {});
    else if (Array.isArray(value)) extend(message, name, value);
    else if (name === "role" || asText(message[name]) === undefined) message[name] = value;
    else message[name] = `${message[name]}${value}`;
  }
}

function foldCalls(message: JsonObject, deltas: readonly unknown[]): void {
  const calls = (message["tool_calls"] as JsonObject[] | undefined) ?? [];
  message["tool_calls"] = calls;
  for (const value of deltas) {
    const { index, ...call } = value as JsonObject & { index: number };
    const known = calls[index];
    if (known === undefined) calls[index] = call;
    else for (const kind of ["function", "custom"]) if (call[kind]) foldInner(known, kind, call[kind] as JsonObject);
  }
}

/** Adds the texts that grow in an object within; the others stay. */
function foldInner(outer: JsonObject, name: string, more: JsonObject): void {
  const inner = asObject(outer[name]) ?? {};
  outer[name] = inner;
  for (const [member, value] of Object.entries(more))
    inner[member] = ["arguments", "input", "data"].includes(member) ? `${inner[member] ?? ""}${value}` : value;
}

/** Adds to a list in place: an answer has many pieces. */
function extend(message: JsonObject, name: string, more: readonly unknown[]): void {
  const list = message[name];
  if (Array.isArray(list)) for (const each of more) list.push(each);
  else message[name] = more;
}
