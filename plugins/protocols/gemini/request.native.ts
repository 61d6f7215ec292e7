import { entryOf, type Feature, type FeatureUse, type IncomingRequest, type RawJson } from "model-gateway/protocol";
import { type Form, type Members, spelledBoth } from "./request.members.ts";

/** The name of this protocol, as opaque state and foreign blocks bear it. */
const NAME = "gemini";

/** Said by clients that have no signature; it means none. [D: thought signatures] */
const BYPASS = "skip_thought_signature_validator";

export { BYPASS, NAME };

/** What a decoded request remembers of how it was written; only filled when asked for, only read here. */
export interface NativeRequest {
  root: Form;
  /** The object around it, in requests to count tokens. */
  outer?: Form;
  tools: Form[];
  toolConfig?: Form;
  calling?: Form;
  /** The mode was VALIDATED, which lets the model choose as AUTO does. */
  validated?: boolean;
  config?: Form;
  thinking?: Form;
  /** The format's schema as it came, and what it was read as. */
  schema?: NativeSchema;
}

/** A schema that was not written as JSON Schema. */
export interface NativeSchema {
  source: RawJson;
  read: RawJson;
}

export interface NativeTurn {
  form?: Form;
}

export interface NativePart {
  form: Form;
  /** Of `mediaResolution`. */
  resolution?: Form;
  /** Of the object that tells what the part is, like `functionCall`. */
  inner?: Form;
  /** Base64 in the alphabet for URLs. */
  data?: string;
  /** Of a function's result: the member of `response` that holds it; absent: all of it is the result. */
  key?: "output" | "error";
  /** A function's result that was no string. */
  json?: boolean;
}

export interface NativeTool {
  /** Which of the objects in `tools` it stood in. */
  tool: number;
  /** The member it was, where that is not told by its kind. */
  member?: string;
  form?: Form;
  schema?: NativeSchema;
}

/** A request while it is read. */
export interface Reading {
  asked: IncomingRequest;
  uses: FeatureUse[];
  /** Opaque strings of other protocols that were read; clients send them once with the thought and once with the call. */
  opened: Set<string>;
}

/** Notes something that other protocols may have no word for. */
export const say = (reading: Reading, feature: Feature, path: string): void => {
  reading.uses.push({ feature, path });
};

/** Members beside what a part, a content or a call is, as far as they are known and not read. */
const BESIDE = spelledBoth<Feature>({
  videoMetadata: "video",
  thought: "cosmetic",
  thoughtSignature: "cosmetic",
  partMetadata: "cosmetic",
  id: "cosmetic",
  role: "cosmetic",
});

/** Notes what nobody has read of a part, a content, or what a part holds. */
export function sayLeft(members: Members, reading: Reading): void {
  for (const name of members.left()) say(reading, entryOf(BESIDE, name) ?? "other", `${members.at}.${name}`);
}

/** What is remembered of the source, when that is asked for. */
export function remembered<T>({ asked }: Reading, native: () => T): { native?: T } {
  return asked.native ? { native: native() } : {};
}
