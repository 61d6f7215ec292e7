import { type AskedBody, asList, asObject, asText, type JsonObject, type ObjectWords } from "model-gateway/protocol";
import { UNREAD } from "../openai/objects.ts";

const stored = (request: AskedBody): boolean => request.member("store")?.kind === "true";

/** Returns the ids of a stored completion, and of audio that a later request can name. */
function* made({ id, choices }: JsonObject, request: AskedBody): Generator<string> {
  if (typeof id === "string" && stored(request)) yield id;
  for (const choice of asList(choices)) {
    const { message, delta } = asObject(choice) ?? {};
    const audio = asText(asObject(asObject(asObject(message ?? delta))?.["audio"])?.["id"]);
    if (audio !== undefined) yield audio;
  }
}

/** Objects in a bucket, which Google's servers, and others in front of them, read with the operator's account. */
const BUCKETS = "gs://";
const STORED = /^\s*gs:(?:\/\/([^/]*))?/i;

/** Full names of Google's stored objects: its servers accept them in `extra_body.google` and as file ids. [D] */
const KEPT = /^\s*(?:projects\/[^/]*\/locations\/[^/]*\/)?(?:cachedContents|files|fileSearchStores)\/([^/]*?)\s*$/i;

/**
 * Files, voices, earlier audio of an assistant, and caches of Google's servers. [S: ChatCompletionCreateParams; D: OpenAI
 * compatibility of the Gemini API]
 */
export const objects: ObjectWords = {
  top: [],
  anywhere: ["file_id", "audio", "cached_content", "cachedContent"],
  // Azure searches them with the operator's identity. [D: Azure OpenAI On Your Data]
  itself: ["data_sources"],
  // A voice created with a key; the vendor's own are plain words.
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
