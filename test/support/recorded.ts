import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Frame } from "../../src/wire/frame.ts";
import { shared } from "./shared.ts";

/** A vendor's recorded response. */
export interface Recorded {
  id: string;
  /** Its features, like `stream`, `tools`, `error`, `truncated`. */
  kinds: readonly string[];
  status: number;
  /** The original body. */
  body: string;
}

/** Returns the recorded responses in one folder of the recordings; none if they are absent. */
export function recorded(folder: string): Recorded[] {
  const root = shared("recordings");
  if (!root) return [];
  const lines = readFileSync(join(root, "index.jsonl"), "utf8").trim().split("\n");
  const entries = lines.map((line) => JSON.parse(line) as Recorded).filter(({ id }) => id.startsWith(`${folder}/`));
  return entries.map(({ id, kinds, status }) => {
    const { response } = JSON.parse(readFileSync(join(root, `${id}.json`), "utf8")) as {
      response: { body_raw: string };
    };
    return { id, kinds, status, body: response.body_raw };
  });
}

/** Returns the events of a recorded stream, blank lines included. */
export function eventsIn(body: string): Frame[] {
  const events = body.match(/[\s\S]+?(?:\r?\n\r?\n|$)/g) ?? [];
  return events.map((event) => new Frame("event", Buffer.from(event)));
}
