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
