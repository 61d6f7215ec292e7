import { type AskedBody, asList, asObject, asText, type JsonObject, type ObjectWords } from "model-gateway/protocol";
import { UNREAD } from "../openai/objects.ts";

const stored = (request: AskedBody): boolean => request.member("store")?.kind === "true";

/** A completion that is stored, and the audio that a later request names. */
function* made({ id, choices }: JsonObject, request: AskedBody): Generator<string> {
  if (typeof id === "string" && stored(request)) yield id;
  for (const choice of asList(choices)) {
    const { message, delta } = asObject(choice) ?? {};
    const audio = asText(asObject(asObject(asObject(message ?? delta))?.["audio"])?.["id"]);
    if (audio !== undefined) yield audio;
  }
}

/** What lies in a bucket, which Google's servers and others in front of them read by the operator's account. */
const BUCKETS = "gs://";
const STORED = /^\s*gs:(?:\/\/([^/]*))?/i;

/** How Google names what an account keeps, whole: its servers take such names in `extra_body.google` and as ids of files. [D] */
const KEPT = /^\s*(?:projects\/[^/]*\/locations\/[^/]*\/)?(?:cachedContents|files|fileSearchStores)\/([^/]*?)\s*$/i;

/**
 * Files, voices, audio that an assistant said before, and what Google's servers have cached.
 * [S: ChatCompletionCreateParams; D: OpenAI compatibility of the Gemini API]
 */
export const objects: ObjectWords = {
  top: [],
  anywhere: ["file_id", "audio", "cached_content", "cachedContent"],
  // Azure searches them with the operator's identity. [D: Azure OpenAI On Your Data]
  itself: ["data_sources"],
  // One that a key made; the vendor's own go by a word.
  asObjects: ["voice"],
  id: (text) => {
    const stored = STORED.exec(text);
    return stored ? BUCKETS + (stored[1] ?? "") : (KEPT.exec(text)?.[1] ?? text);
  },
  places: BUCKETS,
  addresses: ["url", "image_url", "video_url", "audio_url", "file_url", "file_uri", "file_data", "data"],
  unread: UNREAD,
  makes: (request) => stored(request) || request.member("audio") !== undefined,
  members: ["id", "choices"],
  made,
  tells: (frame) => frame.mayContain("role", QUOTE) || frame.mayContain("audio"),
};

const QUOTE = '"'.charCodeAt(0);
