import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { join } from "node:path";
import { filesToRead, listJournals } from "../../src/store/journal/files.ts";
import { lineToRow } from "../../src/store/journal/journal.ts";
import { parseJournalLine, readLines } from "../../src/store/journal/lines.ts";
import type { Teardown } from "./listen.ts";

/** Rows in a journal at one moment: of exchanges that have ended, and of open ones. */
export interface JournalAt {
  ended: number;
  open: number;
}

/**
 * Records what the journal of a gateway's folder contains at each event, as if the process were killed then.
 * @param moment node's `http.client.request.created`, before a request to a provider; `http.server.response.finish`, when the
 * last byte of a response has just been sent
 * @param port only of messages to or from it
 */
export function journalAt(
  t: Teardown,
  folder: string,
  moment: "http.client.request.created" | "http.server.response.finish",
  port: number,
): JournalAt[] {
  const seen: JournalAt[] = [];
  const look = (message: unknown) => {
    const { request } = message as { request: { host?: string; path?: string; socket: { localPort?: number } | null } };
    const asked = "getHeader" in request ? String((request.getHeader as (name: string) => unknown)("host")) : "";
    if (!asked.endsWith(`:${port}`) && request.socket?.localPort !== port) return;
    seen.push(rowsIn(join(folder, "gateway.db.journal")));
  };
  subscribe(moment, look);
  t.teardown(() => unsubscribe(moment, look));
  return seen;
}

/** Reads the journals of a folder in one turn of the event loop. */
function rowsIn(folder: string): JournalAt {
  const [ended, begun] = [new Set<unknown>(), new Set<unknown>()];
  for (const file of listJournals(folder).flatMap(filesToRead))
    for (const { text } of [...readLines(file, 0, Number.POSITIVE_INFINITY)].flatMap(({ lines }) => lines)) {
      const line = parseJournalLine(text);
      if (line && line[0] !== "made") (line[0] === "begun" ? begun : ended).add(lineToRow(line).values[0]);
    }
  return { ended: ended.size, open: begun.difference(ended).size };
}
