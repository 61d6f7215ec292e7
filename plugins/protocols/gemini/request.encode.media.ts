import { defined, entryOf, type JsonObject, type Media } from "model-gateway/protocol";
import { shaped } from "./request.members.ts";
import { NAME, type NativePart } from "./request.native.ts";
import type { Writing } from "./request.writing.ts";

/** Types by the ending of a name: the vendor wants one with every file, also with one it is to fetch. */
const TYPES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  heic: "image/heic",
  heif: "image/heif",
  svg: "image/svg+xml",
  pdf: "application/pdf",
  txt: "text/plain",
  md: "text/markdown",
  csv: "text/csv",
  html: "text/html",
  htm: "text/html",
  xml: "text/xml",
  json: "application/json",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  ogg: "audio/ogg",
  flac: "audio/flac",
  aac: "audio/aac",
  m4a: "audio/mp4",
  mp4: "video/mp4",
  mpeg: "video/mpeg",
  mov: "video/quicktime",
  webm: "video/webm",
};

/** Bytes or a file that the vendor fetches. */
export function writeMedia(media: Media, native: NativePart | undefined, writing: Writing): JsonObject {
  const { source } = media;
  const place = "base64" in source || "text" in source ? { data: bytes(source, native) } : address(media, writing);
  const mimeType = native ? media.mime : typeOf(media, writing);
  if (!native && media.filename !== undefined)
    writing.terms.change(media.at, "the name of a file cannot be told there; the file is sent without it");
  const displayName = native ? media.filename : undefined;
  const inner = shaped(defined({ mimeType, ...place, displayName }), native?.inner);
  const part: JsonObject = "data" in place ? { inlineData: inner } : { fileData: inner };
  if (native?.resolution) {
    const level = media.detail === undefined ? undefined : `MEDIA_RESOLUTION_${media.detail.toUpperCase()}`;
    part["mediaResolution"] = shaped({ level }, native.resolution);
  }
  return shaped(part, native?.form);
}

/** The source's base64 as long as it stands for the same bytes. */
function bytes(source: { base64: string } | { text: string }, native: NativePart | undefined): string {
  if ("text" in source) return Buffer.from(source.text).toString("base64");
  const { data } = native ?? {};
  return data !== undefined && Buffer.from(data, "base64").equals(Buffer.from(source.base64, "base64"))
    ? data
    : source.base64;
}

function address({ source, at }: Media, { own, terms }: Writing): { fileUri: string } {
  if ("url" in source) {
    if (own || /^(?:https?|gs):/i.test(source.url)) return { fileUri: source.url };
    return terms.refuse(at, "the vendor fetches http and https, and files at gs: only. Send the bytes");
  }
  if ("id" in source && source.protocol === NAME) return { fileUri: source.id };
  return terms.refuse(at, "a file by the id of another vendor cannot be read there. Send its bytes or its URL");
}

function typeOf(media: Media, { terms }: Writing): string {
  if (media.mime !== undefined && media.mime !== "") return media.mime;
  const { source, filename } = media;
  if ("text" in source) return "text/plain";
  const name = filename ?? ("url" in source ? source.url.replace(/[?#].*$/s, "") : "");
  const ending = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  return (
    entryOf(TYPES, ending) ??
    terms.refuse(
      media.at,
      "the type of a file must be told there, and neither a media type nor an ending of its name does",
    )
  );
}
