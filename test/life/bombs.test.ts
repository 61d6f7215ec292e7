import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import t, { type Test } from "tap";
import { KEY } from "../support/key.ts";
import { ownGateway } from "../support/processes.ts";
import { until } from "../support/until.ts";

/** How large they are; 1 is ten gigabytes of what is compressed, thirty megabytes of JSON. */
const SIZE = Number(process.env["GATEWAY_TEST_BOMBS"] ?? 0.05);
const MIB = 2 ** 20;
const LINUX = process.platform === "linux";
/** MiB of a body: what is refused for its size alone costs as much as that is. */
const LIMIT = SIZE < 1 ? 4 : 32;
/** These machines may be busy with others, and one key has all forms that wait. */
const BUSY = `overload: { delay: off }\nbody: { limit: ${LIMIT}MiB, spool: 2GiB, spool_per_key: 2GiB }\n`;
/** MiB by which memory may grow; what is measured on a quiet machine stands in docs/reliability.md. */
const MORE = 150;
/** Milliseconds of CPU until a bomb of full size is refused: twice the goal, for what a busy machine adds. Forms cost more. */
const MAX_CPU = 100;

interface Bomb {
  status: number;
  body: Buffer | string;
  headers?: string;
  path?: string;
}

const many = (what: Buffer | string, times: number): Buffer =>
  Buffer.alloc(what.length * Math.ceil(times * SIZE), what);
const wrapped = (value: Buffer): Buffer => Buffer.concat([Buffer.from('{"model":"m","x":'), value]);
const layered = (layers: number): string => `Content-Encoding: ${Array(layers).fill("gzip").join(", ")}\r\n`;
const blank = Buffer.alloc(MIB, " ");
const form = (bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from('--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'), bytes]);
const FORM = "Content-Type: multipart/form-data; boundary=b\r\n";

const BOMBS: Record<string, () => Bomb> = {
  gzip: () => ({ status: 413, body: many(gzipSync(blank), 10_000), headers: layered(1) }),
  zstd: () => ({ status: 413, body: many(zstdCompressSync(blank), 10_000), headers: "Content-Encoding: zstd\r\n" }),
  brotli: () => ({
    status: 413,
    body: brotliCompressSync(Buffer.alloc(1000 * MIB * SIZE, " ")),
    headers: "Content-Encoding: br\r\n",
  }),
  "two layers": () => ({ status: 415, body: gzipSync(gzipSync("{}")), headers: layered(2) }),
  "fifty layers": () => ({ status: 415, body: gzipSync("{}"), headers: layered(50) }),
  depth: () => ({ status: 400, body: wrapped(many("[", 5_000_000)) }),
  names: () => ({ status: 400, body: wrapped(many('{"n":0,', 500_000)) }),
  "members of the whole": () => ({
    status: 400,
    body: `{"model":"m",${Array.from({ length: 1e5 }, (_, i) => `"k${i}":0`)}}`,
  }),
  containers: () => ({ status: 400, body: wrapped(Buffer.concat([Buffer.from("["), many("[],", 10_000_000)])) }),
  numbers: () => ({ status: 400, body: wrapped(Buffer.concat([Buffer.from("["), many("0,", 15_000_000)])) }),
  digits: () => ({ status: 400, body: wrapped(many("1", 30_000_000)) }),
  "a head of 17 KB": () => ({ status: 431, body: "{}", headers: `X-Long: ${"x".repeat(17_000)}\r\n` }),
  "a form that never names its model": () => ({
    status: 413,
    body: form(many("\r\n--", (LIMIT * MIB) / 3 / SIZE)),
    headers: FORM,
    path: "/v1/images/edits",
  }),
  "a form of heads": () => ({
    status: 400,
    body: form(many('\r\n--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n', 500_000)),
    headers: FORM,
    path: "/v1/images/edits",
  }),
};

/** The status that a request gets, read while it is still being written. */
function status(port: number, { body, headers = "", path = "/v1/chat/completions" }: Bomb): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    let text = "";
    socket.on("data", (bytes: Buffer) => {
      text += bytes.toString("latin1");
      const found = /^HTTP\/1\.1 (\d+) .*\r\n\r\n./s.exec(text);
      if (found) socket.destroy();
    });
    socket.on("close", () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])));
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${KEY}\r\n${headers}Content-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body);
  });
}

t.test("decompression bombs are refused, and take next to no resources", { skip: !LINUX }, async (t) => {
  const gateway = await ownGateway(t, "http://127.0.0.1:1/v1", BUSY);
  for (let times = 0; times < 20; times++) await status(gateway.port, { status: 502, body: '{"model":"m"}' });
  for (const [name, make] of Object.entries(BOMBS)) {
    const bomb = make();
    gateway.forget();
    const [cpu, before] = [gateway.cpu(), gateway.memory().now];
    t.equal(await status(gateway.port, bomb), bomb.status, name);
    const grown = gateway.memory().peak - before;
    t.ok(grown < MORE, `${name}: memory grew by ${grown.toFixed(0)} MiB`);
    const used = gateway.cpu() - cpu;
    if (SIZE >= 1 && !name.includes("form")) t.ok(used <= MAX_CPU, `${name}: ${used} ms of CPU`);
    t.comment(`${name}: ${bomb.body.length} bytes, ${used} ms of CPU, ${grown.toFixed(0)} MiB`);
  }
});

/** What a body in chunks of so many bytes is answered, each piece of the text written over and over. */
async function inPieces(
  port: number,
  head: string,
  start: string,
  fill: string,
  size: number,
  total: number,
): Promise<string> {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  let text = "";
  socket.setEncoding("latin1").on("data", (more: string) => (text += more));
  socket.write(`POST ${head}\r\nHost: a\r\nX-Api-Key: ${KEY}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  socket.write(`${start.length.toString(16)}\r\n${start}\r\n`);
  const block = [...fill.repeat(Math.ceil((size * 2000) / fill.length)).matchAll(new RegExp(`.{${size}}`, "gs"))]
    .map(([piece]) => `${size.toString(16)}\r\n${piece}\r\n`)
    .join("");
  for (let sent = 0; sent < total && text === "" && !socket.destroyed; sent += size * 2000)
    if (!socket.write(block)) await Promise.race(["drain", "close", "data"].map((event) => once(socket, event)));
  socket.write('2\r\n"}\r\n0\r\n\r\n');
  await until(() => text !== "" || socket.destroyed);
  socket.destroy();
  return text;
}

const HEADS = 'x: y\r\n\r\nv\r\n--b\r\nContent-Disposition: form-data; name="a"\r\n';
const PIECES: Record<string, { asks: [head: string, start: string, fill: string]; size: number; answer: RegExp }> = {
  "a body in tiny pieces": {
    asks: ["/v1/chat/completions HTTP/1.1", '{"model":"none","x":"', "y"],
    size: 1,
    answer: /^HTTP\/1\.1 400 .*pieces/s,
  },
  "a body in small pieces": {
    asks: ["/v1/chat/completions HTTP/1.1", '{"model":"none","x":"', "y"],
    size: 40,
    answer: /^HTTP\/1\.1 400 .*pieces/s,
  },
  "a form in tiny pieces": {
    asks: [
      `/v1/images/edits HTTP/1.1\r\n${FORM.trim()}`,
      '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n',
      "y",
    ],
    size: 1,
    answer: /^HTTP\/1\.1 400 .*pieces/s,
  },
  "a form of heads in small pieces": {
    asks: [`/v1/images/edits HTTP/1.1\r\n${FORM.trim()}`, '--b\r\nContent-Disposition: form-data; name="a"\r\n', HEADS],
    size: 35,
    answer: /^HTTP\/1\.1 400 /,
  },
};

t.test("a body in small chunks takes no more memory than its bytes", { skip: !LINUX }, async (t) => {
  const gateway = await ownGateway(t, "http://127.0.0.1:1/v1", BUSY);
  for (const [name, { asks, size, answer }] of Object.entries(PIECES)) {
    gateway.forget();
    const [cpu, before] = [gateway.cpu(), gateway.memory().now];
    t.match(await inPieces(gateway.port, ...asks, size, 30 * MIB * SIZE), answer, name);
    const grown = gateway.memory().peak - before;
    t.ok(grown < MORE, `${name}: memory grew by ${grown.toFixed(0)} MiB`);
    t.comment(`${name}: ${gateway.cpu() - cpu} ms of CPU, ${grown.toFixed(0)} MiB`);
  }
});

/** Forms that have sent two megabytes of a file, and not yet their model. */
async function waiting(t: Test, port: number, count: number): Promise<() => Promise<string[]>> {
  const file = form(Buffer.alloc(2 * MIB, "x"));
  const head = `POST /v1/images/edits HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${KEY}\r\n${FORM}Transfer-Encoding: chunked\r\n\r\n`;
  const sockets = Array.from({ length: count }, () => connect(port, "127.0.0.1").on("error", () => {}));
  t.teardown(() => sockets.map((socket) => socket.destroy()));
  const answers = sockets.map((socket) => once(socket, "data").then(([bytes]) => String(bytes)));
  for (const socket of sockets) socket.write(`${head}${file.length.toString(16)}\r\n`);
  await Promise.all(sockets.map((socket) => new Promise((sent) => socket.write(file, sent))));
  await after(300);
  return () => {
    for (const socket of sockets) socket.write("\r\n9\r\n\r\n--b--\r\n\r\n0\r\n\r\n");
    return Promise.all(answers);
  };
}

t.test("forms that wait for their model take less than a MiB of memory each", { skip: !LINUX }, async (t) => {
  const gateway = await ownGateway(t, "http://127.0.0.1:1/v1", BUSY);
  // What any work takes at first, and what is collected only now and then.
  await (await waiting(t, gateway.port, 40))();
  const before = gateway.memory().now;
  const forms = Math.max(60, 300 * SIZE);
  const end = await waiting(t, gateway.port, forms);
  const grown = gateway.memory().now - before;
  t.ok(grown < forms, `${forms} forms: memory grew by ${grown.toFixed(0)} MiB`);
  for (const answer of await end()) t.match(answer, /^HTTP\/1\.1 400 .*model/s);
  t.comment(`${forms} forms of 2 MiB: ${grown.toFixed(0)} MiB`);
});
