import { asObject, asText, type Ending, type Frame, fixedPaths, type Protocol, post } from "model-gateway/protocol";
import { family } from "../openai/family.ts";
import { IMAGE_MEMBERS, imageTokens } from "../openai/image-tokens.ts";
import { demo } from "./demo.ts";
import { streamError } from "./errors.ts";
import { objects, otherModels } from "./objects.ts";
import { texts } from "./texts.ts";
import { readUsage } from "./usage.ts";

const COMPLETED = ["image_generation.completed", "image_edit.completed"].map((type) => ({
  type,
  bytes: Buffer.from(type),
}));

/**
 * Returns how a frame ends the stream: at `image_generation.completed` or `image_edit.completed`. Base64 has no dot, so the
 * search is safe.
 */
function ending(frame: Frame): Ending | undefined {
  if (frame.mayContain("error") && asObject(asObject(frame.json())?.["error"])) return "error";
  if (!COMPLETED.some((name) => frame.bytes.includes(name.bytes))) return undefined;
  const type = asText(asObject(frame.json())?.["type"]) ?? frame.event;
  return COMPLETED.some((name) => name.type === type) ? "complete" : undefined;
}

/** Images: generated from text, or from other images. */
const openaiImages: Protocol = {
  ...family,
  name: "openai-images",
  ...fixedPaths({
    "/v1/images/generations": post("generation", "/images/generations"),
    "/v1/images/edits": post("edit", "/images/edits", { body: "multipart" }),
    "/v1/images/variations": post("variation", "/images/variations", { body: "multipart", streams: false }),
  }),
  usageMembers: ["usage"],
  images: {
    contentMembers: ["b64_json", "url"],
    sizeMember: "size",
    qualityMember: "quality",
    tokenMembers: IMAGE_MEMBERS,
    tokensOf: imageTokens,
    editOperations: ["edit", "variation"],
  },
  output: { tokens: [], multipliers: [["n"]] },

  objects,
  otherModels,
  recognises: (path) => /\/images\/(generations|edits|variations)(\/|$)/.test(path),
  streamError,
  ending,
  usage: readUsage,
  texts,
  longMembers: ["prompt", "images", "image", "mask"],
  demo,
};

export default openaiImages;
