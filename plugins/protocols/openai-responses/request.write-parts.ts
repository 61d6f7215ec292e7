/** Writes the parts of a message's content, and of a tool's output. */
import {
  type CacheMark,
  type Foreign,
  type JsonObject,
  type Media,
  type Part,
  type Refusal,
  type Text,
} from "model-gateway/protocol";
import { breakpointOf } from "../openai/request.encode.ts";
import { audioFormat, dataUrl, filenameOf, inlineOf, isDetail, isFetched } from "../openai/wire.ts";
import type { MediaNative, RestNative, TextNative } from "./request.native.ts";
import { NAME } from "./request.read.ts";
import { merged, type Writing } from "./request.write.ts";

/** A part that can stand in a message. */
export type Content = Text | Media | Refusal | Foreign;

/** True for what stands in a message; all else is an item of its own. */
export const isContent = (part: Part): part is Content =>
  part.kind === "text" || part.kind === "media" || part.kind === "refusal";

/** Undefined where it cannot be said, which is then declared. @throws GatewayError as `terms.refuse` makes it */
export function writePart(writing: Writing, part: Content, spoken: boolean): JsonObject | undefined {
  switch (part.kind) {
    case "text":
      return writeText(writing, part, spoken);
    case "refusal":
      return merged(writing.native<RestNative>(part)?.rest, { type: "refusal", refusal: part.text });
    case "media":
      return spoken && !writing.same ? dropped(writing, part) : writeMedia(writing, part);
    case "foreign":
      return part.json as JsonObject;
  }
}

function dropped(writing: Writing, part: Media): undefined {
  writing.terms.drop(part.at, "an assistant's message holds text only");
}

function writeText(writing: Writing, part: Text, spoken: boolean): JsonObject {
  const native = writing.native<TextNative>(part);
  const annotations = native ? sameAnnotations(part, native) : newAnnotations(writing, part);
  return merged(native?.rest, {
    type: native?.type ?? (spoken ? "output_text" : "input_text"),
    text: part.text,
    annotations,
    prompt_cache_breakpoint: spoken && !native ? unmarked(writing, part) : writeMark(part.cache, native?.breakpoint),
  });
}

function sameAnnotations(part: Text, native: TextNative): JsonObject[] | undefined {
  const citations = part.citations?.values();
  return native.annotations?.map(({ url, rest }) => {
    const { start, end, ...named } = (url ? citations?.next().value : undefined) ?? {};
    return url ? { ...rest, type: "url_citation", ...named, start_index: start, end_index: end } : rest;
  });
}

/** A citation that tells no place backs the whole text. */
function newAnnotations(writing: Writing, part: Text): JsonObject[] | undefined {
  const annotations = (part.citations ?? []).flatMap(({ url, title, start, end }) => {
    if (url === undefined) return [];
    const place = { start_index: start ?? 0, end_index: end ?? part.text.length };
    return [{ type: "url_citation", url, title: title ?? url, ...place }];
  });
  if (annotations.length < (part.citations?.length ?? 0)) writing.terms.drop(part.at, "a citation without a URL");
  return annotations.length > 0 ? annotations : undefined;
}

/** A mark for the prompt cache, as a member of a part. */
export function writeMark(cache: CacheMark | undefined, rest: JsonObject | undefined): JsonObject | undefined {
  if (!cache) return undefined;
  return rest ? merged(rest, { ttl: cache.ttl }) : breakpointOf(cache);
}

/** Says that a mark has no place on something. */
export function unmarked(writing: Writing, marked: { at: string; cache?: CacheMark }): undefined {
  if (marked.cache && !writing.same) writing.terms.drop(marked.at, "a mark for the prompt cache has no place here");
}

function writeMedia(writing: Writing, part: Media): JsonObject {
  const native = writing.native<MediaNative>(part);
  const members = {
    prompt_cache_breakpoint: writeMark(part.cache, native?.breakpoint),
    ...writeSource(writing, part, native),
  };
  return merged(native?.rest, members);
}

function writeSource(writing: Writing, part: Media, native: MediaNative | undefined): JsonObject {
  switch (part.media) {
    case "image":
      return { type: "input_image", detail: detailOf(writing, part), ...imageSource(writing, part, native) };
    case "file":
      return {
        type: "input_file",
        filename: part.filename,
        detail: detailOf(writing, part),
        ...fileSource(writing, part, native),
      };
    case "audio":
      return { type: "input_audio", input_audio: merged(native?.audio, audioSource(writing, part, native)) };
    case "video":
      return writing.terms.refuse(part.at, "there is no video in this protocol");
  }
}

function detailOf(writing: Writing, part: Media): string | undefined {
  if (part.detail === undefined || isDetail(part.detail) || writing.same) return part.detail;
  writing.terms.drop(part.at, `there is no detail ${part.detail}`);
  return undefined;
}

function imageSource(writing: Writing, part: Media, native: MediaNative | undefined): JsonObject {
  const { source } = part;
  if ("id" in source) return { file_id: vendorId(writing, part, source) };
  if ("url" in source) return { image_url: fetched(writing, part, source.url) };
  if ("text" in source) return writing.terms.refuse(part.at, "an image cannot be a text");
  if (part.mime === undefined && !writing.same) writing.terms.refuse(part.at, "its media type must be said");
  return { image_url: headOf(native, part.mime ?? "") + source.base64 };
}

function fetched(writing: Writing, part: Media, url: string): string {
  if (writing.same || isFetched(url) || (part.media === "image" && inlineOf(url))) return url;
  return writing.terms.refuse(part.at, "the vendor fetches http and https only: send the bytes");
}

/** What stands before bytes in base64. */
const headOf = (native: MediaNative | undefined, mime: string): string => native?.head ?? dataUrl(mime, "");

function fileSource(writing: Writing, part: Media, native: MediaNative | undefined): JsonObject {
  const { source } = part;
  if ("id" in source) return { file_id: vendorId(writing, part, source) };
  if ("url" in source) return { file_url: fetched(writing, part, source.url) };
  const text = "text" in source;
  const base64 = text ? Buffer.from(source.text).toString("base64") : source.base64;
  const mime = part.mime ?? (text ? "text/plain" : undefined);
  const file_data = headOf(native, mime ?? (native ? "" : "application/octet-stream")) + base64;
  return { file_data, filename: part.filename ?? (native ? undefined : filenameOf(mime)) };
}

/** Ids of files are the same in all protocols of this vendor. */
function vendorId(writing: Writing, part: Media, source: { id: string; protocol: string }): string {
  if (source.protocol === NAME || source.protocol === "openai-chat") return source.id;
  return writing.terms.refuse(part.at, "the file lies at another vendor: send it with the request, or its URL");
}

function audioSource(writing: Writing, part: Media, native: MediaNative | undefined): JsonObject {
  const { source, mime } = part;
  const format = native?.format ?? audioFormat(mime);
  if (!("base64" in source)) return writing.terms.refuse(part.at, "audio must be sent in base64");
  if (format === undefined) return writing.terms.refuse(part.at, "audio must be audio/wav or audio/mpeg");
  return { data: source.base64, format };
}
