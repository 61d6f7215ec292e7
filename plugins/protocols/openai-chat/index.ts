import { asList, asObject, fixedPaths, type TranslatedProtocol } from "model-gateway/protocol";
import { demoImage } from "../openai/demo.ts";
import { parseErrorResponse } from "../openai/errors.ts";
import { completionsFamily } from "../openai/family.ts";
import { otherModels } from "../openai/objects.ts";
import { effortForBudget, mayReason, reasonsByDefault } from "../openai/request.encode.ts";
import { objects } from "./objects.ts";
import { decodeRequest } from "./request.decode.ts";
import { encodeRequest } from "./request.encode.ts";
import { createDecoder, decodeResponse } from "./response.decode.ts";
import { createEncoder, encodeResponse } from "./response.encode.ts";
import { fields, support } from "./support.ts";
import { opaque, texts } from "./texts.ts";
import { chunkMedia, hiddenReasoning, holdsUsage, readUsage, SEARCH_MODEL, URL_CITATION } from "./usage.ts";
import { CHAT_COMPLETIONS } from "./wire.ts";

const isFunction = (tool: unknown): boolean => asObject(tool)?.["type"] === "function";

/**
 * Whether requests need Responses: OpenAI's newer models think with function tools only there; in Chat they refuse an effort
 * beside them, and the newest a request without one too. Most models search the web only there.
 */
const better: NonNullable<TranslatedProtocol["better"]> = {
  protocol: "openai-responses",
  isNeededFor(body, target) {
    const effort = body["reasoning_effort"] ?? undefined;
    const reasons = effort === undefined ? reasonsByDefault(target) : typeof effort === "string" && effort !== "none";
    // Checked last: members are parsed on access, and tools are long.
    return reasons && (asList(body["functions"]).length > 0 || asList(body["tools"]).some(isFunction));
  },
  isNeededForConversation({ reasoning: { effort, budget } = {}, tools }, target) {
    const requested = effort ?? (budget === undefined ? undefined : effortForBudget(budget, target.model));
    const reasons = requested === undefined ? reasonsByDefault(target) : requested !== "none" && mayReason(target);
    if (reasons && tools.some(({ kind }) => kind === "function")) return true;
    return tools.some(({ kind }) => kind === "web_search") && !SEARCH_MODEL.test(target.model);
  },
};

/** Chat Completions, the dialect of most vendors and tools. */
const openaiChat: TranslatedProtocol = {
  ...completionsFamily,
  name: "openai-chat",
  isDefault: true,
  ...fixedPaths({
    "/v1/chat/completions": CHAT_COMPLETIONS,
  }),
  usageMembers: ["usage", "service_tier", "choices", "model"],
  usageWords: { choices: URL_CITATION },
  // Stored with `store: true`. Deferred ones of other vendors have other ids, and no usage before they are fetched.
  fetchedIds: /^chatcmpl-/,
  output: {
    tokens: [["max_completion_tokens"], ["max_tokens"]],
    multipliers: [["n"]],
    searchMarks: ["web_search_options", "web_search", "openrouter:web_search"],
    background: "deferred",
  },

  recognises: (path) => /\/chat\/completions(\/|$)/.test(path),
  holdsUsage,
  usage: readUsage,
  texts,
  longMembers: ["messages", "tools", "functions", "prediction"],
  // Measured over recorded streams of seven vendors.
  tokenEstimate: { textFactor: 1.01, perToolCall: 10, input: { perTurn: 7, tools: 29, schemaFactor: 0.5 } },
  streamedMedia: chunkMedia,
  hiddenReasoning,
  objects,
  otherModels,
  demo: (request) => demoImage(openaiChat, request),
  translation: {
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
  },
  better,
};

export default openaiChat;
