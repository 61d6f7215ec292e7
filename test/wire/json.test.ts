import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { JsonError, type Scan, Scanner, type ScannerOptions, scan } from "../../src/wire/json.ts";
import { MAX_NAME } from "../../src/wire/window.ts";
import { dice } from "../support/dice.ts";
import { gathered } from "../support/gathered.ts";
import { shared } from "../support/shared.ts";

const read = (text: string | Buffer, options?: ScannerOptions): Scan => scan(Buffer.from(text as string), options);

/** What a scan finds, as plain values that can be compared; or the fault it throws. */
function outcome(run: () => Scan): unknown {
  try {
    const found = run();
    return { kind: found.kind, start: found.start, end: found.end, members: [...found.members] };
  } catch (error) {
    if (error instanceof JsonError) return error.fault;
    throw error;
  }
}

function inPieces(bytes: Buffer, cuts: readonly number[], options?: ScannerOptions): Scan {
  const scanner = new Scanner(options);
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    scanner.push(bytes.subarray(from, cut));
    from = cut;
  }
  return scanner.end();
}

/** A text is understood the same way whole, byte by byte, and cut in two anywhere; of two faults either may come first. */
function sameHoweverCut(bytes: Buffer, options?: ScannerOptions): boolean {
  const seen = (run: () => Scan): string => JSON.stringify(outcome(run)).replace("utf8", "syntax");
  const whole = seen(() => scan(bytes, options));
  const each = Array.from(bytes, (_, i) => i);
  const ways = [each, ...each.map((cut) => [cut])];
  return ways.every((cuts) => seen(() => inPieces(bytes, cuts, options)) === whole);
}

const fault = (text: string | Buffer, options?: ScannerOptions): unknown => {
  try {
    read(text, options);
    return undefined;
  } catch (error) {
    return error instanceof JsonError ? error.fault : error;
  }
};

t.test("the members of an object are found with their spans and kinds", async (t) => {
  const text = ' {"model" : "m","n":-1.5e+3, "o":{"x":[1,{}]},"a":[ ],"t":true,"f":false,"z":null} \n';
  const found = read(text);
  const pick = (start: number, end: number) => text.slice(start, end);
  t.strictSame(
    found.members.map((member) => [
      member.name,
      pick(member.keyStart, member.start),
      pick(member.start, member.end),
      member.kind,
    ]),
    [
      ["model", '"model" : ', '"m"', "string"],
      ["n", '"n":', "-1.5e+3", "number"],
      ["o", '"o":', '{"x":[1,{}]}', "object"],
      ["a", '"a":', "[ ]", "array"],
      ["t", '"t":', "true", "true"],
      ["f", '"f":', "false", "false"],
      ["z", '"z":', "null", "null"],
    ],
  );
  t.equal(pick(found.start, found.end), text.trim());
  t.equal(found.find("o")?.kind, "object");
  t.equal(found.find("x"), undefined, "a nested name is not a member");
});

t.test("a text has the same result wherever it is split", async (t) => {
  const texts = [
    '{"model":"gpt","mes\\u0073ages":[{"role":"user","content":"h\\"i\\\\ \\ud83d\\ude00 😀é"}],"n":[-0,1.0,1e-7,true,false,null]}',
    '  [1,2,{"a":"b"}]  ',
    `${" \t\n\r".repeat(9)}{${" ".repeat(40)}"a"${"\n".repeat(33)}:[${"\t ".repeat(17)}1${" ".repeat(16)},{${" ".repeat(15)}}${"\r\n".repeat(20)}]${" ".repeat(70)}}${" ".repeat(31)}`,
    `{"a":${" ".repeat(40)}\f1}`,
    `{"a":[1,${" ".repeat(40)}\u00a0]}`,
    "-12.5e+10",
    '"just é a string"',
    "true",
    '{"a":1,"\\u0061":2}',
    '{"a":tru}',
    '{"a":01}',
    '{"a":"\\x"}',
    '{"é😀":1,"é":2}',
    '{"a":"\u0001"}',
    '{"a":1}}',
    "",
    "   ",
    "{",
  ];
  for (const text of texts) t.ok(sameHoweverCut(Buffer.from(text)), text);
  t.ok(sameHoweverCut(Buffer.from([0x22, 0xf0, 0x9f, 0x98, 0x22])), "an incomplete character");
  t.ok(sameHoweverCut(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])), "a surrogate as bytes");
});

gathered(t, "the first 256 bytes of a string are checked, wherever it is cut", async (t) => {
  const long = "x".repeat(1500);
  for (const odd of ["", '\\"', "\\\\", '\\\\\\"', "\\n", "\\u00e9", "é", "\u0001", "\\x", "\\u12g4", '","b":"'])
    for (const at of [0, 127, 250, 255, 256, 700, 1499]) {
      const bytes = Buffer.from(`{"a":"${long.slice(0, at)}${odd}${long.slice(at)}","z":1}`);
      let valid = true;
      try {
        JSON.parse(bytes.toString());
      } catch {
        valid = false;
      }
      const whole = outcome(() => scan(bytes));
      if (valid || at < 256) t.equal(typeof whole === "object", valid, `${odd} at ${at}`);
      const middle = 6 + at;
      for (const cut of [...[0, 1, 2, 3].map((more) => [middle + more]), [262], [261, 262, 263], [300, 301, 302, 1000]])
        t.strictSame(
          outcome(() => inPieces(bytes, cut)),
          whole,
        );
    }
});

gathered(t, "behind them only the end is sought, and found at any number of backslashes and any cut", async (t) => {
  for (const tail of ["", "\\\\", '\\"', '\\\\\\"', "\u0001", "\\\\\\\\", '\\"\\"x\\\\']) {
    const bytes = Buffer.from(`{"a":"${"x".repeat(400)}${tail}","model":"m"}`);
    const { start, end } = scan(bytes).find("model") ?? { start: 0, end: 0 };
    t.equal(bytes.toString("utf8", start, end), '"m"', tail);
    const whole = outcome(() => scan(bytes));
    for (let cut = 200; cut < bytes.length; cut++)
      t.strictSame(
        outcome(() => inPieces(bytes, [cut])),
        whole,
      );
  }
});

gathered(t, "random values: what stands at a member's span is that member", async (t) => {
  const random = dice(7);
  const space = (): string => " \n\t\r".slice(0, random(3));
  const string = (): string => JSON.stringify('aé😀"\\\n\u2028/'.repeat(random(30)).slice(random(5)).toWellFormed());
  const value = (depth: number): string => {
    const kind = random(depth > 3 ? 5 : 7);
    if (kind < 2) return string();
    if (kind < 5) return ["12345678901234567890", "-0", "1.0", "1e400", "true", "null", "false"][random(7)] as string;
    const items = Array.from(
      { length: random(4) },
      (_, i) => (kind === 5 ? "" : `"k${i}"${space()}:`) + space() + value(depth + 1),
    );
    return kind === 5 ? `[${space()}${items.join(",")}${space()}]` : `{${items.join(`${space()},`)}${space()}}`;
  };
  for (let round = 0; round < 300; round++) {
    const members = Array.from({ length: random(25) }, (_, i) => [`n${i}`, value(0)] as const);
    const text = `{${space()}${members.map(([name, json]) => `"${name}"${space()}:${space()}${json}${space()}`).join(",")}}`;
    const bytes = Buffer.from(text);
    const cuts = [random(bytes.length), random(bytes.length)].sort((a, b) => a - b);
    const found = inPieces(bytes, cuts);
    t.strictSame(
      found.members.map(({ name, start, end }) => [name, bytes.toString("utf8", start, end)]),
      members,
    );
  }
});

t.test("a top-level name that occurs twice is refused, also where an escape hides it", async (t) => {
  t.equal(fault('{"model":"a","model":"b"}'), "duplicate");
  t.equal(fault('{"model":"a","\\u006dodel":"b"}'), "duplicate");
  t.equal(fault('{"é":1,"\\u00e9":2}'), "duplicate");
  t.throws(() => read('{"model":"a","\\u006dodel":"b"}'), {
    message: 'The name "model" occurs twice at byte 13.',
    offset: 13,
  });
  t.equal(fault('{"a":{"b":1,"b":2}}'), undefined, "deeper names are left to the provider");
  const many = Array.from({ length: 40 }, (_, i) => `"n${i}":${i}`);
  t.equal(fault(`{${many},"n3":0}`), "duplicate");
  t.equal(read('{"a":1,"a":2}', { duplicates: "allow" }).find("a")?.start, 11, "where allowed, the last one counts");
});

t.test("half a surrogate pair is refused in a top-level name only", async (t) => {
  t.equal(fault('{"mo\\ud800del":1}'), "syntax");
  t.equal(read('{"mo\\ud800del":1}', { surrogates: "allow" }).members.length, 1, "unless it is allowed");
  t.equal(fault('{"a":"\\ud800"}'), undefined);
  t.equal(fault('{"a":{"\\ud800":1}}'), undefined);
});

t.test("names that look like parts of an object are names", async (t) => {
  const found = read('{"__proto__":{"model":"dear"},"constructor":1,"model":"cheap"}');
  t.strictSame(
    found.members.map((member) => member.name),
    ["__proto__", "constructor", "model"],
  );
  t.equal(read("{}").find("__proto__"), undefined);
});

t.test("what is nested too deep is refused before the rest is read", async (t) => {
  t.equal(fault("[".repeat(128) + "]".repeat(128)), undefined);
  t.equal(fault("[".repeat(129) + "]".repeat(129)), "depth");
  t.throws(() => new Scanner().push(Buffer.alloc(1_000_000, "[")), {
    message: "Nested deeper than 128 levels at byte 128.",
  });
  t.equal(fault("[[]]", { maxDepth: 1 }), "depth");
});

t.test("too many names at all levels together are refused", async (t) => {
  t.equal(fault('{"a":{"b":1},"c":[{"d":1}]}', { maxKeys: 4 }), undefined);
  t.equal(fault('{"a":{"b":1},"c":[{"d":1}]}', { maxKeys: 3 }), "keys");
  t.equal(fault(`{${Array.from({ length: 50_001 }, (_, i) => `"k${i}":0`)}}`), "keys");
});

t.test("an error reports the fault, its position, and what was expected", async (t) => {
  for (const [text, message] of [
    ["{'model':1}", 'Unexpected "\'" at byte 1; expected a name in double quotes or "}".'],
    ['{"a":1,}', 'Unexpected "}" at byte 7; expected a name in double quotes.'],
    ['{"a":NaN}', 'Unexpected "N" at byte 5; expected a value.'],
    ['{"a":-x}', 'Unexpected "x" at byte 6; expected a digit.'],
    ['{"a":"\n"}', "Unexpected byte 0x0a at byte 6; expected \\u000a for this control character."],
    ['{"a" 1}', 'Unexpected "1" at byte 5; expected a colon.'],
    ["{} {}", 'Unexpected "{" at byte 3; expected nothing more.'],
    ["\ufeff{}", "Unexpected byte 0xef (a byte order mark?) at byte 0; expected a value."],
    ['{"a":[1', "The text ends too early at byte 7; expected a comma or a closing bracket."],
    ["", "No value: the text ends at byte 0."],
  ] as const)
    t.throws(() => read(text), { message });
});

gathered(t, "keeps the bytes of the members it is asked for, cut anywhere", async (t) => {
  const bytes = Buffer.from('{"id":"x","usage":{"in":1,"out":[2]},"n":12,"big":"0123456789"}');
  for (let cut = 0; cut <= bytes.length; cut++) {
    const scanner = new Scanner({ capture: ["usage", "n", "big"], captureLimit: 17 });
    scanner.push(bytes.subarray(0, cut));
    scanner.push(bytes.subarray(cut));
    scanner.end();
    t.equal(scanner.captured("usage")?.toString(), undefined, "too long to store");
    t.equal(scanner.captured("n")?.toString(), "12");
    t.equal(scanner.captured("big")?.toString(), '"0123456789"');
    t.equal(scanner.captured("id"), undefined, "not requested");
  }
});

const suite = shared("vectors/json-test-suite/test_parsing");
const transforms = shared("vectors/json-test-suite/test_transform");

/** Texts that the grammar leaves open, and what the scanner makes of them. */
const OPEN: Record<string, unknown> = {
  "i_number_double_huge_neg_exp.json": "accepted",
  "i_number_huge_exp.json": "accepted",
  "i_number_neg_int_huge_exp.json": "accepted",
  "i_number_pos_double_huge_exp.json": "accepted",
  "i_number_real_neg_overflow.json": "accepted",
  "i_number_real_pos_overflow.json": "accepted",
  "i_number_real_underflow.json": "accepted",
  "i_number_too_big_neg_int.json": "accepted",
  "i_number_too_big_pos_int.json": "accepted",
  "i_number_very_big_negative_int.json": "accepted",
  "i_object_key_lone_2nd_surrogate.json": "syntax",
  "i_string_1st_surrogate_but_2nd_missing.json": "accepted",
  "i_string_1st_valid_surrogate_2nd_invalid.json": "accepted",
  "i_string_UTF-16LE_with_BOM.json": "utf8",
  "i_string_UTF-8_invalid_sequence.json": "utf8",
  "i_string_UTF8_surrogate_U+D800.json": "utf8",
  "i_string_incomplete_surrogate_and_escape_valid.json": "accepted",
  "i_string_incomplete_surrogate_pair.json": "accepted",
  "i_string_incomplete_surrogates_escape_valid.json": "accepted",
  "i_string_invalid_lonely_surrogate.json": "accepted",
  "i_string_invalid_surrogate.json": "accepted",
  "i_string_invalid_utf-8.json": "utf8",
  "i_string_inverted_surrogates_U+1D11E.json": "accepted",
  "i_string_iso_latin_1.json": "utf8",
  "i_string_lone_second_surrogate.json": "accepted",
  "i_string_lone_utf8_continuation_byte.json": "utf8",
  "i_string_not_in_unicode_range.json": "utf8",
  "i_string_overlong_sequence_2_bytes.json": "utf8",
  "i_string_overlong_sequence_6_bytes.json": "utf8",
  "i_string_overlong_sequence_6_bytes_null.json": "utf8",
  "i_string_truncated-utf-8.json": "utf8",
  "i_string_utf16BE_no_BOM.json": "utf8",
  "i_string_utf16LE_no_BOM.json": "utf8",
  "i_structure_500_nested_arrays.json": "depth",
  "i_structure_UTF-8_BOM_empty_object.json": "syntax",
};

gathered(
  t,
  "JSONTestSuite: accepts what must be accepted and refuses what must be refused",
  { skip: !suite && "absent" },
  async (t) => {
    const counts: Record<string, number> = {};
    for (const file of readdirSync(suite as string)) {
      const bytes = readFileSync(join(suite as string, file));
      // Some of the files that must be accepted repeat a top-level name, which only requests may not.
      const found = fault(bytes, { duplicates: "allow" });
      const kind = file[0] as string;
      if (kind === "y") t.equal(found, undefined, file);
      else if (kind === "n") t.ok(found, file);
      else t.equal(found ?? "accepted", OPEN[file], file);
      counts[kind] = (counts[kind] ?? 0) + 1;
      if (bytes.length < 300) t.ok(sameHoweverCut(bytes, { duplicates: "allow" }), `${file}, split`);
    }
    t.strictSame(counts, { y: 95, n: 188, i: 35 });
  },
);

t.test("JSONTestSuite: texts that parsers read differently", { skip: !transforms && "absent" }, async (t) => {
  const refused: Record<string, unknown> = {};
  const files = readdirSync(transforms as string);
  for (const file of files) {
    const found = fault(readFileSync(join(transforms as string, file)));
    if (found) refused[file] = found;
  }
  t.equal(files.length, 22);
  t.strictSame(refused, {
    "object_same_key_different_values.json": "duplicate",
    "object_same_key_same_value.json": "duplicate",
    "object_same_key_unclear_values.json": "duplicate",
    "string_1_invalid_codepoint.json": "utf8",
    "string_2_invalid_codepoints.json": "utf8",
    "string_3_invalid_codepoints.json": "utf8",
  });
});

const ambiguous = shared("vectors/own/json-ambiguity-vectors.json");

t.test("texts made to be ambiguous", { skip: !ambiguous && "absent" }, async (t) => {
  const vectors: { id: string; body: string }[] = JSON.parse(readFileSync(ambiguous as string, "utf8"));
  const built: Record<string, Buffer> = {
    utf16: Buffer.from('{"model":"m"}', "utf16le"),
    "bad-utf8": Buffer.from('{"model":"m\xff"}', "latin1"),
    overlong: Buffer.from('{"model":"\xc0\xae"}', "latin1"),
    "depth-200": Buffer.from(`{"messages":${"[".repeat(200)}${"]".repeat(200)}}`),
    "depth-1e6": Buffer.alloc(2_000_000, "["),
    "keys-1e5": Buffer.from(`{${Array.from({ length: 100_000 }, (_, i) => `"k${i}":0`)}}`),
  };
  const faults: Record<string, unknown> = {};
  for (const { id, body } of vectors) {
    if (/^(?:model|gzip|enc|ct|top)-/.test(id)) continue;
    const found = fault(built[id] ?? body);
    if (found) faults[id] = found;
  }
  t.strictSame(faults, {
    "dup-model": "duplicate",
    "dup-model-escaped": "duplicate",
    "dup-stream": "duplicate",
    bom: "syntax",
    utf16: "syntax",
    "bad-utf8": "utf8",
    overlong: "utf8",
    trailing: "syntax",
    "trailing-nul": "syntax",
    comment: "syntax",
    "single-quote": "syntax",
    nan: "syntax",
    empty: "empty",
    "depth-200": "depth",
    "depth-1e6": "depth",
    "keys-1e5": "keys",
  });
});

t.test("members at the top level and values in total may be limited, however the text is split", async (t) => {
  const text = `{"a":[1,[2,{"b":[]}],"3"],"c":{},"d":${"[".repeat(20)}${"]".repeat(20)}}`;
  // Containers and commas.
  const values = 1 + 4 + 3 + 1 + 1 + 20 + 1;
  const limited = (limits: { maxMembers?: number; maxValues?: number }, step: number): string => {
    const scanner = new Scanner(limits);
    try {
      for (let at = 0; at < text.length; at += step) scanner.push(Buffer.from(text.slice(at, at + step)));
      scanner.end();
      return "taken";
    } catch (error) {
      return error instanceof JsonError ? error.fault : String(error);
    }
  };
  for (const step of [1, 2, 3, 7, 20, 1000]) {
    t.equal(limited({ maxValues: values }, step), "taken");
    t.equal(limited({ maxValues: values - 1 }, step), "values");
    t.equal(limited({ maxMembers: 3 }, step), "taken");
    t.equal(limited({ maxMembers: 2 }, step), "keys");
  }
});

t.test("an endlessly long number is refused, wherever it is", async (t) => {
  for (const text of [`{"a":${"1".repeat(200_000)}}`, `{"a":[0.${"1".repeat(200_000)}]}`])
    t.equal(
      outcome(() => read(text)),
      "values",
    );
  t.equal(read(`{"a":${"1".repeat(60_000)}}`).find("a")?.kind, "number");
});

t.test("names as long as the longest accepted one are parsed in linear time, however alike they are", async (t) => {
  const text = (names: number) =>
    `{${Array.from({ length: names }, (_, i) => `"${`${i}`.padStart(MAX_NAME, "n")}":1`).join()}}`;
  const cost = (names: number) => {
    const json = text(names);
    const costs = [1, 2, 3].map(() => {
      const { user } = process.cpuUsage();
      JSON.parse(json);
      return process.cpuUsage().user - user;
    });
    return Math.min(...costs);
  };
  // Longer names take a second instead of ten milliseconds.
  t.ok(cost(2000) < 300_000);
});

t.test(
  "a name of more than 16,383 bytes is refused, however the text is split, and one of exactly that length passes",
  async (t) => {
    const name = (bytes: number) =>
      "\\u0061"
        .repeat(Math.ceil(bytes / 6))
        .slice(-bytes)
        .replace(/^[^\\]*/, (part) => "a".repeat(part.length));
    for (const around of ["{NAME:1}", '{"a":{"b":[{NAME:1}]}}']) {
      const text = (bytes: number) => Buffer.from(around.replace("NAME", () => `"${name(bytes)}"`));
      for (const size of [1000, 16_380, 65_536, 1 << 20]) {
        const read = (bytes: Buffer) => {
          const scanner = new Scanner();
          for (let at = 0; at < bytes.length; at += size) scanner.push(bytes.subarray(at, at + size));
          return scanner.end();
        };
        t.equal(read(text(16_383)).kind, "object");
        for (const bytes of [16_384, 65_537, 200_000])
          t.throws(() => read(text(bytes)), { fault: "name", message: /^A name of more than 16383 bytes at byte/ });
      }
    }
  },
);
