import type { MaybePromise } from "../core/plugin.ts";
import type { LedgerEntry, RowCursor } from "./ledger.ts";

/** Rows per page. */
export const PAGE_ROWS = 1000;

/** Yields the entries of all pages in turn, so that only one page is in memory. */
export async function* readPages(
  page: (after: RowCursor | undefined) => MaybePromise<LedgerEntry[]>,
): AsyncGenerator<LedgerEntry> {
  let after: RowCursor | undefined;
  for (;;) {
    const entries = await page(after);
    yield* entries;
    const last = entries.at(-1);
    if (!last || entries.length < PAGE_ROWS) return;
    after = { time: last.time, id: last.id };
  }
}

/** Merges sorted entries with others in any order; duplicates are yielded once. */
export async function* mergeEntries(
  stored: AsyncIterable<LedgerEntry>,
  others: readonly LedgerEntry[],
): AsyncGenerator<LedgerEntry> {
  const waiting = [...others].sort(compareRows);
  let at = 0;
  for await (const entry of stored) {
    for (let other = waiting[at]; other && compareRows(other, entry) <= 0; other = waiting[++at])
      if (compareRows(other, entry) < 0) yield other;
    yield entry;
  }
  yield* waiting.slice(at);
}

/** Orders by time, then by id, as SQLite compares texts. */
const compareRows = (a: RowCursor, b: RowCursor): number => a.time - b.time || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
