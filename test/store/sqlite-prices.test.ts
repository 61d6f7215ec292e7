import t from "tap";
import { PriceList } from "../../src/core/price-list.ts";
import { Database } from "../../src/store/sqlite.ts";
import { SqlitePrices } from "../../src/store/sqlite-prices.ts";

const terms = (input: number) => new PriceList([{ price: { input, output: 2 } }], "table 1").all;

t.test("terms are kept under their name, once, whoever keeps them again", async (t) => {
  const database = new Database(":memory:");
  t.teardown(() => database.close());
  const prices = new SqlitePrices(database);
  await prices.keep([...terms(1), ...terms(3), ...terms(1)]);
  const since = database.prepare("select since from price order by version").all();
  await prices.keep(terms(1));
  t.same(database.prepare("select since from price order by version").all(), since);
  t.equal(since.length, 2);
  const [first] = terms(1);
  t.same(await prices.find(first?.version ?? ""), first);
  t.equal(await prices.find("none"), undefined);
});
