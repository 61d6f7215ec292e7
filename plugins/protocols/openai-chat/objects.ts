import {
  asList,
  asObject,
  asText,
  type JsonObject,
  type ObjectMembers,
  type RequestMembers,
} from "model-gateway/protocol";
import { UNREAD_MEMBERS } from "../openai/objects.ts";

const isStored = (request: RequestMembers): boolean => request.member("store")?.kind === "true";

/** Returns the ids of a stored completion, and of audio that a later request can name. */
function* createdIds({ id, choices }: JsonObject, request: RequestMembers): Generator<string> {
  if (typeof id === "string" && isStored(request)) yield id;
  for (const choice of asList(choices)) {
    const { message, delta } = asObject(choice) ?? {};
    const audio = asText(asObject(asObject(asObject(message ?? delta))?.["audio"])?.["id"]);
    if (audio !== undefined) yield audio;
  }
}

/** Objects in a bucket, which Google's servers, and others in front of them, read with the operator's account. */
const BUCKET_SCHEME = "gs://";
const BUCKET_URL = /^\s*gs:(?:\/\/([^/]*))?/i;

/** Full names of Google's stored objects: its servers accept them in `extra_body.google` and as file ids. [D] */
const GOOGLE_RESOURCE =
  /^\s*(?:projects\/[^/]*\/locations\/[^/]*\/)?(?:cachedContents|files|fileSearchStores)\/([^/]*)$/i;

/**
 * Files, voices, earlier audio of an assistant, and caches of Google's servers. [S: ChatCompletionCreateParams; D: OpenAI
 * compatibility of the Gemini API]
 */
export const objects: ObjectMembers = {
  topLevel: [],
  anyDepth: ["file_id", "audio", "cached_content", "cachedContent"],
  // Azure searches them with the operator's identity. [D: Azure OpenAI On Your Data]
  byPresence: ["data_sources"],
  // A voice created with a key; the vendor's own voices are strings.
  objectsOnly: ["voice"],
  id: (text) => {
    const bucketMatch = BUCKET_URL.exec(text);
    return bucketMatch ? BUCKET_SCHEME + (bucketMatch[1] ?? "") : (GOOGLE_RESOURCE.exec(text)?.[1]?.trimEnd() ?? text);
  },
  placePrefix: BUCKET_SCHEME,
  urlMembers: ["url", "image_url", "video_url", "audio_url", "file_url", "file_uri", "file_data", "data"],
  notSearched: UNREAD_MEMBERS,
  createsObjects: (request) => isStored(request) || request.member("audio") !== undefined,
  createdIdMembers: ["id", "choices"],
  createdIds,
  mayHoldIds: (frame) => frame.mayContain("role", QUOTE) || frame.mayContain("audio"),
};

const QUOTE = '"'.charCodeAt(0);
