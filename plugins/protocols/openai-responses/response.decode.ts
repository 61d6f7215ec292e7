import {
  asCount,
  asList,
  asObject,
  asText,
  defined,
  type Event,
  type Fault,
  type FinishReason,
  type Frame,
  GatewayError,
  type JsonObject,
  type ResponseDecoder,
  type ResponseSource,
} from "model-gateway/protocol";
import { faultIn } from "../openai/errors.ts";

export { failure } from "../openai/errors.ts";

import { Items } from "./response.items.ts";
import { Keeping, keepBody } from "./response.native.ts";
import { readUsage } from "./usage.ts";

/** Events that say nothing at all, or nothing that the end of their item does not say. */
const SILENT =
  /^(?:keepalive|response\.(?:created|queued|in_progress|\w+\.done|(?:\w*_call\w*|mcp_\w+|compaction)\..+))$/;

/** The last event of a stream. */
const LAST: ReadonlySet<string> = new Set(["response.completed", "response.incomplete", "response.failed"]);

const ENDED = /^(?:completed|incomplete|failed|cancelled)$/;
/** Not an answer. One that is still made in the background would be fetched by its id, which no other protocol can. */
const FAILED = /^(?:failed|cancelled|queued|in_progress)$/;

/** Reads a stream of response events. */
export function decoder(source: ResponseSource): ResponseDecoder {
  const items = new Items(source);
  const events = new Events(source, items);
  return source.native ? new Keeping(events, items) : events;
}

/**
 * Reads a whole response, as a stream that consists of its items and its end.
 * @throws GatewayError `upstream_invalid` when it is none
 */
export function decode(text: string, source: ResponseSource): Event[] {
  const body = parsed(text);
  if (!Array.isArray(body?.["output"])) throw new GatewayError("upstream_invalid");
  const out: Event[] = [];
  const items = new Items(source);
  out.push(startOf(body, source));
  asList(body["output"]).forEach((each, index) => {
    items.done(index, asObject(each) ?? {}, out);
  });
  finish(body, items, out);
  if (out.at(-1)?.type !== "error") out.push({ type: "end" });
  if (source.native) keepBody(body, items, out);
  return out;
}

function parsed(text: string): JsonObject | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The state of one stream. */
class Events implements ResponseDecoder {
  private started = false;
  /** A failure has been told, or the end. */
  private over = false;

  constructor(
    private readonly source: ResponseSource,
    private readonly items: Items,
  ) {}

  frame(frame: Frame, out: Event[]): void {
    if (this.over) return;
    const { text } = frame;
    // The vendor sends no such mark, others do; the answer is whole before it. [F]
    if (text === "[DONE]") return;
    if (text === undefined) {
      out.push({ type: "ping" });
      return;
    }
    try {
      this.read(frame, out);
    } catch (thrown) {
      this.fail(GatewayError.from(thrown, "upstream_invalid"), out);
    }
  }

  end(out: Event[]): void {
    if (!this.over) this.fail(new GatewayError("upstream_truncated"), out);
  }

  private fail(fault: Fault, out: Event[]): void {
    this.over = true;
    out.push({ type: "error", fault });
  }

  private start(response: unknown, out: Event[]): boolean {
    if (this.started) return false;
    this.started = true;
    out.push(startOf(asObject(response) ?? {}, this.source));
    return true;
  }

  private read(frame: Frame, out: Event[]): void {
    const json = asObject(frame.json());
    const type = asText(json?.["type"]) ?? frame.event;
    const error = asObject(json?.["error"]);
    if (json && (type === "error" || (type === undefined && error))) this.fail(faultIn(error ?? json), out);
    else if (!json || type === undefined) this.fail(new GatewayError("upstream_invalid"), out);
    else {
      const first = this.start(json["response"], out);
      if (LAST.has(type)) this.last(asObject(json["response"]) ?? {}, type, out);
      else if (this.grow(type, json, out) || this.item(type, json, out)) return;
      else if (!SILENT.test(type)) out.push({ type: "unsaid", path: type });
      else if (!first) out.push({ type: "ping" });
    }
  }

  /** Events that come once for each few letters. */
  private grow(type: string, json: JsonObject, out: Event[]): boolean {
    const index = asCount(json["output_index"]) ?? 0;
    const delta = asText(json["delta"]) ?? "";
    const place = asCount(json["content_index"] ?? json["summary_index"]) ?? 0;
    switch (type) {
      case "response.output_text.delta":
        this.items.text(index, "text", place, delta, out, json["logprobs"]);
        return true;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.items.arguments(index, delta, out);
        return true;
      case "response.reasoning_summary_text.delta":
        this.items.text(index, "summary", place, delta, out);
        return true;
      case "response.reasoning_text.delta":
        this.items.text(index, "thought", place, delta, out);
        return true;
      case "response.refusal.delta":
        this.items.text(index, "refusal", place, delta, out);
        return true;
      default:
        return false;
    }
  }

  /** Events that come a few times for each item. */
  private item(type: string, json: JsonObject, out: Event[]): boolean {
    const index = asCount(json["output_index"]) ?? 0;
    const place = asCount(json["content_index"] ?? json["summary_index"]) ?? 0;
    const part = asObject(json["part"]) ?? {};
    switch (type) {
      case "response.output_item.added":
        this.items.added(index, asObject(json["item"]) ?? {}, out);
        return true;
      case "response.output_item.done":
        this.items.done(index, asObject(json["item"]) ?? {}, out);
        return true;
      case "response.content_part.added":
      case "response.content_part.done":
        this.items.part(index, place, part, type === "response.content_part.done", out);
        return true;
      case "response.reasoning_summary_part.added":
      case "response.reasoning_summary_part.done":
        this.items.wholeText(index, "summary", place, asText(part["text"]) ?? "", out);
        return true;
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
        this.items.wholeArguments(index, asText(json["arguments"] ?? json["input"]) ?? "", out);
        return true;
      case "response.output_text.annotation.added":
        this.items.annotation(index, place, json["annotation"], out);
        return true;
      default:
        return false;
    }
  }

  private last(response: JsonObject, type: string, out: Event[]): void {
    const uses = asText(response["status"]) ?? "";
    const status = ENDED.test(uses) ? uses : type.slice("response.".length);
    this.items.rest(asList(response["output"]), out);
    finish({ ...response, status }, this.items, out);
    this.over = true;
    if (out.at(-1)?.type !== "error") out.push({ type: "end" });
  }
}

function startOf(response: JsonObject, source: ResponseSource): Event {
  const created = asCount(response["created_at"]);
  const id = asText(response["id"]) ?? "";
  return { type: "start", id, model: asText(response["model"]) || source.model, ...defined({ created }) };
}

/** How the answer ended, as status, details and items tell together, and its usage. */
function finish(response: JsonObject, items: Items, out: Event[]): void {
  const usage = readUsage(response);
  const status = asText(response["status"]) ?? "completed";
  if (FAILED.test(status)) {
    const error = asObject(response["error"]) ?? { message: `The provider's answer has the status "${status}".` };
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "error", fault: faultIn(error) });
    return;
  }
  const why = asText(asObject(response["incomplete_details"])?.["reason"]);
  out.push({ type: "finish", choice: 0, reason: reasonOf(status, why, items), raw: why ?? status });
  if (usage) out.push({ type: "usage", usage });
}

const CUT: ReadonlyMap<string | undefined, FinishReason> = new Map([
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
]);

function reasonOf(status: string, why: string | undefined, items: Items): FinishReason {
  if (status === "incomplete") return CUT.get(why) ?? "other";
  if (status !== "completed") return "other";
  if (items.called) return "tool_calls";
  return items.refused ? "refusal" : "stop";
}
