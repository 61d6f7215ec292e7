/**
 * What the vocabulary has no word for in an answer of this protocol: which values stood in which part of which frame, and
 * the members that nobody else knows. Only made when the very same frames shall be written again.
 */
import { asCount, asList, asObject, asText, type JsonObject } from "model-gateway/protocol";
import type { Piece } from "./response.partial.ts";

/** One frame. Values that the events carry are only said to be there. */
export interface FrameForm {
  id: boolean;
  model: boolean;
  /** Which counts its usage held. */
  usage?: string[];
  candidates?: CandidateForm[];
  more: JsonObject;
}

export interface CandidateForm {
  choice: number;
  /** The last finish reason is told by an event; one that was superseded is written from here, and its message too. */
  finish?: unknown;
  message?: unknown;
  parts?: PartForm[];
  /** Members of `content` besides its parts; absent: no content. */
  content?: JsonObject;
  more: JsonObject;
}

export interface PartForm {
  kind: "text" | "call" | "inlineData" | "fileData" | "server" | "raw";
  signed: boolean;
  /** Other members of the part. */
  more: JsonObject;
  /** Members of the call, the data or the file that events carry. */
  has?: string[];
  /** Other members of these. */
  inner?: JsonObject;
  /** Entries of `partialArgs`. */
  partial?: PartialForm[];
  /** The frame closes arguments that came in pieces. */
  closes?: boolean;
  /** A part that says nothing. */
  raw?: JsonObject;
}

export interface PartialForm {
  lead: number;
  tail: number;
  /** Which kind of value; absent: none. */
  member?: string;
  text: boolean;
  more: JsonObject;
}

/** The object without some members. */
export function without(object: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}

/** Parts are told from each other by these members, in this order; the rest is for their own protocol. */
export type PartKind = "call" | "thought" | "text" | "inlineData" | "fileData" | "server";

/**
 * What a part is. One that holds nothing is a text without words. Media among the thoughts are drafts, which other
 * protocols would take for the answer; media without anything in them are nothing that could be told to anyone else.
 */
export function kindOf(part: JsonObject): PartKind {
  if (asObject(part["functionCall"])) return "call";
  if (typeof part["text"] === "string" || isBare(part)) return part["thought"] === true ? "thought" : "text";
  if (part["thought"] === true) return "server";
  if (typeof asObject(part["inlineData"])?.["data"] === "string") return "inlineData";
  return typeof asObject(part["fileData"])?.["fileUri"] === "string" ? "fileData" : "server";
}

function isBare(part: JsonObject): boolean {
  for (const name in part) if (name !== "thought" && name !== "thoughtSignature") return false;
  return true;
}

/** A frame's form. `pieces`: what `partialArgs` of this frame added, in order; `calls`: how each call was taken. */
export function formOf(doc: JsonObject, start: { id: string; model: string }, seen: Seen): FrameForm {
  const id = doc["responseId"] === start.id;
  const model = doc["modelVersion"] === start.model;
  const usage = asObject(doc["usageMetadata"]);
  const known = ["candidates", "usageMetadata", ...(id ? ["responseId"] : []), ...(model ? ["modelVersion"] : [])];
  return {
    id,
    model,
    ...(usage ? { usage: Object.keys(usage) } : {}),
    ...("candidates" in doc
      ? { candidates: asList(doc["candidates"]).map((each, n) => candidateForm(asObject(each) ?? {}, n, seen)) }
      : {}),
    more: without(doc, known),
  };
}

/** How the reader took the calls of a frame: whole, as the begin or more of one that comes in pieces, as nothing. */
export interface Seen {
  pieces: Piece[];
  calls: ("whole" | "begins" | "goes on" | "nothing")[];
}

function candidateForm(candidate: JsonObject, position: number, seen: Seen): CandidateForm {
  const content = asObject(candidate["content"]);
  return {
    choice: asCount(candidate["index"]) ?? position,
    ...("finishReason" in candidate ? { finish: candidate["finishReason"] } : {}),
    ...("finishMessage" in candidate ? { message: candidate["finishMessage"] } : {}),
    ...(content ? { content: without(content, ["parts"]) } : {}),
    ...(content && "parts" in content ? { parts: asList(content["parts"]).map((part) => partForm(part, seen)) } : {}),
    more: without(candidate, ["content", "finishReason", "finishMessage"]),
  };
}

function partForm(value: unknown, seen: Seen): PartForm {
  const part = asObject(value) ?? {};
  const kind = kindOf(part);
  const signed = asText(part["thoughtSignature"]) !== undefined;
  const raw: PartForm = { kind: "raw", signed: false, more: {}, raw: part };
  if (kind === "call") return callForm(part, signed, seen) ?? raw;
  if (kind === "server") return { kind, signed: false, more: {} };
  if (kind === "text" || kind === "thought") {
    const has = part["text"] === undefined || part["text"] === "" ? [] : ["text"];
    if (has.length === 0 && !signed) return raw;
    return { kind: "text", signed, has, more: without(part, [...has, "thoughtSignature"]) };
  }
  // A signature on media is no event.
  const inner = asObject(part[kind]) ?? {};
  const carried = kind === "inlineData" ? ["mimeType", "data"] : ["mimeType", "fileUri"];
  const has = carried.filter((name) => typeof inner[name] === "string");
  return { kind, signed: false, has, inner: without(inner, has), more: without(part, [kind]) };
}

function callForm(part: JsonObject, signed: boolean, seen: Seen): PartForm | undefined {
  const call = asObject(part["functionCall"]) ?? {};
  const how = seen.calls.shift();
  if (how === "nothing") return undefined;
  const heads = how === "whole" || how === "begins" ? ["name", "id"] : [];
  const has = [...heads, ...(how === "whole" ? ["args"] : [])].filter((name) => name in call);
  const entries = asList(call["partialArgs"]).map((entry) => partialForm(asObject(entry) ?? {}, seen));
  return {
    kind: "call",
    signed: signed && heads.length > 0,
    has,
    inner: without(call, [...has, "partialArgs"]),
    ...("partialArgs" in call ? { partial: entries } : {}),
    closes: how !== "whole" && call["willContinue"] !== true,
    more: without(part, ["functionCall", ...(heads.length > 0 ? ["thoughtSignature"] : [])]),
  };
}

const VALUES = ["stringValue", "numberValue", "boolValue"];

function partialForm(entry: JsonObject, seen: Seen): PartialForm {
  const piece = seen.pieces.shift();
  const member = VALUES.find((name) => name in entry);
  return {
    lead: piece?.lead ?? 0,
    tail: piece?.tail ?? 0,
    text: piece !== undefined && piece.text !== "",
    ...(member === undefined ? {} : { member }),
    more: member === undefined ? entry : without(entry, [member]),
  };
}
