import { asList, asObject, fixedPaths, type JsonObject, type TranslatedProtocol } from "model-gateway/protocol";
import { drawn } from "../openai/demo.ts";
import { failure } from "../openai/errors.ts";
import { chunked } from "../openai/family.ts";
import { otherModels } from "../openai/objects.ts";
import { objects } from "./objects.ts";
import { decodeRequest, decodingRequest } from "./request.decode.ts";
import { encodeRequest, encodingRequest } from "./request.encode.ts";
import { decode, decoder } from "./response.decode.ts";
import { encode, encoder } from "./response.encode.ts";
import { fields, support } from "./support.ts";
import { opaque, texts } from "./texts.ts";
import { readUsage } from "./usage.ts";
import { chat } from "./wire.ts";

/**
 * Reports whether a request needs Responses: OpenAI's newer models think with function tools only there; in Chat they refuse
 * an effort.
 */
function wantsResponses(body: JsonObject): boolean {
  const effort = body["reasoning_effort"];
  // Checked first: members are parsed on access, and tools are long.
  if (typeof effort !== "string" || effort === "none") return false;
  return asList(body["tools"]).some((tool) => asObject(tool)?.["type"] === "function");
}

/** Chat Completions, the dialect of most vendors and tools. */
const openaiChat: TranslatedProtocol = {
  ...chunked,
  name: "openai-chat",
  common: true,
  ...fixedPaths({
    "/v1/chat/completions": chat,
  }),
  usageMembers: ["usage", "service_tier"],
  output: { tokens: [["max_completion_tokens"], ["max_tokens"]], times: [["n"]], later: "deferred" },

  recognises: (path) => /\/chat\/completions(\/|$)/.test(path),
  usage: readUsage,
  texts,
  long: ["messages", "tools", "functions", "prediction"],
  // Measured over recorded streams of seven vendors.
  tokens: { times: 1.01, call: 9, input: { turn: 7, tools: 29, schema: 0.5 } },
  objects,
  otherModels,
  demo: (request) => drawn(openaiChat, request),
  translation: {
    request: {
      decode: decodeRequest,
      decoding: decodingRequest,
      encode: encodeRequest,
      encoding: encodingRequest,
      opaque,
      support,
      fields,
      objectSchemas: true,
    },
    response: { decoder, decode, encoder, encode, failure },
  },
  better: { protocol: "openai-responses", wants: wantsResponses },
};

export default openaiChat;
