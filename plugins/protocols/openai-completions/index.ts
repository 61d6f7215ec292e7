import { fixedPaths, type Protocol, post } from "model-gateway";
import { ending, includeUsage, streamError } from "../openai/chunks.ts";
import { family } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { readUsage } from "./usage.ts";

/** The older Completions: a text goes on. */
const openaiCompletions: Protocol = {
  ...family,
  name: "openai-completions",
  ...fixedPaths({
    "/v1/completions": post("completion", "/completions"),
  }),
  usageMembers: ["usage", "service_tier"],

  recognises: (path) => /(?<!\/chat)\/completions(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  includeUsage,
  demo,
};

export default openaiCompletions;
