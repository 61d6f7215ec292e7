import { fixedPaths, type Protocol, post } from "model-gateway";
import { family } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { streamError } from "./errors.ts";
import { kept } from "./kept.ts";
import { ending } from "./stream.ts";
import { readUsage } from "./usage.ts";

/** Responses: the protocol of agents. */
const openaiResponses: Protocol = {
  ...family,
  name: "openai-responses",
  ...fixedPaths({
    "/v1/responses": post("response", "/responses"),
    "/v1/responses/input_tokens": post("input_tokens", "/responses/input_tokens", { streams: false, generates: false }),
    "/v1/responses/compact": post("compact", "/responses/compact", { streams: false }),
  }),
  // What the vendor's own coding agent says of its session; the vendor's caches and models look at it.
  headers: [...family.headers, "originator", "session-id", "session_id", "thread-id", "x-codex-*", "x-openai-*"],
  usageMembers: ["usage", "service_tier"],

  recognises: (path) => /\/responses(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  kept,
  demo,
};

export default openaiResponses;
