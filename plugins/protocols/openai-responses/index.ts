import { fixedPaths, post, type TranslatedProtocol, type Translation } from "model-gateway/protocol";
import { family } from "../openai/family.ts";
import { count } from "./count.ts";
import { demo } from "./demo.ts";
import { streamError } from "./errors.ts";
import { kept } from "./kept.ts";
import { decode as decodeRequest } from "./request.decode.ts";
import { encode as encodeRequest } from "./request.encode.ts";
import { INPUT_TOKENS, RESPONSE } from "./request.operations.ts";
import { decode, decoder, failure } from "./response.decode.ts";
import { encode, encoder } from "./response.encode.ts";
import { ending } from "./stream.ts";
import { fields, support } from "./support.ts";
import { opaque, texts } from "./texts.ts";
import { readUsage } from "./usage.ts";

const translation: Translation = {
  request: { decode: decodeRequest, encode: encodeRequest, opaque, support: support, fields },
  response: { decoder, decode, encoder, encode, failure },
  count,
};

/** Responses: the protocol of agents. */
const openaiResponses: TranslatedProtocol = {
  ...family,
  name: "openai-responses",
  ...fixedPaths({
    "/v1/responses": RESPONSE,
    "/v1/responses/input_tokens": INPUT_TOKENS,
    "/v1/responses/compact": post("compact", "/responses/compact", { streams: false }),
  }),
  // What the vendor's own coding agent says of its session; the vendor's caches and models look at it.
  headers: [...family.headers, "originator", "session-id", "session_id", "thread-id", "x-codex-*", "x-openai-*"],
  usageMembers: ["usage", "service_tier"],

  recognises: (path) => /\/responses(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  texts,
  kept,
  demo,
  translation,
};

export default openaiResponses;
