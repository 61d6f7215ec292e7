import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Frame } from "../../src/wire/frame.ts";
import { shared } from "./shared.ts";

/** A recorded response of a vendor. */
export interface Recording {
  id: string;
  vendor: string;
  /** Its features, like `stream`, `tools`, `error`, `truncated`. */
  kinds: readonly string[];
  status: number;
  /** The original body. */
  body: string;
}

interface Entry extends Omit<Recording, "body"> {
  protocol: string;
}

/** Returns all recordings of a protocol; none if they are absent. */
export function recordings(protocol: string): Recording[] {
  const folder = shared("recordings");
  if (!folder) return [];
  const index = readFileSync(join(folder, "index.jsonl"), "utf8").trim().split("\n");
  const entries = index.map((line) => JSON.parse(line) as Entry).filter((entry) => entry.protocol === protocol);
  return entries.map(({ id, vendor, kinds, status }) => {
    const stored = JSON.parse(readFileSync(join(folder, `${id}.json`), "utf8")) as { response: { body_raw: string } };
    return { id, vendor, kinds, status, body: stored.response.body_raw };
  });
}

/** Returns the events of a recorded stream, blank lines included. */
export function eventsOf(body: string): Frame[] {
  return body.split(/(?<=\r?\n\r?\n)/).map((event) => new Frame("event", Buffer.from(event)));
}

/** JSON as the data of one event. */
export const asEvent = (json: unknown): Frame => new Frame("event", Buffer.from(`data: ${JSON.stringify(json)}\n\n`));

/** Parses a body; undefined if it is not JSON. */
export function jsonOf(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
