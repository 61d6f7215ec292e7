import {
  type CacheMark,
  type EncodeContext,
  type JsonObject,
  type Media,
  type Part,
  type Text,
} from "model-gateway/protocol";
import { breakpointOf } from "../openai/request.encode.ts";
import { audioFormat, dataUrl, filenameOf, inlineOf, isDetail, isFetched } from "../openai/wire.ts";
import type { PieceNative } from "./request.native.ts";

/** A content part for text. */
export function textPart(part: Text): JsonObject | string {
  const native = part.native as PieceNative | undefined;
  if (native?.form === "string") return part.text;
  return { type: native?.form ?? "text", text: part.text, ...marked(part.cache, native), ...native?.rest };
}

/** A content part as it was read; undefined for what stands elsewhere in its message. */
export function samePart(part: Part, terms: EncodeContext): unknown {
  const native = part.native as PieceNative | undefined;
  switch (part.kind) {
    case "text":
      return textPart(part);
    case "media":
      return mediaPart(part, terms);
    case "foreign":
      return part.json;
    case "refusal":
      return native && { type: "refusal", refusal: part.text, ...native.rest };
    case "reasoning":
      if (native?.form !== "thinking") return undefined;
      return { type: "thinking", thinking: cut(part.text ?? "", native.cuts ?? []), ...native.rest };
    default:
      return undefined;
  }
}

/** A text in the pieces that it came in. */
function cut(text: string, lengths: readonly number[]): JsonObject[] {
  let end = 0;
  return lengths.map((length) => {
    end += length;
    return { type: "text", text: text.slice(end - length, end) };
  });
}

/** The mark up to which the prompt shall be cached; where the very same request is written it is kept as it was. */
export function marked(cache: CacheMark | undefined, native?: PieceNative): JsonObject {
  if (!cache || native) return {};
  return { prompt_cache_breakpoint: breakpointOf(cache) };
}

/** A content part for media. @throws GatewayError where Chat cannot say it. */
export function mediaPart(part: Media, terms: EncodeContext): JsonObject {
  const native = part.native as PieceNative | undefined;
  const body = bodyOf(part, terms, native);
  return { ...body, ...marked(part.cache, native), ...native?.rest };
}

function bodyOf(part: Media, terms: EncodeContext, native: PieceNative | undefined): JsonObject {
  switch (part.media) {
    case "image":
      // Recorded: an image sent as a file, which has a name.
      return native && part.filename !== undefined ? fileOf(part, terms, native) : imageOf(part, terms, native);
    case "audio":
      return audioOf(part, terms, native);
    case "file":
      return fileOf(part, terms, native);
    case "video":
      return terms.refuse(part.at, "Chat Completions takes no video");
  }
}

function imageOf({ source, mime, detail, at }: Media, terms: EncodeContext, native?: PieceNative): JsonObject {
  let url: string;
  if ("url" in source) {
    if (!native && !isFetched(source.url) && !inlineOf(source.url))
      terms.refuse(at, "The vendor fetches http and https only: send the bytes");
    url = source.url;
  } else if ("base64" in source) {
    if (!native && mime === undefined) terms.refuse(at, "An image as bytes needs its media type");
    url = native ? `${native.head}${source.base64}` : dataUrl(mime ?? "", source.base64);
  } else return terms.refuse(at, "Chat Completions takes an image by its URL or as bytes, not by an id");
  if (native?.form === "string") return { type: "image_url", image_url: url };
  const known = detail !== undefined && (native !== undefined || isDetail(detail));
  if (detail !== undefined && !known) terms.drop(at, `Chat Completions has no detail ${detail}`);
  return { type: "image_url", image_url: { url, ...(known ? { detail } : {}), ...native?.inner } };
}

function audioOf({ source, mime, at }: Media, terms: EncodeContext, native?: PieceNative): JsonObject {
  if (!("base64" in source)) return terms.refuse(at, "Chat Completions takes audio as bytes only");
  const format = audioFormat(mime) ?? (native ? mime?.replace("audio/", "") : undefined);
  if (format === undefined) return terms.refuse(at, `Chat Completions takes audio as wav or mp3, not as ${mime}`);
  return { type: "input_audio", input_audio: { data: source.base64, format, ...native?.inner } };
}

function fileOf({ source, mime, filename, at }: Media, terms: EncodeContext, native?: PieceNative): JsonObject {
  const inner = native?.inner ?? {};
  const named = filename === undefined ? {} : { filename };
  if ("id" in source) {
    if (!source.protocol.startsWith("openai-"))
      terms.refuse(at, "A file's id is only known to the vendor that gave it");
    return { type: "file", file: { file_id: source.id, ...named, ...inner } };
  }
  if ("url" in source) {
    const form = native?.form;
    if (form?.endsWith(".url")) return { type: form.slice(0, -4), [form.slice(0, -4)]: { url: source.url } };
    if (form === "file_url" || form === "document_url") return { type: form, [form]: source.url };
    if (native) return { type: "file", file: { file_data: source.url, ...named, ...inner } };
    return terms.refuse(at, "Chat Completions takes a file as bytes, not by its URL");
  }
  if (native && "base64" in source)
    return { type: "file", file: { file_data: `${native.head}${source.base64}`, ...named, ...inner } };
  const type = "text" in source ? (mime ?? "text/plain") : mime;
  if (type === undefined) return terms.refuse(at, "A file as bytes needs its media type");
  const base64 = "text" in source ? Buffer.from(source.text).toString("base64") : source.base64;
  const name = filename ?? filenameOf(type);
  return { type: "file", file: { filename: name, file_data: dataUrl(type, base64) } };
}
