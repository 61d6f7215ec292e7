import t from "tap";
import { AFTER, KEY } from "../../src/wire/grammar.ts";
import { type Nesting, passInside } from "../../src/wire/inside.ts";
import { scan } from "../../src/wire/json.ts";
import { Window } from "../../src/wire/window.ts";

const inObject = (changes: Partial<Nesting> = {}): Nesting => ({
  ...{ expect: AFTER, depth: 2, inObject: true, outer: [false, true], keys: 0, maxDepth: 4, maxKeys: 9 },
  ...changes,
});
const passed = (text: string, nesting: Nesting) =>
  text.slice(0, passInside(new Window(Buffer.from(text)), 0, nesting, 256));

t.test("passes over what is plain, and stops before what is not", (t) => {
  const at = inObject();
  t.equal(passed(', "a" : [ "b", {"c":"d"}, [] ], "e": 1}', at), ', "a" : [ "b", {"c":"d"}, [] ], "e": ');
  t.match(at, { depth: 2, inObject: true, keys: 3 });
  t.equal(passed(',"a":"b"},"c":1', inObject()), ',"a":"b"', "the end of the member is the scanner's");
  for (const rest of ["1", "true", '"cut', '"a\\x"', '"a\nb"', ",", "}", "]", '"\\u12g4"', '"a" "b"'])
    t.notOk(passed(`,"k":${rest}`, inObject()).length > 5 + (rest === '"a" "b"' ? 4 : 0), rest);
  t.end();
});

t.test("keeps to the limits of depth and names", (t) => {
  t.equal(passed(',"a":[[[[', inObject()), ',"a":[[');
  t.equal(passed(',"a":"","b":"","c":""', inObject({ keys: 7 })), ',"a":"","b":"",');
  t.equal(passed('"a":"" ', inObject({ expect: KEY })), '"a":"" ');
  t.end();
});

t.test("what is accepted is what JSON.parse accepts, however a text is spoilt", (t) => {
  let seed = 11;
  const random = (n: number): number => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return (seed >> 8) % n;
  };
  const texts = ["a", "", 'q"\\/\b\f\n\r\t', "\u00e9\u{1f600}", "x".repeat(40), "\u0000"];
  const value = (depth: number): unknown => {
    const kind = random(depth > 4 ? 4 : 7);
    if (kind === 0) return [1, -0.5, 1e9, true, null][random(5)];
    if (kind < 4) return texts[random(texts.length)];
    const length = random(4);
    if (kind === 4) return Array.from({ length }, () => value(depth + 1));
    return Object.fromEntries(Array.from({ length }, (_, i) => [`${texts[random(5)]}${i}`, value(depth + 1)]));
  };
  const spoils = ['"', "\\", "{", "}", "[", "]", ",", ":", "1", " ", "\n", "a", "u"];
  const isJson = (text: string): boolean => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  for (let n = 0; n < 4000; n++) {
    const whole = JSON.stringify(
      { m: Array.from({ length: 1 + random(12) }, () => value(0)), o: { x: value(0) } },
      null,
      random(2),
    );
    const at = random(whole.length);
    const text =
      n % 4 === 0 ? whole : `${whole.slice(0, at)}${spoils[random(spoils.length)]}${whole.slice(at + random(2))}`;
    let accepted = true;
    try {
      scan(Buffer.from(text), { duplicates: "allow" });
    } catch {
      accepted = false;
    }
    if (accepted !== isJson(text)) t.equal(accepted, isJson(text), text);
  }
  t.end();
});
