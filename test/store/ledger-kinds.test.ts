import { join } from "node:path";
import t, { type Test } from "tap";
import { Kinds } from "../../src/store/ledger-kinds.ts";
import { KIND } from "../../src/store/ledger-row.ts";
import { Database } from "../../src/store/sqlite/database.ts";

const kind = (model: string) => ["k", model, "p:m", "wire", "generate", 200, "completed", 0, "reported", "p1"];

function open(t: Test, path = join(t.testdir(), "gateway.db")) {
  const database = new Database(path);
  t.teardown(() => database.close());
  return { path, database, kinds: new Kinds(database) };
}

const count = (database: Database) => database.prepare("select count(*) as kinds from usage_kind").get()?.["kinds"];

t.test("a kind has one number, for every process", async (t) => {
  const { path, database, kinds } = open(t);
  const fast = kinds.number(kind("fast"));
  const smart = kinds.number(kind("smart"));
  t.not(fast, smart);
  t.equal(kinds.number(kind("fast")), fast);
  const other = open(t, path);
  t.equal(other.kinds.number(kind("smart")), smart);
  const tiny = other.kinds.number(kind("tiny"));
  t.equal(kinds.number(kind("tiny")), tiny);
  t.equal(count(database), 3);
  const row = database.prepare("select * from usage_kind where number = ?").get(smart);
  t.same(
    KIND.map((name) => row?.[name]),
    kind("smart"),
  );
});

t.test("a number that was rolled back is not given again", async (t) => {
  const { database, kinds } = open(t);
  t.throws(() =>
    database.transaction(() => {
      kinds.number(kind("fast"));
      throw new Error("on the way");
    }),
  );
  kinds.forget();
  const smart = kinds.number(kind("smart"));
  t.not(kinds.number(kind("fast")), smart);
  t.equal(count(database), 2);
});

t.test("more kinds than memory is kept for", async (t) => {
  const { database, kinds } = open(t);
  database.transaction(() => {
    const first = kinds.number(kind("model 0"));
    const numbers = new Set(Array.from({ length: 10_500 }, (_, at) => kinds.number(kind(`model ${at}`))));
    t.equal(numbers.size, 10_500);
    t.equal(kinds.number(kind("model 0")), first);
  });
  t.equal(count(database), 10_500);
});

t.test("what stands in another table has numbers of its own", async (t) => {
  const { database } = open(t);
  const holders = new Kinds(database, "usage_holder", ["group_path", "tags"]);
  t.equal(holders.number(["", ""]), 0, "those that were there");
  const acme = holders.number(["acme", ""]);
  t.not(acme, holders.number(["acme", '{"a":"b"}']));
  t.equal(new Kinds(database, "usage_holder", ["group_path", "tags"]).number(["acme", ""]), acme);
});

t.test("a kind that lacks something is refused", async (t) => {
  const { kinds } = open(t);
  t.throws(() => kinds.number([...kind("fast").slice(0, 9), null]), /NOT NULL/);
});
