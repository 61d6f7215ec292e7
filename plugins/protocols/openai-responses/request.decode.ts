import {
  type Conversation,
  type Feature,
  type Fields,
  GatewayError,
  type IncomingRequest,
  invalidField,
  parseExact,
  type Turn,
} from "model-gateway/protocol";
import { asksCompaction } from "./request.compaction.ts";
import { readItems } from "./request.items.ts";
import type { MessageNative, RequestNative } from "./request.native.ts";
import { leave, leaveUsual, NAME, peek, Reading, type Usual } from "./request.read.ts";
import { type Choice, readChoice, ToolList } from "./request.tools.ts";
import { readMore, readReasoning, readText } from "./request.wishes.ts";

/** Schemas, which nobody here needs to understand. */
const RAW: ReadonlySet<string> = new Set(["parameters", "schema"]);

/** Reads a request. @throws GatewayError `invalid_field` with the field's path */
export function decode(asked: IncomingRequest): Conversation {
  const reading = new Reading(asked);
  const fields = reading.fields(parse(asked.text), "");
  fields.any("model");
  const tools = new ToolList(reading);
  const list = fields.list("tools");
  const entries = list && tools.add(list, "tools");
  const input = readInput(reading, fields, tools);
  const compacts = !reading.same && asksCompaction(fields.of["input"]);
  if (compacts) leave(fields, "tool_choice");
  const choice = compacts ? UNCALLED : readChoice(reading, fields.any("tool_choice"));
  const sampling = readSampling(fields);
  const text = readText(reading, fields.object("text"), compacts);
  const reasoning = readReasoning(reading, fields.object("reasoning"));
  const more = readMore(reading, fields);
  leaveUnsaid(fields);
  return {
    protocol: NAME,
    task: asked.task,
    stream: asked.task === "generate" && asked.streaming,
    turns: input.turns,
    tools: tools.tools,
    ...(choice && { toolChoice: choice.toolChoice }),
    ...sampling,
    ...text.conversation,
    ...reasoning.conversation,
    ...more.conversation,
    uses: reading.uses,
    ...(reading.changed.length > 0 && { changed: reading.changed }),
    ...reading.native<RequestNative>({
      rest: fields.rest(),
      input: peek(fields, "input") !== undefined,
      added: input.added,
      ...(entries && { entries }),
      ...choice?.native,
      ...text.native,
      ...reasoning.native,
      ...more.native,
    }),
  };
}

/** The tools stay offered: calls of them came before, and the prompt that the vendor has cached begins with them. */
const UNCALLED: Choice = { toolChoice: { mode: "none" } };

function parse(text: string): unknown {
  try {
    return parseExact(text, RAW);
  } catch (error) {
    throw new GatewayError("invalid_json", { cause: error });
  }
}

/** Fields that name a question, or a part of it, which the vendor keeps. */
const ELSEWHERE = ["previous_response_id", "conversation", "prompt"];

/** Instructions stand before the input, as the vendor puts them. */
function readInput(reading: Reading, fields: Fields, tools: ToolList) {
  const input = fields.any("input");
  const turns: Turn[] = [];
  const instructions = fields.text("instructions");
  if (instructions !== undefined) turns.push(textTurn(reading, "system", instructions, "instructions"));
  if (typeof input === "string") return { turns: [...turns, textTurn(reading, "user", input, "input")], added: [] };
  const absent = input === undefined && ELSEWHERE.some((name) => peek(fields, name) !== undefined);
  if (!absent && !Array.isArray(input)) throw invalidField("input", "input must be a string or a list of items.");
  const items = readItems(reading, Array.isArray(input) ? input : [], tools);
  return { turns: [...turns, ...items.turns], added: items.added };
}

function textTurn(reading: Reading, role: Turn["role"], text: string, at: "instructions" | "input"): Turn {
  const form = at === "input" ? "whole" : "instructions";
  return { role, at, parts: [{ kind: "text", text, at }], ...reading.native<MessageNative>({ form, rest: {} }) };
}

function readSampling(fields: Fields) {
  const temperature = fields.number("temperature");
  const topP = fields.number("top_p");
  const maxTokens = fields.number("max_output_tokens");
  const parallel = fields.flag("parallel_tool_calls");
  if (temperature !== undefined) fields.declare("temperature", "temperature");
  if (topP !== undefined) fields.declare("top_p", "top_p");
  if (maxTokens !== undefined) fields.declare("max_output_tokens", "max_tokens");
  if (parallel === false) fields.declare("parallel_tool_calls", "parallel_off");
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(parallel !== undefined && { parallel }),
  };
}

/** Fields without a member in the vocabulary, by what they say; any other is `other`. */
const UNSAID: Readonly<Record<string, Feature>> = {
  background: "background",
  previous_response_id: "stored_state",
  conversation: "stored_state",
  prompt: "stored_state",
  context_management: "context_edits",
  moderation: "moderation",
  client_metadata: "cosmetic",
  stream_options: "cosmetic",
};
/** What is meant where a field is left out, or is said elsewhere. */
const USUAL: Usual = { background: [false], truncation: ["disabled"], top_logprobs: [0], stream: [true, false] };

function leaveUnsaid(fields: Fields): void {
  leaveUsual(fields, USUAL);
  for (const [name, feature] of Object.entries(UNSAID)) fields.leave(name, feature);
}
