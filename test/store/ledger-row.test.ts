import t from "tap";
import type { Usage } from "../../src/core/usage.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import {
  entryToRow,
  estimateRowBytes,
  HOLDER_COLUMNS,
  KIND_COLUMNS,
  rowToEntry,
  sqlRowToEntry,
  USAGE_COLUMNS,
  type UsageRow,
} from "../../src/store/ledger-row.ts";

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
  price: "0123456789ab",
};
const back = ({ kind, values, attribution: holder = ["", ""] }: UsageRow) =>
  sqlRowToEntry({
    ...Object.fromEntries(KIND_COLUMNS.map((name, at) => [name, kind[at] as string])),
    ...Object.fromEntries(USAGE_COLUMNS.map((name, at) => [name, values[at] as string])),
    ...Object.fromEntries(HOLDER_COLUMNS.map((name, at) => [name, holder[at] as string])),
  });

t.test("group and tags are restored too, and equal tags are the same text in any order", async (t) => {
  const held = { ...entry, group: "acme/research", tags: { team: "search", env: "test" } };
  t.same(back(entryToRow(held)), held);
  t.same(rowToEntry(entryToRow(held)), held, "from a row that is not in the store yet");
  t.same(rowToEntry(entryToRow(entry)), entry);
  t.same(entryToRow(held).attribution, ["acme/research", '{"env":"test","team":"search"}']);
  t.same(entryToRow({ ...held, tags: { env: "test", team: "search" } }).attribution, entryToRow(held).attribution);
  t.same(entryToRow({ ...entry, tags: {} }).attribution, ["", ""]);
  t.equal(entryToRow(entry).attribution, undefined);
  const once = entryToRow({ ...held, once: "x" }).once?.duplicate;
  t.same(once?.attribution, entryToRow(held).attribution);
});

t.test("consecutive entries with the same holder share it", async (t) => {
  const held = { ...entry, group: "acme/research", tags: { team: "search" } };
  t.equal(entryToRow({ ...held, id: "another" }).attribution, entryToRow(held).attribution, "its text is created once");
  t.same(entryToRow({ ...held, group: "acme" }).attribution, ["acme", '{"team":"search"}']);
  t.same(entryToRow({ ...held, tags: { team: "ads" } }).attribution, ["acme/research", '{"team":"ads"}']);
  t.same(entryToRow({ ...held, tags: { team: "a" } }).attribution, ["acme/research", '{"team":"a"}'], "others do not");
  t.same(entryToRow({ ...entry, group: "acme" }).attribution, ["acme", ""]);
});

t.test("an entry is restored unchanged", async (t) => {
  t.same(back(entryToRow(entry)), entry, "without usage");
  const usage = { in: { total: 10, cached: 0 }, out: { total: 5, reasoning: 2 }, raw: undefined };
  t.same(back(entryToRow({ ...entry, usage })), { ...entry, usage }, "with the usual counts");
  const rare = {
    in: { total: 10, write: { "5m": 3, "1h": 4 }, audio: 1, image: 2, toolUse: 7 },
    out: { audio: 9, acceptedPrediction: 1 },
    serverTools: { web_search_requests: 2 },
    tier: "batch",
    raw: undefined,
  };
  t.same(back(entryToRow({ ...entry, usage: rare })), { ...entry, usage: rare }, "with the rare ones");
});

t.test("what budgets assume of an entry without a cost is restored, and is not its cost", async (t) => {
  const { cost: _, price: __, ...unpriced } = entry;
  t.same(back(entryToRow({ ...unpriced, assumedCost: 5 })), { ...unpriced, assumedCost: 5 });
});

t.test("the name under which usage counts once is restored, and not of usage that had counted before", async (t) => {
  const usage = { in: { total: 3 }, out: {}, raw: undefined };
  const late = { ...entry, usage, once: "p resp_1" };
  const row = entryToRow(late);
  t.same(back(row), late);
  t.equal(back(row.once?.duplicate as UsageRow).once, undefined);
});

t.test("attempts are restored unchanged, however few members they have", async (t) => {
  const { target, status } = entry;
  const lists: [why: string, attempts: LedgerEntry["attempts"]][] = [
    ["none", []],
    ["one that the entry itself tells of", [{ target, status, startedAt: 1.5 }]],
    ["at once", [{ target, status, startedAt: 0 }]],
    ["another target", [{ target: "q:m", status, startedAt: 1 }]],
    ["another status", [{ target, status: 503, startedAt: 1 }]],
    ["no status", [{ target, startedAt: 1 }]],
    ["a wait for a place", [{ target, status, startedAt: 40, queue: 39 }]],
    ["a connection that was made", [{ target, status, startedAt: 1, connect: 12 }]],
    ["a credential", [{ target, status, credential: "A", startedAt: 1 }]],
    ["one like the other", [1, 9].map((startedAt) => ({ target, status, startedAt }))],
    ["an error besides", [{ target, status, error: "upstream_failed", startedAt: 1 }]],
  ];
  for (const [why, attempts] of lists) t.same(back(entryToRow({ ...entry, attempts })).attempts, attempts, why);
  const usual = { ...entry, attempts: lists[1]?.[1] ?? [] };
  t.notMatch(JSON.stringify(entryToRow(usual).values), "p:m", "the default is not stored twice");
  const begun = { ...entry, status: 0, outcome: "interrupted" as const };
  for (const attempts of [
    [{ target, startedAt: 1 }],
    [{ target, status: 0, startedAt: 1 }],
    [{ target, status, startedAt: 1 }],
  ])
    t.same(back(entryToRow({ ...begun, attempts })).attempts, attempts);
  t.notMatch(JSON.stringify(entryToRow({ ...begun, attempts: [{ target, startedAt: 1 }] }).values), "p:m");
});

t.test("entries of a kind have the same kind, which contains nothing of one exchange", async (t) => {
  const other = { ...entry, id: "0199", time: 1_700_000_000_999, duration: 1, cost: 5, firstByte: 7 };
  t.same(entryToRow(other).kind, entryToRow(entry).kind);
  for (const change of [{ key: "l" }, { model: "m" }, { target: "t:t" }, { protocol: "x" }, { operation: "x" }]) {
    t.notSame(entryToRow({ ...entry, ...change }).kind, entryToRow(entry).kind);
  }
  for (const change of [{ status: 499 }, { outcome: "aborted" }, { streaming: false }, { source: "none" }] as const) {
    t.notSame(entryToRow({ ...entry, ...change }).kind, entryToRow(entry).kind);
  }
});

t.test("consecutive entries that differ in one part of their kind are of different kinds", async (t) => {
  const changes: Partial<LedgerEntry>[] = [
    ...[{ key: "l" }, { model: "slow" }, { target: "p:n" }, { protocol: "ware" }, { operation: "count" }],
    // Those before are as long, this one has the same lowest byte, and the rest is not part of a kind's place.
    ...[{ status: 200 + 256 }, { streaming: false }, { source: "partial" as const }, { price: "another" }],
  ];
  for (const change of changes)
    for (const next of [{ ...entry, ...change }, entry]) t.same(back(entryToRow(next)), next, JSON.stringify(change));
});

t.test("an unreported count is absent, and 0 is a reported one", async (t) => {
  const { usage } = back(entryToRow({ ...entry, usage: { in: { cached: 0 }, out: {}, raw: null } }));
  t.same(usage, { in: { cached: 0 }, out: {}, raw: undefined });
  t.equal(back(entryToRow(entry)).usage, undefined, "no usage is not empty usage");
});

t.test("the vendor's own usage object is not stored", async (t) => {
  const row = entryToRow({ ...entry, usage: { in: {}, out: {}, raw: { prompt: "secret" } } });
  t.notMatch(JSON.stringify(row), "secret");
});

t.test("a row keeps the entry's values when the entry changes later", async (t) => {
  const mine: LedgerEntry = { ...entry, attempts: [...entry.attempts] };
  const row = entryToRow(mine);
  mine.attempts.length = 0;
  t.equal(back(row).attempts.length, 2);
});

t.test("an invalid number is unknown, and fractions of tokens are rounded", async (t) => {
  const odd = { in: { total: Number.NaN, cached: 2.6 }, out: { total: Number.POSITIVE_INFINITY }, raw: undefined };
  const { firstByte: _, ...read } = back(
    entryToRow({ ...entry, usage: odd, cost: 1e300, firstByte: Number.NaN, duration: Number.NaN }),
  );
  t.same(read.usage, { in: { cached: 3 }, out: {}, raw: undefined });
  t.equal(read.cost, Number.MAX_SAFE_INTEGER);
  t.equal(read.duration, 0);
});

t.test("the size of a row grows with its content", async (t) => {
  const long = entryToRow({ ...entry, attempts: [{ target: "x".repeat(10_000), startedAt: 0 }] });
  t.ok(estimateRowBytes(long) > estimateRowBytes(entryToRow(entry)) + 9_000);
});

t.test("the client's address is restored, with usage and without", async (t) => {
  for (const usage of [undefined, { in: { total: 3 }, out: { total: 4 }, raw: undefined }]) {
    const { usage: _, ...rest } = entry;
    const seen = { ...rest, address: "2001:db8::7", bytes: { up: 5, down: 6 }, ...(usage && { usage }) };
    t.match(back(entryToRow(seen)), { address: "2001:db8::7", bytes: { up: 5, down: 6 } });
    t.same(
      rowToEntry(entryToRow({ ...seen, source: "free" })).usage,
      usage,
      "absent usage is undefined, and not an empty object",
    );
  }
});

t.test("what most details have is restored, whichever of it changes from one entry to the next", async (t) => {
  const usual = { in: { total: 3, audio: 0 }, out: { total: 4, audio: 0, acceptedPrediction: 0 }, tier: "default" };
  const usages: Omit<Usage, "raw">[] = [
    usual,
    { ...usual, in: { total: 9, cached: 5, audio: 0 }, out: { ...usual.out, reasoning: 2 } },
    { ...usual, in: { total: 3, audio: 1 } },
    { ...usual, in: { total: 3 } },
    { ...usual, in: { total: 3, image: 0 } },
    { ...usual, in: { total: 3, audio: 0, image: 0 } },
    { ...usual, out: { total: 4, audio: 0 } },
    { ...usual, out: { total: 4, audio: 0, acceptedPrediction: Number.NaN } },
    { ...usual, in: { total: 3, write: { "5m": 1 } } },
    { ...usual, in: { total: 3, write: { "5m": 2 } } },
    { ...usual, tier: "flex" },
    { in: usual.in, out: usual.out },
    { in: {}, out: {} },
  ];
  const asJson = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;
  for (const before of usages)
    for (const usage of usages)
      for (const address of ["10.0.0.7", "10.0.1.7"]) {
        entryToRow({ ...entry, address: "10.0.0.7", usage: { ...before, raw: undefined } });
        const found = back(entryToRow({ ...entry, address, usage: { ...usage, raw: undefined } }));
        t.same(asJson([found.address, found.usage]), asJson([address, usage]));
      }
});

t.test("a provider's cost, images and drawing tokens are restored", async (t) => {
  const usage = {
    in: { total: 3 },
    out: { total: 4 },
    images: { count: 2, size: "1x1" },
    drawn: { model: "painter", in: { total: 5 }, out: { total: 6, image: 6 } },
    model: "another",
    besides: [
      { in: { total: 9 }, out: { total: 1 } },
      { model: "advisor", price: "0a", in: { total: 2 }, out: {} },
    ],
    providerCost: 123,
    raw: undefined,
  };
  t.same(rowToEntry(entryToRow({ ...entry, usage })).usage, usage);
});

t.test("failures, omissions and notices are restored, with usage and without, and are no usage", async (t) => {
  const why = {
    error: { code: "rate_limit_exceeded", message: 'The key "ci" may use 10 tokens a minute.' },
    dropped: ["top_k", "model"],
    notices: ["temperature was 2, and is 1"],
  };
  t.same(back(entryToRow({ ...entry, ...why, source: "free" })), { ...entry, ...why, source: "free" });
  for (const [name, value] of Object.entries({ ...why, bytes: { up: 5, down: 6 }, address: "::1" }))
    t.same(back(entryToRow({ ...entry, [name]: value })), { ...entry, [name]: value }, `${name} alone`);
  const usage = { in: { total: 3 }, out: { total: 4 }, raw: undefined };
  t.same(rowToEntry(entryToRow({ ...entry, ...why, usage })), { ...entry, ...why, usage });
  const plain = { ...entry, usage, attempts: [{ target: "p:m", status: 200, startedAt: 1 }] };
  const detail = entryToRow(plain).values[USAGE_COLUMNS.indexOf("detail")];
  t.equal(detail, "{}", "a plain row is as short as ever");
});
