/** Reads the items of a request's input: each becomes a turn of its own, except those that only add tools. */
import type { Foreign, Part, Reasoning, ToolCall, ToolResult, Turn } from "model-gateway/protocol";
import { type Fields, invalidField } from "model-gateway/protocol";
import { COMPACTION, readSummary, readTrigger, TRIGGER } from "./request.compaction.ts";
import type { AddedNative, MessageNative, ReasoningNative, RestNative, ResultNative } from "./request.native.ts";
import { readContent } from "./request.parts.ts";
import { leave, leaveUsual, NAME, need, oneOf, peek, type Reading } from "./request.read.ts";
import type { ToolList } from "./request.tools.ts";

/** Turns of a request, and the items that added tools. */
export interface Items {
  turns: Turn[];
  added: AddedNative[];
}

/** @param tools where tools go that an item adds @throws GatewayError `invalid_field` */
export function readItems(reading: Reading, input: readonly unknown[], tools: ToolList): Items {
  const items: Items = { turns: [], added: [] };
  input.forEach((value, i) => {
    const fields = reading.fields(value, `input.${i}`);
    const type = peek(fields, "type");
    if (type === "additional_tools") items.added.push(readAdded(fields, i, tools));
    else if (type === TRIGGER && !reading.same) items.turns.push(readTrigger(reading, fields, i === input.length - 1));
    else items.turns.push(readItem(reading, fields));
  });
  sayPlaces(reading, items.turns);
  return items;
}

/** A role stands where it belongs, or its place says something. */
function sayPlaces(reading: Reading, turns: readonly Turn[]): void {
  const first = turns.findIndex(({ role }) => role === "user" || role === "assistant");
  turns.forEach(({ role, at }, i) => {
    if ((role === "system" || role === "developer") && first >= 0 && i > first) reading.say("system_in_place", at);
  });
  const last = turns.at(-1);
  if (last?.role === "assistant" && last.parts.some(({ kind }) => kind === "text")) reading.say("prefill", last.at);
}

/** Tools that an agent offers as an item instead of in `tools`; they are offered from the start then. */
function readAdded(fields: Fields, at: number, tools: ToolList): AddedNative {
  fields.any("type");
  const list = fields.list("tools");
  const entries = list && tools.add(list, fields.path("tools"));
  leave(fields, "id", "role");
  return { at, ...(entries && { entries }), rest: fields.rest() };
}

function readItem(reading: Reading, fields: Fields): Turn {
  const untyped = peek(fields, "type") === undefined;
  if (untyped && peek(fields, "role") !== undefined) return readMessage(reading, fields);
  if (untyped && (reading.same || isReference(fields)))
    return turn("assistant", readForeign(reading, fields, REFERENCE));
  const type = need(fields, "type");
  switch (type) {
    case "message":
      return readMessage(reading, fields);
    case "reasoning":
      return turn("assistant", readReasoning(reading, fields));
    case "function_call":
      return turn("assistant", readCall(reading, fields, "arguments"));
    case "custom_tool_call":
      return turn("assistant", readCall(reading, fields, "input"));
    case "function_call_output":
    case "custom_tool_call_output":
      return turn("user", readResult(reading, fields, type));
    case COMPACTION:
      return readSummary(reading, fields) ?? turn("assistant", readForeign(reading, fields, type));
    default:
      return turn("assistant", readForeign(reading, fields, type));
  }
}

/** The short form of the SDK's: an id and nothing else. [S: ItemReference.type is optional] */
const isReference = ({ of }: Fields): boolean =>
  typeof of["id"] === "string" && Object.entries(of).every(([name, value]) => name === "id" || value === null);

const turn = (role: Turn["role"], part: Part): Turn => ({ role, parts: [part], at: part.at });

function readMessage(reading: Reading, fields: Fields): Turn {
  const role = oneOf(reading, fields, "role", ["user", "assistant", "system", "developer"]);
  if (!role && reading.same) return turn("assistant", readForeign(reading, fields, "message"));
  if (!role) throw invalidField(fields.path("role"), `${fields.path("role")} must be said.`);
  const content = fields.any("content");
  const parts = readContent(reading, content, fields.path("content"));
  const phase = fields.text("phase");
  const name = fields.text("name");
  if (phase !== undefined) fields.declare("phase", "phase");
  if (name !== undefined) fields.declare("name", "name");
  leave(fields, "type", "id", "status");
  return {
    role,
    parts,
    at: fields.at,
    ...(phase !== undefined && { phase }),
    ...(name !== undefined && { name }),
    ...reading.native<MessageNative>({ form: typeof content === "string" ? "text" : "parts", rest: fields.rest() }),
  };
}

/**
 * An item's id is not read: nothing is stored, and an id of something that is not stored is refused with 404. Its
 * `content` is null where an agent repeats it. [S, clients seen on the wire]
 */
function readReasoning(reading: Reading, fields: Fields): Reasoning {
  const sealed = fields.text("encrypted_content");
  const summary = readTexts(reading, fields, "summary");
  const content = readTexts(reading, fields, "content");
  reading.say("reasoning_text", fields.at);
  leave(fields, "id", "status");
  return {
    kind: "reasoning",
    at: fields.at,
    ...(content.texts.length > 0 && { text: content.texts.join("\n") }),
    ...(summary.texts.length > 0 && { summary: summary.texts }),
    ...(sealed !== undefined && { opaque: reading.open(sealed) }),
    ...reading.native<ReasoningNative>({
      rest: fields.rest(),
      ...(summary.kept && { summary: summary.kept }),
      ...(content.kept && { content: content.kept }),
    }),
  };
}

/** The texts of a list of text parts, and what else each part says. */
function readTexts(reading: Reading, fields: Fields, name: string) {
  const parts = fields.list(name)?.map((part, i) => reading.fields(part, `${fields.path(name)}.${i}`));
  const texts = parts?.map((part) => need(part, "text")) ?? [];
  const kept = parts?.map((part, i) => {
    leave(part, "type");
    return { rest: part.rest(), length: texts[i]?.length ?? 0 };
  });
  return { texts, kept };
}

function readCall(reading: Reading, fields: Fields, input: "arguments" | "input"): ToolCall {
  const namespace = fields.text("namespace");
  if (namespace !== undefined) fields.declare("namespace", "tools_namespace");
  if (input === "input") reading.say("tools_custom", fields.at);
  leave(fields, "id", "status");
  leaveUsual(fields, { async: [false] });
  return {
    kind: "tool_call",
    id: need(fields, "call_id"),
    name: need(fields, "name"),
    arguments: need(fields, input),
    at: fields.at,
    ...(namespace !== undefined && { namespace }),
    ...(input === "input" && { custom: true }),
    ...reading.native<RestNative>({ rest: fields.rest() }),
  };
}

function readResult(reading: Reading, fields: Fields, type: string): ToolResult {
  const callId = need(fields, "call_id");
  const output = fields.any("output");
  const parts = readContent(reading, output, fields.path("output"));
  for (const part of parts) if (part.kind === "media") reading.say("tool_result_media", part.at);
  leave(fields, "id", "status");
  return {
    kind: "tool_result",
    callId,
    parts,
    at: fields.at,
    ...(type === "custom_tool_call_output" && { custom: true }),
    ...reading.native<ResultNative>({ form: typeof output === "string" ? "text" : "parts", rest: fields.rest() }),
  };
}

/** An item that the vendor keeps, by its id. */
export const REFERENCE = "item_reference";

/** An SDK repeats items by reference although nothing was stored. Reasoning is dispensable, a turn or a call is not. */
function sayReference(reading: Reading, { of, at }: Fields): void {
  if (String(of["id"]).startsWith("rs_")) reading.say("other", at);
  else reading.say("stored_state", at, "Send the item itself instead of its id, as SDKs do when told `store: false`.");
}

function readForeign(reading: Reading, fields: Fields, name: string): Foreign {
  // It holds what was said before in a form that only the vendor reads: without it that is lost.
  if (name === COMPACTION) reading.say("stored_state", fields.at);
  else if (name === REFERENCE) sayReference(reading, fields);
  else reading.say("foreign_block", fields.at);
  return { kind: "foreign", protocol: NAME, name, json: fields.of, at: fields.at };
}
