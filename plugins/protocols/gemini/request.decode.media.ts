import { defined, type Media, type MediaSource } from "model-gateway";
import { type Form, type Members, wrong } from "./request.members.ts";
import { NAME, type NativePart, type Reading, remembered, say } from "./request.native.ts";

/** Bytes or a file, in a part or in a function's result. */
export function readMedia(part: Members, reading: Reading): Media {
  const inline = part.object("inlineData");
  const blob = inline ?? (part.object("fileData") as Members);
  const mime = blob.text("mimeType");
  const filename = blob.text("displayName");
  const { source, data } = inline ? readBytes(inline) : { source: readAddress(blob), data: undefined };
  const media = mediaOf(mime);
  sayMedia(media, source, part, reading);
  const { detail, resolution } = readDetail(part, reading);
  // A signature on media is nothing that could be told to anyone else.
  part.keep("thoughtSignature");
  for (const name of part.left()) say(reading, /^video_?m/i.test(name) ? "video" : "cosmetic", `${part.at}.${name}`);
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

function readAddress(file: Members): MediaSource {
  const uri = file.text("fileUri") ?? wrong(file.path("fileUri"), "is missing");
  return STORED.test(uri) ? { id: uri, protocol: NAME } : { url: uri };
}

function mediaOf(mime: string | undefined): Media["media"] {
  const kind = mime?.split("/", 1)[0]?.toLowerCase();
  return kind === "image" || kind === "audio" || kind === "video" ? kind : "file";
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
  return { ...defined({ detail }), resolution: resolution.form() };
}
