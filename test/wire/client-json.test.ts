import t from "tap";
import { parseClientJson } from "../../src/wire/client-json.ts";

const parse = (text: string): unknown => parseClientJson(Buffer.from(text));

t.test("a name with an escape is the one that is written, whatever names V8 has read before", async (t) => {
  for (const [i, [before, name]] of [
    ["file_i\\\\", "file_i\\u0064"],
    ["\\\\u0066i", "\\u0066ile_id"],
    ["\\\\", "\\u006e"],
    ["n\\\\u00", "n\\u0061me"],
  ].entries()) {
    // An object of a kind of its own: V8 remembers what has followed its first name.
    const text = (last: string) => `{"first-${i}":1,"${last}":[2]}`;
    t.same(Object.keys(JSON.parse(text(before as string))), [`first-${i}`, JSON.parse(`"${before}"`)]);
    t.same(Object.keys(parse(text(name as string)) as object), [`first-${i}`, JSON.parse(`"${name}"`)]);
  }
});

t.test("all else is as JSON.parse reads it, and numbers are doubles", async (t) => {
  for (const text of [
    '{"\\u0061":[1e400,-0,12345678901234567890,1.5,"\\u0061",null,true,{}],"__proto__":{"b":"é"},"a":2}',
    '[{"\\u0061" : {"b":1,"b":2}}]',
    '{"a":"\\u0061"}',
    '"\\u0061"',
  ])
    t.strictSame(parse(text), JSON.parse(text), text);
  for (const text of ['{"\\u0061":1', '{"\\u0061":01}', '{"\\u0061":1}}', '{"\\u006":1}', '{"\\u0061"'])
    t.throws(() => parse(text), SyntaxError, text);
});

t.test("names are read whichever of their characters are escaped", async (t) => {
  const letters = ["a", "_", '"', "\\", "/", "é", "\u0001", "\ud83d\ude00", "\ud800", "u0061", " "];
  const escaped = (name: string, bits: number) =>
    `"${[...name]
      .map((letter, i) =>
        (bits >> i) & 1
          ? Array.from(
              { length: letter.length },
              (_, at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`,
            ).join("")
          : JSON.stringify(letter).slice(1, -1),
      )
      .join("")}"`;
  for (let seed = 0; seed < 2000; seed++) {
    const name = (n: number) =>
      Array.from({ length: (n % 4) + 1 }, (_, i) => letters[(n * 7 + i * (n % 5)) % letters.length]).join("");
    const [one, two] = [name(seed), `${name(seed * 3 + 1)}2`];
    const text = `{${escaped(one, seed)}: {${escaped(two, seed >> 2)}:${escaped(two, seed)}}, "x":[${escaped(one, seed)}]}`;
    t.strictSame(parse(text), { [one]: { [two]: two }, x: [one] }, text);
  }
});
