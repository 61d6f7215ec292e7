import { bearer, fixedPaths, PING, type Protocol, post } from "model-gateway";
import { demo } from "./demo.ts";
import { error, streamError } from "./errors.ts";
import { ending, holdsUsage } from "./stream.ts";
import { readUsage } from "./usage.ts";

/** Images: pictures from words, and from other pictures. */
const openaiImages: Protocol = {
  name: "openai-images",
  ...fixedPaths({
    "/v1/images/generations": post("generation", "/images/generations"),
    "/v1/images/edits": post("edit", "/images/edits", { body: "multipart" }),
    "/v1/images/variations": post("variation", "/images/variations", { body: "multipart", streams: false }),
  }),
  segment: "/v1",
  headers: ["openai-beta", "idempotency-key", "x-client-request-id", "x-stainless-*"],
  answerHeaders: ["openai-processing-ms", "openai-version"],
  usageMembers: ["usage"],
  ping: PING,

  recognises: (path) => /\/images\/(generations|edits|variations)(\/|$)/.test(path),
  credential: bearer,
  error,
  streamError,
  ending,
  holdsUsage,
  usage: readUsage,
  demo,
};

export default openaiImages;
