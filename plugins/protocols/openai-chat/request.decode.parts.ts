import {
  asText,
  type FeatureUse,
  type Fields,
  invalidField,
  isObject,
  type Media,
  type MediaSource,
  objectFields,
  type Part,
} from "model-gateway/protocol";
import { audioMediaType, dataUrlSource, isHttpUrl, readDataUrl } from "../openai/wire.ts";
import { readPartCacheMark } from "./wire.ts";

/** Decodes a message's content: a string, a list, or nothing. @throws GatewayError with the part's path. */
export function partsOf(content: unknown, at: string, uses: FeatureUse[]): Part[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ kind: "text", text: content, at }];
  if (!Array.isArray(content)) throw invalidField(at, `${at} must be a string or a list of parts.`);
  return content.map((value, n) => {
    if (typeof value === "string") return { kind: "text", text: value, at: `${at}.${n}` };
    const fields = objectFields(value, `${at}.${n}`, uses);
    const type = fields.text("type");
    const cache = readPartCacheMark(fields);
    const part = partOf(fields, type);
    // A foreign part is declared as a whole.
    if (part.kind === "foreign") return part;
    fields.declareUnread();
    return part.kind === "reasoning" ? part : { ...part, ...cache };
  });
}

function partOf(part: Fields, type: string | undefined): Part {
  const { ownPath: at } = part;
  switch (type) {
    case "text":
    case "input_text":
    case "output_text":
      return { kind: "text", text: part.required("text"), at };
    case "refusal":
      return { kind: "refusal", text: part.text("refusal") ?? "", at };
    case "image_url":
      return imageOf(part);
    case "video_url":
      return videoOf(part);
    case "input_audio":
      return audioOf(part);
    case "file":
      return fileOf(part);
    case "file_url":
    case "document_url":
      return linkOf(part, type);
    default:
      return foreignOf(part, type);
  }
}

/** Decodes a part of a vendor-specific kind; Mistral's thinking is one that other vendors can read. */
function foreignOf(part: Fields, type: string | undefined): Part {
  const { ownPath: at, uses } = part;
  const thinking = type === "thinking" ? part.members["thinking"] : undefined;
  if (Array.isArray(thinking)) {
    part.declareSelf("reasoning_text");
    part.any("thinking");
    const texts = thinking.map((piece, n) => readThinking(piece, `${at}.thinking.${n}`, uses));
    return { kind: "reasoning", text: texts.join(""), at };
  }
  if (type === undefined) return part.refuse("type", "must be a string.");
  part.declareForeign(type);
  return { kind: "foreign", protocol: "openai-chat", name: type, json: part.members, at };
}

/** Returns the text of a piece of Mistral's thinking; its sources only its vendor understands. */
function readThinking(value: unknown, at: string, uses: FeatureUse[]): string {
  if (typeof value === "string") return value;
  const text = isObject(value) ? asText(value["text"]) : undefined;
  if (text === undefined) uses.push({ feature: "other", path: at });
  else {
    const piece = objectFields(value, at, uses);
    piece.any("type");
    piece.any("text");
    piece.declareUnread();
  }
  return text ?? "";
}

export function imageOf(part: Fields): Media {
  // Recorded from Mistral: the URL itself where others have an object with it.
  const plainUrl = asText(part.members["image_url"]);
  const image = plainUrl === undefined ? part.object("image_url") : undefined;
  if (plainUrl !== undefined) part.any("image_url");
  const url = plainUrl ?? image?.text("url");
  if (url === undefined) return part.refuse("image_url.url", "must be a string.");
  const detail = image?.text("detail");
  if (detail !== undefined && detail !== "auto") image?.declare("detail", "media_detail");
  const inline = readDataUrl(url, `${part.ownPath}.image_url`);
  part.declareSelf(inline ? "image_base64" : "image_url");
  return {
    kind: "media",
    media: "image",
    at: part.ownPath,
    ...(inline ? dataUrlSource(inline) : { source: { url } }),
    ...(detail === undefined ? {} : { detail, detailAt: `${part.ownPath}.image_url.detail` }),
  };
}

/** Decodes a video as OpenRouter, Qwen and vLLM take it. */
function videoOf(part: Fields): Media {
  const url = part.object("video_url")?.text("url") ?? part.refuse("video_url.url", "must be a string.");
  const inline = readDataUrl(url, part.path("video_url.url"));
  part.declareSelf("video");
  const source = inline ? dataUrlSource(inline) : { source: { url } };
  return { kind: "media", media: "video", at: part.ownPath, ...source };
}

function audioOf(part: Fields): Media {
  const audio = part.object("input_audio");
  const base64 = audio?.text("data");
  const format = audio?.text("format");
  if (base64 === undefined || format === undefined) return part.refuse("input_audio", "must have data and format.");
  part.declareSelf("audio");
  return { kind: "media", media: "audio", at: part.ownPath, mime: audioMediaType(format), source: { base64 } };
}

function fileOf(part: Fields): Media {
  const file = part.object("file");
  const content = file?.text("file_data");
  // An id beside the bytes is ignored.
  const id = content === undefined ? file?.text("file_id") : undefined;
  const filename = file?.text("filename");
  if (!file || (id === undefined && content === undefined))
    return part.refuse("file", "must have file_data or file_id.");
  const inline = content === undefined ? undefined : readDataUrl(content, `${part.ownPath}.file.file_data`);
  const isUrl = content !== undefined && !inline && isHttpUrl(content);
  const feature = content === undefined ? "file_id" : isUrl ? "file_url" : "file_base64";
  part.declareSelf(feature);
  const source: MediaSource =
    content === undefined
      ? { id: id as string, protocol: "openai-chat" }
      : isUrl
        ? { url: content }
        : { base64: content };
  return {
    kind: "media",
    media: inline?.mime.startsWith("image/") ? "image" : "file",
    at: part.ownPath,
    ...(inline ? dataUrlSource(inline) : { source }),
    ...(filename === undefined ? {} : { filename }),
  };
}

/** Decodes a document by its URL, or with its bytes instead of one. Recorded from Mistral and Perplexity. */
function linkOf(part: Fields, type: string): Media {
  const object = isObject(part.members[type]) ? part.object(type) : undefined;
  const url = asText(part.members[type]) ?? object?.text("url");
  part.any(type);
  if (url === undefined) return part.refuse(type, "must be a URL.");
  const media = { kind: "media", media: "file", at: part.ownPath } as const;
  const isFetched = isHttpUrl(url);
  part.declareSelf(isFetched ? "file_url" : "file_base64");
  if (isFetched) return { ...media, source: { url } };
  const inline = readDataUrl(url, `${part.ownPath}.${type}`);
  return { ...media, ...(inline ? dataUrlSource(inline) : { source: { base64: url } }) };
}
