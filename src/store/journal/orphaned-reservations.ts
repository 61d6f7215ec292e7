import { asList, parseJson } from "../../wire/values.ts";
import type { RunningReservation } from "../limiter.ts";
import { filesToRead, isOrphaned, listJournals, lostPrimary, parentPid } from "./files.ts";
import { readLines } from "./lines.ts";

/** The prefix of a line with what the running exchanges of a process have reserved that is stopping or has lost its primary. */
const ORPHANED_PREFIX = `["orphaned",`;

/** Serializes reservations, without what their limiter knows besides, as a line of a journal; readers of rows skip it. */
export const orphanedLine = (orphaned: readonly RunningReservation[]): string =>
  `${ORPHANED_PREFIX}${JSON.stringify(orphaned.map(({ reservation, time }) => ({ reservation, time })))}]\n`;

/** What processes have reserved that are stopping or have lost their primary. */
interface OrphanedReservations {
  readonly orphaned: readonly RunningReservation[];
  /** Whether each process without a primary has recorded it. */
  readonly complete: boolean;
}

/**
 * Reads what the exchanges of other processes have reserved that are stopping or have lost their primary.
 * @param owner our own journal; those of our workers are left out as well
 */
export function readOrphaned(folder: string, owner: string): OrphanedReservations {
  const orphaned = new Map<string, RunningReservation>();
  let complete = true;
  for (const journal of listJournals(folder)) {
    if (journal.name === owner || parentPid(journal.name) === process.pid) continue;
    const line = findLastLine(filesToRead(journal));
    if (line !== undefined) for (const each of line) orphaned.set(each.reservation.id, each);
    else if (!isOrphaned(journal) && lostPrimary(journal)) complete = false;
  }
  return { orphaned: [...orphaned.values()], complete };
}

function findLastLine(files: readonly string[]): readonly RunningReservation[] | undefined {
  let last: readonly RunningReservation[] | undefined;
  // Each file begins with the line, unless its process was killed while it began the last one.
  for (const file of files.slice(-2))
    for (const { lines } of readLines(file, 0, Number.POSITIVE_INFINITY))
      for (const { text } of lines) if (text.startsWith(ORPHANED_PREFIX)) last = parseOrphaned(text) ?? last;
  return last;
}

/** Parses such a line; undefined if it is invalid: after a power cut a file may contain anything. */
const parseOrphaned = (text: string): readonly RunningReservation[] | undefined =>
  asList(parseJson(text))[1] as readonly RunningReservation[] | undefined;
