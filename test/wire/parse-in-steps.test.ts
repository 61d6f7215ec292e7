import { isDeepStrictEqual } from "node:util";
import t from "tap";
import { parseExact } from "../../src/wire/exact.ts";
import { parseInSteps } from "../../src/wire/parse-in-steps.ts";
import { dice } from "../support/dice.ts";
import { tried } from "../support/sample.ts";

const RAW: ReadonlySet<string> = new Set(["args"]);
const cast = dice(Number(process.env["GATEWAY_TEST_SEED"] ?? 1));
const one = <Of>(of: readonly Of[]): Of => of[cast(of.length)] as Of;

interface Parsed {
  value?: unknown;
  steps: number;
  isSyntaxError?: boolean;
}

function parsed(bytes: Buffer, raw?: ReadonlySet<string>, maxPart?: number): Parsed {
  const parsing = parseInSteps(bytes, raw, maxPart);
  for (let steps = 1; ; steps++) {
    const { done, value } = parsing.next();
    if (done) return { value, steps };
  }
}

function outcome(parse: () => Parsed): Omit<Parsed, "steps"> {
  try {
    return { value: parse().value };
  } catch (thrown) {
    return { isSyntaxError: thrown instanceof SyntaxError };
  }
}

const TEXTS = ["a", "ab c", '\\"', "\\\\", "\\u0061", "\\ud83d\\ude00", "😀", "é", "\\n", "漢字", "\\u00e9x", "[{,:]}"];
const NAMES = ["a", "args", "__proto__", "1", "x y", "\\u0061", "a longer name"];
const SCALARS = ["0", "-1.5e3", "12345678901234567890", "1e999", "true", "false", "null", "-0", '""', "[]", "{}"];
const space = (): string => one(["", "", "", " ", "\n\t ", " ".repeat(20)]);
const string = (length: number): string => `"${Array.from({ length }, () => one(TEXTS)).join("")}"`;

function json(depth: number): string {
  const kind = cast(depth > 0 ? 8 : 3);
  if (kind < 2) return `${space()}${one(SCALARS)}${space()}`;
  if (kind < 4) return `${space()}${string(cast(12))}${space()}`;
  const elements = Array.from({ length: cast(6) }, () => json(depth - 1));
  if (kind < 6) return `[${elements.join()}${elements.length === 0 ? space() : ""}]`;
  return `${space()}{${elements.map((element) => `${space()}"${one(NAMES)}"${space()}:${element}`).join()}}`;
}

/** Returns a text with a byte more, a byte less, or another byte. */
function changed(text: string): Buffer {
  const bytes = Buffer.from(text);
  const at = cast(bytes.length + 1);
  const added = Buffer.from(
    one(["", "", ",", ":", "[", "]", "{", "}", '"', "\\", "0", "t", " ", "\x01", "\ufeff", "é"]),
  );
  const cut = one([0, 0, 1]);
  const broken = cast(9) === 0 ? Buffer.from([one([0x80, 0xc3, 0xf0, 0xff])]) : added;
  return Buffer.concat([bytes.subarray(0, at), broken, bytes.subarray(at + cut)]);
}

t.test("a text is parsed in parts to the same value as at once, and refused where it is refused at once", async (t) => {
  let [values, refusals] = [0, 0];
  for (let n = 0; n < tried(4_000); n++) {
    const text = json(5);
    const bytes = n % 2 ? changed(text) : Buffer.from(text);
    for (const raw of [undefined, RAW]) {
      const expected = outcome(() => ({
        value: raw ? parseExact(String(bytes), raw) : JSON.parse(String(bytes)),
        steps: 1,
      }));
      for (const maxPart of [8, 11, 16, 50])
        if (
          !isDeepStrictEqual(
            outcome(() => parsed(bytes, raw, maxPart)),
            expected,
          )
        )
          t.same(
            outcome(() => parsed(bytes, raw, maxPart)),
            expected,
            `${bytes} in parts of ${maxPart}`,
          );
      if (expected.isSyntaxError) refusals++;
      else values++;
    }
  }
  t.ok(values > tried(2_000) && refusals > tried(500), `${values} values, ${refusals} refusals`);
});

t.test("members have the order of their first occurrence, and the value of the last", async (t) => {
  const text = '{"b":[1],"a":"long enough","b":{"c":2},"__proto__":[3,4,5],"a":6}';
  const { value } = parsed(Buffer.from(text), undefined, 8);
  t.equal(JSON.stringify(value), JSON.stringify(JSON.parse(text)));
  t.equal(Object.getPrototypeOf(value), Object.prototype);
});

t.test("a long text is parsed in many steps, whatever makes it long; a short one in one", async (t) => {
  const steps = (text: string) => parsed(Buffer.from(text)).steps;
  t.equal(steps('{"a":[1,2,{"b":"c"}]}'), 1);
  t.ok(steps(JSON.stringify({ a: "b".repeat(4_000_000) })) > 15, "a string");
  t.ok(
    steps(JSON.stringify({ a: { b: Array(40_000).fill({ id: "call", arguments: "x".repeat(60) }) } })) > 10,
    "a list",
  );
  t.ok(steps(JSON.stringify(Array(80).fill("b".repeat(100_000)))) > 15, "strings");
  const members = Array.from({ length: 200_000 }, (_, i) => [`name ${i}`, i]);
  t.ok(steps(JSON.stringify({ a: Object.fromEntries(members) })) > 10, "an object");
  let nested = "[]";
  for (let n = 0; n < 100; n++) nested = `["${"x".repeat(40_000)}",${nested}]`;
  t.ok(steps(nested) > 15, "levels");
});

t.test("a text that is nested very deeply is refused", async (t) => {
  const text = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
  t.throws(() => parsed(Buffer.from(text)), SyntaxError);
});

t.test(
  "a text with more than four million objects and arrays, which take far more memory than bytes, is refused",
  async (t) => {
    const holders = (count: number) => Buffer.from(`[${"[],".repeat(count - 1)}0]`);
    t.equal((parsed(holders(4_000_000)).value as unknown[]).length, 4_000_000);
    t.throws(() => parsed(holders(4_000_001)), { message: /over 4000000 objects and arrays/ });
  },
);

t.test("each byte is decoded a few times at most, also in a text that is invalid", async (t) => {
  const strings = Array(200)
    .fill(`"${"x".repeat(1100)}"`)
    .join(" ");
  for (const text of [`{"args":{"a" ${strings}}}`, `{"args":[${strings}]}`, `{"a" ${strings}}`, `[${strings}]`]) {
    const bytes = Buffer.from(text);
    let decoded = 0;
    const decode = bytes.toString;
    bytes.toString = (encoding, from = 0, to = bytes.length) => {
      decoded += to - from;
      return decode.call(bytes, encoding, from, to);
    };
    t.throws(() => parsed(bytes, RAW, 1000), SyntaxError);
    t.ok(decoded < 3 * bytes.length, `${decoded} of ${bytes.length}`);
  }
});
