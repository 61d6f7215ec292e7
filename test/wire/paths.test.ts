import t from "tap";
import { changesAt, type JsonPath, locate } from "../../src/wire/paths.ts";
import { splice } from "../../src/wire/splice.ts";

const changed = (json: string, changes: Parameters<typeof changesAt>[1]): string => {
  const text = Buffer.from(json);
  return Buffer.concat(splice([text], changesAt(text, changes))).toString();
};
const without = (json: string, ...remove: JsonPath[]): string => changed(json, { remove });
const put = (json: string, ...replace: (readonly [JsonPath, string])[]): string => changed(json, { replace });

t.test("a value goes with its name and one comma, and all other bytes stay", async (t) => {
  const json = '{ "a" : [ 1 , "x,]\\"" , {"b":2} ] , "ü": null }';
  t.equal(without(json, ["a"]), '{ "ü": null }');
  t.equal(without(json, ["ü"]), '{ "a" : [ 1 , "x,]\\"" , {"b":2} ] }');
  t.equal(without(json, ["a", 0]), '{ "a" : [ "x,]\\"" , {"b":2} ] , "ü": null }');
  t.equal(without(json, ["a", 1], ["a", 2]), '{ "a" : [ 1 ] , "ü": null }');
  t.equal(without(json, ["a", 2, "b"]), '{ "a" : [ 1 , "x,]\\"" , {} ] , "ü": null }');
  t.equal(without(json, ["a"], ["ü"]), "{}");
});

t.test("a value gives way to other JSON", async (t) => {
  t.equal(put('{"a":[1, 2],"b":"x"}', [["a", 1], "[3]"], [["b"], '"y"']), '{"a":[1, [3]],"b":"y"}');
});

t.test("a member that an object lacks is added behind its last one", async (t) => {
  t.equal(put('{"a":{"b":1 }}', [["a", "c"], "2"], [["a", "d"], "3"]), '{"a":{"b":1 ,"c":2,"d":3}}');
  t.equal(put("{ }", [["a"], "1"]), '{ "a":1}');
  t.equal(changed('{"a":1,"b":2}', { remove: [["b"]], replace: [[["c"], "3"]] }), '{"a":1,"c":3}');
  t.equal(changed('{"a":1}', { remove: [["a"]], replace: [[["c"], "3"]] }), '{"c":3}');
});

t.test("of a value that goes and gives way, the other JSON stays", async (t) => {
  t.equal(changed('{"a":1,"b":2}', { remove: [["a"]], replace: [[["a"], "3"]] }), '{"a":3,"b":2}');
  t.equal(changed('{"a":{"b":1},"c":2}', { remove: [["a"]], replace: [[["a", "b"], "3"]] }), '{"c":2}');
});

t.test("a path that leads nowhere changes nothing", async (t) => {
  const json = '{"a":[1],"b":"x"}';
  t.equal(without(json, ["c"], ["a", 1], ["b", "c"], ["a", "x"]), json);
  t.equal(put(json, [["a", 1], "2"], [["b", "c"], "2"], [["c", "d"], "2"]), json);
});

t.test("of members named twice the first counts", async (t) => {
  t.equal(without('{"a":1,"a":2}', ["a"]), '{"a":2}');
});

t.test("values are found by their paths", async (t) => {
  const text = Buffer.from('{"a":[1, {"b":"xy"}]}');
  const found = locate(text, [["a", 1, "b"], ["a"], ["c"]]);
  t.same(
    found.map(({ path, start, end }) => [path.join("."), text.toString("utf8", start, end)]),
    [
      ["a.1.b", '"xy"'],
      ["a", '[1, {"b":"xy"}]'],
    ],
  );
});
