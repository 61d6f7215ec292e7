import { join } from "node:path";
import t, { type Test } from "tap";
import { KIND_COLUMNS } from "../../../src/store/ledger-row.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteDictionary } from "../../../src/store/sqlite/dictionary.ts";

const kind = (model: string) => ["k", model, "p:m", "wire", "generate", 200, "completed", 0, "reported", "p1"];

function open(t: Test, path = join(t.testdir(), "gateway.db")) {
  const database = new SqliteDatabase(path);
  t.teardown(() => database.close());
  return { path, database, kinds: new SqliteDictionary(database) };
}

const count = (database: SqliteDatabase) =>
  database.prepare("select count(*) as kinds from usage_kind").get()?.["kinds"];

t.test("a kind has one number, for every process", async (t) => {
  const { path, database, kinds } = open(t);
  const fast = kinds.numberFor(kind("fast"));
  const smart = kinds.numberFor(kind("smart"));
  t.not(fast, smart);
  t.equal(kinds.numberFor(kind("fast")), fast);
  const other = open(t, path);
  t.equal(other.kinds.numberFor(kind("smart")), smart);
  const tiny = other.kinds.numberFor(kind("tiny"));
  t.equal(kinds.numberFor(kind("tiny")), tiny);
  t.equal(count(database), 3);
  const row = database.prepare("select * from usage_kind where number = ?").get(smart);
  t.same(
    KIND_COLUMNS.map((name) => row?.[name]),
    kind("smart"),
  );
});

t.test("a number whose transaction was rolled back is not used again", async (t) => {
  const { database, kinds } = open(t);
  t.throws(() =>
    database.transaction(() => {
      kinds.numberFor(kind("fast"));
      throw new Error("on the way");
    }),
  );
  kinds.clearCache();
  const smart = kinds.numberFor(kind("smart"));
  t.not(kinds.numberFor(kind("fast")), smart);
  t.equal(count(database), 2);
});

t.test("more kinds than the cache holds have their own numbers, and keep them", async (t) => {
  const { database, kinds } = open(t);
  database.transaction(() => {
    const first = kinds.numberFor(kind("model 0"));
    const numbers = new Set(Array.from({ length: 10_500 }, (_, at) => kinds.numberFor(kind(`model ${at}`))));
    t.equal(numbers.size, 10_500);
    t.equal(kinds.numberFor(kind("model 0")), first);
  });
  t.equal(count(database), 10_500);
});

t.test("values in another table have numbers of their own", async (t) => {
  const { database } = open(t);
  const holders = new SqliteDictionary(database, "usage_holder", ["group_path", "tags"]);
  t.equal(holders.numberFor(["", ""]), 0, "the default entries");
  const acme = holders.numberFor(["acme", ""]);
  t.not(acme, holders.numberFor(["acme", '{"a":"b"}']));
  t.equal(new SqliteDictionary(database, "usage_holder", ["group_path", "tags"]).numberFor(["acme", ""]), acme);
});

t.test("an incomplete kind is refused", async (t) => {
  const { kinds } = open(t);
  t.throws(() => kinds.numberFor([...kind("fast").slice(0, 9), null]), /NOT NULL/);
});
