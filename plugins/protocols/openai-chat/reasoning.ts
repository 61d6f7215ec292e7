import {
  asCount,
  asList,
  asObject,
  asText,
  type FeatureUse,
  fieldsOf,
  type IncomingRequest,
  isObject,
  type JsonObject,
  type Opaque,
  type Reasoning,
  writeJson,
} from "model-gateway/protocol";

/** The format of entries of `reasoning_details` that hold an envelope of ours. */
export const FORMAT = "gw1";
/** The id of an entry whose state sat on a text without a word, behind the text that there is. */
const BEHIND = "behind";
/** Members of an entry that are read; a vendor's own go back to it with the rest, and to nobody else. */
const MEMBERS = ["type", "id", "format", "index", "text", "summary", "data", "signature"] as const;
/** What an entry of `reasoning_details` says can be read in this member; what it encrypts in none. */
export const saidIn = ({ type }: JsonObject): "summary" | "text" | undefined =>
  type === "reasoning.summary" ? "summary" : type === "reasoning.text" ? "text" : undefined;

/** An entry of `reasoning_details` without what it says, as opaque state. */
export function entryState(entry: JsonObject): string {
  const uses = saidIn(entry);
  if (uses === undefined || !asText(entry[uses])) return writeJson(entry);
  const { [uses]: _said, ...rest } = entry;
  return writeJson(rest);
}

/** Whether the state of a reasoning belongs behind the text of its message. */
export const isBehind = (details: unknown, { at }: Reasoning): boolean => {
  const entry = asObject(asList(details)[Number(at.slice(at.lastIndexOf(".") + 1))]);
  return entry?.["format"] === FORMAT && entry["id"] === BEHIND;
};

/** Says what stands in the entries of `reasoning_details` that nobody reads. */
export function sayUnread(details: readonly unknown[], at: string, uses: FeatureUse[]): void {
  details.forEach((value, n) => {
    const path = `${at}.${n}`;
    if (!isObject(value)) {
      uses.push({ feature: "other", path });
      return;
    }
    const entry = fieldsOf(value, path, uses);
    for (const name of MEMBERS) entry.any(name);
    entry.rest();
  });
}

/** One entry, or several of one index, that make one reasoning. */
interface Group {
  index: number | undefined;
  entries: { entry: JsonObject; at: string }[];
}

/**
 * The reasonings in the `reasoning_details` of a message. Entries in a row with the same index are one: clients keep
 * them as they were streamed. Each entry stays one where the very same request is to be written again.
 */
export function reasoningsIn(details: readonly unknown[], at: string, asked: IncomingRequest): Reasoning[] {
  const groups: Group[] = [];
  details.forEach((entry, n) => {
    if (!isObject(entry)) return;
    const index = asCount(entry["index"]);
    const last = groups.at(-1);
    if (last && index !== undefined && last.index === index && !asked.native)
      last.entries.push({ entry, at: `${at}.${n}` });
    else groups.push({ index, entries: [{ entry, at: `${at}.${n}` }] });
  });
  return groups.map((group) => reasoningOf(group, asked));
}

function reasoningOf({ entries }: Group, asked: IncomingRequest): Reasoning {
  const first = entries[0] as Group["entries"][number];
  const all: JsonObject = Object.fromEntries(entries.flatMap(({ entry }) => Object.entries(entry)));
  const uses = (name: string) => entries.flatMap(({ entry }) => asText(entry[name]) ?? []);
  const summary = uses("summary");
  const text = uses("text").join("");
  const opaque = stateOf(all, asked);
  const wordy = text !== "" && saidIn(first.entry) === "text";
  const silent = summary.length === 0 && text === "";
  return {
    kind: "reasoning",
    at: first.at,
    ...(silent ? {} : wordy || summary.length === 0 ? { text } : { summary }),
    ...(silent && asText(all["data"]) !== undefined ? { redacted: true } : {}),
    ...(opaque ? { opaque } : {}),
  };
}

function stateOf(entry: JsonObject, asked: IncomingRequest): Opaque | undefined {
  const held = asText(entry["signature"]) ?? asText(entry["data"]);
  if (held !== undefined && asked.sealed(held)) return asked.open(held, "reasoning_details");
  // Ours by its word, but no envelope: nothing that could be read.
  if (entry["format"] === FORMAT) return undefined;
  return asked.open(entryState(entry), "reasoning_details");
}

/** The entries of `reasoning_details` that carry a reasoning's envelope to the client and back. */
export function detailsOf(
  envelope: string,
  index: number,
  uses: { text?: string; summary?: string; behind?: boolean },
): JsonObject[] {
  const common = { format: FORMAT, index, ...(uses.behind ? { id: BEHIND } : {}) };
  if (uses.summary !== undefined)
    return [
      { type: "reasoning.summary", summary: uses.summary, ...common },
      { type: "reasoning.encrypted", data: envelope, ...common },
    ];
  if (uses.text === undefined) return [{ type: "reasoning.encrypted", data: envelope, ...common }];
  return [{ type: "reasoning.text", text: uses.text, signature: envelope, ...common }];
}
