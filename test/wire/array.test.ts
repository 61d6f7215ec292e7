import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { ArraySplitter } from "../../src/wire/array.ts";
import type { Frame } from "../../src/wire/frame.ts";
import { cutAnywhere } from "../support/cut-anywhere.ts";
import { gathered } from "../support/gathered.ts";
import { shared } from "../support/shared.ts";

function split(chunks: readonly Buffer[]): { frames: Frame[]; rest: Buffer | undefined } {
  const splitter = new ArraySplitter();
  const frames = chunks.flatMap((chunk) => splitter.push(chunk));
  return { frames, rest: splitter.end() };
}

/** The frames' texts, the same however the stream is cut; no byte may be lost on any way. */
function elements(t: Tap, stream: string): (string | undefined)[][] {
  const bytes = Buffer.from(stream);
  const seen = new Set<string>();
  for (const chunks of cutAnywhere(bytes)) {
    const { frames, rest } = split(chunks);
    t.ok(Buffer.concat([...frames.map((frame) => frame.bytes), rest ?? Buffer.alloc(0)]).equals(bytes), stream);
    const told = frames.filter((frame) => frame.text !== undefined);
    seen.add(JSON.stringify([told.map((frame) => frame.text), rest === undefined ? [] : [rest.toString()]]));
  }
  return seen.size === 1 ? JSON.parse([...seen][0] as string) : [[...seen]];
}

type Tap = Pick<typeof t, "ok">;

t.test("an element is a frame, with the separator before it", async (t) => {
  const stream = '[{"a":1}\n,\r\n{"b":[2,{}]},{"c":"]}\\"{["}]\n';
  t.strictSame(
    split([Buffer.from(stream)]).frames.map((frame) => [frame.kind, frame.bytes.toString(), frame.text]),
    [
      ["element", '[{"a":1}', '{"a":1}'],
      ["element", '\n,\r\n{"b":[2,{}]}', '{"b":[2,{}]}'],
      ["element", ',{"c":"]}\\"{["}', '{"c":"]}\\"{["}'],
      ["element", "]", undefined],
      ["element", "\n", undefined],
    ],
  );
});

gathered(t, "elements are the same however the stream is cut", async (t) => {
  for (const [stream, texts, rest = []] of [
    ['[{"a":1}\n,\r\n{"b":[2,{}]}\n]\n', ['{"a":1}', '{"b":[2,{}]}']],
    ['[{"a":"\\\\"},{"b":"\\\\\\"]"}]', ['{"a":"\\\\"}', '{"b":"\\\\\\"]"}']],
    ['[{"a":"é😀"}]', ['{"a":"é😀"}']],
    ["[]", []],
    [" [ ] ", []],
    ['[1,"x",true,[2,3],null]', ["1", '"x"', "true", "[2,3]", "null"]],
    ["[[1],[2]]", ["[1]", "[2]"]],
    ['{"error":{"code":400}}', ['{"error":{"code":400}}']],
    ['[{"a":1},{"b"', ['{"a":1}'], [',{"b"']],
    ['[{"a":1}', ['{"a":1}']],
    ['[{"a":1},', ['{"a":1}'], [","]],
    ["", []],
    ["no json", ["no"], [" json"]],
  ] as [string, string[], string[]?][])
    t.strictSame(elements(t, stream), [texts, rest], stream);
});

t.test("an element is emitted as soon as its closing bracket has arrived", async (t) => {
  const splitter = new ArraySplitter();
  t.strictSame(splitter.push(Buffer.from('[{"a":')), []);
  t.equal(splitter.push(Buffer.from("1}"))[0]?.text, '{"a":1}');
  const chunk = Buffer.from(',{"b":2}');
  t.equal(splitter.push(chunk)[0]?.bytes, chunk, "a chunk that is one element is its frame");
  t.equal(splitter.push(Buffer.from("\n]")).length, 1, "so does the end");
  t.equal(splitter.end(), undefined);
});

gathered(t, "long strings with escapes anywhere are passed over right", async (t) => {
  for (const odd of ['\\"', "\\\\", '\\\\\\"', "]", "}", "\\u0022"])
    for (const at of [0, 126, 127, 128, 129, 4000, 4222, 4223, 4224, 4225, 8000]) {
      const element = `{"a":"${"x".repeat(at)}${odd}${"y".repeat(9000 - at)}"}`;
      const bytes = Buffer.from(`[${element},${element}]`);
      for (const cut of [at + 7, at + 8, at + 9, 5000]) {
        const { frames } = split([bytes.subarray(0, cut), bytes.subarray(cut)]);
        t.strictSame(
          frames.map((frame) => frame.text),
          [element, element, undefined],
        );
      }
    }
});

t.test("an element that is too large is refused", async (t) => {
  const splitter = new ArraySplitter(100);
  t.throws(() => splitter.push(Buffer.from(`[{"a":"${"x".repeat(100)}`)), {
    message: "An element of the stream is larger than 100 bytes.",
  });
});

const folder = shared("recordings/gemini");

t.test("recorded array streams yield their elements", { skip: !folder && "absent" }, async (t) => {
  let streams = 0;
  for (const file of readdirSync(folder as string)) {
    const bytes = arrayIn(JSON.parse(readFileSync(join(folder as string, file), "utf8")));
    if (!bytes) continue;
    streams++;
    const { frames, rest } = split([bytes.subarray(0, 700), bytes.subarray(700)]);
    const told = frames.filter((frame) => frame.text !== undefined).map((frame) => frame.json());
    t.strictSame(told, JSON.parse(bytes.toString()), file);
    t.equal(rest, undefined);
  }
  t.comment(`${streams} streams`);
});

/** The body of a recording that is one JSON array. */
function arrayIn(recording: unknown): Buffer | undefined {
  const found = JSON.stringify(recording).match(/"(\[\{(?:[^"\\]|\\.)*\]\s*(?:\\n)*)"/);
  if (!found) return undefined;
  try {
    const text: string = JSON.parse(found[0]);
    return Array.isArray(JSON.parse(text)) ? Buffer.from(text) : undefined;
  } catch {
    return undefined;
  }
}
