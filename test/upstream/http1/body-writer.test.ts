import type { Socket } from "node:net";
import { PassThrough, Readable } from "node:stream";
import t from "tap";
import { BodyWriter } from "../../../src/upstream/http1/body-writer.ts";
import { until } from "../../support/until.ts";

function uploading(body: Readable, length: number | undefined) {
  const socket = new PassThrough();
  const told: string[] = [];
  let written = "";
  socket.on("data", (bytes: Buffer) => {
    written += bytes.toString("latin1");
  });
  const upload = new BodyWriter(socket as unknown as Socket, "HEAD\r\n\r\n", body, length, {
    onBodySent: () => told.push("sent"),
    onBodyEnd: () => told.push("end"),
    onBodyError: ({ code }) => told.push(code),
  });
  return { upload, told, written: () => written };
}

t.test("a body of known length is written as it is, another in chunks; the head before them", async (t) => {
  for (const [length, text] of [
    [6, "HEAD\r\n\r\nonetwo"],
    [undefined, "HEAD\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"],
  ] as const) {
    const body = Readable.from([Buffer.from("one"), Buffer.from("two")], { objectMode: false });
    const { told, written } = uploading(body, length);
    await until(() => told.includes("end"));
    t.equal(written(), text);
  }
  const empty = uploading(Readable.from([]), undefined);
  await until(() => empty.written() === "HEAD\r\n\r\n0\r\n\r\n");
});

t.test("too long, too short or interrupted, it fails once and writes no byte too many", async (t) => {
  const long = uploading(Readable.from([Buffer.from("one"), Buffer.from("two")], { objectMode: false }), 4);
  await until(() => long.told.includes("BODY_LENGTH_WRONG"));
  t.equal(long.written(), "HEAD\r\n\r\none");
  const short = uploading(Readable.from([Buffer.from("one")], { objectMode: false }), 4);
  await until(() => short.told.includes("BODY_LENGTH_WRONG"));
  const broken = new Readable({ read() {} });
  const { told } = uploading(broken, undefined);
  broken.destroy();
  await until(() => told.length > 0);
  t.same(told, ["BODY_BROKEN_OFF"]);
  const gone = new Readable({ read() {} });
  gone.destroy();
  await until(() => gone.closed);
  t.same(uploading(gone, undefined).told, ["BODY_BROKEN_OFF"], "also where it was interrupted before");
});

t.test("a piece without bytes does not end a body of chunks", (t) => {
  const body = new Readable({ read() {} });
  const { written } = uploading(body, undefined);
  body.emit("data", Buffer.alloc(0));
  t.equal(written(), "");
  t.end();
});

t.test("stopped, it reads no more", async (t) => {
  const body = new Readable({ read() {} });
  const { upload, told } = uploading(body, undefined);
  upload.stop();
  body.push("x");
  body.push(null);
  await new Promise((resolve) => setImmediate(resolve));
  upload.onDrain();
  t.same(told, []);
});
