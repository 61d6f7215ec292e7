/** Reads the parts of a message's content, and of a tool's output. */
import {
  asObject,
  type CacheMark,
  type Citation,
  type Fields,
  invalidField,
  type JsonObject,
  type Media,
  type Part,
  type Refusal,
  type Text,
} from "model-gateway/protocol";
import { audioFormat, audioType, dataUrl, type Inline, readInline } from "../openai/wire.ts";
import type { MediaNative, RestNative, TextNative } from "./request.native.ts";
import { leave, NAME, need, peek, type Reading } from "./request.read.ts";

/** @param content a string, or a list of parts @throws GatewayError `invalid_field` */
export function readContent(reading: Reading, content: unknown, at: string): Part[] {
  if (typeof content === "string") return [{ kind: "text", text: content, at }];
  if (!Array.isArray(content)) throw invalidField(at, `${at} must be a string or a list of parts.`);
  return content.map((part, i) => readPart(reading, reading.fields(part, `${at}.${i}`)));
}

function readPart(reading: Reading, fields: Fields): Part {
  const type = need(fields, "type");
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      return readText(reading, fields, type);
    case "refusal":
      return readRefusal(reading, fields);
    case "input_image":
      return readImage(reading, fields);
    case "input_file":
      return readFile(reading, fields);
    case "input_audio":
      return readAudio(reading, fields);
    default:
      reading.say("foreign_block", fields.at);
      return { kind: "foreign", protocol: NAME, name: type, json: fields.of, at: fields.at };
  }
}

function readText(reading: Reading, fields: Fields, type: string): Text {
  const text = need(fields, "text");
  const mark = readMark(reading, fields);
  const annotations = fields.list("annotations")?.map(readAnnotation);
  const citations = annotations?.flatMap(({ citation }) => citation ?? []) ?? [];
  if (annotations?.length) fields.declare("annotations", "citations");
  // Likelihoods of an earlier answer's tokens are not read by anybody.
  leave(fields, "logprobs");
  return {
    kind: "text",
    text,
    at: fields.at,
    ...mark.cache,
    ...(citations.length > 0 && { citations }),
    ...reading.native<TextNative>({
      type,
      rest: fields.rest(),
      ...mark.native,
      ...(annotations && {
        annotations: annotations.map(({ citation, rest }) => ({ url: citation !== undefined, rest })),
      }),
    }),
  };
}

function readAnnotation(value: unknown): { citation?: Citation; rest: JsonObject } {
  const { type, url, title, start_index: start, end_index: end, ...rest } = asObject(value) ?? {};
  const cited = type === "url_citation" && typeof url === "string";
  if (!cited || typeof start !== "number" || typeof end !== "number") return { rest: value as JsonObject };
  if (typeof title === "string") return { citation: { url, title, start, end }, rest };
  return { citation: { url, start, end }, rest: title === undefined ? rest : { ...rest, title } };
}

function readRefusal(reading: Reading, fields: Fields): Refusal {
  const text = need(fields, "refusal");
  return { kind: "refusal", text, at: fields.at, ...reading.native<RestNative>({ rest: fields.rest() }) };
}

function readImage(reading: Reading, fields: Fields): Media {
  const url = fields.text("image_url");
  const { kept, ...source } = url === undefined ? readId(fields, "image_url") : readUrl(fields, url);
  const detail = readDetail(fields);
  const mark = readMark(reading, fields);
  return {
    kind: "media",
    media: "image",
    ...source,
    at: fields.at,
    ...detail,
    ...mark.cache,
    ...reading.native<MediaNative>({ rest: fields.rest(), ...kept, ...mark.native }),
  };
}

function readDetail(fields: Fields): { detail?: string } {
  const detail = fields.text("detail");
  if (detail !== undefined && detail !== "auto") fields.declare("detail", "media_detail");
  return detail === undefined ? {} : { detail };
}

interface Source extends Pick<Media, "mime" | "source"> {
  /** The form of the bytes, where it is not the usual one. */
  kept?: Pick<MediaNative, "head">;
}

function readUrl(fields: Fields, url: string): Source {
  const inline = readInline(url, fields.path("image_url"));
  fields.declare("image_url", inline ? "image_base64" : "image_url");
  return inline ? sourceOf(inline) : { source: { url } };
}

function sourceOf({ mime, base64, head }: Inline): Source {
  const usual = head === dataUrl(mime, "");
  return { ...(mime !== "" && { mime }), source: { base64 }, ...(!usual && { kept: { head } }) };
}

function readId(fields: Fields, other: string): Source {
  const id = fields.text("file_id");
  if (id === undefined) throw invalidField(fields.path(other), `${fields.path(other)} or file_id must be said.`);
  fields.declare("file_id", "file_id");
  return { source: { id, protocol: NAME } };
}

function readFile(reading: Reading, fields: Fields): Media {
  const filename = fields.text("filename");
  const { kept, ...source } = readFileSource(fields);
  const detail = readDetail(fields);
  const mark = readMark(reading, fields);
  return {
    kind: "media",
    media: "file",
    ...source,
    at: fields.at,
    ...(filename !== undefined && { filename }),
    ...detail,
    ...mark.cache,
    ...reading.native<MediaNative>({ rest: fields.rest(), ...kept, ...mark.native }),
  };
}

function readFileSource(fields: Fields): Source {
  const content = fields.text("file_data");
  if (content !== undefined) {
    fields.declare("file_data", "file_base64");
    const inline = readInline(content, fields.path("file_data"));
    return inline ? sourceOf(inline) : { source: { base64: content }, kept: { head: "" } };
  }
  const url = fields.text("file_url");
  if (url === undefined) return readId(fields, "file_data");
  fields.declare("file_url", "file_url");
  return { source: { url } };
}

function readAudio(reading: Reading, fields: Fields): Media {
  const audio = reading.fields(fields.any("input_audio"), fields.path("input_audio"));
  const format = need(audio, "format");
  const base64 = need(audio, "data");
  const mime = audioType(format);
  reading.say("audio", fields.at);
  return {
    kind: "media",
    media: "audio",
    mime,
    source: { base64 },
    at: fields.at,
    ...reading.native<MediaNative>({
      rest: fields.rest(),
      audio: audio.rest(),
      ...(audioFormat(mime) !== format && { format }),
    }),
  };
}

const TTLS = ["5m", "30m", "1h", "12h"] as const;

/** A mark for the prompt cache, which a part of a message or of a tool's output carries. */
function readMark(
  reading: Reading,
  fields: Fields,
): { cache?: { cache: CacheMark }; native?: Pick<TextNative, "breakpoint"> } {
  const mark = fields.object("prompt_cache_breakpoint");
  if (!mark) return {};
  reading.say("cache_mark", mark.at);
  const ttl = TTLS.find((word) => word === peek(mark, "ttl"));
  if (ttl) mark.any("ttl");
  leave(mark, "mode");
  return { cache: { cache: { ...(ttl && { ttl }) } }, native: { breakpoint: mark.rest() } };
}
