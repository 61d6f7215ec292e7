import t from "tap";
import { PartialArguments } from "../../../../plugins/protocols/gemini/response.decode.arguments.ts";

/** The text that entries become. */
function argumentsOf(entries: readonly Record<string, unknown>[]): string {
  const partial = new PartialArguments();
  return entries.map((entry) => partial.add(entry)).join("") + partial.end();
}

t.test("values of all kinds become one object with its members in order", async (t) => {
  const text = argumentsOf([
    { jsonPath: "$.z", numberValue: 1.5 },
    { jsonPath: "$.a", boolValue: false },
    { jsonPath: "$.n", nullValue: "NULL_VALUE" },
    { jsonPath: "$.s", stringValue: 'é\n"' },
  ]);
  t.equal(text, '{"z":1.5,"a":false,"n":null,"s":"é\\n\\""}');
});

t.test("a string in pieces is escaped once and closed once, even inside a character", async (t) => {
  const goesOn = { willContinue: true };
  const text = argumentsOf([
    { jsonPath: "$.s", stringValue: 'say "', ...goesOn },
    { jsonPath: "$.s", stringValue: "\ud83d", ...goesOn },
    { jsonPath: "$.s", stringValue: "\ude00\\", ...goesOn },
    { jsonPath: "$.s" },
  ]);
  t.strictSame(JSON.parse(text), { s: 'say "\u{1f600}\\' });
});

t.test("a string without a last piece is closed by what follows", async (t) => {
  const text = argumentsOf([
    { jsonPath: "$.a", stringValue: "x", willContinue: true },
    { jsonPath: "$.b", stringValue: "y", willContinue: true },
  ]);
  t.equal(text, '{"a":"x","b":"y"}');
});

t.test("paths lead into objects and lists", async (t) => {
  const text = argumentsOf([
    { jsonPath: "$.list[0].name", stringValue: "a" },
    { jsonPath: "$.list[0].size", numberValue: 1 },
    { jsonPath: "$.list[1].name", stringValue: "b" },
    { jsonPath: "$.deep.er['a key'][\"it's\"]", boolValue: true },
    { jsonPath: "$.grid[0][0]", numberValue: 1 },
    { jsonPath: "$.grid[0][1]", numberValue: 2 },
    { jsonPath: "$.grid[1][0]", numberValue: 3 },
    { jsonPath: "$.last", stringValue: "" },
  ]);
  t.equal(
    text,
    '{"list":[{"name":"a","size":1},{"name":"b"}],"deep":{"er":{"a key":{"it\'s":true}}},"grid":[[1,2],[3]],"last":""}',
  );
});

t.test("names with escapes are decoded", async (t) => {
  const text = argumentsOf([
    { jsonPath: "$['gr\\u00f6\\u00dfe']", numberValue: 1 },
    { jsonPath: '$["a\\tb"]', numberValue: 2 },
    { jsonPath: "$['it\\'s \\\\ \\/']", numberValue: 3 },
  ]);
  t.strictSame(JSON.parse(text), { größe: 1, "a\tb": 2, "it's \\ /": 3 });
});

t.test("no values are an empty object, and an entry without one adds nothing", async (t) => {
  t.equal(argumentsOf([]), "{}");
  t.equal(argumentsOf([{ jsonPath: "$.a" }]), "{}");
});

t.test("arguments that cannot be written at the end are refused", async (t) => {
  const value = { numberValue: 1 };
  t.throws(
    () =>
      argumentsOf([
        { jsonPath: "$.a", ...value },
        { jsonPath: "$.a", ...value },
      ]),
    /out of order/,
  );
  t.throws(
    () =>
      argumentsOf([
        { jsonPath: "$.a.b", ...value },
        { jsonPath: "$.c", ...value },
        { jsonPath: "$.a.d", ...value },
      ]),
    /out of order/,
  );
  t.throws(
    () =>
      argumentsOf([
        { jsonPath: "$.a.b", ...value },
        { jsonPath: "$.a[0]", ...value },
      ]),
    /out of order/,
  );
  for (const path of ["$", "$..a", "$.*", "$[?(@.a)]", undefined])
    t.throws(() => argumentsOf([{ jsonPath: path, ...value }]), /cannot be read/);
});
