import {
  asList,
  asObject,
  asText,
  type JsonObject,
  type JsonPath,
  type OpaquePlace,
  type OpaquePlaces,
  ownProperty,
  type Protocol,
  type TextKind,
  type TextPlace,
} from "model-gateway/protocol";
import { summaryText } from "./request.decode.ts";
import { COMPACTION } from "./wire.ts";

/** Positions of human text in requests, responses and events. */
export const texts: NonNullable<Protocol["texts"]> = {
  request: requestTexts,
  response: responseTexts,
  names: {
    containers: [
      "input",
      "prompt",
      "content",
      "summary",
      "output",
      "outputs",
      "action",
      "actions",
      "queries",
      "results",
      "operation",
    ],
    // Variables have names of the client's own.
    members: [
      "variables",
      "instructions",
      "role",
      "type",
      "text",
      "refusal",
      "arguments",
      "reason",
      "query",
      "commands",
      "command",
      "code",
      "logs",
      "stdout",
      "stderr",
      "diff",
      "revised_prompt",
    ],
  },
};

function* requestTexts(body: unknown): Generator<TextPlace> {
  const { instructions, input, prompt } = asObject(body) ?? {};
  if (typeof instructions === "string") yield { path: ["instructions"], kind: "system" };
  if (typeof input === "string") yield { path: ["input"], kind: "user" };
  yield* itemsTexts(input, ["input"]);
  yield* stringsAt(prompt, ["variables", "*"], ["prompt"], { kind: "user" });
  yield* stringsAt(prompt, ["variables", "*", "text"], ["prompt"], { kind: "user" });
}

function* itemsTexts(items: unknown, at: JsonPath): Generator<TextPlace> {
  for (const [i, item] of asList(items).entries()) yield* itemTexts(asObject(item) ?? {}, [...at, i]);
}

const KIND_BY_ROLE: ReadonlyMap<unknown, TextKind> = new Map([
  ["assistant", "assistant"],
  ["system", "system"],
  ["developer", "system"],
]);

/** The texts at a path of an item; `*` is every element or member. */
type ItemTexts = readonly [path: string, kind: TextKind, json?: true];

const SUMMARY_TEXTS: ItemTexts = ["summary.*.text", "reasoning"];
const ARGUMENTS: ItemTexts = ["arguments", "tool_call", true];

/** Texts of items other than messages, by type. [S: ResponseInputItem, ResponseOutputItem] */
const ITEM_TEXTS: Readonly<Record<string, readonly ItemTexts[]>> = {
  reasoning: [SUMMARY_TEXTS, ["content.*.text", "reasoning"]],
  function_call: [ARGUMENTS],
  custom_tool_call: [["input", "tool_call"]],
  mcp_call: [ARGUMENTS, ["output", "tool_result"]],
  mcp_approval_request: [ARGUMENTS],
  mcp_approval_response: [["reason", "user"]],
  web_search_call: [
    ["action.query", "tool_call"],
    ["action.queries.*", "tool_call"],
  ],
  file_search_call: [
    ["queries.*", "tool_call"],
    ["results.*.text", "tool_result"],
  ],
  code_interpreter_call: [
    ["code", "tool_call"],
    ["outputs.*.logs", "tool_result"],
  ],
  local_shell_call: [["action.command.*", "tool_call"]],
  local_shell_call_output: [["output", "tool_result"]],
  shell_call: [["action.commands.*", "tool_call"]],
  shell_call_output: [
    ["output.*.stdout", "tool_result"],
    ["output.*.stderr", "tool_result"],
  ],
  apply_patch_call: [["operation.diff", "tool_call"]],
  apply_patch_call_output: [["output", "tool_result"]],
  computer_call: [
    ["action.text", "tool_call"],
    ["actions.*.text", "tool_call"],
  ],
  image_generation_call: [["revised_prompt", "assistant"]],
};

function* itemTexts(item: JsonObject, at: JsonPath): Generator<TextPlace> {
  const type = asText(item["type"]) ?? "message";
  if (type === "message")
    yield* contentTexts(item["content"], [...at, "content"], KIND_BY_ROLE.get(item["role"]) ?? "user");
  else if (type === "function_call_output" || type === "custom_tool_call_output")
    yield* contentTexts(item["output"], [...at, "output"], "tool_result");
  else
    for (const [path, kind, json] of ownProperty(ITEM_TEXTS, type) ?? [])
      yield* stringsAt(item, path.split("."), at, json ? { kind, json } : { kind });
}

/** Returns the texts of a message or of a tool's output: a string, or a list of parts. */
function* contentTexts(content: unknown, at: JsonPath, kind: TextKind): Generator<TextPlace> {
  if (typeof content === "string") yield { path: at, kind };
  for (const [i, part] of asList(content).entries()) yield* partTexts(part, [...at, i], kind);
}

function* partTexts(part: unknown, at: JsonPath, kind: TextKind): Generator<TextPlace> {
  for (const name of ["text", "refusal"]) yield* stringsAt(part, [name], at, { kind });
}

/** Returns the strings at a path; `*` in it is every element of a list or member of an object. */
function* stringsAt(
  value: unknown,
  [name, ...innerPath]: readonly string[],
  at: JsonPath,
  place: Omit<TextPlace, "path">,
): Generator<TextPlace> {
  if (name === undefined) {
    if (typeof value === "string") yield { path: at, ...place };
  } else if (typeof value === "object" && value !== null) {
    const names = name === "*" ? (Array.isArray(value) ? value.keys() : Object.keys(value)) : [name];
    for (const key of names) yield* stringsAt((value as JsonObject)[key], innerPath, [...at, key], place);
  }
}

/** Streamed texts, by event name: the member with the whole text at its end, and the kind. */
const STREAMED_TEXTS: Readonly<Record<string, ItemTexts>> = {
  "response.output_text": ["text", "assistant"],
  "response.refusal": ["refusal", "assistant"],
  "response.reasoning_text": ["text", "reasoning"],
  "response.reasoning_summary_text": ["text", "reasoning"],
  "response.function_call_arguments": ARGUMENTS,
  "response.mcp_call_arguments": ARGUMENTS,
  "response.custom_tool_call_input": ["input", "tool_call"],
  "response.code_interpreter_call_code": ["code", "tool_call"],
};

const REASONING_PARTS: ReadonlySet<unknown> = new Set(["reasoning_text", "summary_text"]);

function* responseTexts(json: unknown): Generator<TextPlace> {
  const body = asObject(json) ?? {};
  const { type, item, part, response } = body;
  if (item !== undefined) yield* itemTexts(asObject(item) ?? {}, ["item"]);
  else if (part !== undefined)
    yield* partTexts(part, ["part"], REASONING_PARTS.has(asObject(part)?.["type"]) ? "reasoning" : "assistant");
  else if (response !== undefined) yield* bodyTexts(asObject(response) ?? {}, ["response"]);
  else if (typeof type === "string") yield* streamedTexts(type, body);
  else yield* bodyTexts(body, []);
}

function* bodyTexts({ instructions, output }: JsonObject, at: JsonPath): Generator<TextPlace> {
  if (typeof instructions === "string") yield { path: [...at, "instructions"], kind: "system" };
  yield* itemsTexts(instructions, [...at, "instructions"]);
  yield* itemsTexts(output, [...at, "output"]);
}

function* streamedTexts(type: string, event: JsonObject): Generator<TextPlace> {
  const dot = type.lastIndexOf(".");
  const [textMember, kind, json] = ownProperty(STREAMED_TEXTS, type.slice(0, dot)) ?? [];
  if (textMember === undefined || kind === undefined) return;
  const place = json ? { kind, json } : { kind };
  if (type.endsWith(".done")) yield* stringsAt(event, [textMember], [], place);
  else if (type.endsWith(".delta")) {
    const { output_index, item_id, content_index, summary_index } = event;
    // Imitations of the protocol may omit the index. [S: llama.cpp]
    const item = output_index ?? item_id ?? 0;
    // A text and a refusal, or a summary and the reasoning itself, number their parts separately.
    const piece = `${item} ${type.slice("response.".length, dot)} ${content_index ?? summary_index ?? 0}`;
    yield* stringsAt(event, ["delta"], [], { ...place, piece });
  }
}

/** Positions of reasoning and compactions in requests that only their provider can read. */
export const opaque: OpaquePlaces = { find: opaquePlaces };

function* opaquePlaces(body: JsonObject): Generator<OpaquePlace> {
  for (const [i, value] of asList(body["input"]).entries()) {
    const item = asObject(value);
    if (typeof item?.["encrypted_content"] !== "string") continue;
    const span = ["input", i];
    const path = [...span, "encrypted_content"];
    if (item["type"] === "reasoning") yield { path, span };
    else if (item["type"] === COMPACTION)
      yield {
        path,
        span,
        replacement: (state) =>
          JSON.stringify({ type: "message", role: "user", content: summaryText(state, path.join(".")) }),
      };
  }
}
