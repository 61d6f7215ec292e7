import type { LedgerEntry } from "./ledger.ts";
import type { RowPlace } from "./row-place.ts";

/** Rows per page. */
export const PAGE_ROWS = 1000;

/** Yields the entries of all pages in turn, so that only one page is in memory. */
export async function* paged(
  page: (after: RowPlace | undefined) => LedgerEntry[] | Promise<LedgerEntry[]>,
): AsyncGenerator<LedgerEntry> {
  let after: RowPlace | undefined;
  for (;;) {
    const entries = await page(after);
    yield* entries;
    const last = entries.at(-1);
    if (!last || entries.length < PAGE_ROWS) return;
    after = { time: last.time, id: last.id };
  }
}

/** Merges sorted entries with others in any order; duplicates are yielded once. */
export async function* merged(
  stored: AsyncIterable<LedgerEntry>,
  others: readonly LedgerEntry[],
): AsyncGenerator<LedgerEntry> {
  const waiting = [...others].sort(inOrder);
  let at = 0;
  for await (const entry of stored) {
    for (let other = waiting[at]; other && inOrder(other, entry) <= 0; other = waiting[++at])
      if (inOrder(other, entry) < 0) yield other;
    yield entry;
  }
  yield* waiting.slice(at);
}

/** Orders by time, then by id, as SQLite compares texts. */
const inOrder = (a: RowPlace, b: RowPlace): number => a.time - b.time || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
