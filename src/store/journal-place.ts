import { type JournalPlace, rowTime, type UsageRow } from "./ledger-row.ts";
import { DAY } from "./ledger-sums.ts";

// Stores keep how far each journal has been inserted, in the transaction of its rows: once rows have been deleted, their ids no
// longer show that a journal is read again.

/** Bytes of a file that positions can distinguish: a thousand times a full one. */
const MAX_BYTES = 2 ** 33;

/** Days for which a store knows how far it has read a journal. */
const POSITION_DAYS = 365;

/** Milliseconds for which a journal without rows may still be reported on. */
const PLACED_TIME = 2 * DAY;

/** Returns the time since which journals must have rows for their positions to be read. Unix milliseconds. */
export const placedSince = (): number => Date.now() - PLACED_TIME;

/** How far a journal has been inserted. */
export interface InsertedJournal {
  readonly position: number;
  /** When its newest row began, in Unix milliseconds. */
  readonly time: number;
}

/**
 * Returns the time before which positions of journals are deleted, when rows are deleted before `before`: all rows of such a
 * journal are older, and so are known to have been deleted wherever they come from. Unix milliseconds.
 */
export const journalCutoff = (before: number): number => Math.min(before, Date.now() - POSITION_DAYS * DAY);

/**
 * Reports whether a row has been inserted and deleted before: its journal is read again.
 * @param position how far its journal has been inserted; 0: unknown
 * @param before the time before which rows have been deleted
 */
export function wasDeleted(row: UsageRow, position: number, before: number): boolean {
  const { place } = row;
  const time = rowTime(row);
  return place !== undefined && time < before && (place.from < position || time < journalCutoff(before));
}

/** The position after the exchanges that a dead process left open: all of its journal is stored. */
export const JOURNAL_END = Number.MAX_SAFE_INTEGER;

/** Returns a position that grows with the number of a journal's file, and with the bytes in it. */
export const journalPosition = (file: number, bytes: number): number => file * MAX_BYTES + bytes;

/**
 * Returns rows of open exchanges, placed behind a journal. If more of it is stored than its files have, they are from an earlier
 * copy: then what was open in them has ended since.
 * @param end the position at which its files end
 * @param after the position when these rows are stored, all of them in one transaction
 */
export function placeOpenRows(rows: Iterable<UsageRow>, journal: string, end: number, after = end): UsageRow[] {
  return [...rows].map((row) => ({ ...row, place: { journal, from: end, to: after } }));
}

/** Returns how many of the first rows a transaction takes: about `count`, and all open ones of a journal or none. */
export function batchLength(rows: readonly UsageRow[], count: number): number {
  let length = Math.min(count, rows.length);
  while (length < rows.length && isSamePlace(rows[length - 1]?.place, rows[length]?.place)) length++;
  return length;
}

const isSamePlace = (a: JournalPlace | undefined, b: JournalPlace | undefined): boolean =>
  a !== undefined && a.journal === b?.journal && a.from === b.from;

/** Returns how far each journal is inserted with these rows. */
export function insertedJournals(rows: readonly UsageRow[]): Map<string, InsertedJournal> {
  const inserted = new Map<string, { position: number; time: number }>();
  for (const row of rows) {
    const { place } = row;
    if (!place) continue;
    const journal = inserted.getOrInsertComputed(place.journal, notInserted);
    journal.position = Math.max(place.to, journal.position);
    journal.time = Math.max(rowTime(row), journal.time);
  }
  return inserted;
}

const notInserted = () => ({ position: 0, time: 0 });
