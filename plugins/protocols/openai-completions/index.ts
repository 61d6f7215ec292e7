import { type ClientProtocol, fixedPaths, post } from "model-gateway/protocol";
import { completionsFamily } from "../openai/family.ts";
import { decodeRequest } from "./request.decode.ts";
import { createEncoder, encodeResponse } from "./response.encode.ts";
import { fields } from "./support.ts";
import { texts } from "./texts.ts";
import { readUsage } from "./usage.ts";

/** The protocol's only operation. */
const completion = post("completion", "/completions", { task: "generate" });

/** The older Completions: continues a text. */
const openaiCompletions: ClientProtocol = {
  ...completionsFamily,
  name: "openai-completions",
  ...fixedPaths({
    "/v1/completions": completion,
  }),
  usageMembers: ["usage", "service_tier"],
  output: { tokens: [["max_tokens"]], multipliers: [["n"], ["best_of"], ["prompt"], ["prompt_embeds"]] },

  recognises: (path) => /(?<!\/chat)\/completions(\/|$)/.test(path),
  usage: readUsage,
  texts,
  longMembers: ["prompt", "suffix", "prompt_embeds"],
  clientTranslation: {
    request: { decode: decodeRequest, fields },
    response: { encoder: createEncoder, encode: encodeResponse },
  },
};

export default openaiCompletions;
