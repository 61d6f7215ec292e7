import type { TranslatedProtocol } from "model-gateway/protocol";
import { count } from "./count.ts";
import { demo } from "./demo.ts";
import { errorBody, streamError } from "./errors.ts";
import { ending, holdsUsage } from "./events.ts";
import { listing } from "./listing.ts";
import { ACTION_PATH, locate } from "./path.ts";
import { decode } from "./request.decode.ts";
import { encode } from "./request.encode.ts";
import { decode as decodeAnswer, decoder, failure } from "./response.decode.ts";
import { encode as encodeAnswer, encoder } from "./response.encode.ts";
import { FATES, FIELDS } from "./support.ts";
import { usage } from "./usage.ts";

/** The Gemini protocol, also in its Vertex form; README.md has its facts and their sources. */
const gemini: TranslatedProtocol = {
  name: "gemini",
  paths: ["/v1beta/models/*", "/v1/models/*", "/v1alpha/models/*", "/v1beta1/publishers/*", "/v1beta1/projects/*"],
  segment: "/v1beta",
  // Left behind: x-goog-user-project names a project of the client's, x-goog-request-params the gateway's model name.
  headers: ["x-goog-api-client", "x-gemini-*", "x-server-timeout"],
  usageMembers: ["usageMetadata"],
  // White space, not a comment: the Python and Go clients and the JavaScript client before 1.32 choke on comments. [S]
  ping: Buffer.from("\r\n\r\n"),

  locate,
  // No other protocol's clients show their key in the query.
  recognises: (path, headers, query) =>
    headers.has("x-goog-api-key") ||
    headers.has("x-goog-api-client") ||
    Boolean(query?.get("key")) ||
    /^\/v1(beta|alpha)/.test(path) ||
    ACTION_PATH.test(path),
  credential: (secret) => ["x-goog-api-key", secret],
  error: errorBody,
  streamError,
  ending,
  holdsUsage,
  usage,
  demo,
  listing,
  translation: {
    request: { decode, encode, support: FATES, fields: FIELDS },
    response: { decoder, decode: decodeAnswer, encoder, encode: encodeAnswer, failure },
    count,
  },
};

export default gemini;
