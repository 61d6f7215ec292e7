import type { Test } from "tap";
import { JournaledLedger } from "../../src/store/journal/journaled-ledger.ts";
import type { LedgerLocation } from "../../src/store/journal/ledger-messages.ts";
import { entry } from "./ledger-contract.ts";

/** Tests how far sums include the journals of two processes. */
export async function testPlacedSums(t: Test, location: LedgerLocation, folder: string): Promise<void> {
  const [one, other] = [1, 2].map(() => new JournaledLedger(location, folder)) as [JournaledLedger, JournaledLedger];
  t.teardown(() => Promise.all([one.close(), other.close()]));
  t.same(await one.placedSums({ by: ["key"] }), { sums: [], positions: new Map() });
  let last = one.place;
  const positions: number[] = [];
  // Also texts that are longer in bytes than in characters.
  for (const id of ["1", "2", "ä€😀"]) {
    one.append(entry({ id, time: Date.now(), cost: 5 }));
    t.ok(one.place.position > last.position);
    last = one.place;
    positions.push(last.position);
    if (id === "1") one.persist();
  }
  other.append(entry({ id: "3", time: Date.now(), cost: 7 }));
  // What one of them has written may have been read by now, or a part of it.
  const early = await other.placedSums({ by: [] });
  const read = early.positions.get(one.place.journal) ?? 0;
  const requests = positions.filter((position) => position <= read).length;
  t.match(early.sums, [{ requests: requests + 1, cost: 5 * requests + 7 }]);
  t.equal(early.positions.get(other.place.journal), other.place.position);
  const all = await one.placedSums({ by: [] });
  t.match(all.sums, [{ requests: 4, cost: 22 }]);
  t.same(
    all.positions,
    new Map([one.place, other.place].map(({ journal, position }) => [journal, position])),
    "just what is in their journals",
  );
  t.same(one.place, last);
  one.begin(entry({ id: "4", time: Date.now() }));
  t.ok(one.place.position > last.position);
}
