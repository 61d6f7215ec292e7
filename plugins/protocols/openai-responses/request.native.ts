/**
 * What a request says beyond the vocabulary, and in which of its forms, so that this protocol can write the very same
 * request again. `rest` is what was not read.
 */
import type { JsonObject } from "model-gateway/protocol";

/** Values of `include` that the vocabulary says otherwise. */
export const LOGPROBS = "message.output_text.logprobs" as const;
export const ENCRYPTED = "reasoning.encrypted_content" as const;

/** Of an item, a part of a message, or a tool. */
export interface RestNative {
  rest: JsonObject;
}

/** Of a turn: the message it was; `whole` and `instructions` are no items at all. */
export interface MessageNative extends RestNative {
  form: "text" | "parts" | "whole" | "instructions";
}

export interface TextNative extends RestNative {
  type: string;
  breakpoint?: JsonObject;
  /** `url`: a citation of the vocabulary with the rest of its members; all others whole. */
  annotations?: { url: boolean; rest: JsonObject }[];
}

export interface MediaNative extends RestNative {
  breakpoint?: JsonObject;
  /** What stands before the base64, where it is not the `data:` URL of the media type; empty for base64 alone. */
  head?: string;
  /** What stands beside the audio. */
  audio?: JsonObject;
  /** The audio's format, where its media type does not tell it. */
  format?: string;
}

export interface ReasoningNative extends RestNative {
  /** Of each part its rest, and the length of its text. */
  summary?: (RestNative & { length: number })[];
  content?: (RestNative & { length: number })[];
}

export interface ResultNative extends RestNative {
  form: "text" | "parts";
}

export interface CustomNative extends RestNative {
  format?: JsonObject;
}

export interface WebSearchNative extends RestNative {
  type: string;
  filters?: JsonObject;
  location?: JsonObject;
}

/** One entry of a list of tools: so many of the conversation's tools, in a namespace or by themselves. */
export type Entry = "tool" | { namespace: string; rest: JsonObject; count?: number };

/** An item that adds tools, and where it stood among the items. */
export interface AddedNative extends RestNative {
  at: number;
  entries?: Entry[];
}

export interface RequestNative extends RestNative {
  /** False: no input at all, the vendor has it. */
  input: boolean;
  entries?: Entry[];
  added: AddedNative[];
  text?: JsonObject;
  format?: JsonObject;
  reasoning?: JsonObject;
  include?: readonly unknown[];
  metadata?: JsonObject;
  cacheOptions?: JsonObject;
  choice?: JsonObject;
  /** False: a choice among some tools does not say whether one must be called. */
  mode?: boolean;
  /** What stands beside each tool of a choice, and whether it is called by a name. */
  allowed?: (RestNative & { named: boolean })[];
  userField?: string;
}
