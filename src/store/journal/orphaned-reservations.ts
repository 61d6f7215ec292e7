import type { RunningReservation } from "../limiter.ts";
import { filesToRead, isOrphaned, listJournals, lostPrimary } from "./files.ts";
import { readLines } from "./lines.ts";

/** The prefix of a line with what running exchanges have reserved at a primary that is gone. */
const ORPHANED_PREFIX = `["orphaned",`;

/** Serializes reservations as a line of a journal; readers of rows skip it. */
export const orphanedLine = (orphaned: readonly RunningReservation[]): string =>
  `${ORPHANED_PREFIX}${JSON.stringify(orphaned)}]\n`;

/** What processes that go on without their primary have reserved. */
export interface OrphanedReservations {
  readonly orphaned: readonly RunningReservation[];
  /** Whether each such process has recorded it. */
  readonly complete: boolean;
}

/**
 * Reads what the exchanges of other processes have reserved at a primary that is gone.
 * @param owner our own journal
 * @param isWorker whether the process of that id has a primary
 */
export function readOrphaned(folder: string, owner: string, isWorker: (pid: number) => boolean): OrphanedReservations {
  const orphaned = new Map<string, RunningReservation>();
  let complete = true;
  for (const journal of listJournals(folder)) {
    if (journal.name === owner) continue;
    const line = findOrphanedLine(filesToRead(journal));
    if (line !== undefined) for (const each of line) orphaned.set(each.reservation.id, each);
    else if (!isOrphaned(journal) && lostPrimary(journal, isWorker)) complete = false;
  }
  return { orphaned: [...orphaned.values()], complete };
}

function findOrphanedLine(files: readonly string[]): readonly RunningReservation[] | undefined {
  for (const file of files)
    for (const lines of readLines(file, 0, Number.POSITIVE_INFINITY))
      for (const { text } of lines) if (text.startsWith(ORPHANED_PREFIX)) return JSON.parse(text)[1];
  return undefined;
}
