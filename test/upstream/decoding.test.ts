import { brotliCompressSync, constants, createGzip, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import t, { type Test } from "tap";
import { codingOf } from "../../src/upstream/decoding.ts";
import { proxied } from "../support/proxied.ts";
import { until } from "../support/until.ts";
import { client, outgoing, type Script, whole } from "../support/upstream.ts";

const PLAIN = Buffer.from(Array.from({ length: 20_000 }, (_, i) => `data: ${i}\n\n`).join(""));
const PACKED: Record<string, Buffer> = {
  gzip: gzipSync(PLAIN),
  "x-gzip": gzipSync(PLAIN),
  deflate: deflateSync(PLAIN),
  br: brotliCompressSync(PLAIN),
  zstd: zstdCompressSync(PLAIN),
};

async function setUp(t: Test, script: Script) {
  const { upstream, proxy } = await proxied(t, script);
  return { upstream, send: () => proxy.send(outgoing(upstream.origin), client()) };
}

const head = (coding: string, length: number) =>
  `HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: ${coding}\r\ncontent-length: ${length}\r\n\r\n`;

t.test("a response that came compressed unasked is decompressed, and its header removed", async (t) => {
  for (const [coding, packed] of Object.entries(PACKED)) {
    const { send } = await setUp(t, (socket) => {
      socket.write(head(coding.toUpperCase(), packed.length));
      for (let at = 0; at < packed.length; at += 1000) socket.write(packed.subarray(at, at + 1000));
    });
    const answer = await send();
    t.same(answer.headers.lines, ["content-type", "text/plain"]);
    const { body, error, calls } = await whole(answer);
    t.ok(body.equals(PLAIN), coding);
    t.equal(error, undefined);
    t.equal(calls, 1);
  }
});

t.test("identity is no coding", async (t) => {
  const { send } = await setUp(t, (socket) => socket.write(`${head("identity", 2)}ok`));
  const answer = await send();
  t.same(answer.headers.lines, ["content-type", "text/plain", "content-encoding", "identity", "content-length", "2"]);
  t.equal((await whole(answer)).body.toString(), "ok");
});

t.test("a response without a body has nothing to decompress", async (t) => {
  const { send } = await setUp(t, (socket) => socket.write(head("gzip", 0)));
  t.same(await whole(await send()), { body: Buffer.alloc(0), calls: 1 });
});

t.test("a chunk is passed on before the next one arrives", async (t) => {
  const packer = createGzip({ flush: constants.Z_SYNC_FLUSH });
  const { send } = await setUp(t, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n");
    packer.on("data", (bytes) => socket.write(bytes)).on("end", () => socket.end());
  });
  const answer = await send();
  let got = "";
  let ended = false;
  answer.read({
    chunk: (bytes) => {
      got += bytes;
      return true;
    },
    end: () => {
      ended = true;
    },
    fail: (error) => t.fail(error.message),
  });
  for (const piece of ["one ", "two ", "three"]) {
    packer.write(piece);
    await until(() => got.endsWith(piece), piece);
  }
  packer.end();
  await until(() => ended);
  t.equal(got, "one two three");
});

t.test("a compressed response that is interrupted is passed on so far, then fails", async (t) => {
  for (const [coding, packed] of Object.entries(PACKED)) {
    const short = await setUp(t, (socket) => {
      socket.end(head(coding, packed.length) + packed.toString("latin1", 0, packed.length - 20), "latin1");
    });
    const cut = await whole(await short.send());
    t.match(cut.error, { code: "upstream_truncated" }, `${coding}: the connection broke`);
    t.ok(cut.body.length > 0 && PLAIN.subarray(0, cut.body.length).equals(cut.body));
    t.equal(cut.calls, 1);

    const ended = await setUp(t, (socket) => {
      socket.write(head(coding, packed.length - 20) + packed.toString("latin1", 0, packed.length - 20), "latin1");
    });
    t.match((await whole(await ended.send())).error, { code: "upstream_truncated" }, `${coding}: the data broke off`);
  }
});

t.test("a response that does not match its coding is upstream_invalid", async (t) => {
  for (const coding of Object.keys(PACKED)) {
    const { send } = await setUp(t, (socket) =>
      socket.write(`${head(coding, 40)}${"not packed at all ".repeat(3).slice(0, 40)}`),
    );
    const { error, calls } = await whole(await send());
    t.match(error, { code: "upstream_invalid" }, coding);
    t.equal(calls, 1);
  }
});

t.test("a slow reader pauses the decompression of a bomb", async (t) => {
  const bomb = gzipSync(Buffer.alloc(256 << 20), { level: 1 });
  const { send } = await setUp(t, (socket) => {
    socket.write(head("gzip", bomb.length));
    socket.write(bomb);
  });
  const answer = await send();
  let read = 0;
  const before = process.memoryUsage().external;
  answer.read({
    chunk: (bytes) => {
      read += bytes.length;
      return false;
    },
    end: () => t.fail("it ended"),
    fail: (error) => t.fail(error.message),
  });
  await until(() => read > 0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.ok(read < 1 << 20, "one piece only");
  t.ok(process.memoryUsage().external - before < 32 << 20);
  const first = read;
  answer.resume();
  await until(() => read > first);
  answer.destroy();
  answer.destroy();
});

t.test("a response that grows to more than a hundred times its size, beyond 1 MiB, is upstream_invalid", async (t) => {
  for (const [size, code] of [
    [1 << 20, undefined],
    [2 << 20, "upstream_invalid"],
  ] as const) {
    const bomb = gzipSync(Buffer.alloc(size));
    const { send } = await setUp(t, (socket) => {
      socket.write(head("gzip", bomb.length));
      socket.write(bomb);
    });
    const { body, error, calls } = await whole(await send());
    t.equal(error?.code, code);
    t.ok(body.length <= 1 << 20);
    t.equal(calls, 1);
  }
});

t.test("codings are recognised in any case and among identities; others are refused", (t) => {
  t.equal(codingOf("GZIP"), "gzip");
  t.equal(codingOf(" identity , br"), "br");
  t.equal(codingOf(""), undefined);
  t.equal(codingOf("identity"), undefined);
  for (const bad of ["compress", "gzip, gzip", "toString", "__proto__"]) {
    t.throws(() => codingOf(bad), { code: "upstream_invalid" });
  }
  t.end();
});
