import { bearer, fixedPaths, PING, type Protocol, post } from "model-gateway";
import { demo } from "./demo.ts";
import { error } from "./errors.ts";
import { readUsage } from "./usage.ts";

/** Embeddings: texts become vectors. Nothing streams here. */
const openaiEmbeddings: Protocol = {
  name: "openai-embeddings",
  ...fixedPaths({
    "/v1/embeddings": post("embeddings", "/embeddings", { streams: false }),
  }),
  segment: "/v1",
  headers: ["openai-beta", "idempotency-key", "x-client-request-id", "x-stainless-*"],
  answerHeaders: ["openai-processing-ms", "openai-version"],
  usageMembers: ["usage"],
  ping: PING,

  recognises: (path) => /\/embeddings(\/|$)/.test(path),
  credential: bearer,
  error,
  // There is no stream to say it in: the connection is cut.
  streamError: () => Buffer.alloc(0),
  ending: () => undefined,
  holdsUsage: () => false,
  usage: readUsage,
  demo,
};

export default openaiEmbeddings;
