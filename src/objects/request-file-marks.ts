import type { Exchange } from "../core/exchange.ts";
import type { OwnedObject, Owners } from "../store/owners.ts";

const DAY = 24 * 3_600_000;
/** Days for which a mark is valid at most: vendors keep such files for two. */
const MAX_DAYS = 2;

/** Ids of marks contain a slash, so that neither a request nor a response can name one. */
const markOf = (id: string, lastDay: number): string => `requests/${lastDay}/${id}`;
const deletionOf = (id: string): string => `deleted/${id}`;

/**
 * Marks of files whose lines have been read and name only what their key may use: only such a file may be run as a batch of
 * requests. They are kept where the owners of objects are, so that they are valid after a restart and at every gateway.
 *
 * Clients choose names of files, and the name of a deleted one is free again. So a mark ends when its file is deleted by a request,
 * and before the day (UTC) on which the vendor deletes it.
 */
export class RequestFileMarks {
  /** @param mayUse reports whether a caller may use an object */
  constructor(
    private readonly owners: Owners,
    private readonly mayUse: (object: OwnedObject, caller: Exchange["caller"]) => boolean,
  ) {}

  /** Marks a file that its caller has uploaded. @param expires when the vendor deletes it, in milliseconds */
  add(id: string, provider: string, expires: number, { caller, time }: Pick<Exchange, "caller" | "time">): void {
    if (!caller) return;
    const { id: key, group } = caller;
    const mark = markOf(id, Math.min(dayOf(expires) - 1, dayOf(time) + MAX_DAYS - 1));
    this.owners.add([{ id: mark, provider, key, ...(group === undefined ? {} : { group }) }]);
  }

  /** Ends the mark of a file that may be deleted now, if it has one, for good. */
  end(id: string, provider: string, { caller }: Pick<Exchange, "caller">): void {
    this.owners.add([{ id: deletionOf(id), provider, key: caller?.id ?? "" }]);
  }

  /** Reports whether a caller's file has a mark. @throws GatewayError `store_unavailable` */
  async has(id: string, provider: string, { caller, time }: Pick<Exchange, "caller" | "time">): Promise<boolean> {
    const mayUse = (rows: readonly OwnedObject[]) =>
      rows.some((row) => row.provider === provider && this.mayUse(row, caller));
    const lastDays = Array.from({ length: MAX_DAYS }, (_, days) => dayOf(time) + days);
    const [deletions, ...marks] = await Promise.all([
      // Of any provider: two may lead to one account.
      this.owners.findSoon(deletionOf(id), (rows) => rows.length > 0),
      ...lastDays.map((day) => this.owners.findSoon(markOf(id, day), mayUse)),
    ]);
    return deletions?.length === 0 && marks.some(mayUse);
  }
}

const dayOf = (time: number): number => Math.floor(time / DAY);
