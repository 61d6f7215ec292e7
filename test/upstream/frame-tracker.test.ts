import t from "tap";
import { Redactor } from "../../src/core/redactor.ts";
import { closeFrame, FrameTracker, redactCloseFrame, textFrame } from "../../src/upstream/frame-tracker.ts";

const MASK = Buffer.from([0x12, 0x34, 0x56, 0x78]);

/** A frame with a payload of zeros, or the given one. */
function frame(opcode: number, payload: Buffer | number, { masked = false, fin = true } = {}): Buffer {
  const bytes = typeof payload === "number" ? Buffer.alloc(payload) : Buffer.from(payload);
  const head = [opcode | (fin ? 128 : 0)];
  const mask = masked ? 128 : 0;
  if (bytes.length < 126) head.push(bytes.length | mask);
  else if (bytes.length < 65_536) head.push(126 | mask, bytes.length >> 8, bytes.length & 255);
  else head.push(127 | mask, 0, 0, 0, 0, ...[24, 16, 8, 0].map((bits) => (bytes.length >> bits) & 255));
  if (masked) for (const [i, byte] of bytes.entries()) bytes[i] = byte ^ (MASK[i % 4] as number);
  return Buffer.concat([Buffer.from(head), masked ? MASK : Buffer.alloc(0), bytes]);
}

t.test("the ends of frames are found, however the bytes are split", async (t) => {
  const frames = [0, 1, 125, 126, 300, 65_535, 65_536, 70_000].flatMap((size) => [
    frame(2, size),
    frame(1, size, { masked: true }),
  ]);
  const all = Buffer.concat(frames);
  const ends = new Set<number>();
  let end = 0;
  for (const { length } of frames) {
    end += length;
    ends.add(end);
  }
  for (const step of [1, 2, 3, 7, 1000, 66_000]) {
    const heads = new FrameTracker();
    const wrong: number[] = [];
    for (let at = 0; at < all.length; at += step) {
      heads.push(all.subarray(at, at + step));
      const here = Math.min(at + step, all.length);
      if (heads.atFrameBoundary !== ends.has(here)) wrong.push(here);
    }
    t.same(wrong, [], `split into chunks of ${step}`);
  }
});

t.test("reading can stop after the first end of a frame", async (t) => {
  const [one, two] = [frame(1, 10), frame(1, 200)];
  const heads = new FrameTracker();
  t.equal(heads.push(Buffer.concat([one, two]), true), one.length);
  t.ok(heads.atFrameBoundary);
  t.equal(heads.push(two.subarray(0, 50), true), 50);
  t.notOk(heads.atFrameBoundary);
  t.equal(heads.push(Buffer.concat([two.subarray(50), one]), true), two.length - 50);
});

t.test("nothing is read after the end of a close frame", async (t) => {
  const close = frame(8, Buffer.from([3, 232]));
  const heads = new FrameTracker();
  t.equal(heads.push(Buffer.concat([frame(1, 10), close, frame(1, 5)])), 12 + close.length);
  t.equal(heads.closeCode, 1000);
  t.equal(heads.push(frame(1, 5)), 0);
});

t.test("a message is as large as all of its frames, whatever control frames come between", async (t) => {
  const heads = new FrameTracker();
  heads.push(frame(1, 100, { fin: false }));
  heads.push(frame(9, 50));
  heads.push(frame(0, 100, { fin: false }));
  heads.push(frame(0, 100));
  t.equal(heads.largestMessage, 300);
  heads.push(frame(2, 250));
  t.equal(heads.largestMessage, 300);
  heads.push(frame(2, 70_000).subarray(0, 10));
  t.equal(heads.largestMessage, 70_000, "as soon as its head is read");
});

t.test(
  "an incomplete message costs all bytes since its beginning and each piece; a complete one nothing",
  async (t) => {
    const heads = new FrameTracker();
    heads.push(frame(9, 50));
    heads.push(frame(1, 100));
    t.same([heads.unfinishedBytes, heads.messages], [0, 1]);
    const begun = Buffer.concat([frame(1, 10_000, { fin: false }), frame(9, 125)]);
    for (const step of [7, 1000, 20_000]) {
      const cut = new FrameTracker();
      for (let at = 0; at < begun.length; at += step) cut.push(begun.subarray(at, at + step));
      // The head of its first frame is not counted.
      t.ok(cut.unfinishedBytes >= begun.length - 14, `cut into pieces of ${step}`);
      cut.push(frame(9, 0));
      cut.push(frame(0, 1000).subarray(0, 500));
      t.ok(cut.unfinishedBytes > begun.length);
      cut.push(frame(0, 1000).subarray(500));
      t.same([cut.unfinishedBytes, cut.messages], [0, 1]);
    }
    const crumbs = new FrameTracker();
    crumbs.push(frame(1, 1, { fin: false }));
    for (let i = 0; i < 1000; i++) crumbs.push(frame(0, 1, { fin: false }));
    t.ok(crumbs.unfinishedBytes > 100_000, "the smaller the pieces, the more");
    crumbs.push(frame(0, 0));
    t.same([crumbs.unfinishedBytes, crumbs.messages], [0, 1]);
  },
);

t.test("a close frame's code is read, masked or not, in one piece or in many", async (t) => {
  const code = Buffer.from([4001 >> 8, 4001 & 255, 120]);
  for (const masked of [false, true]) {
    const bytes = Buffer.concat([frame(1, 5, { masked }), frame(8, code, { masked })]);
    for (const step of [1, 100]) {
      const heads = new FrameTracker();
      for (let at = 0; at < bytes.length; at += step) heads.push(bytes.subarray(at, at + step));
      t.same([heads.closeCode, heads.atFrameBoundary], [4001, true]);
    }
  }
  const none = new FrameTracker();
  none.push(frame(8, 0));
  t.same([none.closeCode, none.atFrameBoundary], [1005, true]);
  const ours = new FrameTracker();
  ours.push(closeFrame(1012, true));
  t.equal(ours.closeCode, 1012);
  t.same(closeFrame(1001, false), Buffer.from([0x88, 2, 3, 233]));
  t.same(closeFrame(1008, false, "why"), Buffer.from([0x88, 5, 3, 240, 0x77, 0x68, 0x79]));
});

t.test("a text message of any length below 64 KiB is one frame", async (t) => {
  for (const length of [0, 1, 125, 126, 127, 65_535]) {
    const heads = new FrameTracker();
    const bytes = textFrame("x".repeat(length));
    t.equal(heads.push(bytes), bytes.length);
    t.same([heads.atFrameBoundary, heads.largestMessage], [true, length], `${length}`);
  }
});

t.test("reading can stop before a close frame, wherever the bytes are split", async (t) => {
  const text = Buffer.from([0x81, 2, 0x61, 0x88]);
  const all = Buffer.concat([text, Buffer.from([0x89, 0]), closeFrame(4001, false)]);
  const before = text.length + 2;
  for (let cut = 0; cut <= before; cut++) {
    const heads = new FrameTracker();
    t.equal(heads.push(all.subarray(0, cut), false, false), cut);
    t.equal(heads.push(all.subarray(cut), false, false), before - cut);
    t.equal(heads.closeCode, undefined);
    heads.push(all.subarray(before));
    t.equal(heads.closeCode, 4001);
  }
});

t.test("secrets are removed from a close frame's reason, and nothing else", async (t) => {
  const redactor = new Redactor(["a-credential-0123456789"]);
  const frame = (reason: string) => {
    const payload = Buffer.concat([Buffer.from([0x0f, 0xa1]), Buffer.from(reason)]);
    return Buffer.concat([Buffer.from([0x88, payload.length]), payload]);
  };
  t.same(redactCloseFrame(frame("no: a-credential-0123456789!"), redactor), frame("no: ***!"));
  for (const reason of ["", "fare well, ü", "x".repeat(123)])
    t.same(redactCloseFrame(frame(reason), redactor), frame(reason));
  for (const half of [
    [0x88, 0],
    [0x88, 1, 3],
  ])
    t.same(redactCloseFrame(Buffer.from(half), redactor), Buffer.from([0x88, 0]), "whole, though it has no code");
  const masked = Buffer.concat([Buffer.from([0x88, 0x84, 0x0f, 0xa1, 0, 0]), Buffer.alloc(4)]);
  t.same(redactCloseFrame(masked, redactor), closeFrame(0x0fa1, false), "servers do not mask");
});
