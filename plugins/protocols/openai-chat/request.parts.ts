import { isDeepStrictEqual } from "node:util";
import {
  asText,
  type CacheMark,
  type FeatureUse,
  type Fields,
  fieldsOf,
  GatewayError,
  invalidField,
  isObject,
  type JsonObject,
  type Media,
  type MediaSource,
  type Part,
} from "model-gateway/protocol";
import { audioType, readInline } from "../openai/wire.ts";
import { samePart } from "./request.media.ts";
import { type PieceNative, SAME } from "./request.native.ts";

/** What a piece of a request is read with. */
export interface Reading {
  uses: FeatureUse[];
  /** The very same request is to be written again. */
  native: boolean;
}

/** What is read; undefined for what cannot be, where only the vendor that it goes to shall judge it. @throws GatewayError */
export function readable<T>({ native }: Reading, read: () => T): T | undefined {
  try {
    return read();
  } catch (thrown) {
    if (native && thrown instanceof GatewayError) return undefined;
    throw thrown;
  }
}

/** The parts of a message's content: a string, a list, or nothing. @throws GatewayError with the part's path. */
export function partsOf(content: unknown, at: string, reading: Reading): Part[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ kind: "text", text: content, at }];
  if (!Array.isArray(content)) throw invalidField(at, `${at} must be a string or a list of parts.`);
  return content.map((value, n) => {
    const path = `${at}.${n}`;
    if (!reading.native) return partOf(value, path, reading);
    // What cannot be read, or not written as it came, is only its vendor's.
    const part = readable(reading, () => partOf(value, path, reading));
    const same = part && readable(reading, () => samePart(part, SAME));
    return part && isDeepStrictEqual(same, value)
      ? part
      : { kind: "foreign", protocol: "openai-chat", name: "part", json: value, at: path };
  });
}

function partOf(value: unknown, at: string, reading: Reading): Part {
  if (typeof value === "string") return { kind: "text", text: value, at, ...piece(reading, {}, { form: "string" }) };
  const part = fieldsOf(value, at, reading.uses, reading.native);
  const type = part.text("type");
  const cache = cacheOf(part);
  switch (type) {
    case "text":
    case "input_text":
    case "output_text": {
      const text = part.text("text");
      if (text === undefined) throw invalidField(`${at}.text`, `${at}.text must be a string.`);
      return { kind: "text", text, at, ...cache, ...piece(reading, part.rest(), { form: type }) };
    }
    case "refusal":
      return { kind: "refusal", text: part.text("refusal") ?? "", at, ...cache, ...piece(reading, part.rest()) };
    case "image_url":
      return { ...imageOf(part, reading), ...cache };
    case "input_audio":
      return { ...audioOf(part, reading), ...cache };
    case "file":
      return { ...fileOf(part, reading), ...cache };
    case "file_url":
    case "document_url":
      return { ...linkOf(part, type, reading), ...cache };
    default:
      return foreignOf(part, type, reading);
  }
}

/** A part of a kind that only its vendor understands; Mistral's thinking is one that others can read. */
function foreignOf(part: Fields, type: string | undefined, reading: Reading): Part {
  const thinking = type === "thinking" ? part.of["thinking"] : undefined;
  if (Array.isArray(thinking)) {
    reading.uses.push({ feature: "reasoning_text", path: part.at });
    part.any("thinking");
    const texts = thinking.map((each, n) => thoughtIn(each, `${part.at}.thinking.${n}`, reading));
    const cuts = texts.map((text) => text.length);
    const native = piece(reading, part.rest(), { form: "thinking", cuts });
    return { kind: "reasoning", text: texts.join(""), at: part.at, ...native };
  }
  if (type === undefined) throw invalidField(`${part.at}.type`, `${part.at}.type must be a string.`);
  reading.uses.push({ feature: "foreign_block", path: part.at });
  return { kind: "foreign", protocol: "openai-chat", name: type, json: part.of, at: part.at };
}

/** The text of a piece of Mistral's thinking; sources among them are only its vendor's. */
function thoughtIn(value: unknown, at: string, { uses, native }: Reading): string {
  if (typeof value === "string") return value;
  const text = isObject(value) ? asText(value["text"]) : undefined;
  if (text === undefined) uses.push({ feature: "other", path: at });
  else {
    const piece = fieldsOf(value, at, uses, native);
    piece.any("type");
    piece.any("text");
    piece.rest();
  }
  return text ?? "";
}

function imageOf(part: Fields, reading: Reading): Media {
  // Recorded from Mistral: the URL itself where others have an object with it.
  const plain = asText(part.of["image_url"]);
  const image = plain === undefined ? part.object("image_url") : undefined;
  if (plain !== undefined) part.any("image_url");
  const url = plain ?? image?.text("url");
  if (url === undefined) throw invalidField(`${part.at}.image_url.url`, `${part.at}.image_url.url must be a string.`);
  const detail = image?.text("detail");
  if (detail !== undefined && detail !== "auto") image?.declare("detail", "media_detail");
  const inline = readInline(url, `${part.at}.image_url`);
  reading.uses.push({ feature: inline ? "image_base64" : "image_url", path: part.at });
  return {
    kind: "media",
    media: "image",
    at: part.at,
    ...(inline?.mime ? { mime: inline.mime } : {}),
    source: inline ? { base64: inline.base64 } : { url },
    ...(detail === undefined ? {} : { detail }),
    ...piece(reading, part.rest(), {
      ...(image ? { inner: image.rest() } : { form: "string" }),
      ...(inline ? { head: inline.head } : {}),
    }),
  };
}

function audioOf(part: Fields, reading: Reading): Media {
  const audio = part.object("input_audio");
  const base64 = audio?.text("data");
  const format = audio?.text("format");
  if (base64 === undefined || format === undefined)
    throw invalidField(`${part.at}.input_audio`, `${part.at}.input_audio must have data and format.`);
  reading.uses.push({ feature: "audio", path: part.at });
  return {
    kind: "media",
    media: "audio",
    at: part.at,
    mime: audioType(format),
    source: { base64 },
    ...piece(reading, part.rest(), { inner: audio?.rest() ?? {} }),
  };
}

function fileOf(part: Fields, reading: Reading): Media {
  const file = part.object("file");
  const content = file?.text("file_data");
  // Beside the bytes themselves an id says nothing.
  const id = content === undefined ? file?.text("file_id") : undefined;
  const filename = file?.text("filename");
  if (!file || (id === undefined && content === undefined))
    throw invalidField(`${part.at}.file`, `${part.at}.file must have file_data or file_id.`);
  const inline = content === undefined ? undefined : readInline(content, `${part.at}.file.file_data`);
  const linked = content !== undefined && !inline && /^https?:/.test(content);
  const feature = content === undefined ? "file_id" : linked ? "file_url" : "file_base64";
  reading.uses.push({ feature, path: part.at });
  const source: MediaSource =
    content === undefined
      ? { id: id as string, protocol: "openai-chat" }
      : linked
        ? { url: content }
        : { base64: inline?.base64 ?? content };
  return {
    kind: "media",
    media: inline?.mime.startsWith("image/") ? "image" : "file",
    at: part.at,
    ...(inline?.mime ? { mime: inline.mime } : {}),
    source,
    ...(filename === undefined ? {} : { filename }),
    ...piece(reading, part.rest(), { inner: file.rest(), head: inline?.head ?? "" }),
  };
}

/** Recorded from Mistral and Perplexity: a document by its URL, or its bytes in place of one. */
function linkOf(part: Fields, type: string, reading: Reading): Media {
  const plain = asText(part.of[type]);
  const object = isObject(part.of[type]) ? part.object(type) : undefined;
  const url = plain ?? object?.text("url");
  part.any(type);
  object?.rest();
  if (url === undefined) throw invalidField(`${part.at}.${type}`, `${part.at}.${type} must be a URL.`);
  const form = plain === undefined ? `${type}.url` : type;
  const link = { kind: "media", media: "file", at: part.at } as const;
  const native = piece(reading, part.rest(), { form });
  const web = /^https?:/i.test(url);
  reading.uses.push({ feature: web ? "file_url" : "file_base64", path: part.at });
  if (web || reading.native) return { ...link, source: { url }, ...native };
  const inline = readInline(url, `${part.at}.${type}`);
  return { ...link, ...(inline?.mime ? { mime: inline.mime } : {}), source: { base64: inline?.base64 ?? url } };
}

/** A mark for the prompt cache: OpenAI's own, or the one that other vendors took over from Anthropic. */
export function cacheOf(part: Fields): { cache?: CacheMark } {
  for (const name of ["prompt_cache_breakpoint", "cache_control"]) {
    const mark = isObject(part.of[name]) ? part.object(name) : undefined;
    if (!mark) continue;
    part.leave(name, "cache_mark");
    // A mark marks, whatever it calls that.
    mark.any("type");
    mark.any("mode");
    const { ttl } = mark.of;
    const known = ttl === "5m" || ttl === "30m" || ttl === "1h" || ttl === "12h";
    if (known) mark.any("ttl");
    mark.rest();
    return { cache: known ? { ttl } : {} };
  }
  return {};
}

/** `native` of a piece, where it is asked for. */
export const piece = (
  reading: Reading,
  rest: JsonObject,
  more: Omit<PieceNative, "rest"> = {},
): { native?: PieceNative } => (reading.native ? { native: { rest, ...more } } : {});
