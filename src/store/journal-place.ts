import type { JournalPlace, UsageRow } from "./ledger-row.ts";

// Stores keep how far each journal has been inserted, in the transaction of its rows: once rows have been deleted, their ids no
// longer show that a journal is read again.

/** Bytes of a file that positions can distinguish: a thousand times a full one. */
const MAX_BYTES = 2 ** 33;

/** The position after the exchanges that a dead process left open: all of its journal is stored. */
export const JOURNAL_END = Number.MAX_SAFE_INTEGER;

/** Returns a position that grows with the number of a journal's file, and with the bytes in it. */
export const journalPosition = (file: number, bytes: number): number => file * MAX_BYTES + bytes;

/**
 * Returns rows of open exchanges, placed behind a journal. If more of it is stored than its files have, they are from an earlier
 * copy: then what was open in them has ended since.
 * @param end the position at which its files end
 * @param after the position when all these rows are stored
 */
export function placeOpenRows(rows: Iterable<UsageRow>, journal: string, end: number, after = end): UsageRow[] {
  const all = [...rows];
  return all.map((row, n) => ({ ...row, place: { journal, from: end, to: n === all.length - 1 ? after : end } }));
}

/** Returns how many of the first rows a transaction takes: about `count`, and all open ones of a journal or none. */
export function batchLength(rows: readonly UsageRow[], count: number): number {
  let length = Math.min(count, rows.length);
  while (length < rows.length && isSamePlace(rows[length - 1]?.place, rows[length]?.place)) length++;
  return length;
}

const isSamePlace = (a: JournalPlace | undefined, b: JournalPlace | undefined): boolean =>
  a !== undefined && a.journal === b?.journal && a.from === b.from;

/** Returns the farthest position of each journal among rows. */
export function farthestPositions(rows: readonly UsageRow[]): Map<string, number> {
  const farthest = new Map<string, number>();
  for (const { place } of rows)
    if (place) farthest.set(place.journal, Math.max(place.to, farthest.get(place.journal) ?? 0));
  return farthest;
}
