import { createHash } from "node:crypto";
import { type Conversation, defined, type Feature, type JsonObject, type Terms } from "model-gateway";
import { NAME } from "./request.read.ts";

/** Characters and length of a tool's name. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_-";
const LONGEST_NAME = 64;
/** The longest key or name of a user that every model takes. [S] */
const LONGEST_LABEL = 64;

/** What goes on while one request is written. */
export class Writing {
  /** The request was read from this very protocol, and shall become the same again. */
  readonly same: boolean;

  constructor(
    readonly conversation: Conversation,
    readonly terms: Terms,
  ) {
    this.same = conversation.protocol === NAME && conversation.native !== undefined;
  }

  /** What this protocol kept of it when it was read. */
  native<T>(thing: { native?: unknown }): T | undefined {
    return this.same ? (thing.native as T | undefined) : undefined;
  }

  name(name: string): string {
    return this.same ? name : this.terms.names.fit(name, NAME_CHARACTERS, LONGEST_NAME);
  }

  /** Where the client said a feature. */
  path(feature: Feature): string {
    return this.conversation.said.find((said) => said.feature === feature)?.path ?? feature;
  }

  /** A text that may be as long as the vendor's labels, or its hash, which is as good to tell users and caches apart. */
  label(text: string | undefined, feature: Feature): string | undefined {
    if (text === undefined || text.length <= LONGEST_LABEL || this.same) return text;
    this.terms.change(this.path(feature), `it is longer than ${LONGEST_LABEL} characters: its SHA-256 is sent`);
    return createHash("sha256").update(text).digest("hex");
  }
}

/** An object of the rest that was kept, if any, and of the members that are there. */
export function merged(rest: JsonObject | undefined, members: JsonObject): JsonObject {
  return { ...rest, ...defined(members) };
}
