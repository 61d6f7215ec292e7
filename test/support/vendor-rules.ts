import { asList, asObject, asText, type JsonObject } from "../../src/wire/values.ts";

/**
 * The vendors' rules for requests, from their documents and SDK types: an independent check of the bodies that the gateway
 * writes. Each judge returns the faults it finds, with their places.
 */

type Fault = string;
type Judge = (body: JsonObject, task: "generate" | "count") => Fault[];

const ID = /^[a-zA-Z0-9_-]{1,64}$/;

/** Collects faults with their places. */
class Court {
  readonly faults: Fault[] = [];

  need(condition: unknown, place: string, rule: string): void {
    if (!condition) this.faults.push(`${place}: ${rule}`);
  }

  /** Vendors refuse unknown members. */
  only(object: JsonObject, place: string, names: string): void {
    const known = new Set(names.split(" "));
    for (const name of Object.keys(object)) this.need(known.has(name), `${place}.${name}`, "is not a member of it");
  }

  /** Each call has its result in the next turn, and each result its call. */
  pairs(calls: readonly string[], results: readonly string[], place: string): void {
    for (const id of calls) this.need(results.includes(id), place, `the call ${id} has no result`);
    for (const id of results) this.need(calls.includes(id), place, `the result ${id} has no call`);
    this.need(new Set(calls).size === calls.length, place, "two calls with one id");
  }
}

/** A number in the body, if present, must be from 0 to a limit. */
function within(court: Court, body: JsonObject, name: string, most: number): void {
  const value = body[name];
  court.need(value === undefined || (Number(value) >= 0 && Number(value) <= most), name, `0 to ${most}`);
}

/** Vendors fetch only addresses on the web. */
function webAddress(court: Court, url: unknown, place: string, more = /^$/): void {
  const known = url === undefined || /^https?:\/\//i.test(String(url)) || more.test(String(url).slice(0, 100));
  court.need(known, place, `no address: ${String(url).slice(0, 30)}`);
}

const objects = (value: unknown): JsonObject[] => asList(value).map((each) => asObject(each) ?? {});
const isObject = (value: unknown): boolean => asObject(value) !== undefined;

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

const ANTHROPIC_BLOCKS: Record<string, string> = {
  text: "type text cache_control citations",
  image: "type source cache_control",
  document: "type source title context citations cache_control",
  search_result: "type source title content citations cache_control",
  thinking: "type thinking signature",
  redacted_thinking: "type data",
  tool_use: "type id name input cache_control caller",
  tool_result: "type tool_use_id content is_error cache_control",
};

function anthropicBlock(court: Court, block: JsonObject, place: string): void {
  const type = String(block["type"]);
  const members = ANTHROPIC_BLOCKS[type];
  court.need(members, place, `${type} is no block`);
  if (members) court.only(block, place, members);
  if (type === "text") court.need(asText(block["text"]), place, "an empty text");
  if (block["is_error"] === true && typeof block["content"] !== "string")
    court.need(
      objects(block["content"]).every((inner) => inner["type"] === "text"),
      place,
      "a failed result with other than texts",
    );
  if (type === "thinking") court.need(asText(block["signature"]), place, "a thought without a signature");
  if (type === "tool_use") {
    court.need(/^[a-zA-Z0-9_-]{1,64}$/.test(String(block["id"])), place, "the id has other characters");
    court.need(/^[a-zA-Z0-9_-]{1,128}$/.test(String(block["name"])), place, "the name has other characters");
    court.need(isObject(block["input"]), place, "the input is no object");
  }
  if (type === "tool_result" && Array.isArray(block["content"]))
    for (const [i, each] of objects(block["content"]).entries()) anthropicBlock(court, each, `${place}.content.${i}`);
  if (type === "image" || type === "document") {
    const source = asObject(block["source"]) ?? {};
    court.need(
      ["base64", "url", "text", "content", "file"].includes(String(source["type"])),
      place,
      "a strange source",
    );
    webAddress(court, source["url"], place);
    if (type === "image" && source["type"] === "base64")
      court.need(/^image\/(jpeg|png|gif|webp)$/.test(String(source["media_type"])), place, "a strange image type");
  }
}

const anthropic: Judge = (body, task) => {
  const court = new Court();
  court.only(
    body,
    "body",
    "model max_tokens messages system tools tool_choice thinking output_config stop_sequences temperature top_p top_k metadata service_tier cache_control stream",
  );
  if (task === "generate") court.need(Number(body["max_tokens"]) >= 1, "max_tokens", "is required");
  const messages = objects(body["messages"]);
  court.need(messages.length > 0, "messages", "are empty");
  let open: string[] = [];
  const made = new Set<string>();
  let before = "";
  messages.forEach((message, i) => {
    const place = `messages.${i}`;
    const role = String(message["role"]);
    court.need(["user", "assistant", "system"].includes(role), place, `${role} is no role`);
    court.need(role !== before, place, "two turns of one role");
    if (role === "system") court.need(before === "user", place, "a system message not behind a user turn");
    const next = messages[i + 1]?.["role"];
    court.need(role !== "system" || next !== "user", place, "role 'system' must precede an 'assistant' message");
    const blocks =
      typeof message["content"] === "string"
        ? [{ type: "text", text: message["content"] }]
        : objects(message["content"]);
    court.need(blocks.length > 0, place, "has no content");
    for (const [j, block] of blocks.entries()) anthropicBlock(court, block, `${place}.content.${j}`);
    const results = blocks
      .filter(({ type }) => type === "tool_result")
      .map((block) => String((block as JsonObject)["tool_use_id"]));
    const firstOther = blocks.findIndex(({ type }) => type !== "tool_result");
    court.need(
      firstOther < 0 || blocks.slice(firstOther).every(({ type }) => type !== "tool_result"),
      place,
      "results not first",
    );
    court.pairs(open, results, place);
    open = blocks.filter(({ type }) => type === "tool_use").map((block) => String((block as JsonObject)["id"]));
    for (const id of open) {
      court.need(!made.has(id), place, "a call's id a second time");
      made.add(id);
    }
    before = role;
  });
  court.pairs(open, [], "messages");
  objects(body["tools"]).forEach((tool, i) => {
    if (tool["type"] && tool["type"] !== "custom") return;
    court.only(tool, `tools.${i}`, "type name description input_schema strict cache_control");
    court.need(/^[a-zA-Z0-9_-]{1,128}$/.test(String(tool["name"])), `tools.${i}`, "a strange name");
    const schema = asObject(tool["input_schema"]) ?? {};
    court.need(schema["type"] === "object", `tools.${i}`, "the schema is no object's");
    for (const name of Object.keys(asObject(schema["properties"]) ?? {}))
      court.need(/^[a-zA-Z0-9_.-]{1,64}$/.test(name), `tools.${i}`, "a strange name of an argument");
    for (const name of ["oneOf", "anyOf", "allOf"])
      court.need(!(name in schema), `tools.${i}`, `input_schema does not support ${name} at the top level`);
  });
  within(court, body, "temperature", 1);
  within(court, body, "top_p", 1);
  const { cache_control: whole, ...marked } = body;
  const marks = JSON.stringify(marked).split('"cache_control":{').length - (whole ? 0 : 1);
  court.need(marks <= 4, "cache_control", "more than four marks");
  const budget = asObject(body["thinking"])?.["budget_tokens"];
  if (budget !== undefined)
    court.need(Number(budget) >= 1024 && Number(budget) < Number(body["max_tokens"]), "thinking", "1024 to max_tokens");
  const forced = ["any", "tool"].includes(String(asObject(body["tool_choice"])?.["type"]));
  const thinks = asObject(body["thinking"])?.["type"] === "enabled";
  court.need(!(forced && thinks), "thinking", "may not be enabled when tool_choice forces tool use");
  return court.faults;
};

const CHAT_PARTS: Record<string, string> = {
  system: "text",
  developer: "text",
  tool: "text",
  user: "text image_url input_audio file",
  assistant: "text refusal",
};

const chat: Judge = (body) => {
  const court = new Court();
  court.only(
    body,
    "body",
    "model messages tools tool_choice parallel_tool_calls max_completion_tokens max_tokens temperature top_p presence_penalty frequency_penalty logit_bias logprobs top_logprobs n stop seed response_format reasoning_effort verbosity modalities audio prediction service_tier store metadata user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options moderation web_search_options stream stream_options",
  );
  const messages = objects(body["messages"]);
  court.need(messages.length > 0, "messages", "are empty");
  let open: string[] = [];
  messages.forEach((message, i) => {
    const place = `messages.${i}`;
    const role = String(message["role"]);
    const allowed = CHAT_PARTS[role]?.split(" ");
    court.need(allowed, place, `${role} is no role`);
    court.only(
      message,
      place,
      "role content name tool_calls tool_call_id refusal audio reasoning_content reasoning_details",
    );
    for (const part of objects(message["content"])) {
      court.need(allowed?.includes(String(part["type"])), place, `a ${part["type"]} in a ${role} message`);
      webAddress(court, asObject(part["image_url"])?.["url"], place, /^data:[\w.+-]+\/[\w.+-]+;base64,/);
    }
    if (role === "tool") {
      court.need(open.includes(String(message["tool_call_id"])), place, "a result without its call");
      open = open.filter((id) => id !== message["tool_call_id"]);
      court.need(message["content"] !== null && message["content"] !== undefined, place, "no content");
      return;
    }
    court.need(open.length === 0, place, `calls without results: ${open.join(", ")}`);
    const calls = objects(message["tool_calls"]);
    open = calls.map((call) => String(call["id"]));
    court.need(message["content"] != null || calls.length > 0 || message["refusal"], place, "says nothing");
    for (const call of calls) {
      const asked = asObject(call["function"]) ?? asObject(call["custom"]) ?? {};
      court.need(ID.test(String(asked["name"])), place, `a strange name ${asked["name"]}`);
      court.need(typeof (asked["arguments"] ?? asked["input"]) === "string", place, "arguments that are no string");
      court.need(String(call["id"]).length <= 64, place, "a call id longer than 64");
    }
  });
  court.need(open.length === 0, "messages", "open calls at the end");
  objects(body["tools"]).forEach((tool, i) => {
    const asked = asObject(tool["function"]) ?? asObject(tool["custom"]);
    court.need(ID.test(String(asked?.["name"])), `tools.${i}`, "a strange name");
  });
  court.need(asList(body["stop"]).length <= 4, "stop", "more than four");
  within(court, body, "temperature", 2);
  within(court, body, "top_p", 1);
  return court.faults;
};

const ITEMS: Record<string, string> = {
  message: "type role content phase id status",
  function_call: "type call_id name arguments namespace id status",
  function_call_output: "type call_id output id status",
  custom_tool_call: "type call_id name input namespace id status",
  custom_tool_call_output: "type call_id output id status",
  reasoning: "type summary content encrypted_content id status",
};

const responses: Judge = (body, task) => {
  const court = new Court();
  court.only(
    body,
    "body",
    "model input instructions tools tool_choice parallel_tool_calls max_output_tokens temperature top_p top_logprobs text reasoning include metadata user safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options moderation service_tier store truncation stream stream_options",
  );
  if (task === "generate") court.need(body["store"] === false, "store", "is not false");
  const items = typeof body["input"] === "string" ? [] : objects(body["input"]);
  const calls = new Set<string>();
  const results = new Set<string>();
  items.forEach((item, i) => {
    const place = `input.${i}`;
    const type = String(item["type"] ?? "message");
    court.need(ITEMS[type], place, `${type} is no item`);
    if (ITEMS[type]) court.only(item, place, ITEMS[type]);
    if (type === "message")
      for (const part of objects(item["content"])) {
        const own =
          item["role"] === "assistant"
            ? ["output_text", "refusal"]
            : ["input_text", "input_image", "input_file", "input_audio"];
        court.need(own.includes(String(part["type"])), place, `a ${part["type"]} of ${item["role"]}`);
        webAddress(court, part["image_url"], place, /^data:[\w.+-]+\/[\w.+-]+;base64,/);
        webAddress(court, part["file_url"], place);
        const isNamed = part["filename"] !== undefined && part["file_data"] === undefined;
        court.need(!isNamed, place, "only one of: 'file_id' or 'filename'");
      }
    const id = String(item["call_id"]);
    if (type.endsWith("_call")) {
      court.need(ID.test(id), place, `a strange call id ${id}`);
      court.need(ID.test(String(item["name"])), place, `a strange name ${item["name"]}`);
      court.need(!calls.has(id), place, "two calls with one id");
      calls.add(id);
    }
    if (type.endsWith("_output")) {
      court.need(calls.has(id), place, "a result without its call");
      results.add(id);
    }
    if (type === "reasoning") {
      const next = items[i + 1];
      court.need(
        next &&
          (next["type"] !== "message" || next["role"] === "assistant") &&
          !String(next["type"]).endsWith("output"),
        place,
        "a thought without its item",
      );
      court.need(asText(item["encrypted_content"]), place, "a thought without its content");
    }
  });
  for (const id of calls) court.need(results.has(id), "input", `the call ${id} has no result`);
  objects(body["tools"]).forEach((tool, i) => {
    if (tool["type"] !== "function") return;
    court.need(ID.test(String(tool["name"])), `tools.${i}`, "a strange name");
    court.need(typeof tool["strict"] === "boolean", `tools.${i}`, "strict is not said");
  });
  within(court, body, "temperature", 2);
  within(court, body, "top_p", 1);
  return court.faults;
};

const GEMINI_PARTS = ["text", "inlineData", "fileData", "functionCall", "functionResponse"];

const gemini: Judge = (body) => {
  const court = new Court();
  court.only(
    body,
    "body",
    "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels serviceTier generateContentRequest",
  );
  const asked = asObject(body["generateContentRequest"]) ?? body;
  const contents = objects(asked["contents"]);
  court.need(contents.length > 0, "contents", "are empty");
  let open: string[] = [];
  let before = "";
  contents.forEach((content, i) => {
    const place = `contents.${i}`;
    const role = String(content["role"]);
    court.need(role === "user" || role === "model", place, `${role} is no role`);
    const parts = objects(content["parts"]);
    court.need(parts.length > 0, place, "has no parts");
    // All recorded requests with function results followed by a user turn were accepted.
    court.need(role !== before, place, "two turns of one role");
    before = parts.some((part) => part["functionResponse"]) ? "results" : role;
    for (const part of parts) {
      court.need(GEMINI_PARTS.filter((name) => name in part).length === 1, place, `a part of ${Object.keys(part)}`);
      court.only(
        part,
        place,
        "text inlineData fileData functionCall functionResponse thought thoughtSignature mediaResolution videoMetadata",
      );
      const media = asObject(part["inlineData"]) ?? asObject(part["fileData"]);
      court.need(!media || asText(media["mimeType"]), place, "media without a type");
      webAddress(court, asObject(part["fileData"])?.["fileUri"], place);
    }
    const results = parts.map((part) => asObject(part["functionResponse"])).filter((each) => each !== undefined);
    court.need(results.length === 0 || results.length === parts.length, place, "results beside other parts");
    for (const result of results) court.need(isObject(result["response"]), place, "a result that is no object");
    court.need(results.length === open.length, place, `${results.length} results for ${open.length} calls`);
    court.need(
      results.every(({ name }) => open.includes(String(name))),
      place,
      "a result of another function",
    );
    open = parts.flatMap((part) => {
      const call = asObject(part["functionCall"]);
      if (!call) return [];
      court.need(isObject(call["args"] ?? {}), place, "arguments that are no object");
      return [String(call["name"])];
    });
  });
  court.need(open.length === 0, "contents", "open calls at the end");
  for (const tool of objects(asked["tools"]))
    for (const each of objects(tool["functionDeclarations"])) {
      court.need(
        /^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$/.test(String(each["name"])),
        "tools",
        `a strange name ${each["name"]}`,
      );
      court.only(each, "tools", "name description parametersJsonSchema parameters");
    }
  const config = asObject(asked["generationConfig"]) ?? {};
  within(court, config, "temperature", 2);
  within(court, config, "topP", 1);
  const thinking = asObject(config["thinkingConfig"]) ?? {};
  court.need(!("thinkingBudget" in thinking && "thinkingLevel" in thinking), "thinkingConfig", "budget and level");
  return court.faults;
};

const JUDGES: Readonly<Record<string, Judge>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": anthropic,
  gemini,
};

/** Returns the faults of a request's body by a vendor's rules; empty: it is valid. */
export function faultsOf(protocol: string, text: string, task: "generate" | "count" = "generate"): Fault[] {
  const body = asObject(parsed(text));
  return body ? (JUDGES[protocol]?.(body, task) ?? []) : ["body: is no JSON object"];
}

/** Further refusals of a vendor's newest models: sampling, a final turn of their own, thinking by tokens. */
export function newestFaultsOf(protocol: string, text: string): Fault[] {
  const body = asObject(parsed(text)) ?? {};
  const court = new Court();
  const last = objects(body["messages"] ?? body["input"] ?? body["contents"]).at(-1) ?? {};
  court.need(last["role"] !== "assistant" && last["role"] !== "model", "messages", "end with the assistant's turn");
  if (protocol !== "gemini")
    for (const name of ["temperature", "top_p", "top_k"]) court.need(!(name in body), name, "is taken no more");
  court.need(asObject(body["thinking"])?.["type"] !== "enabled", "thinking", "by tokens is taken no more");
  if (protocol.startsWith("openai-"))
    for (const tool of objects(body["tools"])) functionOfOpenai(court, asObject(tool["function"]) ?? tool);
  const config = asObject(body["generationConfig"]) ?? {};
  const budget = asObject(config["thinkingConfig"])?.["thinkingBudget"];
  court.need(budget === undefined || Number(budget) < 0, "thinkingConfig", "a budget is taken no more");
  return court.faults;
}

function functionOfOpenai(court: Court, { parameters }: JsonObject): void {
  const root = asObject(parameters);
  if (!root) return;
  court.need(isObject(root["properties"]), "tools", "object schema missing properties");
  for (const name of ["oneOf", "anyOf", "allOf", "enum", "const", "not"])
    court.need(!(name in root), "tools", `schema must not have ${name} at the top level`);
  for (const each of Object.values(asObject(root["properties"]) ?? {}).map(asObject))
    court.need(each?.["type"] !== "array" || each["items"], "tools", "array schema missing items");
}

/** Returns the faults of a Chat body for a server of another vendor, most of which refuse, or pass over, what only OpenAI has. */
export function plainChatFaultsOf(text: string): Fault[] {
  const court = new Court();
  const body = asObject(JSON.parse(text)) ?? {};
  court.only(
    body,
    "body",
    "model messages tools tool_choice parallel_tool_calls max_tokens temperature top_p presence_penalty frequency_penalty logprobs top_logprobs n stop seed response_format reasoning_effort modalities image_config service_tier user stream stream_options",
  );
  for (const [i, message] of objects(body["messages"]).entries()) {
    const role = String(message["role"]);
    court.need(/^(?:system|user|assistant|tool)$/.test(role), `messages.${i}`, `${role} is no role`);
    const isList = Array.isArray(message["content"]);
    const isPlain = isList && objects(message["content"]).every(({ type }) => type === "text");
    const takesString = /^(?:system|tool)$/.test(role) || (role === "assistant" && isPlain);
    court.need(!(isList && takesString), `messages.${i}`, "a list where many take a string");
    court.need(!("refusal" in message), `messages.${i}`, "a refusal, which only OpenAI knows");
    for (const { type } of objects(message["tool_calls"]))
      court.need(type === "function", `messages.${i}`, `a call of a ${type}`);
  }
  for (const { type } of objects(body["tools"])) court.need(type === "function", "tools", `a tool that is a ${type}`);
  const chosen = asObject(body["tool_choice"]);
  court.need(chosen === undefined || chosen["type"] === "function", "tool_choice", `a choice of ${chosen?.["type"]}`);
  return court.faults;
}

/** Returns the faults of a Responses body for a server of another vendor. */
export function plainResponsesFaultsOf(text: string): Fault[] {
  const court = new Court();
  const body = asObject(JSON.parse(text)) ?? {};
  court.need(!text.includes('"prompt_cache_breakpoint"'), "input", "a mark for the prompt cache");
  for (const name of ["prompt_cache_options", "safety_identifier"]) court.need(!(name in body), name, "is unknown");
  for (const [i, { role, content }] of objects(body["input"]).entries()) {
    court.need(role !== "developer", `input.${i}`, "developer is no role");
    court.need(role !== "assistant" || typeof content === "string", `input.${i}`, "a list where many take a string");
  }
  return court.faults;
}
