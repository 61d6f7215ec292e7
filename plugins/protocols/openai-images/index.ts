import { fixedPaths, type Protocol, post } from "model-gateway/protocol";
import { family } from "../openai/family.ts";
import { demo } from "./demo.ts";
import { streamError } from "./errors.ts";
import { ending } from "./stream.ts";
import { readUsage } from "./usage.ts";

/** Images: pictures from words, and from other pictures. */
const openaiImages: Protocol = {
  ...family,
  name: "openai-images",
  ...fixedPaths({
    "/v1/images/generations": post("generation", "/images/generations"),
    "/v1/images/edits": post("edit", "/images/edits", { body: "multipart" }),
    "/v1/images/variations": post("variation", "/images/variations", { body: "multipart", streams: false }),
  }),
  usageMembers: ["usage"],

  recognises: (path) => /\/images\/(generations|edits|variations)(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  demo,
};

export default openaiImages;
