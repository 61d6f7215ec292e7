import t from "tap";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { COLUMNS, entryOf, type Row, rowOf, size } from "../../src/store/ledger-row.ts";

const entry: LedgerEntry = {
  id: "0198",
  time: 1_700_000_000_123,
  key: "k",
  model: "fast",
  target: "p:m",
  protocol: "wire",
  operation: "generate",
  status: 200,
  outcome: "completed",
  streaming: true,
  attempts: [
    { target: "q:m", status: 503, error: "upstream_failed", startedAt: 1.5 },
    { target: "p:m", status: 200, startedAt: 40 },
  ],
  firstByte: 12.3,
  duration: 456.7,
  source: "reported",
  cost: 123_456_789,
};
const back = (row: Row) => entryOf(Object.fromEntries(COLUMNS.map((name, at) => [name, row[at] as string])));

t.test("an entry comes back as it went in", async (t) => {
  t.same(back(rowOf(entry)), entry, "without usage");
  const usage = { in: { total: 10, cached: 0 }, out: { total: 5, reasoning: 2 }, raw: undefined };
  t.same(back(rowOf({ ...entry, usage })), { ...entry, usage }, "with the usual counts");
  const rare = {
    in: { total: 10, write: { "5m": 3, "1h": 4 }, audio: 1, image: 2, toolUse: 7 },
    out: { audio: 9, acceptedPrediction: 1 },
    serverTools: { web_search_requests: 2 },
    tier: "batch",
    raw: undefined,
  };
  t.same(back(rowOf({ ...entry, usage: rare })), { ...entry, usage: rare }, "with the rare ones");
});

t.test("a count nobody reported is absent, and 0 is a claim", async (t) => {
  const { usage } = back(rowOf({ ...entry, usage: { in: { cached: 0 }, out: {}, raw: null } }));
  t.same(usage, { in: { cached: 0 }, out: {}, raw: undefined });
  t.equal(back(rowOf(entry)).usage, undefined, "no usage is not empty usage");
});

t.test("the vendor's own usage object is not kept", async (t) => {
  const row = rowOf({ ...entry, usage: { in: {}, out: {}, raw: { prompt: "secret" } } });
  t.notMatch(JSON.stringify(row), "secret");
});

t.test("a row is what the entry was, whatever becomes of it", async (t) => {
  const mine: LedgerEntry = { ...entry, attempts: [...entry.attempts] };
  const row = rowOf(mine);
  mine.attempts.length = 0;
  t.equal(back(row).attempts.length, 2);
});

t.test("a number that is none is unknown, and parts of a token are rounded", async (t) => {
  const odd = { in: { total: Number.NaN, cached: 2.6 }, out: { total: Number.POSITIVE_INFINITY }, raw: undefined };
  const { firstByte: _, ...read } = back(
    rowOf({ ...entry, usage: odd, cost: 1e300, firstByte: Number.NaN, duration: Number.NaN }),
  );
  t.same(read.usage, { in: { cached: 3 }, out: {}, raw: undefined });
  t.equal(read.cost, Number.MAX_SAFE_INTEGER);
  t.equal(read.duration, 0);
});

t.test("the size of a row grows with what it carries", async (t) => {
  const long = rowOf({ ...entry, attempts: [{ target: "x".repeat(10_000), startedAt: 0 }] });
  t.ok(size(long) > size(rowOf(entry)) + 9_000);
});
