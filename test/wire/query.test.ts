import t from "tap";
import { decodeBytes, Query } from "../../src/wire/query.ts";

t.test("unchanged parts keep their spelling", async (t) => {
  const texts = ["", "alt=sse", "x=1?y=2", "a=%20+b&&c", "beta=true&=x&y="];
  for (const text of texts) t.equal(new Query(text).toString(), text);
});

t.test("names and values are read decoded, and removed completely", async (t) => {
  const query = new Query("k%65y=a%20b+c&alt=sse&key=2");
  t.equal(query.get("key"), "a b c");
  t.equal(query.get("none"), null);
  t.equal(query.repeated(), "key");
  t.equal(query.repeated(["alt"]), undefined);
  t.equal(query.repeated(["alt", "key"]), "key");
  query.delete("key");
  t.equal(query.toString(), "alt=sse");
  t.notOk(query.has("key"));
});

t.test("pairs are removed by their decoded names, all others stay unchanged", async (t) => {
  const query = new Query("a=%20&mod%65l=x&b&model=y");
  t.same(
    query.removeWhere((name) => name === "model"),
    ["model", "model"],
  );
  t.equal(query.toString(), "a=%20&b");
  t.same(
    new Query().removeWhere(() => true),
    [],
  );
});

t.test("all values of a name are found", async (t) => {
  const query = new Query("a=1&b=2&%61=3&a");
  t.same(query.all("a"), ["1", "3", ""]);
  t.same(query.all("c"), []);
});

t.test("an invalid escape throws", async (t) => {
  t.throws(() => new Query("a=%zz"));
});

t.test("escapes are decoded byte by byte, and broken ones are kept", async (t) => {
  t.equal(decodeBytes("/%2e%2E/%c3%a9"), "/../\u00c3\u00a9");
  t.equal(decodeBytes("100%/%zz"), "100%/%zz");
});

t.test("a query in which a name stands for another keeps all else as it came", async (t) => {
  const query = new Query("a=x%20y&b=%31&a=+");
  t.equal(query.renamed("a", "c").toString(), "c=x%20y&b=%31&c=%20");
  t.equal(query.renamed("z", "c").toString(), query.toString());
});
