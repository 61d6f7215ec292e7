import t from "tap";
import { letterVariants } from "../../src/wire/any-case.ts";
import { Scanner, scan } from "../../src/wire/json.ts";
import { caseSpellings, Watch } from "../../src/wire/watch.ts";
import { dice } from "../support/dice.ts";

/** The names and short texts below the top level, as a parser reads them. */
function below(value: unknown, depth = 0): { names: string[]; values: string[] } {
  if (typeof value === "string") return { names: [], values: depth > 1 ? [value] : [] };
  if (typeof value !== "object" || value === null) return { names: [], values: [] };
  const inner = Object.entries(value).map(([name, each]) => ({ name, ...below(each, depth + 1) }));
  const own = depth > 0 && !Array.isArray(value) ? inner.map(({ name }) => name) : [];
  return { names: [...own, ...inner.flatMap(({ names }) => names)], values: inner.flatMap(({ values }) => values) };
}

const cut = (bytes: Buffer, length: number) => {
  const scanner = new Scanner();
  for (let at = 0; at < bytes.length; at += length) scanner.push(bytes.subarray(at, at + length));
  return scanner.end();
};

t.test("a member below the top level is found wherever chunks split it, and with any escapes", (t) => {
  const watch = new Watch(["file_id", "id"], ["item_reference"]);
  const texts = [
    '{"input":[{"file_id":"f"}]}',
    '{"input":[{"content":[{"type":"input_file","file_id":null}]}]}',
    '{"input":{"id":"m"}}',
    '{"input":[{"type":"item_reference"}]}',
    '{"input":["item_reference"]}',
    '{"input":[{"file\\u005fid":"f"}]}',
    '{"input":[{"\\u0066ile_id":"f"}]}',
    '{"input":[{"type":"item\\u005freference"}]}',
    '{"input":[{"type":"\\u0069tem_reference"}]}',
    `{"input":[{"${"x".repeat(5000)}":1,"file_id":"${"y".repeat(5000)}"}]}`,
  ];
  for (const text of texts)
    for (let length = 1; length <= Math.min(text.length, 80); length++)
      if (!watch.mayMatch(cut(Buffer.from(text), length))) t.fail(`${text} in pieces of ${length}`);
  t.end();
});

t.test("a text without them is distinguished from one with them", (t) => {
  const watch = new Watch(["file_id", "container_id"], ["item_reference"]);
  const texts = [
    '{"file_id":"f","type":"item_reference"}',
    '{"messages":[{"role":"user","content":"what is a \\"file_id\\": an item_reference?"}]}',
    `{"messages":[{"role":"user","content":"${"file_id ".repeat(9000)}\\u0066"}],"tools":[{"type":"function"}]}`,
    '{"messages":[{"role":"user","content":"file_id"}],"tools":[{"item_reference":{}}]}',
    '["file_id"]',
  ];
  for (const text of texts) {
    t.notOk(watch.mayMatch(scan(Buffer.from(text))), text.slice(0, 80));
    for (let length = 1; length <= Math.min(text.length, 80); length++)
      if (watch.mayMatch(cut(Buffer.from(text), length))) t.fail(`${text.slice(0, 80)} in pieces of ${length}`);
  }
  t.end();
});

t.test("a negative result is never wrong: random texts, split anywhere", (t) => {
  const random = dice(11);
  const words = ["id", "file_id", "item_reference", "audio", "x", "role", "é", "\u2028", "z".repeat(150)];
  const word = () => words[random(words.length)] as string;
  const make = (depth: number): unknown => {
    const kind = random(depth > 3 ? 2 : 4);
    if (kind < 2) return kind === 0 ? word() : random(1000);
    const inner = Array.from({ length: random(4) }, () => make(depth + 1));
    return kind === 2 ? inner : Object.fromEntries(inner.map((each) => [word(), each]));
  };
  const escaped = (json: string) => (random(3) === 0 ? json.replace(/d/g, () => (random(2) ? "\\u0064" : "d")) : json);
  const watches = words.filter(({ length }) => length > 1).map((name) => ({ name, names: new Watch([name]) }));
  const values = words.filter(({ length }) => length > 1).map((name) => ({ name, values: new Watch([], [name]) }));
  let right = 0;
  for (let n = 0; n < 3000; n++) {
    const value = make(0);
    const text = Buffer.from(escaped(JSON.stringify(value)));
    const found = below(value);
    const read = cut(text, 1 + random(text.length + 4));
    for (const { name, names } of watches)
      if (found.names.includes(name) && !names.mayMatch(read)) t.fail(`the name ${name} in ${text}`);
      else right++;
    for (const { name, values: of } of values)
      if (found.values.includes(name) && !of.mayMatch(read)) t.fail(`the value ${name} in ${text}`);
      else right++;
  }
  t.equal(right, 3000 * 12);
  t.end();
});

t.test("a name that cannot be watched is refused", (t) => {
  t.throws(() => new Watch(["a"]), RangeError);
  t.throws(() => new Watch([], ["v".repeat(199)]), RangeError);
  t.throws(() => new Watch(["a/b"]), RangeError);
  t.end();
});

/** All of them: the scan tells fewer apart. */
const allSpellings = (name: string): string[] =>
  [...name].reduce((all, letter) => all.flatMap((each) => letterVariants(letter).map((as) => each + as)), [""]);

t.test("a name is found in every spelling that case-insensitive parsers accept for it", (t) => {
  for (const name of ["skill_id", "file_ids", "sessions", "kk"]) {
    const watch = new Watch(caseSpellings(name));
    for (const as of allSpellings(name))
      if (!watch.mayMatch(scan(Buffer.from(JSON.stringify({ input: [{ [as]: 1 }] }))))) t.fail(`${as} for ${name}`);
  }
  t.end();
});
