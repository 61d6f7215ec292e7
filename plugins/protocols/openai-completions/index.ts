import { type ClientProtocol, fixedPaths } from "model-gateway/protocol";
import { chunked } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { completion } from "./operation.ts";
import { decodeRequest } from "./request.decode.ts";
import { fields } from "./request.fields.ts";
import { encode, encoder } from "./response.encode.ts";
import { readUsage } from "./usage.ts";

/** The older Completions: a text goes on. */
const openaiCompletions: ClientProtocol = {
  ...chunked,
  name: "openai-completions",
  ...fixedPaths({
    "/v1/completions": completion,
  }),
  usageMembers: ["usage", "service_tier"],

  recognises: (path) => /(?<!\/chat)\/completions(\/|$)/.test(path),
  usage: readUsage,
  demo,
  clientTranslation: { request: { decode: decodeRequest, fields }, response: { encoder, encode } },
};

export default openaiCompletions;
