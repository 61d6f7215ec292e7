import {
  asObject,
  asText,
  fixedPaths,
  type Operation,
  type TranslatedProtocol,
  type Translation,
} from "model-gateway/protocol";
import { demoImage } from "../openai/demo.ts";
import { parseErrorResponse } from "../openai/errors.ts";
import { family } from "../openai/family.ts";
import { imageTokens, usualImageTokens } from "../openai/image-tokens.ts";
import { demo } from "./demo.ts";
import { streamError } from "./errors.ts";
import { objects, otherModels } from "./objects.ts";
import { decodeRequest } from "./request.decode.ts";
import { encodeRequest } from "./request.encode.ts";
import { createDecoder, decodeResponse, ending, terminal } from "./response.decode.ts";
import { createEncoder, encodeResponse } from "./response.encode.ts";
import { fields, support } from "./support.ts";
import { opaque, texts } from "./texts.ts";
import { hiddenReasoning, holdsToolCall, inputTokensCodec, readUsage, SEARCH_CALL } from "./usage.ts";
import { COMPACT, IMAGE_TOOL, INPUT_TOKENS, RESPONSE } from "./wire.ts";

const translation: Translation = {
  request: {
    decode: decodeRequest,
    encode: encodeRequest,
    opaque,
    support,
    fields,
    objectSchemas: true,
  },
  response: {
    decoder: createDecoder,
    decode: decodeResponse,
    encoder: createEncoder,
    encode: encodeResponse,
    decodeError: parseErrorResponse,
  },
  count: inputTokensCodec,
};

/** The path of a stored response, or below it. An id becomes part of a path: only letters, digits, `_` and `-` are allowed. */
const STORED_PATH = /^([\w-]{1,128})(?:\/(input_items|cancel))?$/;
/** Operation names and methods, by the method and the path after the id. */
const STORED_OPERATIONS: ReadonlyMap<string, readonly [name: string, method: Operation["method"]]> = new Map([
  ["GET", ["retrieve", "GET"]],
  ["DELETE", ["delete", "DELETE"]],
  ["GET input_items", ["input_items", "GET"]],
  ["POST cancel", ["cancel", "POST"]],
]);
/** Responses that the vendor stores for 30 days unless `store` is false. */
const storedResponses: NonNullable<TranslatedProtocol["storedResponses"]> = {
  subpaths: ["input_items", "cancel"],
  background: {
    members: ["id", "background", "status"],
    id(json) {
      const body = asObject(asObject(json)?.["response"]) ?? asObject(json);
      return body?.["background"] === true ? asText(body["id"]) : undefined;
    },
    foreground: (json) => asObject(json)?.["background"] === false,
    unfinished: (json) => /^(?:queued|in_progress)$/.test(asText(asObject(json)?.["status"]) ?? ""),
  },

  locate(requestMethod, subpath) {
    const [, id, action] = STORED_PATH.exec(subpath) ?? [];
    const [name, method] =
      STORED_OPERATIONS.get(action === undefined ? requestMethod : `${requestMethod} ${action}`) ?? [];
    if (id === undefined || name === undefined || method === undefined) return undefined;
    return {
      name,
      method,
      body: "none",
      streams: "asked",
      framing: "sse",
      generates: false,
      storedResponseId: id,
      upstream: () => `/responses/${subpath}`,
    };
  },
};

/** Responses, the protocol of agents. */
const openaiResponses: TranslatedProtocol = {
  ...family,
  name: "openai-responses",
  ...fixedPaths({
    "/v1/responses": RESPONSE,
    "/v1/responses/input_tokens": INPUT_TOKENS,
    "/v1/responses/compact": COMPACT,
  }),
  // Session headers of the vendor's own coding agent, which the vendor's caches and models use.
  headers: [...family.headers, "originator", "session-id", "session_id", "thread-id", "x-codex-*", "x-openai-*"],
  usageMembers: ["usage", "service_tier", "tool_usage", "tools", "output"],
  usageWords: { output: SEARCH_CALL },
  // Measured over recorded streams, without reasoning, which is not streamed.
  tokenEstimate: { textFactor: 1, perToolCall: 10, input: { once: 5, perTurn: 7, tools: 10, schemaFactor: 0.6 } },
  hiddenReasoning,
  output: {
    tokens: [["max_output_tokens"]],
    multipliers: [],
    imageTool: [IMAGE_TOOL, imageTokens, usualImageTokens],
    searchMarks: ["web_search", "openrouter:web_search"],
    background: "background",
  },

  recognises: (path) => /\/responses(\/|$)/.test(path),
  streamError,
  ending,
  terminal,
  repeatsErrors: true,
  holdsUsage: (frame) => family.holdsUsage(frame) || holdsToolCall(frame),
  usage: readUsage,
  texts,
  storedResponses,
  longMembers: ["input", "instructions", "tools"],
  conversation: { ...family.conversation, turns: "input" },
  objects,
  otherModels,
  demo: (request) => demo(request) ?? demoImage(openaiResponses, request),
  translation,
};

export default openaiResponses;
