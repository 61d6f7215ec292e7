import t from "tap";
import { Frame, FrameBuffer } from "../../src/wire/frame.ts";

const event = (text: string, mark?: number): Frame => new Frame("event", Buffer.from(text), mark);
const element = (text: string): string | undefined => new Frame("element", Buffer.from(text)).text;

t.test("an event's name and data are read as in the standard", async (t) => {
  const read = (text: string) => [event(text).event, event(text).text];
  t.strictSame(read("event: ping\ndata: {}\n\n"), ["ping", "{}"]);
  t.strictSame(read("data: a\r\ndata:b\rdata\n\n"), [undefined, "a\nb\n"]);
  t.strictSame(read("data:  two spaces\n\n"), [undefined, " two spaces"]);
  t.strictSame(read("data:\n\n"), [undefined, ""]);
  t.strictSame(read("data: \n\n"), [undefined, ""]);
  t.strictSame(read("event: a\nevent: b\ndata: x\n\n"), ["b", "x"]);
  t.strictSame(read("event:\ndata: x\n\n"), [undefined, "x"], "an empty name is none");
  t.strictSame(read(": comment\nid: 7\nretry: 5\n\n"), [undefined, undefined]);
  t.strictSame(read("datax: a\nDATA: b\ndat\n\n"), [undefined, undefined]);
  t.strictSame(read("data"), [undefined, ""], "also without any line end");
  t.strictSame(read("\n"), [undefined, undefined]);
  t.equal(event("\ufeffdata: a\n\n").text, undefined, "a mark belongs to the name,");
  t.equal(event("\ufeffdata: a\n\n", 3).text, "a", "unless it is marked as one");
});

t.test("data is parsed once, on demand, and undefined when it is not JSON", async (t) => {
  const frame = event('data: {"a":[1]}\n\n');
  t.strictSame(frame.json(), { a: [1] });
  t.equal(frame.json(), frame.json(), "the same object");
  t.equal(event("data: [DONE]\n\n").json(), undefined);
  t.equal(event(": nothing\n\n").json(), undefined);
  t.equal(event("data: null\n\n").json(), null);
  t.strictSame(event('data: {"a":\ndata: 1}\n\n').json(), { a: 1 });
});

t.test("an event is searched once for each line end, whichever its lines have", async (t) => {
  for (const lineEnd of ["\n", "\r", "\r\n"]) {
    const bytes = Buffer.from(`data: 1${lineEnd}`.repeat(500) + lineEnd);
    let searched = 0;
    bytes.indexOf = (byte: unknown, from: unknown) => {
      const found = Buffer.from(bytes).indexOf(byte as number, from as number);
      searched += (found < 0 ? bytes.length : found) - (from as number);
      return found;
    };
    t.equal(new Frame("event", bytes).text, Array(500).fill("1").join("\n"));
    t.ok(searched <= 2 * bytes.length, `${JSON.stringify(lineEnd)}: ${searched} of ${bytes.length} bytes`);
  }
});

t.test("an element is read without what is around it", async (t) => {
  t.equal(element('[{"a":1}'), '{"a":1}');
  t.equal(element('\n,\r\n{"a":[1]}\n'), '{"a":[1]}');
  t.equal(element('[{"a":1}]'), '{"a":1}', "also of an array that arrived at once");
  t.equal(element('{"a":1},'), '{"a":1}');
  t.equal(element(",[1,[2]]"), "[1,[2]]", "an array keeps its own brackets");
  for (const nothing of ["", "]", "\n]\n", "[]", " , ", "\r\n"])
    t.equal(element(nothing), undefined, JSON.stringify(nothing));
  t.strictSame(new Frame("element", Buffer.from(',{"a":1}')).json(), { a: 1 });
  t.equal(new Frame("element", Buffer.from(`[${" ".repeat(100_000)}x`)).text, "x");
});

t.test("buffered data is joined, and the chunk's own bytes are returned when nothing is buffered", async (t) => {
  const rest = new FrameBuffer(100, "A thing");
  const chunk = Buffer.from("0123456789");
  t.equal(rest.take(), undefined);
  t.equal(rest.complete(chunk, 0, 10), chunk);
  t.equal(rest.complete(chunk, 2, 5).buffer, chunk.buffer);
  for (const byte of chunk) rest.add(Buffer.from([byte]));
  const first = rest.complete(chunk, 0, 3);
  rest.add(Buffer.from("xyz"));
  t.equal(first.toString(), "0123456789012", "a returned buffer is not overwritten");
  chunk.fill(0);
  t.equal(first.toString(), "0123456789012", "and does not hang on the chunk");
  t.equal(rest.take()?.toString(), "xyz");
  t.equal(rest.take(), undefined);
});

t.test("more than the buffer limit is refused", async (t) => {
  const rest = new FrameBuffer(5, "A thing");
  rest.add(Buffer.from("12345"));
  t.throws(() => rest.add(Buffer.from("6")), { message: "A thing of the stream is larger than 5 bytes." });
});

/** The frame with another value put where the first `1` of its data stands. */
function ones(kind: "event" | "element", text: string): string {
  const frame = new Frame(kind, Buffer.from(text));
  const at = frame.data.indexOf("1");
  return frame.edited([{ start: at, end: at + 1, bytes: Buffer.from("22") }]).bytes.toString();
}

t.test("edits of the data leave all other bytes as they are", async (t) => {
  for (const [kind, before, after] of [
    ["event", 'event: e\ndata: {"ä":1}\nid: 7\n\n', 'event: e\ndata: {"ä":22}\nid: 7\n\n'],
    ["event", 'data:{"a":1}\r\n\r\n', 'data:{"a":22}\r\n\r\n'],
    ["event", ': note\ndata: {"a":\nid: 7\ndata: 1}\nretry: 1\n\n', ': note\ndata: {"a": 22}\nid: 7\nretry: 1\n\n'],
    ["element", '[ {"a":1}', '[ {"a":22}'],
    ["element", ',\n{"a":1} ]', ',\n{"a":22} ]'],
  ] as const)
    t.equal(ones(kind, before), after);
});

t.test("a frame without edits, or without data, is itself", async (t) => {
  const frame = new Frame("event", Buffer.from("data: 1\n\n"));
  t.equal(frame.edited([]), frame);
  const ping = new Frame("event", Buffer.from(": ping\n\n"));
  t.equal(ping.data.length, 0);
  t.equal(ping.edited([{ start: 0, end: 0, bytes: Buffer.from("x") }]), ping);
});

t.test("an edited frame returns its new content", async (t) => {
  const frame = new Frame("event", Buffer.from('\ufeffevent: e\ndata: {"a":1}\n\n'), 3);
  const { start, end } = { start: 5, end: 6 };
  const edited = frame.edited([{ start, end, bytes: Buffer.from("[2]") }]);
  t.same([edited.event, edited.json()], ["e", { a: [2] }]);
});

t.test("a frame that is detached reads as before, and keeps only its own bytes", async (t) => {
  const chunk = Buffer.concat([Buffer.from('event: a\ndata: {"b":1}\n\n'), Buffer.alloc(1000, "x")]);
  const frame = new Frame("event", chunk.subarray(0, 27));
  const before = Buffer.from(frame.bytes);
  frame.detach();
  t.same(frame.bytes, before);
  t.equal(frame.bytes.buffer.byteLength, before.length);
  t.equal(frame.event, "a");
  t.same(frame.json(), { b: 1 });
});
