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

/** Files, voices, and audio that an assistant said before. [S: ChatCompletionCreateParams] */
export const objects: ObjectWords = {
  top: [],
  anywhere: ["file_id", "audio"],
  // One that a key made; the vendor's own go by a word.
  asObjects: ["voice"],
  unread: UNREAD,
  makes: (request) => stored(request) || request.member("audio") !== undefined,
  members: ["id", "choices"],
  made,
  tells: (frame) => frame.mayContain("role", QUOTE) || frame.mayContain("audio"),
};

const QUOTE = '"'.charCodeAt(0);
