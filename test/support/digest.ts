import { asList, asObject, asText, type JsonObject } from "../../src/wire/values.ts";

/** The essence of a response, taken from what an official SDK made of it; equal in all protocols. */
export interface Digest {
  /** All text of the first choice, refusals included. */
  text: string;
  /** The free text of a custom tool is an argument named `input`. */
  calls: { name: string; args: unknown; id: string }[];
  /** The original arguments of each call, if they are a text. */
  texts: (string | undefined)[];
  /** The order of texts and calls, like `TCCT`. */
  order: string;
  finish: "stop" | "length" | "tool" | "filter";
  /** The object that holds usage, for the protocol's own reader. */
  usage: unknown;
}

type Finish = Digest["finish"];

class Gathered {
  private text = "";
  private readonly calls: Digest["calls"] = [];
  private readonly texts: Digest["texts"] = [];
  private order = "";

  say(text: unknown): void {
    if (typeof text !== "string" || text === "") return;
    this.text += text;
    if (!this.order.endsWith("T")) this.order += "T";
  }

  /** @param args a value, or JSON text */
  call(name: unknown, args: unknown, id: unknown): void {
    this.calls.push({ name: String(name), args: value(args), id: String(id) });
    this.texts.push(typeof args === "string" ? args : undefined);
    this.order += "C";
  }

  digest(finish: Finish, usage: unknown): Digest {
    // Vendors disagree whether a response with calls ends with "stop" (Gemini always, OpenAI where the tool was named).
    const told = finish === "stop" && this.calls.length > 0 ? "tool" : finish;
    return { text: this.text, calls: this.calls, texts: this.texts, order: this.order, finish: told, usage };
  }
}

/** Parses arguments; text that is not JSON stays text. */
function value(args: unknown): unknown {
  if (typeof args !== "string") return args ?? {};
  try {
    return args === "" ? {} : JSON.parse(args);
  } catch {
    return args;
  }
}

function chat(answer: JsonObject): Digest {
  const choice = asObject(asList(answer["choices"])[0]) ?? {};
  const message = asObject(choice["message"]) ?? {};
  const gathered = new Gathered();
  const { content } = message;
  // Mistral sends thoughts and text as parts.
  for (const part of Array.isArray(content) ? content.map(asObject) : [{ text: content }]) gathered.say(part?.["text"]);
  // With a filter the refusal is the reason of the end, which other protocols have elsewhere or not at all.
  if (choice["finish_reason"] !== "content_filter") gathered.say(message["refusal"]);
  for (const each of asList(message["tool_calls"])) {
    const call = asObject(each) ?? {};
    const asked = asObject(call["function"]);
    const custom = asObject(call["custom"]) ?? {};
    if (asked) gathered.call(asked["name"], asked["arguments"], call["id"]);
    else gathered.call(custom["name"], { input: custom["input"] }, call["id"]);
  }
  const legacy = asObject(message["function_call"]);
  // One vendor sends an empty one with every response.
  if (legacy?.["name"]) gathered.call(legacy["name"], legacy["arguments"], "");
  const reason = asText(choice["finish_reason"]) ?? "";
  const finish: Record<string, Finish> = {
    length: "length",
    content_filter: "filter",
    tool_calls: "tool",
    function_call: "tool",
  };
  return gathered.digest(message["refusal"] ? "filter" : (finish[reason] ?? "stop"), answer);
}

function responses(answer: JsonObject): Digest {
  const gathered = new Gathered();
  const reason = asText(asObject(answer["incomplete_details"])?.["reason"]);
  let refused = false;
  for (const each of asList(answer["output"])) {
    const item = asObject(each) ?? {};
    if (item["type"] === "message")
      for (const part of asList(item["content"]).map(asObject)) {
        if (part?.["type"] !== "refusal") gathered.say(part?.["text"]);
        // As in Chat: the reason of the end.
        else if (reason !== "content_filter") gathered.say(part["refusal"]);
        if (part?.["type"] === "refusal") refused = true;
      }
    if (item["type"] === "function_call") gathered.call(item["name"], item["arguments"], item["call_id"]);
    if (item["type"] === "custom_tool_call") gathered.call(item["name"], { input: item["input"] }, item["call_id"]);
  }
  const cut = reason === "content_filter" ? "filter" : "length";
  return gathered.digest(answer["status"] === "incomplete" ? cut : refused ? "filter" : "stop", answer);
}

function anthropic(answer: JsonObject): Digest {
  const gathered = new Gathered();
  for (const block of asList(answer["content"]).map(asObject)) {
    if (block?.["type"] === "text") gathered.say(block["text"]);
    if (block?.["type"] === "tool_use") gathered.call(block["name"], block["input"], block["id"]);
  }
  const reason = asText(answer["stop_reason"]) ?? "";
  const finish: Record<string, Finish> = {
    max_tokens: "length",
    model_context_window_exceeded: "length",
    refusal: "filter",
    tool_use: "tool",
  };
  return gathered.digest(finish[reason] ?? "stop", answer);
}

/** Gemini's reasons that are neither a normal end nor a length limit. */
const FILTERED = /SAFETY|RECITATION|BLOCKLIST|PROHIBITED|SPII|LANGUAGE|MODEL_ARMOR/;

function gemini(answer: unknown): Digest {
  const gathered = new Gathered();
  let finish: Finish = "stop";
  let usage: unknown;
  for (const chunk of (Array.isArray(answer) ? answer : [answer]).map(asObject)) {
    const candidate = asList(chunk?.["candidates"])
      .map(asObject)
      .find((each) => (each?.["index"] ?? 0) === 0);
    for (const part of asList(asObject(candidate?.["content"])?.["parts"]).map(asObject)) {
      const call = asObject(part?.["functionCall"]);
      if (call) gathered.call(call["name"], call["args"] ?? {}, call["id"]);
      else if (!part?.["thought"]) gathered.say(part?.["text"]);
    }
    const reason = asText(candidate?.["finishReason"]);
    if (reason) finish = reason === "MAX_TOKENS" ? "length" : FILTERED.test(reason) ? "filter" : "stop";
    if (asObject(chunk?.["promptFeedback"])?.["blockReason"]) finish = "filter";
    if (chunk?.["usageMetadata"]) usage = chunk;
  }
  return gathered.digest(finish, usage);
}

/** Returns the digest of an SDK's result for a protocol: a message, or for Gemini's streams the list of chunks. */
export function digest(protocol: string, answer: unknown): Digest {
  const object = asObject(answer) ?? {};
  if (protocol === "openai-chat") return chat(object);
  if (protocol === "openai-responses") return responses(object);
  if (protocol === "anthropic-messages") return anthropic(object);
  return gemini(answer);
}
