import {
  asCount,
  asText,
  type FeatureUse,
  type IncomingRequest,
  isObject,
  type JsonObject,
  type Opaque,
  objectFields,
  type Part,
  type Reasoning,
  type ToolCall,
  writeJson,
} from "model-gateway/protocol";
import { AFTER_TEXT, ENVELOPE_FORMAT, parsePlaceId, type ReasoningPlace, textMember } from "./wire.ts";

/** Members of an entry of `reasoning_details` that are decoded; others only go back to the vendor, in its state. */
const DETAIL_MEMBERS = ["type", "id", "format", "index", "text", "summary", "data", "signature"] as const;

/** Declares unread members of the entries of `reasoning_details`. */
export function declareUnreadDetails(details: readonly unknown[], at: string, uses: FeatureUse[]): void {
  details.forEach((value, n) => {
    const path = `${at}.${n}`;
    if (!isObject(value)) {
      uses.push({ feature: "other", path });
      return;
    }
    const entry = objectFields(value, path, uses);
    for (const name of DETAIL_MEMBERS) entry.any(name);
    entry.declareUnread();
  });
}

/** A reasoning, and its place in the message unless that is the beginning; `end` is after the text, for state of a text. */
export interface DetailReasoning {
  reasoning: Reasoning;
  place: ReasoningPlace | "end" | undefined;
}

/** A message's reasoning by place. */
export interface MessageReasoning {
  before: Reasoning[];
  between: { reasoning: Reasoning; place: ReasoningPlace }[];
  after: Reasoning[];
}

/**
 * Puts reasoning back between the texts and calls of its message, which have their own members in Chat: a vendor that has signed
 * it may refuse it elsewhere. Returns the parts up to the last reasoning, and the texts and calls that are left.
 */
export function placeReasoning(
  between: MessageReasoning["between"],
  texts: readonly Part[],
  calls: readonly ToolCall[],
): { parts: Part[]; texts: Part[]; calls: ToolCall[] } {
  const parts: Part[] = [];
  let [length, nextText, nextCall] = [0, 0, 0];
  /** What is left of the next text. */
  let rest = texts[0];
  for (const { reasoning, place } of between) {
    while (rest && length < place.text) {
      const [taken, left] = splitText(rest, place.text - length);
      if (!taken) break;
      parts.push(taken);
      length += textLengthOf(taken);
      rest = left ?? texts[++nextText];
    }
    while (nextCall < Math.min(place.calls, calls.length)) parts.push(calls[nextCall++] as ToolCall);
    parts.push(reasoning);
  }
  return { parts, texts: rest ? [rest, ...texts.slice(nextText + 1)] : [], calls: calls.slice(nextCall) };
}

const textLengthOf = (part: Part): number => (part.kind === "text" ? part.text.length : 0);

/** Splits a text after some characters; undefined where its citations, which count its characters, keep it together. */
function splitText(part: Part, length: number): [taken: Part | undefined, left?: Part] {
  if (part.kind !== "text" || part.text.length <= length) return [part];
  if (part.citations) return [undefined];
  const { cache: _, ...first } = part;
  // Of a text that the client has changed, not between the halves of a surrogate pair.
  const end = length + (/^[\udc00-\udfff]/.test(part.text.slice(length, length + 1)) ? 1 : 0);
  return [
    { ...first, text: part.text.slice(0, end) },
    { ...part, text: part.text.slice(end) },
  ];
}

/** Entries of one reasoning: one, or several consecutive ones of one index, as clients keep streamed ones. */
interface DetailGroup {
  index: number | undefined;
  at: string;
  entries: JsonObject[];
}

export function detailReasonings(
  details: readonly unknown[],
  at: string,
  incoming: IncomingRequest,
): DetailReasoning[] {
  const groups: DetailGroup[] = [];
  details.forEach((entry, n) => {
    if (!isObject(entry)) return;
    const index = asCount(entry["index"]);
    const last = groups.at(-1);
    if (last && index !== undefined && last.index === index) last.entries.push(entry);
    else groups.push({ index, at: `${at}.${n}`, entries: [entry] });
  });
  return groups.map((group) => detailReasoning(group, incoming));
}

function detailReasoning({ at, entries }: DetailGroup, incoming: IncomingRequest): DetailReasoning {
  const first = entries[0] as JsonObject;
  const merged: JsonObject = Object.fromEntries(entries.flatMap((entry) => Object.entries(entry)));
  const texts = (name: string) => entries.flatMap((entry) => asText(entry[name]) ?? []);
  const summary = texts("summary");
  const text = texts("text").join("");
  const opaque = detailState(merged, incoming);
  const hasPlainText = text !== "" && textMember(first) === "text";
  const hasNoText = summary.length === 0 && text === "";
  const reasoning: Reasoning = {
    kind: "reasoning",
    at,
    ...(hasNoText ? {} : hasPlainText || summary.length === 0 ? { text } : { summary }),
    ...(hasNoText && asText(merged["data"]) !== undefined ? { redacted: true } : {}),
    ...(opaque ? { opaque } : {}),
  };
  const id = first["format"] === ENVELOPE_FORMAT ? first["id"] : undefined;
  return { reasoning, place: id === AFTER_TEXT ? "end" : parsePlaceId(id) };
}

function detailState(entry: JsonObject, incoming: IncomingRequest): Opaque | undefined {
  const state = asText(entry["signature"]) ?? asText(entry["data"]);
  if (state !== undefined && incoming.isEnvelope(state)) return incoming.open(state, "reasoning_details");
  // It has the gateway's format but is no envelope, so that it cannot be read.
  if (entry["format"] === ENVELOPE_FORMAT) return undefined;
  return incoming.open(writeJson(withoutText(entry)), "reasoning_details");
}

/** Returns an entry without its text, which the reasoning has separately. */
function withoutText(entry: JsonObject): JsonObject {
  const member = textMember(entry);
  if (member === undefined || !asText(entry[member])) return entry;
  const { [member]: _text, ...rest } = entry;
  return rest;
}
