import {
  asObject,
  asText,
  type Citation,
  entryOf,
  type Foreign,
  type JsonObject,
  type MediaSource,
  type Part,
  RawJson,
  type Reasoning,
  type Text,
  type ToolCall,
  type ToolResult,
  type Turn,
} from "model-gateway/protocol";
import { CITATION, citationFrom, citationRest } from "./citations.ts";
import type { OwnForm, Reading } from "./request.reading.ts";
import { NAME, without } from "./words.ts";

/** Members that every block may have and that change nothing of its meaning. */
const ANY = ["type", "cache_control"];

type Reader = (reading: Reading, block: JsonObject, at: string) => Part;

const READERS: Readonly<Record<string, Reader>> = {
  text,
  image: (reading, block, at) => media(reading, block, at, "image"),
  document,
  search_result: searchResult,
  thinking,
  redacted_thinking: redacted,
  tool_use: toolUse,
  tool_result: toolResult,
  tool_reference: (reading, block, at) => toolNews(reading, block, at, block["tool_name"]),
  tool_addition: toolAddition,
};

/** Where content stands: in a turn of somebody's, or in a tool's result. */
export type Place = Turn["role"] | "result";

/** Parts that have only one place. The vendor refuses them elsewhere, and no other vendor has a word for them there. */
const HOMES: Readonly<Partial<Record<Part["kind"], Place>>> = {
  reasoning: "assistant",
  tool_call: "assistant",
  tool_result: "user",
};

/** Reads content: a string is one text. `at` is the content's path; a block's is `at` and its number. */
export function partsOf(reading: Reading, content: unknown, at: string, place: Place): Part[] {
  if (typeof content === "string") return [{ kind: "text", at, text: content }];
  if (!Array.isArray(content)) return reading.wrong(at, "must be a string or a list of blocks.");
  return content.map((value, i) => {
    const path = `${at}.${i}`;
    const block = asObject(value) ?? reading.wrong(path, "must be an object.");
    const type = asText(block["type"]) ?? reading.wrong(`${path}.type`, "must be a string.");
    const part = (entryOf(READERS, type) ?? foreign)(reading, block, path);
    const home = HOMES[part.kind] ?? place;
    if (home !== place && !reading.asked.native)
      reading.wrong(path, `is a ${type} block, which can only stand in a turn of the ${home}.`);
    return part;
  });
}

/** What every part has: its place, its cache mark, and its native rest. */
function placed(reading: Reading, block: JsonObject, at: string, taken: readonly string[], form?: OwnForm) {
  const cache = reading.mark(block, at);
  return { at, ...(cache ? { cache } : {}), ...reading.native(block, ["type", ...taken], form) };
}

function text(reading: Reading, block: JsonObject, at: string): Text {
  const cited = reading.objects(block, "citations", at) ?? [];
  const citations: Citation[] = cited.map(citationFrom);
  reading.others(block, [...ANY, "text", "citations"], at);
  if (cited.length > 0) reading.say("citations", `${at}.citations`);
  cited.forEach((citation, i) => void reading.others(citation, CITATION, `${at}.citations.${i}`));
  const form = cited.length > 0 && reading.asked.native ? { citations: cited.map(citationRest) } : {};
  return {
    kind: "text",
    text: reading.text(block, "text", at),
    ...(cited.length > 0 ? { citations } : {}),
    ...placed(reading, block, at, cited.length > 0 ? ["text", "citations"] : ["text"], form),
  };
}

function document(reading: Reading, block: JsonObject, at: string): Part {
  if (asObject(block["source"])?.["type"] === "content") return contentDocument(reading, block, at);
  return media(reading, block, at, "file");
}

function media(reading: Reading, block: JsonObject, at: string, kind: "image" | "file"): Part {
  const source = reading.object(block, "source", at);
  const from = source ? sourceOf(reading, source, at, kind) : sourceless(reading, at);
  if (!source || !from) return foreign(reading, block, at);
  const mime = reading.maybeText(source, "media_type", `${at}.source`);
  const read = SOURCE[String(source["type"])] ?? [];
  reading.others(source, ["type", "media_type", ...read], `${at}.source`);
  const left = without(source, ["type", ...(mime === undefined ? read.filter((name) => name !== "media_type") : read)]);
  return {
    kind: "media",
    media: kind,
    source: from,
    ...(mime === undefined ? {} : { mime }),
    ...titled(reading, block, at, kind, left ? { source: left } : {}),
  };
}

/** Members of a source by its type. */
const SOURCE: Readonly<Record<string, readonly string[]>> = {
  base64: ["data", "media_type"],
  text: ["data", "media_type"],
  url: ["url"],
  file: ["file_id"],
};

function sourceless(reading: Reading, at: string): undefined {
  if (!reading.asked.native) reading.wrong(`${at}.source`, "must be an object.");
}

function sourceOf(reading: Reading, source: JsonObject, at: string, kind: "image" | "file"): MediaSource | undefined {
  const path = `${at}.source`;
  switch (source["type"]) {
    case "base64":
      reading.say(`${kind}_base64`, at);
      return { base64: reading.text(source, "data", path) };
    case "url":
      reading.say(`${kind}_url`, at);
      return { url: reading.text(source, "url", path) };
    case "file":
      reading.say("file_id", `${path}.file_id`);
      return { id: reading.text(source, "file_id", path), protocol: NAME };
    case "text":
      if (kind === "image") return undefined;
      reading.say("file_text", at);
      return { text: reading.text(source, "data", path) };
    default:
      return undefined;
  }
}

/** A document's title is a file's name; its context and its wish to be cited have no counterpart. */
function titled(reading: Reading, block: JsonObject, at: string, kind: "image" | "file", form: OwnForm) {
  if (kind === "image") {
    reading.others(block, [...ANY, "source"], at);
    return placed(reading, block, at, ["source"], form);
  }
  const title = reading.maybeText(block, "title", at);
  reading.others(block, [...ANY, "source", "title", "citations"], at);
  wishToCite(reading, block, at);
  const taken = title === undefined ? ["source"] : ["source", "title"];
  return { ...(title === undefined ? {} : { filename: title }), ...placed(reading, block, at, taken, form) };
}

/** Whether answers shall name places in it, which only this vendor's do. */
function wishToCite(reading: Reading, block: JsonObject, at: string): void {
  const context = reading.object(block, "citations", at);
  if (!context) return;
  if (reading.flag(context, "enabled", `${at}.citations`) === true) reading.say("other", `${at}.citations`);
  reading.others(context, ["enabled"], `${at}.citations`);
}

/** A document made of blocks is the text of the blocks; one with pictures in it only its vendor understands. */
function contentDocument(reading: Reading, block: JsonObject, at: string): Part {
  const source = asObject(block["source"]) ?? {};
  const content = source["content"];
  const texts = typeof content === "string" ? [content] : blockTexts(reading, content, `${at}.source.content`);
  if (!texts) return foreign(reading, block, at);
  reading.say("file_text", at);
  reading.others(source, ["type", "content"], `${at}.source`);
  const left = without(source, ["type", "content"]);
  const form: OwnForm = {
    as: "content",
    string: typeof content === "string",
    cuts: texts.map(({ length }) => length),
    ...(left ? { source: left } : {}),
  };
  return {
    kind: "media",
    media: "file",
    mime: "text/plain",
    source: { text: texts.join(BETWEEN) },
    ...titled(reading, block, at, "file", form),
  };
}

/** What stands between the texts of several blocks that become one. */
export const BETWEEN = "\n\n";

/** The texts of blocks; undefined when they are not all texts, or, between equals, are more than that. */
function blockTexts(reading: Reading, content: unknown, at: string): string[] | undefined {
  if (!Array.isArray(content)) return undefined;
  const blocks = content.map(asObject);
  const texts = blocks.map((block) => (block?.["type"] === "text" ? asText(block["text"]) : undefined));
  if (!texts.every((each) => each !== undefined)) return undefined;
  if (reading.asked.native && blocks.some((block) => Object.keys(block ?? {}).length > 2)) return undefined;
  blocks.forEach((block, i) => void reading.others(block ?? {}, ["type", "text"], `${at}.${i}`));
  return texts;
}

/** A search result that the client brings is read as its title, its source and its text, a paragraph each. */
function searchResult(reading: Reading, block: JsonObject, at: string): Part {
  const texts = blockTexts(reading, block["content"], `${at}.content`);
  const title = reading.maybeText(block, "title", at);
  const source = reading.maybeText(block, "source", at);
  if (!texts || title === undefined || source === undefined) return foreign(reading, block, at);
  const all = [title, source, ...texts];
  reading.others(block, [...ANY, "content", "title", "source", "citations"], at);
  wishToCite(reading, block, at);
  return {
    kind: "text",
    text: all.join(BETWEEN),
    ...placed(reading, block, at, ["content", "title", "source"], {
      as: "search_result",
      cuts: all.map(({ length }) => length),
    }),
  };
}

function thinking(reading: Reading, block: JsonObject, at: string): Reasoning {
  const signature = reading.maybeText(block, "signature", at);
  reading.say("reasoning_text", at);
  reading.others(block, [...ANY, "thinking", "signature"], at);
  // Without a signature the vendor made nothing of it: it is another's reasoning, or what a client wrote.
  const signed = signature !== undefined && signature !== "";
  return {
    kind: "reasoning",
    text: reading.text(block, "thinking", at),
    ...(signed ? { opaque: reading.asked.open(signature, "signature") } : {}),
    ...placed(reading, block, at, signed ? ["thinking", "signature"] : ["thinking"], signed ? { signed } : {}),
  };
}

function redacted(reading: Reading, block: JsonObject, at: string): Reasoning {
  const opaque = reading.asked.open(reading.text(block, "data", at), "redacted");
  reading.say("reasoning_text", at);
  reading.others(block, [...ANY, "data"], at);
  return { kind: "reasoning", redacted: true, opaque, ...placed(reading, block, at, ["data"]) };
}

function toolUse(reading: Reading, block: JsonObject, at: string): ToolCall {
  const input = block["input"];
  if (!(input instanceof RawJson) || !input.text.startsWith("{"))
    return reading.wrong(`${at}.input`, "must be an object.");
  reading.others(block, [...ANY, "id", "name", "input", "caller"], at);
  // Which of the vendor's tools made the call; most often none did.
  if (block["caller"]) reading.say("cosmetic", `${at}.caller`);
  return {
    kind: "tool_call",
    id: reading.text(block, "id", at),
    name: reading.text(block, "name", at),
    arguments: input.text,
    ...placed(reading, block, at, ["id", "name", "input"]),
  };
}

function toolResult(reading: Reading, block: JsonObject, at: string): ToolResult {
  const { content } = block;
  const failed = reading.flag(block, "is_error", at);
  const path = `${at}.content`;
  const parts = content === undefined || content === null ? [] : partsOf(reading, content, path, "result");
  for (const part of parts) if (part.kind === "media") reading.say("tool_result_media", part.at);
  if (failed === true) reading.say("tool_result_error", `${at}.is_error`);
  reading.others(block, [...ANY, "tool_use_id", "content", "is_error"], at);
  const taken = ["tool_use_id", ...(content === null ? [] : ["content"])];
  const form = typeof content === "string" ? { string: true } : content === undefined ? { bare: true } : {};
  return {
    kind: "tool_result",
    callId: reading.text(block, "tool_use_id", at),
    parts,
    ...(failed === undefined ? {} : { isError: failed }),
    ...placed(reading, block, at, failed === undefined ? taken : [...taken, "is_error"], form),
  };
}

/**
 * The news that a deferred tool can be called from now on. Other vendors get all tools from the start, so that the model
 * only needs to be told.
 */
function toolNews(reading: Reading, block: JsonObject, at: string, name: unknown): Part {
  if (typeof name !== "string") return foreign(reading, block, at);
  const uses = `The tool ${name} is available now.`;
  reading.others(block, [...ANY, "tool_name", "tool"], at);
  return { kind: "text", text: uses, ...placed(reading, block, at, [], { as: String(block["type"]) }) };
}

function toolAddition(reading: Reading, block: JsonObject, at: string): Part {
  const tool = asObject(block["tool"]) ?? {};
  reading.others(tool, ["type", "name"], `${at}.tool`);
  return toolNews(reading, block, at, tool["name"]);
}

/** What only this vendor understands. */
function foreign(reading: Reading, block: JsonObject, at: string): Foreign {
  const name = String(block["type"]);
  reading.say(name === "container_upload" ? "container" : "foreign_block", at);
  return { kind: "foreign", protocol: NAME, name, json: block, at };
}
