import t from "tap";
import { parseDelimited } from "../../src/cli/delimited.ts";
import { findColumns, normalizeTitle } from "../../src/cli/invoice-columns.ts";

const at = (text: string, named?: Parameters<typeof findColumns>[1]) => findColumns(parseDelimited(text), named);

t.test("column titles are compared by their words only", async (t) => {
  t.same(["Unrounded Cost ($)", " Usage-Date UTC", "model"].map(normalizeTitle), [
    "unrounded_cost",
    "usage_date_utc",
    "model",
  ]);
});

t.test("columns are found by their names, the least rounded amount first", async (t) => {
  const { at: places } = at("Date,SKU description,Cost ($),Unrounded subtotal ($),Subtotal ($)\n");
  t.same([places.get("date"), places.get("model"), places.get("cost")], [0, 1, 3]);
});

t.test("titles may follow an introduction, which may name a currency", async (t) => {
  const { row, currency } = at("Invoice number,7\nCurrency,AUD\n\nDate,Model,Cost\n2026-11-01,m,1\n");
  t.same([row, currency], [2, "AUD"]);
  t.equal(at("Date,Model,Cost (€)\n").currency, "€");
});

t.test("cached tokens are a separate column where one exists for writes, or for reads", async (t) => {
  t.equal(at("date,model,input_tokens,input_cached_tokens,output_tokens").cacheSeparate, false);
  t.equal(
    at("date,model,input_tokens,cache_read_input_tokens,cache_creation_input_tokens,output_tokens").cacheSeparate,
    true,
  );
  t.equal(
    at("usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_read").cacheSeparate,
    true,
  );
});

t.test("columns can be named, and a missing one is reported with those that exist", async (t) => {
  const named = new Map([["cost", "Net"] as const]);
  t.equal(at("date,model,cost,net", named).at.get("cost"), 3);
  t.throws(() => at("date,model,cost", named), {
    message:
      'The file has no column "Net". Name columns with --columns date=…,model=…,cost=…; it has: date, model, cost',
  });
  t.throws(() => at("when,model,cost"), { message: /^The file has no column for date\./ });
  t.throws(() => at("date,model,colour"), { message: /^The file has no column for cost or tokens\./ });
});
