import { bearer, fixedPaths, PING, type Protocol, post } from "model-gateway";
import { demo } from "./demo.ts";
import { error, streamError } from "./errors.ts";
import { kept } from "./kept.ts";
import { ending, holdsUsage } from "./stream.ts";
import { readUsage } from "./usage.ts";

/** Responses: the protocol of agents. */
const openaiResponses: Protocol = {
  name: "openai-responses",
  ...fixedPaths({
    "/v1/responses": post("response", "/responses"),
    "/v1/responses/input_tokens": post("input_tokens", "/responses/input_tokens", { streams: false, generates: false }),
    "/v1/responses/compact": post("compact", "/responses/compact", { streams: false }),
  }),
  segment: "/v1",
  // What the vendor's own coding agent says of its session; the vendor's caches and models look at it.
  headers: [
    "openai-beta",
    "idempotency-key",
    "originator",
    "session-id",
    "session_id",
    "thread-id",
    "x-client-request-id",
    "x-codex-*",
    "x-openai-*",
    "x-stainless-*",
  ],
  answerHeaders: ["openai-processing-ms", "openai-version"],
  usageMembers: ["usage", "service_tier"],
  ping: PING,

  recognises: (path) => /\/responses(\/|$)/.test(path),
  credential: bearer,
  error,
  streamError,
  ending,
  holdsUsage,
  usage: readUsage,
  kept,
  demo,
};

export default openaiResponses;
