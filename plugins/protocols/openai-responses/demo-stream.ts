import {
  asList,
  asObject,
  asText,
  DEMO_CUT,
  type DemoFrame,
  type DemoScript,
  demoPause,
  eventBytes,
  Frame,
  type JsonObject,
  type Operation,
} from "model-gateway/protocol";
import { FAILURE, halves } from "../openai/demo.ts";
import { streamError } from "./errors.ts";

/** Events in order, numbered. */
class Events {
  readonly frames: DemoFrame[] = [];

  add(type: string, members: JsonObject, after = 0): void {
    const bytes = eventBytes({ type, sequence_number: this.frames.length, ...members }, type);
    this.frames.push({ after, bytes });
  }
}

/** The stream whose sum is the given response: each item is added, grows and is done, then the whole is repeated. */
export function eventsOf(whole: JsonObject, script: DemoScript<unknown>, operation: Operation): DemoFrame[] {
  const events = new Events();
  const begun = {
    ...whole,
    status: "in_progress",
    completed_at: null,
    incomplete_details: null,
    output: [],
    usage: null,
  };
  events.add("response.created", { response: begun });
  events.add("response.in_progress", { response: begun });
  const breaks = script.end === "cut" || script.end === "error";
  asList(whole["output"]).forEach((entry, index) => {
    addItem(events, asObject(entry) ?? {}, index, script, breaks);
  });
  if (script.end === "cut") return [...events.frames, DEMO_CUT];
  if (script.end === "error") return [...events.frames, { bytes: failure(events.frames, operation) }];
  events.add(`response.${String(whole["status"])}`, { response: whole });
  return events.frames;
}

function failure(frames: readonly DemoFrame[], operation: Operation): Buffer {
  const bytes = (frame: DemoFrame | undefined) => Buffer.from(frame?.bytes ?? "");
  const last = new Frame("event", bytes(frames.at(-1)));
  return streamError(FAILURE, "", { operation, frames: frames.length, first: bytes(frames[0]), last });
}

function addItem(events: Events, item: JsonObject, index: number, script: DemoScript<unknown>, breaks: boolean): void {
  const at = { item_id: item["id"], output_index: index };
  const added = (empty: JsonObject) => {
    const status = "status" in item ? { status: "in_progress" } : {};
    events.add("response.output_item.added", { output_index: index, item: { ...item, ...empty, ...status } });
  };
  switch (item["type"]) {
    case "reasoning":
      added({ summary: [] });
      addSummary(events, item, at);
      break;
    case "message":
      added({ content: [] });
      addText(events, item, at, script, breaks);
      break;
    case "function_call":
      added({ arguments: "" });
      addInput(events, at, "response.function_call_arguments", "arguments", item);
      break;
    case "custom_tool_call":
      added({ input: "" });
      addInput(events, at, "response.custom_tool_call_input", "input", item);
      break;
    default:
      added({});
  }
  if (!breaks) events.add("response.output_item.done", { output_index: index, item });
}

function addSummary(events: Events, item: JsonObject, at: JsonObject): void {
  const place = { ...at, summary_index: 0 };
  const text = asText(asObject(asList(item["summary"])[0])?.["text"]) ?? "";
  events.add("response.reasoning_summary_part.added", { ...place, part: { type: "summary_text", text: "" } });
  for (const delta of text.match(/\s*\S+/g) ?? [])
    events.add("response.reasoning_summary_text.delta", { ...place, delta });
  events.add("response.reasoning_summary_text.done", { ...place, text });
  events.add("response.reasoning_summary_part.done", { ...place, part: { type: "summary_text", text } });
}

function addText(events: Events, item: JsonObject, at: JsonObject, script: DemoScript<unknown>, breaks: boolean): void {
  const place = { ...at, content_index: 0 };
  const part = asObject(asList(item["content"])[0]) ?? {};
  events.add("response.content_part.added", { ...place, part: { ...part, text: "" } });
  script.pieces.forEach((delta, n) => {
    events.add("response.output_text.delta", { ...place, delta, logprobs: [] }, demoPause(script, n));
  });
  if (breaks) return;
  events.add("response.output_text.done", { ...place, text: part["text"], logprobs: [] });
  events.add("response.content_part.done", { ...place, part });
}

/** The call's input in two halves. */
function addInput(events: Events, at: JsonObject, type: string, member: string, item: JsonObject): void {
  const input = asText(item[member]) ?? "";
  for (const delta of halves(input)) events.add(`${type}.delta`, { ...at, delta });
  events.add(`${type}.done`, { ...at, [member]: input });
}
