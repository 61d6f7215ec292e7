import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Frame } from "../../src/wire/frame.ts";
import { shared } from "./shared.ts";

/** A line of the recordings' index. */
export interface RecordingEntry {
  id: string;
  /** The folder, which has the name of a protocol. */
  protocol: string;
  vendor: string;
  /** The response's features, like `stream`, `tools`, `error`, `truncated`. */
  kinds: readonly string[];
  status: number;
  has_request: boolean;
}

/** Returns the index of all recordings; empty if they are absent. */
export function recordingEntries(): RecordingEntry[] {
  const index = shared("recordings/index.jsonl");
  if (index === undefined) return [];
  const lines = readFileSync(index, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as RecordingEntry);
}

/** An exchange as it is stored. */
interface StoredExchange {
  request?: { path?: string; body?: Record<string, unknown> | null } | null;
  response: { status: number; headers: Record<string, string>; body_raw: string };
}

/** Reads the exchange of an entry. */
export const storedExchange = ({ id }: Pick<RecordingEntry, "id">): StoredExchange =>
  JSON.parse(readFileSync(join(shared("recordings") as string, `${id}.json`), "utf8")) as StoredExchange;

/** A recorded exchange with a vendor. */
export interface Recorded extends RecordingEntry {
  /** The request's JSON body, if it was recorded. */
  request: Record<string, unknown> | undefined;
  /** The response's original body. */
  body: string;
}

/** Returns the recorded exchanges in one folder; none if they are absent. */
export function recorded(folder: string): Recorded[] {
  const entries = recordingEntries().filter(({ protocol }) => protocol === folder);
  return entries.map((entry) => {
    const { request, response } = storedExchange(entry);
    return { ...entry, request: request?.body ?? undefined, body: response.body_raw };
  });
}

/** Returns the events of a recorded stream, blank lines included. */
export function eventsIn(body: string): Frame[] {
  const events = body.match(/[\s\S]+?(?:\r?\n\r?\n|$)/g) ?? [];
  return events.map((event) => new Frame("event", Buffer.from(event)));
}

/** Returns JSON as the data of one event. */
export const asEvent = (json: unknown): Frame => new Frame("event", Buffer.from(`data: ${JSON.stringify(json)}\n\n`));

/** Parses a body; undefined if it is not JSON. */
export function jsonOf(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
