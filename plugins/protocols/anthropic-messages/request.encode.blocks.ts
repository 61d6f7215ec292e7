import {
  type CacheMark,
  type Conversation,
  type EncodeContext,
  type JsonObject,
  type Media,
  type Part,
  RawJson,
  type Reasoning,
  safeId,
  type Text,
  type ToolCall,
  type ToolResult,
} from "model-gateway/protocol";
import { citationOf } from "./citations.ts";
import { BETWEEN } from "./request.decode.blocks.ts";
import { toolName } from "./request.encode.tools.ts";
import type { OwnForm } from "./request.reading.ts";
import { isObject, NAME, stateOf } from "./words.ts";

/** The most cache marks of one request. [D] */
const MOST_MARKS = 4;

/** The cache marks of a request: the vendor takes four, of which the later ones cover more. */
export class Marks {
  private readonly marked: { block: JsonObject; at: string }[] = [];

  constructor(
    private readonly conversation: Conversation,
    private readonly terms: EncodeContext,
  ) {}

  add(block: JsonObject, at: string): void {
    this.marked.push({ block, at });
  }

  /** Takes the first marks out when there are too many. */
  limit(): void {
    const most = MOST_MARKS - (this.conversation.cache ? 1 : 0);
    const more = this.marked.slice(0, Math.max(0, this.marked.length - most));
    if (more.length === 0) return;
    const paths = this.paths();
    for (const { block, at } of more) {
      delete block["cache_control"];
      this.terms.drop(paths.get(at) ?? at, `This model takes ${MOST_MARKS} cache marks; the later ones are kept`);
    }
  }

  /** The client's own paths of the marks, by what they stand on. */
  private paths(): Map<string, string> {
    const marks = this.conversation.uses.filter(({ feature }) => feature === "cache_mark");
    return new Map(marks.map(({ path }) => [path.slice(0, path.lastIndexOf(".")), path]));
  }
}

/** A cache mark. The vendor keeps a prompt for five minutes or an hour. */
export function cacheControl({ ttl }: CacheMark, at: string, terms: EncodeContext): JsonObject {
  if (ttl === undefined) return { type: "ephemeral" };
  if (ttl === "5m" || ttl === "1h") return { type: "ephemeral", ttl };
  terms.change(at, "its cache mark holds for an hour");
  return { type: "ephemeral", ttl: "1h" };
}

/** A part as a block; undefined for what this vendor cannot be told. `exact`: with what its native holds. */
export function blockOf(part: Part, terms: EncodeContext, exact = false): JsonObject | undefined {
  const own = exact ? (part.native as OwnForm | undefined) : undefined;
  const block = written(part, terms, own, exact);
  if (block && part.cache && part.kind !== "foreign") block["cache_control"] = cacheControl(part.cache, part.at, terms);
  return block && own?.rest ? { ...block, ...own.rest } : block;
}

function written(part: Part, terms: EncodeContext, own: OwnForm | undefined, exact: boolean): JsonObject | undefined {
  switch (part.kind) {
    case "text":
      return textBlock(part, own);
    case "media":
      return mediaBlock(part, terms, own);
    case "reasoning":
      return thinkingBlock(part, own);
    case "refusal":
      return { type: "text", text: part.text };
    case "tool_call":
      return toolUse(part, terms, exact);
    case "tool_result":
      return toolResult(part, terms, own, exact);
    case "foreign":
      return part.protocol === NAME ? (part.json as JsonObject) : undefined;
  }
}

function textBlock({ text, citations }: Text, own: OwnForm | undefined): JsonObject {
  if (own?.as === "search_result") {
    const [title, source, ...texts] = pieces(text, own.cuts);
    return { type: own.as, title, source, content: texts.map((each) => ({ type: "text", text: each })) };
  }
  if (own?.as !== undefined) return { type: own.as };
  // Citations carry a key of the vendor's; without it they are refused.
  const cited = own?.citations && citations?.map((citation, i) => citationOf(citation, own.citations?.[i] ?? {}));
  return { type: "text", text, ...(cited ? { citations: cited } : {}) };
}

/** The texts that were joined to one. */
function pieces(text: string, cuts: readonly number[] = []): string[] {
  let from = 0;
  return cuts.map((length) => {
    const piece = text.slice(from, from + length);
    from += length + BETWEEN.length;
    return piece;
  });
}

/** Only what the vendor signed comes back to it; an empty text with a signature does, too. */
function thinkingBlock({ text, summary, opaque }: Reasoning, own: OwnForm | undefined): JsonObject | undefined {
  const redacted = stateOf(opaque, "redacted");
  const signature = stateOf(opaque, "signature");
  if (redacted !== undefined) return { type: "redacted_thinking", data: redacted };
  const thinking = text ?? summary?.join("\n\n") ?? "";
  if (signature !== undefined) return { type: "thinking", thinking, signature };
  // What came back marked as unsigned had an empty signature when the vendor sent it.
  return own && { type: "thinking", thinking, ...(own.signed ? { signature: "" } : {}) };
}

function toolUse(call: ToolCall, terms: EncodeContext, exact: boolean): JsonObject {
  if (exact) return { type: "tool_use", id: call.id, name: call.name, input: new RawJson(call.arguments) };
  return { type: "tool_use", id: safeId(call.id), name: toolName(call, terms), input: inputOf(call, terms) };
}

const NOTHING = new RawJson("{}");

/** A call's arguments as the object that the vendor wants, as the text they came in. */
function inputOf(call: ToolCall, terms: EncodeContext): RawJson | JsonObject {
  if (call.custom) return { input: call.arguments };
  if (call.arguments === "") return NOTHING;
  const input = new RawJson(call.arguments);
  if (!isObject(input)) terms.refuse(call.at, "The arguments of this call are not a JSON object");
  return input;
}

function toolResult(result: ToolResult, terms: EncodeContext, own: OwnForm | undefined, exact: boolean): JsonObject {
  // Not to have failed goes without saying.
  const told = exact ? result.isError : result.isError || undefined;
  const content = result.json ?? contentOf(result, terms, own, exact);
  return {
    type: "tool_result",
    tool_use_id: exact ? result.callId : safeId(result.callId),
    ...(content === undefined ? {} : { content }),
    ...(told === undefined ? {} : { is_error: told }),
  };
}

function contentOf({ parts }: ToolResult, terms: EncodeContext, own: OwnForm | undefined, exact: boolean): unknown {
  if (exact) {
    const written = parts.map((part) => blockOf(part, terms, true));
    if (own?.string) return written[0]?.["text"];
    return own?.bare || (own?.rest && "content" in own.rest) ? undefined : written;
  }
  const [first] = parts;
  if (parts.length === 1 && first?.kind === "text" && !first.cache) return first.text;
  const uses = parts.filter((part) => part.kind !== "text" || part.text.trim() !== "");
  const blocks = uses.map((part) => blockOf(part, terms)).filter((block) => block !== undefined);
  return blocks.length > 0 ? blocks : undefined;
}

const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

function mediaBlock(part: Media, terms: EncodeContext, own: OwnForm | undefined): JsonObject {
  const image = part.media === "image" || (part.media === "file" && (part.mime ?? "").startsWith("image/"));
  if (!image && part.media !== "file") return terms.refuse(part.at, `This model takes no ${part.media}`);
  const source = sourceOf(part, terms, image, own);
  if (image) return { type: "image", source: { ...source, ...own?.source } };
  return {
    type: "document",
    source: { ...source, ...own?.source },
    ...(part.filename === undefined ? {} : { title: part.filename }),
  };
}

function sourceOf(part: Media, terms: EncodeContext, image: boolean, own: OwnForm | undefined): JsonObject {
  const { source, mime } = part;
  if ("id" in source) return idSource(part, source, terms);
  if ("text" in source) return textSource(source.text, own, mime);
  if ("url" in source) {
    const inline = own ? null : /^data:([^;,]*);base64,(.*)$/s.exec(source.url);
    if (inline) return sourceOf({ ...part, ...inlined(inline, mime) }, terms, image, own);
    if (!own && !/^https?:/i.test(source.url)) terms.refuse(part.at, "This model fetches http and https only");
    return { type: "url", url: source.url };
  }
  if (image) {
    const known = mime === "image/jpg" ? "image/jpeg" : mime;
    if (own === undefined && (known === undefined || !IMAGES.has(known)))
      terms.refuse(part.at, `This model takes images as JPEG, PNG, GIF and WebP, not as ${mime ?? "an unknown type"}`);
    return { type: "base64", media_type: own ? mime : known, data: source.base64 };
  }
  return fileSource(part, source.base64, terms, own);
}

/** A `data:` URL as what it holds. */
function inlined([, told = "", base64 = ""]: RegExpExecArray, mime: string | undefined) {
  const known = told === "" ? mime : told;
  return { source: { base64 }, ...(known === undefined ? {} : { mime: known }) };
}

function idSource(part: Media, { id, protocol }: { id: string; protocol: string }, terms: EncodeContext): JsonObject {
  if (protocol !== NAME) terms.refuse(part.at, "The id of this file is only known to the vendor that gave it");
  return { type: "file", file_id: id };
}

function textSource(text: string, own?: OwnForm, mime?: string): JsonObject {
  if (own?.as !== "content") return { type: "text", media_type: own ? mime : "text/plain", data: text };
  const texts = pieces(text, own.cuts);
  return { type: "content", content: own.string ? texts[0] : texts.map((each) => ({ type: "text", text: each })) };
}

function fileSource(part: Media, base64: string, terms: EncodeContext, own: OwnForm | undefined): JsonObject {
  const { mime } = part;
  if (own || mime === "application/pdf") return { type: "base64", media_type: mime, data: base64 };
  if (mime?.startsWith("text/")) return textSource(Buffer.from(base64, "base64").toString());
  return terms.refuse(part.at, `This model takes files as PDF and text, not as ${mime ?? "an unknown type"}`);
}
