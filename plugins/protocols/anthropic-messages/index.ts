import {
  GatewayError,
  invalidField,
  type ListedModel,
  type Listing,
  type Operation,
  type TranslatedProtocol,
} from "model-gateway/protocol";
import { errorBody, parseErrorResponse, refuses, streamError } from "./errors.ts";
import { objects, otherModels, vendorObjects } from "./objects.ts";
import { decodeRequest } from "./request.decode.ts";
import { encodeRequest } from "./request.encode.ts";
import { createDecoder, decodeResponse } from "./response.decode.ts";
import { createEncoder, encodeResponse } from "./response.encode.ts";
import { fields, support } from "./support.ts";
import { opaque, texts } from "./texts.ts";
import { decodeCount, encodeCount, hiddenReasoning, holdsUsage, readUsage } from "./usage.ts";
import {
  ANTHROPIC_MESSAGES,
  COUNT_TOKENS,
  ending,
  MESSAGES,
  NO_THREADS,
  PING,
  RAW_MEMBERS,
  rateHeaders,
  remainingRateHeaders,
} from "./wire.ts";

/** The vendor's own hosts: no other provider of its protocol stores threads. */
const VENDOR = /(?:^|\.)anthropic\.com$/;

const OPERATIONS: readonly (readonly [suffix: string, operation: Operation])[] = [
  ["/messages", MESSAGES],
  ["/messages/count_tokens", COUNT_TOKENS],
];

/**
 * Returns a model in the vendor's format, which validating SDKs require in full. Its abilities are listed for other clients
 * only. [S: ModelInfo]
 */
const modelObject = ({ id, name, created, context, output }: ListedModel) => ({
  type: "model",
  id,
  display_name: name,
  created_at: new Date(created * 1000).toISOString().replace(".000Z", "Z"),
  max_input_tokens: context ?? null,
  max_tokens: output ?? null,
  capabilities: null,
  lifecycle: "active",
  line: null,
  deprecated_at: null,
  retires_at: null,
});

/** Maximum number of models per page. [S: ModelListParams] */
const MAX_PAGE_SIZE = 1000;

function limitOf(query: Parameters<Listing["list"]>[1]): number | undefined {
  const text = query.get("limit");
  if (text === null) return undefined;
  const limit = Number(text);
  if (/^\d{1,4}$/.test(text) && limit >= 1 && limit <= MAX_PAGE_SIZE) return limit;
  throw invalidField("limit", `limit must be a number from 1 to ${MAX_PAGE_SIZE}.`);
}

function indexOfModel(
  name: string,
  models: readonly ListedModel[],
  query: Parameters<Listing["list"]>[1],
): number | undefined {
  const id = query.get(name);
  if (id === null) return undefined;
  const index = models.findIndex((model) => model.id === id);
  if (index >= 0) return index;
  throw invalidField(name, `${name} names no model of the list.`);
}

const listing: Listing = {
  parameters: ["limit", "after_id", "before_id"],
  list(models, query) {
    const limit = limitOf(query) ?? models.length;
    const [after, before] = [indexOfModel("after_id", models, query), indexOfModel("before_id", models, query)];
    const from = before === undefined ? (after ?? -1) + 1 : Math.max((after ?? -1) + 1, before - limit);
    const page = models.slice(from, Math.min(before ?? models.length, from + limit));
    return {
      data: page.map(modelObject),
      has_more: before === undefined ? from + limit < models.length : before - limit > 0,
      first_id: page[0]?.id ?? null,
      last_id: page.at(-1)?.id ?? null,
    };
  },
  one: modelObject,
};

/** The Messages protocol; README.md has its facts and their sources. */
const anthropicMessages: TranslatedProtocol = {
  name: ANTHROPIC_MESSAGES,
  paths: ["/v1/messages", "/v1/messages/count_tokens"],
  versionSegment: "/v1",
  respondsWithJson: true,
  headers: [
    "anthropic-version",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "idempotency-key",
    "session-id",
    "session_id",
    "x-app",
    "x-claude-code-*",
    "x-client-request-id",
    "x-session-affinity",
    "x-session-id",
    "x-stainless-*",
  ],
  // Required by the vendor. The older of its two versions: the newer one refuses members that clients still send.
  defaultHeaders: [["anthropic-version", "2023-06-01"]],
  usageMembers: ["usage"],
  // Measured over recorded streams.
  tokenEstimate: {
    textFactor: 1.27,
    perToolCall: 34,
    perAnswer: 4,
    input: { perTurn: 7, tools: 504, schemaFactor: 1.17 },
  },
  hiddenReasoning,
  output: {
    tokens: [["max_tokens"]],
    multipliers: [],
    premiumTier: ["speed", "fast", "fast"],
    fallbackModels: "fallbacks",
    searchMarks: ["web_search_"],
  },
  rateHeaders,
  remainingRateHeaders,
  ping: PING,
  idHeaders: ["request-id"],
  overloadedStatus: 529,

  locate(path) {
    const found = OPERATIONS.find(([suffix]) => path.endsWith(suffix));
    return found && { operation: found[1] };
  },
  recognises: (path, headers) => headers.has("anthropic-version") || /\/messages(\/|$)/.test(path),
  whyNotSendable({ name, url, threads = VENDOR.test(url.hostname) }, body) {
    const thread = threads ? undefined : body.member("thread");
    if (!thread || thread.kind === "null") return undefined;
    const message = `thread: the provider ${name} keeps no threads.`;
    return new GatewayError("not_translatable", { message, param: "thread", ...NO_THREADS });
  },
  credential: (secret) => ["x-api-key", secret],
  listing,
  refuses,
  error: errorBody,
  streamError,
  ending,
  terminal: (frame) => ending(frame) === "complete",
  holdsUsage,
  usage: readUsage,
  texts,
  longMembers: ["messages", "system", "tools"],
  labelMembers: ["metadata"],
  conversation: {
    members: [["metadata", "user_id"]],
    headers: [
      "x-claude-code-session-id",
      "x-session-affinity",
      "x-session-id",
      "session-id",
      "session_id",
      "thread-id",
    ],
    turns: "messages",
    cacheMarks: ["cache_control"],
  },
  objects,
  otherModels,
  vendorObjects,
  translation: {
    request: {
      decode: decodeRequest,
      rawMembers: RAW_MEMBERS,
      encode: encodeRequest,
      opaque,
      support,
      fields,
    },
    response: {
      decoder: createDecoder,
      decode: decodeResponse,
      encoder: createEncoder,
      encode: encodeResponse,
      decodeError: parseErrorResponse,
    },
    count: { decode: decodeCount, encode: encodeCount },
  },
};

export default anthropicMessages;
