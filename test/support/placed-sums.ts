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
  // Also texts that are longer in bytes than in characters.
  for (const id of ["1", "2", "ä€😀"]) {
    one.append(entry({ id, time: Date.now(), cost: 5 }));
    t.ok(one.place.position > last.position);
    last = one.place;
    if (id === "1") one.persist();
  }
  other.append(entry({ id: "3", time: Date.now(), cost: 7 }));
  t.match(await other.placedSums({ by: [] }), {
    sums: [{ requests: 1, cost: 7 }],
    positions: new Map([[other.place.journal, other.place.position]]),
  });
  const { sums, positions } = await one.placedSums({ by: [] });
  t.match(sums, [{ requests: 4, cost: 22 }]);
  t.same(
    positions,
    new Map([one.place, other.place].map(({ journal, position }) => [journal, position])),
    "just what is in their journals",
  );
  t.same(one.place, last);
  one.begin(entry({ id: "4", time: Date.now() }));
  t.ok(one.place.position > last.position);
}
