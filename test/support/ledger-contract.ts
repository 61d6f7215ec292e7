import type { Test } from "tap";
import type { Ledger, LedgerEntry, LedgerGroup, LedgerSum } from "../../src/store/ledger.ts";
import { dice } from "./dice.ts";
import { plainEntry } from "./plain-entry.ts";

const HOUR = 3_600_000;
/** Rows of the test with many. */
const MANY = Number(process.env["GATEWAY_TEST_LEDGER_ROWS"] ?? 10_000);
const DAY = Date.UTC(2026, 10, 20);

/** A new ledger. */
export interface LedgerUnderTest {
  ledger: Ledger;
  /** Another process's view of the same ledger. */
  other: Ledger;
  rows(): number | Promise<number>;
  /** Queries the store itself. */
  ask(text: string): unknown[] | Promise<unknown[]>;
}

/** Returns an exchange's entry with a new id. */
export function entry(change: Partial<LedgerEntry> = {}): LedgerEntry {
  return plainEntry(DAY, {
    ...{ key: "k1", model: "fast", protocol: "wire", operation: "generate", duration: 100, cost: 1_000 },
    attempts: [{ target: "p:m", status: 200, startedAt: 0.5 }],
    usage: { in: { total: 100, cached: 40 }, out: { total: 10, reasoning: 3 }, raw: undefined },
    ...change,
  });
}

/** Tests for a ledger in any store. */
export function ledgerContract(t: Test, open: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test("sums ask for what waits too, and are grouped as asked", async (t) => {
    const { ledger } = await open(t);
    ledger.append(entry());
    ledger.append(entry({ key: "k2", model: "smart", cost: 5_000, time: DAY + 25 * HOUR }));
    const { usage: _, cost: __, ...unknown } = entry({ source: "none", outcome: "aborted", status: 499 });
    ledger.append(unknown);
    const one: LedgerSum = {
      ...{ group: [], requests: 3, failed: 1, unsettled: 1, tokensIn: 200, cached: 80, tokensOut: 20, reasoning: 6 },
      ...{ cost: 6_000, assumedCost: 0 },
    };
    t.same(await ledger.sums({ by: [] }), [one], "all in one");
    const by = async (...by: LedgerGroup[]) =>
      (await ledger.sums({ by })).map(({ group, requests, cost }) => [...group, requests, cost]);
    t.same(
      await by("model"),
      [
        ["smart", 1, 5_000],
        ["fast", 2, 1_000],
      ],
      "the most expensive first",
    );
    t.same(await by("target"), [["p:m", 3, 6_000]]);
    t.same(
      await by("key", "day"),
      [
        ["k1", "2026-11-20", 2, 1_000],
        ["k2", "2026-11-21", 1, 5_000],
      ],
      "days in their order",
    );
    t.same(
      (await ledger.sums({ by: ["key", "day"], limit: 1 })).map(({ group }) => group),
      [["k2", "2026-11-21"]],
      "limited to the most expensive, of whatever day",
    );
    const among = { key: ["k1", "k 3"], model: ["fast"] };
    const placed = await ledger.placedSums({ by: ["day", "key", "model", "group"], among, limit: 9 });
    t.same(
      [...placed.sums, ...(await ledger.sums({ by: ["key"], among })), ...(await ledger.sums({ by: [], among }))].map(
        ({ group: [first, second, third], requests }) => [first, second, third, requests],
      ),
      [
        ["2026-11-20", "k1", "fast", 2],
        ["k1", undefined, undefined, 2],
        [undefined, undefined, undefined, 3],
      ],
      "of some values only",
    );
    t.same(
      (await ledger.sums({ by: ["group", "day", "key"], limit: 9 })).map(({ group }) => group[2]),
      ["k1", "k2"],
    );
  });

  t.test("what budgets assume of rows without a cost is added up beside the costs, once", async (t) => {
    const { ledger } = await open(t);
    const { cost: _, ...unpriced } = entry({ assumedCost: 70 });
    const late = { once: "p late", assumedCost: 900 };
    for (const one of [
      unpriced,
      unpriced,
      { ...unpriced, id: "b", ...late },
      { ...unpriced, id: "c", ...late },
      entry(),
    ])
      ledger.append(one);
    await ledger.flush();
    ledger.append({ ...unpriced, id: "d", time: DAY + 30 * HOUR });
    for (const since of [0, DAY - 1])
      t.match(await ledger.sums({ by: [], since }), [{ requests: 5, cost: 1_000, assumedCost: 1_040, unsettled: 3 }]);
    const rows = (await ledger.recent(5)).map(({ id, cost, assumedCost }) => [id, cost, assumedCost]);
    t.same(
      rows.find(([id]) => id === unpriced.id),
      [unpriced.id, undefined, 70],
    );
    t.same(
      rows.find(([id]) => id === "c"),
      ["c", 0, undefined],
      "counted before: it costs nothing",
    );
  });

  t.test("names of usage that counts once are known, the newest of them with the oldest first", async (t) => {
    const { ledger } = await open(t);
    t.same(await ledger.countedNames(9), []);
    for (const [at, once] of [
      [3, "p resp_3"],
      [1, "p resp_1"],
      [2, "p resp_2"],
      [4, "p resp_1"],
    ] as const)
      ledger.append(entry({ id: `at${at}`, time: DAY + at, once }));
    ledger.append(entry());
    t.same(await ledger.countedNames(9), ["p resp_1", "p resp_2", "p resp_3"]);
    t.same(await ledger.countedNames(2), ["p resp_2", "p resp_3"]);
  });

  t.test("rows keep group and tags as they were, and sums go by them", async (t) => {
    const { ledger } = await open(t);
    const search = { group: "acme/research", tags: { team: "search", env: "test" } };
    ledger.append(entry(search));
    ledger.append(entry({ ...search, time: DAY + 1, tags: { team: "ads" } }));
    ledger.append(entry({ time: DAY + HOUR }));
    const by = async (...by: LedgerGroup[]) =>
      (await ledger.sums({ by, since: DAY, until: DAY + HOUR + 1 }))
        .map(({ group, requests }) => [...group, requests])
        .sort();
    t.same(await by("group"), [
      ["", 1],
      ["acme/research", 2],
    ]);
    t.same(await by("tag"), [
      ["", 1],
      ["env=test", 1],
      ["team=ads", 1],
      ["team=search", 1],
    ]);
    t.same(await by("key", "tag", "group"), [
      ["k1", "", "", 1],
      ["k1", "env=test", "acme/research", 1],
      ["k1", "team=ads", "acme/research", 1],
      ["k1", "team=search", "acme/research", 1],
    ]);
    t.match(await ledger.recent(3), [{ time: DAY + HOUR }, { group: "acme/research", tags: { team: "ads" } }, search]);
  });

  t.test("a tag that a plugin made is kept as a text that every store can hold", async (t) => {
    const { ledger } = await open(t);
    ledger.append(entry({ tags: { "a\0b": "c\0d", team: "\ud800" } }));
    ledger.append(entry({ time: DAY + 1, tags: { team: "ads" } }));
    t.same((await ledger.sums({ by: ["tag"] })).map(({ group }) => group[0]).sort(), [
      "a\ufffdb=c\ufffdd",
      "team=ads",
      "team=\ufffd",
    ]);
    t.match(await ledger.search({ group: "", limit: 5 }), [{}, { tags: { "a\ufffdb": "c\ufffdd", team: "\ufffd" } }]);
  });

  t.test("sums of equal cost come in the order of their names, by bytes", async (t) => {
    const { ledger } = await open(t);
    const names = ["é", "b", "_", "B", "a", "Z", "a-b", "ab", "😀", "\uffee"];
    for (const name of names) ledger.append(entry({ key: name, model: name, group: name, tags: { team: name } }));
    const sorted = names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const by = async (...by: LedgerGroup[]) => (await ledger.sums({ by })).map(({ group }) => group.join(" "));
    for (const group of ["key", "model", "group"] as const) t.same(await by(group), sorted, group);
    t.same(
      await by("tag"),
      sorted.map((name) => `team=${name}`),
    );
    t.same(
      await by("model", "day", "tag"),
      sorted.map((name) => `${name} 2026-11-20 team=${name}`),
    );
  });

  t.test("all rows of a span come oldest first, page by page", async (t) => {
    const { ledger } = await open(t);
    const all = Array.from({ length: 2100 }, (_, at) => entry({ id: `id-${at}`, time: DAY + (at % 3) }));
    for (const one of all) ledger.append(one);
    const ids = async (span: object) => {
      const found: string[] = [];
      for await (const { id, time } of ledger.entries(span)) found.push(`${time} ${id}`);
      return found;
    };
    const places = all.map(({ id, time }) => `${time} ${id}`).sort();
    t.same(await ids({}), places);
    t.same(
      await ids({ since: DAY + 1, until: DAY + 2 }),
      places.filter((place) => place.startsWith(`${DAY + 1} `)),
    );
  });

  t.test("rows of which a vendor may charge parts under other names come alone where they are wanted", async (t) => {
    const { ledger } = await open(t);
    const usage = { in: { total: 100 }, out: { total: 10 }, raw: undefined };
    const billedApart = [
      entry({ usage: { ...usage, besides: [{ in: {}, out: { total: 1 } }] } }),
      entry({ usage: { ...usage, drawn: { in: {}, out: { total: 1 } } } }),
      entry({ usage: { ...usage, serverTools: { web_search_requests: 1 } }, address: "127.0.0.1" }),
      entry({ usage: { ...usage, model: "another" } }),
    ];
    const plain = [entry({ address: "127.0.0.1" }), entry({ usage: { ...usage, tier: "model" } })];
    for (const one of [...plain, ...billedApart, entry({ time: DAY - 1, usage: { ...usage, model: "another" } })])
      ledger.append(one);
    const found: string[] = [];
    for await (const { id } of ledger.entries({ since: DAY, billedApart: true })) found.push(id);
    t.same(found, billedApart.map(({ id }) => id).sort());
  });

  t.test("sums over many rows are those of the rows, by all that they can go by", async (t) => {
    const { ledger } = await open(t);
    const [keys, models, hours] = [50, 4, 24 * 30];
    const holder = (key: number) => ({ group: `acme/team-${key % 10}`, tags: { team: `t${key % 10}`, env: "live" } });
    const holders = Array.from({ length: keys }, (_, key) => holder(key));
    for (let at = 0; at < MANY; at++) {
      const key = at % keys;
      const time = DAY + (Math.floor(at / keys) % hours) * HOUR + (at % 1000);
      const model = `m${Math.floor(at / keys / hours) % models}`;
      ledger.append(entry({ id: `${at}`, time, key: `k${key}`, model, cost: 1 + (at % 7), ...holders[key] }));
      if (at % 5000 === 4999) await ledger.flush();
    }
    await ledger.flush();
    let cost = 0;
    for (let at = 0; at < MANY; at++) cost += 1 + (at % 7);
    for (const by of [["key"], ["group"], ["model", "day"], ["tag"]] as const) {
      const took: number[] = [];
      let sums: LedgerSum[] = [];
      for (let round = 0; round < 5; round++) {
        const began = performance.now();
        sums = await ledger.sums({ by, since: DAY + 1800_000 });
        took.push(performance.now() - began);
      }
      const [all] = await ledger.sums({ by: [], since: DAY + 1800_000 });
      const twice = by[0] === "tag" ? 2 : 1;
      t.equal(
        sums.reduce((sum, one) => sum + one.requests, 0),
        twice * (all?.requests ?? 0),
        by.join(),
      );
      t.comment(
        `${MANY} rows, by ${by}: ${Math.min(...took).toFixed(1)} ms at best, ${Math.max(...took).toFixed(1)} at worst`,
      );
    }
    t.match(await ledger.sums({ by: [] }), [{ requests: MANY, cost }]);
  });

  t.test("nothing yet is zero, not nothing", async (t) => {
    const { ledger } = await open(t);
    t.match(await ledger.sums({ by: [] }), [{ group: { length: 0 }, requests: 0, cost: 0, tokensIn: 0 }]);
    t.same(await ledger.sums({ by: ["model"] }), []);
    t.same(await ledger.recent(5), []);
  });

  t.test("sums of any span of time are those of its rows", async (t) => {
    const { ledger } = await open(t);
    // A small generator with a fixed seed: the same spans and rows every time.
    const random = dice(7);
    // Four busy days, within weeks with few requests.
    const all = Array.from({ length: 600 }, (_, at) =>
      entry({ time: DAY + random((at < 400 ? 80 : 1000) * HOUR), cost: random(1_000_000) }),
    );
    for (const one of all) ledger.append(one);
    const spans: { since?: number; until?: number }[] = [
      {},
      { since: DAY + HOUR },
      { until: DAY + HOUR },
      { since: DAY + 1 },
    ];
    for (let round = 0; round < 60; round++) {
      const since = DAY + random(80 * HOUR);
      const longest = [3, 60, 900][round % 3] as number;
      spans.push({ since, until: since + random(longest * HOUR) }, { since, until: since - 1 });
    }
    for (const span of spans) {
      const expected = all.filter(({ time }) => time >= (span.since ?? 0) && time < (span.until ?? Infinity));
      const [sum] = await ledger.sums({ by: [], ...span });
      const cost = expected.reduce((sum, one) => sum + (one.cost ?? 0), 0);
      const days = (await ledger.sums({ by: ["day"], ...span })).reduce((sum, day) => sum + day.cost, 0);
      if (days !== cost) t.fail("its days differ", { span, days, cost });
      if (sum?.requests !== expected.length || sum.cost !== cost)
        t.fail("differs", { span, sum, requests: expected.length, cost });
    }
    t.ok(spans.length > 100);
  });

  t.test("writing an entry again changes nothing", async (t) => {
    const { ledger, rows } = await open(t);
    const entries = Array.from({ length: 30 }, () => entry());
    for (let round = 0; round < 3; round++) {
      for (const one of entries) ledger.append(one);
      ledger.append({ ...(entries[0] as LedgerEntry), cost: 999_999 });
      await ledger.flush();
    }
    t.equal(await rows(), 30);
    t.match(await ledger.sums({ by: [] }), [{ requests: 30, cost: 30_000 }], "nor the sums");
  });

  t.test("an entry that comes twice in one batch counts once, and those beside it count", async (t) => {
    const { ledger, rows } = await open(t);
    const twice = entry();
    for (const one of [twice, entry(), twice, entry({ model: "smart" }), { ...twice, model: "smart" }])
      ledger.append(one);
    await ledger.flush();
    t.equal(await rows(), 3);
    t.same(
      (await ledger.sums({ by: ["model"] })).map(({ group, requests }) => [...group, requests]),
      [
        ["fast", 2],
        ["smart", 1],
      ],
    );
  });

  t.test("sums of the hours are those of the rows, whatever was written again or by whom", async (t) => {
    const { ledger, rows, other, ask } = await open(t);
    const entries = Array.from({ length: 1_200 }, (_, at) =>
      entry({ model: `m${at % 7}`, key: `k${at % 3}`, time: DAY + (at % 5) * HOUR, cost: at, status: 200 + (at % 2) }),
    );
    for (const [at, one] of entries.entries()) {
      if (at % 3 < 2) ledger.append(one);
      if (at % 3 > 0) other.append(one);
    }
    await Promise.all([ledger.flush(), other.flush()]);
    const sums = (from: string) =>
      ask(`select key, model, sum(requests) as requests, sum(cost) as cost from (${from}) as part
        group by key, model order by key, model`);
    const single = "select key, model, 1 as requests, cost from usage join usage_kind on number = kind";
    t.equal(await rows(), 1_200);
    t.same(await sums("select * from usage_hour"), await sums(single));
  });

  t.test("sums beyond 2^53 nano-dollars are rounded, not refused", async (t) => {
    const { ledger } = await open(t);
    for (let at = 0; at < 3; at++) ledger.append(entry({ cost: Number.MAX_SAFE_INTEGER }));
    const [sum] = await ledger.sums({ by: [] });
    t.equal(sum?.cost, 3 * Number.MAX_SAFE_INTEGER);
  });

  t.test("what clients name never becomes SQL", async (t) => {
    const { ledger } = await open(t);
    const evil = "'); drop table usage; --";
    ledger.append(entry({ id: evil, key: evil, model: evil, target: evil }));
    t.match(await ledger.recent(1), [{ id: evil, key: evil, model: evil, target: evil }]);
    t.match(await ledger.sums({ by: ["key", "model"] }), [{ group: [evil, evil] }]);
  });
}
