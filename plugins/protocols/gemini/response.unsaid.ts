import type { Event, JsonObject } from "model-gateway/protocol";
import type { PartKind } from "./response.native.ts";

type Names = ReadonlySet<string>;

/** What may stand beside a part of any kind and is told, or is about nothing. */
const ABOUT = ["thought", "thoughtSignature", "partMetadata"];

const part = (name: string): Names => new Set([name, ...ABOUT]);

/** Members that are told, or that are numbers and marks which mean nothing elsewhere. */
export const TOLD = {
  frame: new Set([
    "candidates",
    "promptFeedback",
    "usageMetadata",
    "modelVersion",
    "responseId",
    "createTime",
    "error",
  ]) as Names,
  feedback: new Set(["blockReason", "blockReasonMessage", "safetyRatings"]) as Names,
  candidate: new Set([
    "index",
    "content",
    "finishReason",
    "finishMessage",
    "logprobsResult",
    "groundingMetadata",
    "citationMetadata",
    "avgLogprobs",
    "score",
    "tokenCount",
    "safetyRatings",
  ]) as Names,
  content: new Set(["role", "parts"]) as Names,
  grounding: new Set(["groundingChunks", "groundingSupports"]) as Names,
  call: new Set(["id", "name", "args", "partialArgs", "willContinue"]) as Names,
  media: new Set(["mimeType", "data", "fileUri"]) as Names,
};

/** The same of a part, by its kind; what is for its own protocol is told whole. */
export const TOLD_OF_PART: Readonly<Record<Exclude<PartKind, "server">, Names>> = {
  call: part("functionCall"),
  text: part("text"),
  thought: part("text"),
  inlineData: part("inlineData"),
  fileData: part("fileData"),
};

/** What an answer says that no other protocol has a word for; each thing is said to be lost once. */
export class Unsaid {
  private readonly uses = new Set<string>();

  /** @param at the path of what it is about, with its dot */
  constructor(private readonly at: string) {}

  say(name: string, out: Event[]): void {
    if (this.uses.has(name)) return;
    this.uses.add(name);
    out.push({ type: "unsaid", path: `${this.at}${name}` });
  }

  /** Says all members of an object besides those that are told. @param path of the object, with its dot */
  others(object: JsonObject, told: Names, path: string, out: Event[]): void {
    for (const name in object) if (!told.has(name) && object[name] !== null) this.say(`${path}${name}`, out);
  }
}
