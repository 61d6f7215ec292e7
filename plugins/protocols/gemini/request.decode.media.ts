import { defined, type Media, type MediaSource } from "model-gateway/protocol";
import { mediaOf } from "./media.ts";
import { type Form, type Members, wrong } from "./request.members.ts";
import { NAME, type NativePart, type Reading, remembered, say, sayLeft } from "./request.native.ts";

/** What a part can hold. [S] */
const HELD = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
] as const;

/** A part holds one thing; which one is meant of two, nobody knows. Between equals its vendor judges. */
export function refuseTwo(part: Members, { asked }: Reading): void {
  if (asked.native || Object.keys(part.source).length < 2) return;
  const held = HELD.filter((name) => part.has(name));
  if (held.length > 1)
    wrong(part.at, `holds ${held.join(" and ")}; a part is one of them`, "Send a part for each of them.");
}

/** Bytes or a file, in a part or in a function's result. */
export function readMedia(part: Members, reading: Reading): Media {
  const inline = part.object("inlineData");
  const blob = inline ?? (part.object("fileData") as Members);
  const mime = blob.text("mimeType");
  const filename = blob.text("displayName");
  const { source, data } = inline ? readBytes(inline) : { source: readAddress(blob), data: undefined };
  const media = mime === undefined && "url" in source && FILMS.test(source.url) ? "video" : mediaOf(mime);
  sayMedia(media, source, part, reading);
  const { detail, resolution } = readDetail(part, reading);
  // A signature on media is nothing that could be told to anyone else.
  part.keep("thoughtSignature");
  sayLeft(part, reading);
  sayLeft(blob, reading);
  const native = (): NativePart => ({ form: part.form(), inner: blob.form(), ...defined({ data, resolution }) });
  return {
    kind: "media",
    at: part.at,
    media,
    source,
    ...defined({ mime, filename, detail }),
    ...remembered(reading, native),
  };
}

/** Standard base64, and the source's where that is different: proto JSON takes the alphabet for URLs, too. [F] */
function readBytes(blob: Members): { source: MediaSource; data: string | undefined } {
  const data = blob.text("data") ?? wrong(blob.path("data"), "is missing");
  const standard = standardBase64(data);
  return { source: { base64: standard }, data: standard === data ? undefined : data };
}

/** The text in the usual alphabet, padded. */
export function standardBase64(data: string): string {
  if (!/[-_]/.test(data) && data.length % 4 === 0) return data;
  const standard = data.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, "");
  return standard.padEnd(Math.ceil(standard.length / 4) * 4, "=");
}

/** Addresses in the vendor's own stores, which nobody else can open. */
const STORED = /^gs:|^https?:\/\/generativelanguage\.googleapis\.com\/|^(?!https?:)/i;

/** Addresses of films, which the vendor takes without their type. [D] */
const FILMS = /^https?:\/\/(?:(?:www\.|m\.)?youtube\.com|youtu\.be)\//i;

function readAddress(file: Members): MediaSource {
  const uri = file.text("fileUri") ?? wrong(file.path("fileUri"), "is missing");
  return STORED.test(uri) ? { id: uri, protocol: NAME } : { url: uri };
}

function sayMedia(media: Media["media"], source: MediaSource, part: Members, reading: Reading): void {
  if ("id" in source) say(reading, "file_id", part.at);
  if (media === "audio" || media === "video") say(reading, media, part.at);
  else if (!("id" in source)) say(reading, `${media}_${"url" in source ? "url" : "base64"}`, part.at);
}

function readDetail(part: Members, reading: Reading): { detail?: string; resolution?: Form } {
  const resolution = part.object("mediaResolution");
  if (!resolution) return {};
  say(reading, "media_detail", resolution.at);
  const detail = resolution.word("level")?.replace("MEDIA_RESOLUTION_", "").toLowerCase();
  for (const name of resolution.left())
    say(reading, name === "level" ? "cosmetic" : "other", `${resolution.at}.${name}`);
  return { ...defined({ detail }), resolution: resolution.form() };
}
