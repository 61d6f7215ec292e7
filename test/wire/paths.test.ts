import t from "tap";
import { countMembers, type JsonPath, pathEdits, stringsIn, withPlainNames } from "../../src/wire/paths.ts";
import { splice } from "../../src/wire/splice.ts";
import { type Cast, dice } from "../support/dice.ts";
import { locatePaths, valueAt } from "../support/locate-paths.ts";

const changed = (json: string, changes: Parameters<typeof pathEdits>[1]): string => {
  const text = Buffer.from(json);
  return Buffer.concat(splice([text], pathEdits(text, changes))).toString();
};
const without = (json: string, ...remove: JsonPath[]): string => changed(json, { remove });
const put = (json: string, ...replace: (readonly [JsonPath, string])[]): string => changed(json, { replace });

t.test("a value is removed with its name and one comma, and all other bytes stay", async (t) => {
  const json = '{ "a" : [ 1 , "x,]\\"" , {"b":2} ] , "ü": null }';
  t.equal(without(json, ["a"]), '{ "ü": null }');
  t.equal(without(json, ["ü"]), '{ "a" : [ 1 , "x,]\\"" , {"b":2} ] }');
  t.equal(without(json, ["a", 0]), '{ "a" : [ "x,]\\"" , {"b":2} ] , "ü": null }');
  t.equal(without(json, ["a", 1], ["a", 2]), '{ "a" : [ 1 ] , "ü": null }');
  t.equal(without(json, ["a", 2, "b"]), '{ "a" : [ 1 , "x,]\\"" , {} ] , "ü": null }');
  t.equal(without(json, ["a"], ["ü"]), "{}");
});

t.test("a value is replaced by other JSON", async (t) => {
  t.equal(put('{"a":[1, 2],"b":"x"}', [["a", 1], "[3]"], [["b"], '"y"']), '{"a":[1, [3]],"b":"y"}');
});

t.test("a missing member of an object is added after its last one", async (t) => {
  t.equal(put('{"a":{"b":1 }}', [["a", "c"], "2"], [["a", "d"], "3"]), '{"a":{"b":1 ,"c":2,"d":3}}');
  t.equal(put("{ }", [["a"], "1"]), '{ "a":1}');
  t.equal(changed('{"a":1,"b":2}', { remove: [["b"]], replace: [[["c"], "3"]] }), '{"a":1,"c":3}');
  t.equal(changed('{"a":1}', { remove: [["a"]], replace: [[["c"], "3"]] }), '{"c":3}');
});

t.test("an element is added before the others of a list", async (t) => {
  t.equal(put('{"a": [ 1 , 2 ]}', [["a", -1], "0"]), '{"a": [0, 1 , 2 ]}');
  t.equal(put('{"a":{"b":1}}', [["a", -1], "0"]), '{"a":{"b":1}}', "not of an object");
});

t.test("of a value that is removed and replaced, the replacement stays", async (t) => {
  t.equal(changed('{"a":1,"b":2}', { remove: [["a"]], replace: [[["a"], "3"]] }), '{"a":3,"b":2}');
  t.equal(changed('{"a":{"b":1},"c":2}', { remove: [["a"]], replace: [[["a", "b"], "3"]] }), '{"c":2}');
});

t.test("what is changed within a value that is replaced is lost", async (t) => {
  t.equal(put('{"a":{"b":1}}', [["a", "b"], "2"], [["a"], "3"]), '{"a":3}');
  t.equal(
    changed('{"a":[{"b":[1]}]}', {
      remove: [
        ["a", 0],
        ["a", 0, "b", 0],
      ],
      replace: [[["a", 0], "3"]],
    }),
    '{"a":[3]}',
  );
});

t.test("a path without a value changes nothing", async (t) => {
  const json = '{"a":[1],"b":"x"}';
  t.equal(without(json, ["c"], ["a", 1], ["b", "c"], ["a", "x"]), json);
  t.equal(put(json, [["a", 1], "2"], [["b", "c"], "2"], [["c", "d"], "2"]), json);
});

t.test("duplicate members are all changed: parsers differ in which of them they use", async (t) => {
  t.equal(without('{"a":1,"a":2}', ["a"]), "{}");
  t.equal(put('{"a":{"b":1},"a":{"b":2}}', [["a", "b"], "3"]), '{"a":{"b":3},"a":{"b":3}}');
});

t.test("values are found by their paths", async (t) => {
  const text = Buffer.from('{"a":[1, {"b":"xy"}]}');
  const found = locatePaths(text, [["a", 1, "b"], ["a"], ["c"]]);
  t.same(
    found.map(({ path, start, end }) => [path.join("."), text.toString("utf8", start, end)]),
    [
      ["a.1.b", '"xy"'],
      ["a", '[1, {"b":"xy"}]'],
    ],
  );
});

t.test("names are compared unescaped", async (t) => {
  t.equal(without('{"\\u0061":1,"b":2}', ["a"]), '{"b":2}');
});

/** A random value whose strings hold what a careless reader stumbles over. */
function randomJson(random: Cast, depth = 0): unknown {
  const kind = random(depth > 3 ? 4 : 6);
  if (kind === 0) return random(1e6) / 7;
  if (kind === 1) return ['"', "\\", '{"a":[', "]},", "\\u0041", "ä€😀", "", "\n"][random(8)];
  if (kind === 2) return null;
  if (kind === 3) return random(2) === 0;
  const length = random(4);
  if (kind === 4) return Array.from({ length }, () => randomJson(random, depth + 1));
  return Object.fromEntries(Array.from({ length }, (_, i) => [`${i}"\\`, randomJson(random, depth + 1)]));
}

function* pathsIn(value: unknown, at: JsonPath = []): Generator<JsonPath> {
  if (typeof value !== "object" || value === null) return;
  const names = Array.isArray(value) ? value.keys() : Object.keys(value);
  for (const name of names) {
    yield [...at, name];
    yield* pathsIn((value as Record<string | number, unknown>)[name], [...at, name]);
  }
}

t.test("every value of a random text is found, and removing it equals removing it from the parsed value", async (t) => {
  const random = dice(7);
  const wrong: string[] = [];
  for (let round = 0; round < 300; round++) {
    const value = { top: randomJson(random) };
    const text = JSON.stringify(value, null, round % 3);
    const paths = [...pathsIn(value)];
    const found = locatePaths(Buffer.from(text), paths);
    if (found.length !== paths.length) wrong.push(`${text}: ${found.length} of ${paths.length}`);
    for (const { path, start, end } of found) {
      const span = JSON.stringify(JSON.parse(Buffer.from(text).subarray(start, end).toString()));
      if (span !== JSON.stringify(valueAt(value, path))) wrong.push(`${text} at ${path.join(".")}: ${span}`);
    }
    const remove = paths.filter(() => random(10) < 3);
    const expected = structuredClone(value);
    for (const path of remove.toReversed()) {
      const parent = valueAt(expected, path.slice(0, -1)) as Record<string | number, unknown> | undefined;
      const name = path.at(-1) as string | number;
      if (Array.isArray(parent)) parent.splice(Number(name), 1);
      else if (typeof parent === "object" && parent !== null) delete parent[name];
    }
    const actual = JSON.stringify(JSON.parse(changed(text, { remove })));
    if (actual !== JSON.stringify(expected)) wrong.push(`${text} without ${JSON.stringify(remove)}: ${actual}`);
  }
  t.same(wrong, []);
});

t.test("members are counted in all objects, each time they occur", async (t) => {
  const counted = (json: string): number => countMembers(Buffer.from(json));
  t.same([counted("{}"), counted('[":", {"a": ":"}]'), counted('{"a":{"b":1,"b":[{"c":"\\":"}]}}')], [0, 1, 4]);
});

t.test("a string ends at its first quote that is not escaped, however long it is", async (t) => {
  const wrong: string[] = [];
  for (let length = 0; length < 200; length++)
    for (const end of ["", "\\", "\\\\", '\\"', '"', '":'])
      for (const inside of ["x", "\\", '"']) {
        const text = JSON.stringify({ a: inside.repeat(length) + end, b: "" });
        if (countMembers(Buffer.from(text)) !== 2) wrong.push(text);
      }
  t.same(wrong, []);
});

t.test(
  "the end of a string is not searched for at each escaped quote: a text of these would block for long",
  async (t) => {
    const text = Buffer.from(JSON.stringify({ a: '"'.repeat(100_000) }));
    const searches = t.capture(text, "indexOf", Buffer.prototype.indexOf);
    t.equal(countMembers(text), 1);
    t.ok(searches().length < 5000, "searches");
  },
);

t.test("strings within a value come in document order with their holders, to the depth of the JSON parser", (t) => {
  const inner = { b: "2", list: ["3", { c: "4" }, 5, null] };
  const found = [...stringsIn({ a: "1", inner }, ["x"])];
  t.same(
    found.map(({ path }) => path.join(".")),
    ["x.a", "x.inner.b", "x.inner.list.0", "x.inner.list.1.c"],
  );
  t.same([found[1]?.holder, found[2]?.holder], [inner, {}]);
  t.same([...stringsIn("1", [])], [{ value: "1", path: [], holder: {} }]);
  const nested = (levels: number) => JSON.parse(`${"[".repeat(levels)}"1"${"]".repeat(levels)}`);
  t.same(
    [512, 513].map((levels) => [...stringsIn(nested(levels), [])].length),
    [1, 0],
  );
  t.end();
});

t.test("names get plain characters where they have escapes, and values keep theirs", async (t) => {
  const plain = (json: string) => withPlainNames(Buffer.from(json)).toString();
  for (const [json, expected] of [
    ['{"\\u0061":1}', '{"a":1}'],
    ['[{"a":{"b\\u0063" \n:1}}]', '[{"a":{"bc" \n:1}}]'],
    ['{"a":"\\u0061\\"\\u0062:","\\u0063":1}', '{"a":"\\u0061\\"\\u0062:","c":1}'],
    ['{"a":"\\\\","b\\\\\\u0061":1}', '{"a":"\\\\","b\\\\a":1}'],
    ['{"\\u0061":{"\\u0022\\u005c":1},"\\u00e9\\ud83d\\ude00":2}', '{"a":{"\\"\\\\":1},"é😀":2}'],
    ['{"\\u0001\\ud800":1}', '{"\\u0001\\ud800":1}'],
  ] as const)
    t.equal(plain(json), expected);
  for (const json of [
    '{"a":"\\u0061"}',
    '{"a":["\\u0061\\":",":"]}',
    '{"a":1}',
    '"\\u0061"',
    '{"a\\n":"\\\\u"}',
    '"\\u',
    "",
    '{"a":tr\\u0075e,":":1}',
    '{"a":1, \\u0062":2}',
  ]) {
    const bytes = Buffer.from(json);
    t.equal(withPlainNames(bytes), bytes, json);
  }
});
