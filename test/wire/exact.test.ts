import t from "tap";
import { parseExact, RawJson, writeJson } from "../../src/wire/exact.ts";
import { recordings } from "../support/recordings.ts";
import { tried } from "../support/sample.ts";

t.test("arguments and big numbers are written as they were read", async (t) => {
  const text =
    '{"name":"f","input": {"a": 1.0, "2":"x", "1":[ 12345678901234567890 ], "a":"\\u00e9"},"seed":12345678901234567890}';
  const parsed = parseExact(text, new Set(["input"])) as Record<string, RawJson>;
  t.equal(parsed["input"]?.text, '{"a": 1.0, "2":"x", "1":[ 12345678901234567890 ], "a":"\\u00e9"}');
  t.same(parsed["input"]?.value, { a: "é", 2: "x", 1: [12345678901234567000] });
  t.equal(
    writeJson(parsed),
    '{"name":"f","input":{"a": 1.0, "2":"x", "1":[ 12345678901234567890 ], "a":"\\u00e9"},"seed":12345678901234567890}',
  );
});

t.test(
  "a number that a double cannot represent keeps its text; a fraction is the nearest one, as for all parsers",
  async (t) => {
    const kept = ["9007199254740993", "-12345678901234567890", "1e400", "-1E+400", "1e-400", "-0.1e-330", "4.9e-325"];
    const text = `[${kept.join(",")}]`;
    t.equal(writeJson(parseExact(text)), text);
    t.ok((parseExact(text) as unknown[]).every((each) => each instanceof RawJson));
    t.strictSame(
      parseExact("[0,-0,0.0,0e5,0.000E-400,5e-324,0.12345678901234567890]"),
      [0, -0, 0, 0, 0, 5e-324, 0.12345678901234568],
    );
  },
);

t.test("a raw member that is not an object stays a plain value", async (t) => {
  t.same(parseExact('{"input":"text","more":{"input":null}}', new Set(["input"])), {
    input: "text",
    more: { input: null },
  });
});

t.test("a raw member ends where its own brackets do, and must be JSON", async (t) => {
  const raw = new Set(["input"]);
  const text = '{"a":[{"input":{"b":"}]\\"\\\\","c":[[],{}]}},{"input": [1 , {"input":{}}] }],"d":1}';
  const parsed = parseExact(text, raw) as { a: { input: RawJson }[] };
  t.same(
    parsed.a.map(({ input }) => input.text),
    ['{"b":"}]\\"\\\\","c":[[],{}]}', '[1 , {"input":{}}]'],
  );
  t.equal(writeJson(parsed), text.replace('{"input": [1 , {"input":{}}] }', '{"input":[1 , {"input":{}}]}'));
  const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
  t.ok(parseExact(`{"input":${nested(500)}}`, raw));
  const bad = ['{"a":1]', "[1}", "[", '{"a"', '["]', "[01]", '{"a":tru}', '["\\x"]', "[1]]", nested(600)];
  for (const value of bad) t.throws(() => parseExact(`{"input":${value}}`, raw), SyntaxError, value);
});

t.test("an integer is read alike, whatever its length and whatever follows it", async (t) => {
  const good = ["7", "0", "10", "-7", "999999999999999", "1000000000000000", "1.5", "1e3", "0.0"];
  for (const number of good)
    for (const text of [`[${number}]`, `[${number} ,${number}\n]`, `{"a":${number}}`])
      t.strictSame(parseExact(text), JSON.parse(text), text);
  for (const text of ["[00]", "[01]", "[1a]", "[1:2]", '{"a":1]', "[1", "[0x1]", "[1_0]"])
    t.throws(() => parseExact(text), SyntaxError, text);
});

t.test("what JSON.parse refuses is refused, what it accepts is parsed alike", async (t) => {
  const good = [
    '"\\ud83d\\ude00 \\" \\\\"',
    " [1,-0.5e3 , true,false,null,{}] ",
    '{"":{"__proto__":1}}',
    "[]",
    "0",
    '"\\\\"',
  ];
  for (const text of good) t.same(parseExact(text), JSON.parse(text), text);
  t.equal(Object.keys(parseExact('{"__proto__":{"x":1}}') as object)[0], "__proto__");
  const bad = [
    "",
    "{",
    "[1,]",
    '{"a"}',
    '{"a":}',
    "01",
    "+1",
    ".5",
    "1.",
    "NaN",
    "tru",
    '"',
    '"\n"',
    '"\\x"',
    "{} {}",
    "{'a':1}",
    "{a:1}",
    '{aa":1}',
    "[1 2]",
  ];
  for (const text of bad) t.throws(() => parseExact(text), SyntaxError, text);
  t.throws(() => parseExact("[".repeat(100_000)), SyntaxError, "deep");
});

t.test("values without a JSON form are left out or null", async (t) => {
  t.equal(
    writeJson({ a: undefined, b: [undefined, null], c: 'x"', d: new RawJson("1e400") }),
    '{"b":[null,null],"c":"x\\"","d":1e400}',
  );
  t.equal(JSON.stringify({ input: new RawJson('{"a":1}') }), '{"input":{"a":1}}');
});

t.test("raw values are written unchanged at any depth, among other values", async (t) => {
  const raw = '{"a": 1.0}';
  for (let depth = 0; depth < 8; depth++) {
    const [open, close] = ['[{"b":'.repeat(depth), '},"c",{}]'.repeat(depth)];
    let value: unknown = new RawJson(raw);
    for (let i = 0; i < depth; i++) value = [{ b: value, none: undefined }, "c", {}];
    t.equal(writeJson(value), `${open}${raw}${close}`);
    t.equal(writeJson({ first: [], value }), `{"first":[],"value":${open}${raw}${close}}`);
  }
});

t.test("strings of any length are accepted and refused as by JSON.parse", async (t) => {
  const read = (parse: (text: string) => unknown, text: string) => {
    try {
      return parse(text);
    } catch {
      return "refused";
    }
  };
  for (const what of ["a", "é", "😀", "\\n", "\\u0061", '\\"', "\\x", "\n", "\u0000", "\u001f", "\u007f", "\\\\", "\\"])
    for (let length = 0; length < 20; length++)
      for (const text of [`"${"b".repeat(length)}${what}"`, `{"${what}${"b".repeat(length)}":"${what}"}`])
        t.same(read(parseExact, text), read(JSON.parse, text), JSON.stringify(text));
});

const found = recordings();
t.test(
  "every recorded JSON body is parsed as by JSON.parse",
  { skip: !found && "recordings are absent" },
  async (t) => {
    let count = 0;
    for (const { body, streaming, id } of found ?? []) {
      const text = body.toString();
      if (streaming || !/^\s*[{[]/.test(text)) continue;
      let expected: unknown;
      try {
        expected = JSON.parse(text);
      } catch {
        continue;
      }
      count++;
      if (JSON.stringify(parseExact(text)) !== JSON.stringify(expected)) t.fail(id);
    }
    t.ok(count > tried(1000), `${count} bodies`);
  },
);
