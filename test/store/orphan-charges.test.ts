import t from "tap";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { chargeOfRow, exchangeId, findCharges } from "../../src/store/orphan-charges.ts";

t.test(
  "rows are found by the exchange's id, with what budgets count of them, after the journals of dead processes are in the ledger",
  async (t) => {
    let recovered = false;
    const rows = new Map<string, Partial<LedgerEntry>>([
      [
        "a",
        { cost: 7, model: "m", target: "up:vendor:x", usage: { in: { total: 3 }, out: { total: 2 }, raw: undefined } },
      ],
      ["free", { cost: 0, model: "m", target: "" }],
      ["unpriced", { assumedCost: 3, model: "m", target: "up:y" }],
      ["unknown", { model: "m", target: "up:y" }],
      ["late", { cost: 9, model: "m", target: "up:y", once: "up resp_1" }],
    ]);
    const find = findCharges({
      recovered: async () => {
        recovered = true;
      },
      search: async ({ id = "" }) => {
        t.ok(recovered);
        const row = rows.get(id);
        return row ? [row as LedgerEntry] : [];
      },
    });
    t.same(
      await find(["a/1", "a", "free", "unpriced", "unknown", "late", "missing"].map(exchangeId)),
      new Map([
        ["a", { tokens: 5, cost: 7, model: "m", provider: "up" }],
        ["free", { tokens: 0, cost: 0, model: "m", provider: "" }],
        ["unpriced", { tokens: 0, cost: 3, model: "m", provider: "up" }],
        ["unknown", { tokens: 0, cost: 0, model: "m", provider: "up" }],
        ["late", { tokens: 0, cost: 9, model: "m", provider: "up", once: "up resp_1" }],
      ]),
    );
  },
);

t.test("a row counts only for the model and provider that served it", (t) => {
  const row = { tokens: 5, cost: 7, model: "second", provider: "up" };
  const used = { tokens: 5, cost: 7 };
  t.same(chargeOfRow(row, ["key:ci", "group:g", "all"]), { used });
  t.same(chargeOfRow({ ...row, once: "x" }, ["all"]), { used: { ...used, once: "x" } });
  t.same(chargeOfRow(row, ["key:ci", "model:second"]), { used });
  t.same(chargeOfRow(row, ["key:ci", "model:first"]), { used, unused: "model:first" });
  t.same(chargeOfRow(row, ["provider:up", "model:second"]), { used });
  t.same(chargeOfRow(row, ["provider:other"]), { used: { tokens: 0, cost: 0 } });
  t.end();
});
