import {
  type Conversation,
  defined,
  type EncodeContext,
  type Feature,
  type JsonObject,
  pathOfUse,
} from "model-gateway/protocol";
import { fitName, label } from "../openai/request.encode.ts";
import { NAME } from "./request.read.ts";

/** What goes on while one request is written. */
export class Writing {
  /** The request was read from this very protocol, and shall become the same again. */
  readonly same: boolean;

  constructor(
    readonly conversation: Conversation,
    readonly terms: EncodeContext,
  ) {
    this.same = conversation.protocol === NAME && conversation.native !== undefined;
  }

  /** What this protocol kept of it when it was read. */
  native<T>(thing: { native?: unknown }): T | undefined {
    return this.same ? (thing.native as T | undefined) : undefined;
  }

  name(name: string): string {
    return this.same ? name : fitName(name, this.terms.names);
  }

  /** Where the client said a feature. */
  path(feature: Feature): string {
    return pathOfUse(this.conversation, feature);
  }

  /** The name of a user or of a cache, as long as the vendor takes it. */
  label(text: string | undefined, feature: Feature): string | undefined {
    return text === undefined || this.same ? text : label(text, this.path(feature), this.terms);
  }
}

/** An object of the rest that was kept, if any, and of the members that are there. */
export function merged(rest: JsonObject | undefined, members: JsonObject): JsonObject {
  return { ...rest, ...defined(members) };
}
