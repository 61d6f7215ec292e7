import t from "tap";
import {
  compareInvoice,
  invoiceDays,
  invoiceNameTest,
  invoiceProviders,
  type LedgerDay,
  ledgerAdjustments,
  ledgerDays,
} from "../../src/cli/comparison.ts";
import { parseInvoice } from "../../src/cli/invoice.ts";
import { keptLedger } from "../support/kept-ledger.ts";

const invoice = (...rows: string[]) =>
  parseInvoice(["date,model,input_tokens,output_tokens,cost_usd", ...rows].join("\n"), "UTC");
const day = (model: string, tokensIn: number, tokensOut: number, cost: number, change: Partial<LedgerDay> = {}) => ({
  day: "2026-11-01",
  provider: "p",
  model,
  figures: { tokensIn, tokensOut, cached: 0, tokens: tokensIn + tokensOut, cost },
  unsettled: 0,
  ...change,
});
const modelNames = new Map<string, string>();
const options = { providers: ["p"], modelNames, tolerance: 0.01 };

t.test("a difference within the tolerance is agreement, and one beyond it a difference", async (t) => {
  const one = invoice("2026-11-01,m-2026-01-01,1000,100,1.000000");
  const differ = (ledger: LedgerDay) => compareInvoice(one, [ledger], options).days.map((each) => each.differ);
  t.same(differ(day("m", 1000, 100, 1e9)), [[]]);
  t.same(differ(day("m", 1010, 99, 0.991e9)), [[]]);
  t.same(differ(day("m", 1011, 98, 0.98e9)), [["tokensIn", "tokensOut", "cost"]]);
});

t.test("a row that exists on one side only is a difference", async (t) => {
  const { days, unmatched, totals } = compareInvoice(
    invoice("2026-11-02,m,10,1,0.5", "2026-11-02,other,7,1,0.25", "2026-11-02,other,7,1,0.25"),
    [day("m", 10, 1, 5e8), day("m", 3, 0, 1, { provider: "elsewhere" })],
    options,
  );
  t.same(
    days.map(({ day, names, differ, ledger }) => [day, names, differ, ledger.tokensIn]),
    [
      ["2026-11-01", [], ["tokensIn", "tokensOut", "cost"], 10],
      ["2026-11-02", ["m"], ["tokensIn", "tokensOut", "cost"], 0],
    ],
  );
  t.same(unmatched, [{ name: "other", lines: 2, figures: { tokensIn: 14, tokensOut: 2, cost: 5e8 } }]);
  t.same([totals.invoice.cost, totals.ledger.cost], [1e9, 5e8]);
});

t.test("versions of a model are summed up on both sides", async (t) => {
  const { days } = compareInvoice(
    invoice("2026-11-01,m-2026-01-01,10,1,0.5", "2026-11-01,m-2026-02-02,20,2,0.5"),
    [day("m", 10, 2, 5e8), day("m-2026-02-02", 20, 1, 5e8, { unsettled: 2 })],
    options,
  );
  t.match(days, [{ model: "m", names: ["m-2026-01-01", "m-2026-02-02"], unsettled: 2, differ: { length: 0 } }]);
});

t.test("differences from rounding to cents are accepted", async (t) => {
  const differ = (...costs: string[]) =>
    compareInvoice(invoice(...costs.map((cost) => `2026-11-01,m,,,${cost}`)), [day("m", 0, 0, 9e6)], options).days[0]
      ?.differ;
  t.same(differ("0.01"), []);
  t.same(differ("0.00", "0.00"), [], "two lines may hide a cent");
  t.same(differ("0.02"), ["cost"]);
  t.same(differ("0.0100"), ["cost"]);
});

t.test("an invoice is of the provider whose models it names", async (t) => {
  const one = invoice("2026-11-01,m,1,1,1");
  const ledger = [day("m", 1, 1, 1), day("n", 1, 1, 1, { provider: "q" })];
  t.same(invoiceProviders(one, ledger, modelNames), ["p"]);
  t.same(invoiceProviders(one, ledger, new Map([["m", "n"]])), ["q"]);
  t.throws(() => invoiceProviders(one, [...ledger, day("m", 1, 1, 1, { provider: "r" })], modelNames), {
    message:
      "Models of this file were served by p and r. Name its provider with --provider NAME, or several that are one account with --provider NAME,NAME.",
  });
  t.throws(() => invoiceProviders(one, [], modelNames), { message: /it has no requests on these days/ });
});

t.test("the days of an invoice are all days from its first to its last", async (t) => {
  t.same(invoiceDays(invoice("2026-11-03,m,1,1,1", "2026-11-01,m,1,1,1"), "UTC"), [
    "2026-11-01",
    "2026-11-02",
    "2026-11-03",
  ]);
  t.throws(() => invoiceDays(invoice(), "UTC"), { message: "The file has no line that can be compared." });
  for (const day of ["26.11.2026", "11/26/2026"])
    t.throws(() => invoiceDays(invoice(`${day},m,1,1,1`, `${day},m,1,1,1`, `${day},n,1,1,1`), "UTC"), {
      message: `The file has no line that can be compared. Line 2 could not be read, nor could 2 others: ${JSON.stringify(day)} is not a day like 2026-11-20.`,
    });
  t.throws(() => invoiceDays(invoice("1990-01-01,m,1,1,1", "2026-11-01,m,1,1,1"), "UTC"), {
    message: /more than 800 days/,
  });
});

t.test("the ledger's days begin where the vendor's do", async (t) => {
  const { stores, append } = keptLedger(t);
  append({ time: Date.UTC(2026, 10, 20, 7, 30) });
  append({ time: Date.UTC(2026, 10, 20, 8, 30) });
  append({ target: "answered by cache" });
  const days = (zone: string) => ledgerDays(stores.ledger, ["2026-11-19", "2026-11-20"], zone);
  t.match(await days("UTC"), [{ day: "2026-11-20", provider: "p", model: "m", figures: { tokensIn: 2_000_000 } }]);
  t.match(await days("America/Los_Angeles"), [
    { day: "2026-11-19", figures: { tokensIn: 1_000_000, tokens: 1_002_000, cost: 254_000_000 } },
    { day: "2026-11-20", figures: { tokensIn: 1_000_000 } },
  ]);
});

t.test(
  "models under another name on the invoice are compared by the vendor's day too, for providers only",
  async (t) => {
    const { stores, append } = keptLedger(t);
    const usage = { in: { total: 1_000_000 }, out: {}, raw: undefined, model: "n" };
    append({ time: Date.UTC(2026, 10, 20, 7, 30), usage });
    append({ time: Date.UTC(2026, 10, 20, 8, 30), usage });
    append({ target: "answered by cache", usage });
    const days = await ledgerAdjustments(stores, ["2026-11-19"], "America/Los_Angeles", () => false);
    t.match(days, [
      { day: "2026-11-19", provider: "p", model: "n", figures: { tokensIn: 1_000_000, cost: 254_000_000 } },
      { day: "2026-11-19", provider: "p", model: "m", figures: { tokensIn: -1_000_000, cost: -254_000_000 } },
    ]);
    t.equal(days.length, 2);
  },
);

t.test("an invoice names models by its own lines, or as the operator maps them", async (t) => {
  const one = invoice("2026-11-01,Search things,,,1", "2026-11-01,brush-2026-01-01 output,,,1");
  t.same(["brush", "web search", "m"].map(invoiceNameTest(one, modelNames)), [true, false, false]);
  t.equal(invoiceNameTest(one, new Map([["search things", "web search"]]))("web search"), true);
});
