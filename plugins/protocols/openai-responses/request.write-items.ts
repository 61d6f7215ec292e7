/** Writes turns as items: messages, reasoning, calls and their results, each where it stands. */
import {
  type JsonObject,
  type Part,
  type Reasoning,
  safeId,
  type ToolCall,
  type ToolResult,
  type Turn,
} from "model-gateway/protocol";
import { failedText } from "../openai/request.encode.ts";
import { REFERENCE } from "./request.items.ts";
import type { MessageNative, ReasoningNative, RestNative, ResultNative } from "./request.native.ts";
import { NAME } from "./request.read.ts";
import { merged, type Writing } from "./request.write.ts";
import { type Content, isContent, unmarked, writeMark, writePart } from "./request.write-parts.ts";

/** The items of turns. @throws GatewayError as `terms.refuse` makes it */
export function writeItems(writing: Writing, turns: readonly Turn[]): JsonObject[] {
  const items = turns.flatMap((turn) => writeTurn(writing, turn));
  return writing.same ? items.map(({ item }) => item) : followed(writing, items);
}

interface Item {
  item: JsonObject;
  at: string;
}

function writeTurn(writing: Writing, turn: Turn): Item[] {
  const native = writing.native<MessageNative>(turn);
  if (native) return [{ item: writeMessage(writing, turn, turn.parts as Content[], native), at: turn.at }];
  const items: Item[] = [];
  let content: Content[] = [];
  const flush = () => {
    if (content.length > 0) items.push({ item: writeMessage(writing, turn, content), at: turn.at });
    content = [];
  };
  for (const part of turn.parts) {
    if (isContent(part)) {
      if (!(turn.role === "assistant" && part.kind === "text" && part.text === "")) content.push(part);
      continue;
    }
    const item = writeItem(writing, part);
    if (!item) continue;
    flush();
    items.push({ item, at: part.at });
  }
  flush();
  return items;
}

/**
 * The vendor refuses reasoning that no item of the assistant follows ("without its required following item"): where the
 * history lost that item, the reasoning is left out and declared.
 */
function followed(writing: Writing, items: readonly Item[]): JsonObject[] {
  const kept: JsonObject[] = [];
  let spoken = false;
  for (const { item, at } of items.toReversed()) {
    if (item["type"] === "reasoning" && !spoken) {
      writing.terms.drop(at, "reasoning that nothing of the assistant follows");
      continue;
    }
    spoken = item["type"] !== "message" ? !String(item["type"]).endsWith("_output") : item["role"] === "assistant";
    kept.push(item);
  }
  return kept.reverse();
}

function writeMessage(writing: Writing, turn: Turn, parts: readonly Content[], native?: MessageNative): JsonObject {
  const spoken = turn.role === "assistant";
  const [first] = parts;
  const plain = parts.length === 1 && first?.kind === "text" && !first.cache && !first.citations;
  const text = native ? native.form === "text" : plain;
  const list = () => parts.map((part) => writePart(writing, part, spoken)).filter((part) => part !== undefined);
  return merged(native?.rest ?? { type: "message" }, {
    role: turn.role,
    content: text && first?.kind === "text" ? first.text : list(),
    phase: turn.phase,
    name: native && turn.name,
  });
}

function writeItem(writing: Writing, part: Part): JsonObject | undefined {
  switch (part.kind) {
    case "reasoning":
      return writeReasoning(writing, part);
    case "tool_call":
      return writeCall(writing, part);
    case "tool_result":
      return writeResult(writing, part);
    case "foreign":
      // A reference to something that was not stored cannot be followed.
      return part.protocol === NAME && (writing.same || part.name !== REFERENCE)
        ? (part.json as JsonObject)
        : undefined;
    default:
      return undefined;
  }
}

/** What this protocol's answers keep beside the encrypted state of a reasoning. */
export interface ReasoningExtra {
  /** The texts of its summary, and of the reasoning itself where the vendor shows it. */
  summary?: readonly string[];
  content?: readonly string[];
}

/** Without the encrypted state a reasoning says nothing to the vendor: it knows no reasoning but its own. */
function writeReasoning(writing: Writing, part: Reasoning): JsonObject | undefined {
  const native = writing.native<ReasoningNative>(part);
  const state = part.opaque?.protocol === NAME ? part.opaque : undefined;
  if (native) return sameReasoning(part, native, state?.data);
  if (!state) {
    writing.terms.drop(part.at, "reasoning without the vendor's own encrypted state");
    return undefined;
  }
  const extra = state.extra as ReasoningExtra | undefined;
  const summary = extra?.summary ?? part.summary ?? (part.text ? [part.text] : []);
  return {
    type: "reasoning",
    summary: summary.map((text) => ({ type: "summary_text", text })),
    ...(extra?.content && { content: extra.content.map((text) => ({ type: "reasoning_text", text })) }),
    encrypted_content: state.data,
  };
}

function sameReasoning(part: Reasoning, native: ReasoningNative, encrypted: string | undefined): JsonObject {
  let at = 0;
  const content = native.content?.map(({ rest, length }) => {
    const text = part.text?.slice(at, at + length) ?? "";
    at += length + 1;
    return { ...rest, text };
  });
  const summary = native.summary?.map(({ rest }, i) => ({ ...rest, text: part.summary?.[i] ?? "" }));
  return merged(native.rest, { type: "reasoning", summary, content, encrypted_content: encrypted });
}

function writeCall(writing: Writing, part: ToolCall): JsonObject {
  const native = writing.native<RestNative>(part);
  unmarked(writing, part);
  return merged(native?.rest, {
    type: part.custom ? "custom_tool_call" : "function_call",
    call_id: writing.same ? part.id : safeId(part.id),
    namespace: part.namespace,
    name: writing.name(part.name),
    ...(part.custom ? { input: part.arguments } : { arguments: native ? part.arguments : part.arguments || "{}" }),
  });
}

function writeResult(writing: Writing, part: ToolResult): JsonObject {
  const native = writing.native<ResultNative>(part);
  return merged(native?.rest, {
    type: part.custom ? "custom_tool_call_output" : "function_call_output",
    call_id: writing.same ? part.callId : safeId(part.callId),
    output: native ? sameOutput(writing, part, native) : newOutput(writing, part),
  });
}

function sameOutput(writing: Writing, part: ToolResult, native: ResultNative): unknown {
  const [first] = part.parts;
  if (native.form === "text") return first?.kind === "text" ? first.text : "";
  return part.parts.map((each) => writePart(writing, each as Content, false));
}

/** Text alone as a string; parts where there is more, or a mark for the cache. */
function newOutput(writing: Writing, result: ToolResult): unknown {
  const content = failed(result).filter(isContent);
  const mark = result.cache && content.at(-1)?.kind !== "refusal" ? result.cache : undefined;
  const [first] = content;
  if (content.length === 0) return "";
  if (content.length === 1 && first?.kind === "text" && !first.cache && !mark) return first.text;
  const parts = content.map((part) => writePart(writing, part, false) as JsonObject);
  const last = parts.at(-1);
  if (last && mark) last["prompt_cache_breakpoint"] ??= writeMark(mark, undefined);
  return parts;
}

/** The parts of a result; where it is an error, their text says so. */
function failed(result: ToolResult): Part[] {
  const json = result.json;
  const parts: Part[] = json === undefined ? result.parts : [{ kind: "text", text: json, at: result.at }];
  const texts = parts.flatMap((part) => (part.kind === "text" ? [part.text] : []));
  const error = result.isError ? failedText(texts) : undefined;
  if (error === undefined) return parts;
  return [{ kind: "text", text: error, at: result.at }, ...parts.filter(({ kind }) => kind !== "text")];
}
