import { fixedPaths, type Protocol, post } from "model-gateway";
import { ending, includeUsage, streamError } from "../openai/chunks.ts";
import { family } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { readUsage } from "./usage.ts";

/** Chat Completions, the dialect most vendors and tools speak. */
const openaiChat: Protocol = {
  ...family,
  name: "openai-chat",
  common: true,
  ...fixedPaths({
    "/v1/chat/completions": post("chat", "/chat/completions"),
  }),
  usageMembers: ["usage", "service_tier"],

  recognises: (path) => /\/chat\/completions(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  includeUsage,
  demo,
};

export default openaiChat;
