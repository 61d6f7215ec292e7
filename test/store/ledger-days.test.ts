import { join } from "node:path";
import t from "tap";
import { localDays, sumsByLocalDay, sumsOfDays } from "../../src/store/ledger-days.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test("days have the length that the clocks of their zone give them", async (t) => {
  const since = Date.UTC(2026, 9, 24, 12);
  const days = [...localDays({ since, until: Date.UTC(2026, 9, 26, 12) }, "Europe/Berlin")];
  t.same(
    days.map(({ day, since, until }) => [day, (until - since) / 3_600_000]),
    [
      ["2026-10-24", 10],
      ["2026-10-25", 25],
      ["2026-10-26", 13],
    ],
  );
});

t.test("sums by days of a zone are those of their rows, also where days begin in the middle of an hour", async (t) => {
  const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const midnight = Date.UTC(2026, 10, 19, 18, 30);
  for (const [time, cost] of [
    [midnight - 1, 1],
    [midnight, 2],
    [Date.UTC(2026, 10, 20, 12), 4],
    // Long before.
    [Date.UTC(2020, 0, 1), 8],
  ] as const)
    stores.ledger.append(plainEntry(time, { cost }));
  const { ledger } = stores;
  let asked = 0;
  const counting = {
    sums: (query: Parameters<typeof ledger.sums>[0]) => {
      asked++;
      return ledger.sums(query);
    },
  };
  const found = await sumsByLocalDay(counting, { by: ["model", "day"] }, "Asia/Kolkata");
  t.same(
    found.map(({ group, cost }) => [...group, cost]),
    [
      ["m", "2020-01-01", 8],
      ["m", "2026-11-19", 1],
      ["m", "2026-11-20", 6],
    ],
  );
  t.ok(asked < 10, `${asked} queries: years without a request cost nothing`);
  const some = await sumsByLocalDay(ledger, { by: ["day"], since: midnight }, "Asia/Kolkata");
  t.match(some, [{ group: ["2026-11-20"], cost: 6 }]);
  t.same(await sumsByLocalDay(ledger, { by: ["day"], until: 1 }, "Asia/Kolkata"), []);
  t.same(await sumsOfDays(ledger, ["day"], [{ day: "2026-11-01", since: 1, until: 2 }]), []);
});

t.test("sums by days of a zone whose days are those of UTC take one query", async (t) => {
  const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const midnight = Date.UTC(2026, 10, 20);
  for (const [hours, model] of [
    [-30, "a"],
    [-2, "a"],
    [-1, "b"],
    [1, "b"],
    [3, "a"],
  ] as const)
    stores.ledger.append(plainEntry(midnight + hours * 3_600_000, { model, cost: 1 }));
  const asked: unknown[] = [];
  const ledger = {
    sums: (query: Parameters<typeof stores.ledger.sums>[0]) => {
      asked.push(query);
      return stores.ledger.sums(query);
    },
  };
  const span = { since: midnight - 26 * 3_600_000, until: midnight + 2 * 3_600_000 };
  const sums = async (zone: string) =>
    (await sumsOfDays(ledger, ["model", "day"], [...localDays(span, zone)])).map(({ group }) => group);
  t.same(await sums("UTC"), [
    ["a", "2026-11-19"],
    ["b", "2026-11-19"],
    ["b", "2026-11-20"],
  ]);
  t.same(asked, [{ ...span, by: ["model", "day"] }]);
  t.same(await sums("Etc/GMT-2"), [
    ["b", "2026-11-20"],
    ["a", "2026-11-20"],
  ]);
  t.equal(asked.length, 3);
  asked.length = 0;
  for (const zone of ["UTC", "Etc/GMT-2"])
    t.equal(
      (await sumsOfDays(ledger, ["model", "day"], [...localDays(span, zone)], { each: 2, all: 1 })).length,
      1,
      zone,
    );
  t.match(asked, [{ limit: 1 }, { limit: 2 }, { limit: 2 }], "no more is read than the most expensive");
});
