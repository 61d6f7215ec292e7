import { type ClientProtocol, fixedPaths } from "model-gateway/protocol";
import { ending, includeUsage, streamError } from "../openai/chunks.ts";
import { family } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { completion } from "./operation.ts";
import { decodeRequest } from "./request.decode.ts";
import { fields } from "./request.fields.ts";
import { encode, encoder } from "./response.encode.ts";
import { readUsage } from "./usage.ts";

/** The older Completions: a text goes on. */
const openaiCompletions: ClientProtocol = {
  ...family,
  name: "openai-completions",
  ...fixedPaths({
    "/v1/completions": completion,
  }),
  usageMembers: ["usage", "service_tier"],

  recognises: (path) => /(?<!\/chat)\/completions(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  includeUsage,
  demo,
  clientTranslation: { request: { decode: decodeRequest, fields }, response: { encoder, encode } },
};

export default openaiCompletions;
