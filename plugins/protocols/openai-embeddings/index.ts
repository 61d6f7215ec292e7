import { fixedPaths, type Protocol, post } from "model-gateway/protocol";
import { family } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { texts } from "./texts.ts";
import { readUsage } from "./usage.ts";

/** Embeddings of texts as vectors. Nothing is streamed. */
const openaiEmbeddings: Protocol = {
  ...family,
  name: "openai-embeddings",
  ...fixedPaths({
    "/v1/embeddings": post("embeddings", "/embeddings", { streams: false }),
  }),
  usageMembers: ["usage"],

  recognises: (path) => /\/embeddings(\/|$)/.test(path),
  // There is no stream for it: the connection is closed.
  streamError: () => Buffer.alloc(0),
  ending: () => undefined,
  holdsUsage: () => false,
  usage: readUsage,
  texts,
  longMembers: ["input"],
  demo,
};

export default openaiEmbeddings;
