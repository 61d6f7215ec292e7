import t from "tap";
import type { LedgerEntry, LedgerQuery, LedgerRows, LedgerSum } from "../../src/store/ledger.ts";
import { firstSpendDays, ledgerFlusher, spendSince, usedBetween } from "../../src/store/spend.ts";

const sum = (group: string[], cost: number, assumedCost = 0): LedgerSum => ({
  group,
  ...{ requests: 1, failed: 0, tokensIn: 0, cached: 0, tokensOut: 0, reasoning: 0, unsettled: 0 },
  ...{ cost, assumedCost },
});

t.test(
  "the ledger's spending counts for keys, groups and their parents, models, providers and all, unpriced usage as assumed",
  async (t) => {
    const order: unknown[] = [];
    const ledger = {
      recovered: async () => void order.push("recovered"),
      flush: async () => void order.push("flushed"),
      sums: async (query: LedgerQuery) => {
        order.push(query);
        return [
          sum(["ci", "acme/research", "m", "p:x:y"], 1),
          sum(["ci", "acme/research", "n", "q:x"], 10),
          sum(["alice", "acme", "m", "p:x"], 60, 40),
          sum(["gone", "", "m", ""], 1000),
        ];
      },
    };
    const spent = await spendSince(ledger)(5);
    t.same(
      order,
      ["recovered", "flushed", { since: 5, by: ["key", "group", "model", "target"] }],
      "pending rows first",
    );
    t.same(Object.fromEntries(spent), {
      "key:ci": 11,
      "key:alice": 100,
      "key:gone": 1000,
      "group:acme/research": 11,
      "group:acme": 111,
      "model:m": 1101,
      "model:n": 10,
      "provider:p": 101,
      "provider:q": 10,
      "provider:": 1000,
      all: 1111,
    });
  },
);

t.test("while rows wait for a store that is down the spending is unknown", async (t) => {
  const silent = new Promise<never>(() => {});
  const ledger = { recovered: async () => {}, flush: () => silent, sums: async () => [] };
  await t.rejects(spendSince(ledger, 10)(5), /not answered/);
});

t.test("spending is complete once the ledger has it, and while it is down that is reported", async (t) => {
  let flushed = 0;
  await ledgerFlusher({ flush: async () => void flushed++ })();
  t.equal(flushed, 1);
  await t.rejects(
    ledgerFlusher({ flush: () => new Promise<never>(() => {}) }, 10)(),
    /store: ledger\) has not answered/,
  );
});

t.test("after one request has waited in vain the next ones wait for less time, until the store is back", async (t) => {
  const flush: { done?: () => void } = {};
  const ledger = {
    recovered: async () => {},
    flush: () => new Promise<void>((done) => (flush.done = done)),
    sums: async () => [],
  };
  const ask = spendSince(ledger, 1000);
  await t.rejects(ask(5), /not answered in 1 s/);
  await t.rejects(ask(5), /not answered in 100 ms/);
  const back = ask(5);
  await Promise.resolve();
  flush.done?.();
  t.equal((await back).size, 0);
  await t.rejects(ask(5), /not answered in 1 s/, "that was another time");
});

t.test("the first day with spending is known for keys, groups and their parents, models, providers, all", async (t) => {
  const sums = async ({ since, by }: LedgerQuery) => {
    t.same([since, by], [undefined, ["key", "group", "model", "target", "day"]]);
    return [
      sum(["ci", "acme/research", "m", "p:x", "2026-11-03"], 1),
      sum(["ci", "acme/research", "m", "p:x", "2026-11-02"], 1),
      sum(["ci", "acme/research", "m", "p:x", "2026-11-01"], 0),
      sum(["alice", "acme", "n", "p:y", "2026-10-31"], 0, 5),
    ];
  };
  const day = (text: string) => Date.parse(`${text}T00:00:00Z`);
  t.same(Object.fromEntries(await firstSpendDays({ sums })), {
    "key:ci": day("2026-11-02"),
    "key:alice": day("2026-10-31"),
    "group:acme/research": day("2026-11-02"),
    "group:acme": day("2026-10-31"),
    "model:m": day("2026-11-02"),
    "model:n": day("2026-10-31"),
    "provider:p": day("2026-10-31"),
    all: day("2026-10-31"),
  });
});

t.test(
  "requests that contacted a provider count for the rates of their levels, once dead processes' journals are read",
  async (t) => {
    const order: unknown[] = [];
    const entry = (more: object) =>
      ({
        time: 7,
        key: "ci",
        group: "acme/research",
        model: "m",
        target: "p:x",
        attempts: [{}],
        ...more,
      }) as LedgerEntry;
    const besides = [{ in: { total: 1 }, out: { total: 2 } }];
    const ledger = {
      recovered: async () => void order.push("recovered"),
      async *entries(rows: LedgerRows) {
        order.push(rows);
        yield entry({ usage: { in: { total: 30 }, out: { total: 4 }, besides } });
        yield entry({ attempts: [] });
        yield entry({ key: "", group: undefined, target: "" });
      },
    };
    const found = await Array.fromAsync(usedBetween(ledger, 5, 9));
    t.same(order, ["recovered", { since: 5, until: 9 }]);
    t.same(found, [
      { time: 7, tokens: 37, scopes: ["key:ci", "group:acme/research", "group:acme", "model:m", "provider:p", "all"] },
      { time: 7, tokens: 0, scopes: ["key:", "model:m", "provider:", "all"] },
    ]);
  },
);
