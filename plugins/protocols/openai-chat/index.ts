import { bearer, fixedPaths, PING, type Protocol, post } from "model-gateway";
import { demo } from "./demo.ts";
import { error, streamError } from "./errors.ts";
import { ending, holdsUsage, includeUsage } from "./stream.ts";
import { readUsage } from "./usage.ts";

/** Chat Completions, the dialect most vendors and tools speak. */
const openaiChat: Protocol = {
  name: "openai-chat",
  common: true,
  ...fixedPaths({
    "/v1/chat/completions": post("chat", "/chat/completions"),
  }),
  segment: "/v1",
  headers: ["openai-beta", "idempotency-key", "x-client-request-id", "x-stainless-*"],
  answerHeaders: ["openai-processing-ms", "openai-version"],
  usageMembers: ["usage", "service_tier"],
  ping: PING,

  recognises: (path) => /\/chat\/completions(\/|$)/.test(path),
  credential: bearer,
  error,
  streamError,
  ending,
  holdsUsage,
  usage: readUsage,
  includeUsage,
  demo,
};

export default openaiChat;
