import { readFileSync } from "node:fs";
import t from "tap";
import type { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { cutAnywhere } from "../support/cut-anywhere.ts";
import { gathered } from "../support/gathered.ts";
import { shared } from "../support/shared.ts";

interface Split {
  frames: Frame[];
  rest: Buffer | undefined;
}

function split(chunks: readonly Buffer[]): Split {
  const splitter = new SseSplitter();
  const frames = chunks.flatMap((chunk) => splitter.push(chunk));
  return { frames, rest: splitter.end() };
}

const texts = ({ frames, rest }: Split): (string | undefined)[] => [
  ...frames.map((frame) => frame.bytes.toString()),
  rest?.toString(),
];
const events = ({ frames }: Split) =>
  frames
    .filter((frame) => frame.text !== undefined)
    .map((frame) => ({ event: frame.event ?? "message", data: frame.text }));

const vectors = shared("vectors/own/sse-vectors.json");

gathered(
  t,
  "reads what the standard says, however it is cut, and loses no byte",
  { skip: !vectors && "absent" },
  async (t) => {
    const all: { name: string; stream: string; events: { event: string; data: string }[] }[] = JSON.parse(
      readFileSync(vectors as string, "utf8"),
    );
    t.equal(all.length, 31);
    for (const vector of all) {
      const bytes = Buffer.from(vector.stream);
      const expected = vector.events.map(({ event, data }) => ({ event, data }));
      for (const chunks of cutAnywhere(bytes)) {
        const result = split(chunks);
        t.strictSame(events(result), expected, vector.name);
        t.ok(
          Buffer.concat([...result.frames.map((frame) => frame.bytes), result.rest ?? Buffer.alloc(0)]).equals(bytes),
        );
      }
    }
  },
);

gathered(t, "an event ends with its blank line, whatever the line ends are", async (t) => {
  const one = (stream: string, ...expected: (string | undefined)[]) => {
    for (const chunks of cutAnywhere(Buffer.from(stream)))
      t.strictSame(texts(split(chunks)), expected, JSON.stringify(stream));
  };
  one("data: a\n\ndata: b\n\n", "data: a\n\n", "data: b\n\n", undefined);
  one("data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\n\r\n", "data: b\r\n\r\n", undefined);
  one("data: a\r\rdata: b\r\r", "data: a\r\r", "data: b\r\r", undefined);
  one("data: a\n\r\ndata: b\r\n\n", "data: a\n\r\n", "data: b\r\n\n", undefined);
  one("data: a\n\n\ndata: b\n\n", "data: a\n\n", "\n", "data: b\n\n", undefined);
  one(": comment\n\n", ": comment\n\n", undefined);
  one("data: a\n\ndata: b\n", "data: a\n\n", "data: b\n");
  one("\ufeffdata: a\n\n", "\ufeffdata: a\n\n", undefined);
});

gathered(t, "blank lines that follow each other are one frame, whatever their ends are", async (t) => {
  for (const blank of ["\n\n\n\n", "\r\n\r\n\r\n", "\r\r\r", "\n\r\n\r\r\n"]) {
    const stream = `data: a\n\n${blank}data: b\n\n`;
    const whole = split([Buffer.from(stream)]);
    t.strictSame(texts(whole), ["data: a\n\n", blank, "data: b\n\n", undefined], JSON.stringify(blank));
    for (const chunks of cutAnywhere(Buffer.from(stream))) {
      const result = split(chunks);
      t.equal(texts(result).join(""), stream);
      t.strictSame(events(result), events(whole));
    }
  }
  const splitter = new SseSplitter();
  t.equal(splitter.push(Buffer.alloc(65_536, "\n")).length, 1);
  t.equal(splitter.push(Buffer.alloc(65_536, "\r")).length, 2, "a LF may follow the last one");
});

t.test("a two-byte line end is never split between events", async (t) => {
  const splitter = new SseSplitter();
  t.strictSame(splitter.push(Buffer.from("data: a\r\n\r")), [], "the LF may still arrive");
  t.strictSame(splitter.push(Buffer.alloc(0)), []);
  const frames = splitter.push(Buffer.from("\ndata: b\r\n\r\n"));
  t.strictSame(
    frames.map((frame) => frame.bytes.toString()),
    ["data: a\r\n\r\n", "data: b\r\n\r\n"],
  );
});

t.test("a stream whose lines end in CR alone does not wait, and a late LF creates no event", async (t) => {
  const splitter = new SseSplitter();
  t.equal(splitter.push(Buffer.from("data: a\r\r")).length, 1);
  t.equal(splitter.push(Buffer.from("data: b\r\r")).length, 1);
  const frames = splitter.push(Buffer.from("\ndata: c\r\r"));
  t.strictSame(
    frames.map((frame) => [frame.bytes.toString(), frame.text]),
    [["\ndata: c\r\r", "c"]],
  );
});

t.test("frames are parts of the chunk they arrived in; a chunk that is one event is its frame", async (t) => {
  const splitter = new SseSplitter();
  const one = Buffer.from("data: 1\n\n");
  t.equal(splitter.push(one)[0]?.bytes, one);
  const two = Buffer.from("data: 1\n\ndata: 2\n\n");
  const frames = splitter.push(two);
  t.strictSame(
    frames.map((frame) => frame.bytes.byteOffset - two.byteOffset),
    [0, 9],
  );
  t.ok(frames.every((frame) => frame.bytes.buffer === two.buffer));
});

t.test("only a byte order mark at the very start of the stream is ignored", async (t) => {
  const { frames } = split([Buffer.from("\ufeffevent: x\ndata: a\n\n\ufeffdata: b\n\n")]);
  t.strictSame(
    frames.map((frame) => [frame.event, frame.text]),
    [
      ["x", "a"],
      [undefined, undefined],
    ],
  );
});

gathered(t, "long lines and lines of any length around the search are cut right", async (t) => {
  for (let length = 0; length < 200; length += 3)
    for (const end of ["\n\n", "\r\n\r\n", "\r\r"]) {
      const stream = `data: ${"x".repeat(length)}${end}`;
      const bytes = Buffer.from(stream + stream);
      for (const cut of [1, length, length + 6, length + 7, length + 8, length + 9, bytes.length])
        t.strictSame(texts(split([bytes.subarray(0, cut), bytes.subarray(cut)])), [stream, stream, undefined]);
    }
});

t.test("a large event in single bytes is read completely", async (t) => {
  const bytes = Buffer.from(`data: ${"0123456789".repeat(30_000)}\n\n`);
  const splitter = new SseSplitter();
  const frames: Frame[] = [];
  for (let i = 0; i < bytes.length; i++) frames.push(...splitter.push(bytes.subarray(i, i + 1)));
  t.equal(frames.length, 1);
  t.ok(frames[0]?.bytes.equals(bytes));
});

t.test("an event that is too large is refused, whole or in parts", async (t) => {
  const message = "An event of the stream is larger than 100 bytes.";
  t.throws(() => new SseSplitter(100).push(Buffer.from(`data: ${"x".repeat(100)}\n\n`)), { message });
  const splitter = new SseSplitter(100);
  const push = () => {
    for (let i = 0; i < 20; i++) splitter.push(Buffer.from("x".repeat(10)));
  };
  t.throws(push, { message });
});

t.test("an event of too many lines is refused, whatever they are", async (t) => {
  const message = "An event of the stream has more than 65536 lines.";
  for (const line of [":\n", "data:\n", "x\r\n", "data: 1\r"]) {
    const splitter = new SseSplitter();
    t.equal(splitter.push(Buffer.from(`${line.repeat(65_536)}${line.slice(line.search(/[\r\n]/))}`)).length, 1);
    t.strictSame(splitter.push(Buffer.from(line.repeat(40_000))), []);
    t.throws(() => splitter.push(Buffer.from(line.repeat(40_000))), { message }, JSON.stringify(line));
  }
});

t.test("a frame tells whether one of its lines is a comment, however the stream is cut", async (t) => {
  const stream = "\ufeff: a\n\ndata: :\n\ndata: b\r\n:\r\n\r\nid: c\n\n";
  for (let size = 1; size <= stream.length; size++) {
    const bytes = Buffer.from(stream);
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    );
    const told = split(chunks).frames.map((frame) => frame.hasComment);
    t.strictSame(told, [true, false, true, false], `${size} bytes each`);
  }
});

t.test("a comment is a frame without content", async (t) => {
  const { frames, rest } = split([Buffer.from(": two\n: lines\n: data: x\n\n")]);
  t.strictSame(
    frames.map((frame) => frame.text),
    [undefined],
  );
  t.equal(rest, undefined);
});
