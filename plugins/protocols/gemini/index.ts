import {
  dropUndefined,
  invalidField,
  type ListedModel,
  type Listing,
  type TranslatedProtocol,
} from "model-gateway/protocol";
import { demo } from "./demo.ts";
import { errorBody, parseErrorResponse, refuses, retryAfter, streamError } from "./errors.ts";
import { objects, otherModels, vendorObjects } from "./objects.ts";
import { decodeRequest, RAW_MEMBERS } from "./request.decode.ts";
import { encodeRequest } from "./request.encode.ts";
import { createDecoder, decodeResponse } from "./response.decode.ts";
import { createEncoder, encodeResponse } from "./response.encode.ts";
import { fields, support } from "./support.ts";
import { opaque, texts } from "./texts.ts";
import { candidateMedia, countTokensCodec, hiddenReasoning, holdsUsage, readUsage, SEARCH_QUERIES } from "./usage.ts";
import { ACTION_PATH, ending, GEMINI, locateAction } from "./wire.ts";

/** Returns a model in the vendor's format; limits are included only where known. */
const modelObject = ({ id, name, description, context, output, capabilities, protocols }: ListedModel) => ({
  name: `models/${id}`,
  version: "1",
  displayName: name,
  ...dropUndefined({ description, inputTokenLimit: context, outputTokenLimit: output }),
  supportedGenerationMethods: supportedMethods(capabilities, protocols[GEMINI]),
  ...(capabilities.includes("reasoning") ? { thinking: true } : {}),
});

/**
 * Returns the supported methods. Embeddings are not translated.
 * @param reach how the model is reached in this protocol, if at all
 */
function supportedMethods(capabilities: readonly string[], reach: string | undefined): string[] {
  if (reach === undefined) return [];
  if (!capabilities.includes("embeddings")) return ["generateContent", "streamGenerateContent", "countTokens"];
  return reach === "translated" ? [] : ["embedContent", "batchEmbedContents"];
}

/** Maximum number of models per page, to which the vendor reduces larger requests. [S: models.list] */
const MAX_PAGE_SIZE = 1000;

const listing: Listing = {
  parameters: ["pageSize", "pageToken"],
  list(models, query) {
    const [size, token] = [numberParameter("pageSize", query), numberParameter("pageToken", query)];
    const [from, pageSize] = [token ?? 0, Math.min(MAX_PAGE_SIZE, size || models.length)];
    if (token !== undefined && (token === 0 || token >= models.length))
      throw invalidField("pageToken", "pageToken is not one that a list has returned.");
    const next = from + pageSize < models.length ? { nextPageToken: String(from + pageSize) } : {};
    return { models: models.slice(from, from + pageSize).map(modelObject), ...next };
  },
  one: modelObject,
};

function numberParameter(name: string, query: Parameters<Listing["list"]>[1]): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw invalidField(name, `${name} must be a whole number, 0 or more.`);
}

/** The Gemini protocol, also in its Vertex form; README.md has its facts and their sources. */
const gemini: TranslatedProtocol = {
  name: GEMINI,
  paths: ["/v1beta/models/*", "/v1/models/*", "/v1alpha/models/*", "/v1beta1/publishers/*", "/v1beta1/projects/*"],
  versionSegment: "/v1beta",
  respondsWithJson: true,
  // Not forwarded: x-goog-user-project names a client's project, x-goog-request-params the gateway's model name.
  headers: ["x-goog-api-client", "x-gemini-*", "x-server-timeout"],
  usageMembers: ["usageMetadata", "candidates", "modelVersion"],
  usageWords: { candidates: SEARCH_QUERIES },
  // Measured over recorded streams, without reasoning.
  tokenEstimate: { textFactor: 1.11, perToolCall: 13, input: { perTurn: 0, tools: 0, schemaFactor: 1 } },
  streamedMedia: candidateMedia,
  hiddenReasoning,
  // The vendor accepts both spellings.
  output: {
    tokens: ["generationConfig", "generation_config"].flatMap((config) =>
      ["maxOutputTokens", "max_output_tokens"].map((name) => [config, name]),
    ),
    multipliers: ["generationConfig", "generation_config"].flatMap((config) =>
      ["candidateCount", "candidate_count"].map((name) => [config, name]),
    ),
    tierMembers: ["serviceTier", "service_tier"],
    searchMarks: [
      ...["googleSearch", "google_search", "googleSearchRetrieval", "google_search_retrieval"],
      ...["enterpriseWebSearch", "enterprise_web_search"],
    ],
  },
  // White space, not a comment: the Python and Go clients and the JavaScript client before 1.32 fail on comments. [S]
  ping: Buffer.from("\r\n\r\n"),

  locate: locateAction,
  // No other protocol's clients send their key in the query.
  recognises: (path, headers, query) =>
    headers.has("x-goog-api-key") ||
    headers.has("x-goog-api-client") ||
    Boolean(query?.get("key")) ||
    /^\/v1(beta|alpha)/.test(path) ||
    ACTION_PATH.test(path),
  // Ephemeral tokens.
  createsKey: (method, path) => method === "POST" && /(?:^|\/)auth_tokens[^/]*$/.test(path),
  credential: (secret) => ["x-goog-api-key", secret],
  refuses,
  retryAfter,
  error: errorBody,
  streamError,
  ending,
  // Proto JSON leaves out zeros.
  omitsZeroCounts: true,
  holdsUsage,
  usage: readUsage,
  texts,
  longMembers: ["contents", "content", "requests", "systemInstruction", "system_instruction", "tools"],
  labelMembers: ["labels"],
  conversation: { members: [], headers: ["x-session-affinity", "x-session-id", "session_id"], turns: "contents" },
  objects,
  otherModels,
  vendorObjects,
  demo: (request) => demo(gemini, request),
  listing,
  translation: {
    request: {
      decode: decodeRequest,
      rawMembers: RAW_MEMBERS,
      encode: encodeRequest,
      opaque,
      assistantMedia: true,
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
    count: countTokensCodec,
  },
};

export default gemini;
