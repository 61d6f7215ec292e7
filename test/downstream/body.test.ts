import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import t from "tap";
import { Body } from "../../src/core/body.ts";
import { BufferMemory } from "../../src/core/buffer-memory.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { readModel } from "../../src/core/model-name.ts";
import { type BodyLimits, readBody } from "../../src/downstream/body.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Scanner, scan } from "../../src/wire/json.ts";
import { shared } from "../support/shared.ts";
import { until } from "../support/until.ts";

const LIMITS: BodyLimits = { maxBytes: 4 << 20, idle: 5000 };
type Outcome = Body | GatewayError;

/** A server that reads one body for each request, and what became of them. */
async function listening(limits: BodyLimits) {
  const outcomes: Outcome[] = [];
  const waiting: ((outcome: Outcome) => void)[] = [];
  let asked = 0;
  const tell = (outcome: Outcome): void => {
    const next = waiting.shift();
    if (next) next(outcome);
    else outcomes.push(outcome);
  };
  const server = createServer(async (request: IncomingMessage, response) => {
    asked++;
    const options = {
      headers: new HeaderList(request.rawHeaders),
      openAccount: () => new BufferMemory().account("", { perCaller: 1e9, total: 1e9 }),
    };
    const outcome: Outcome = await Promise.try(() => readBody(request, limits, options)).catch((error) => error);
    tell(outcome);
    response.writeHead(outcome instanceof GatewayError ? outcome.status : 200, { connection: "close" }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    /** The number of requests whose head has arrived. */
    asked: () => asked,
    next: () =>
      new Promise<Outcome>((resolve) =>
        outcomes.length > 0 ? resolve(outcomes.shift() as Outcome) : waiting.push(resolve),
      ),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Sending {
  headers?: string[];
  limits?: BodyLimits;
  /** How the body is cut into writes; a pause between them. */
  cuts?: number[];
  chunked?: boolean;
  /** Bytes of each chunk, all written at once. */
  pieces?: number;
}

/** Sends one request over a real socket; what `readBody` made of it, and the status that came back. */
async function send(bytes: Buffer, sending: Sending = {}): Promise<{ outcome: Outcome; status: number }> {
  const { headers = [], limits = LIMITS, cuts = [], chunked = false, pieces } = sending;
  const server = await listening(limits);
  const socket = connect(server.port, "127.0.0.1").setNoDelay(true);
  let reply = "";
  const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()).on("error", () => resolve()));
  socket.on("data", (chunk: Buffer) => {
    reply += chunk;
  });
  const framing = chunked ? "transfer-encoding: chunked" : `content-length: ${bytes.length}`;
  socket.write(["POST / HTTP/1.1", "host: x", framing, ...headers, "", ""].join("\r\n"));
  let from = pieces ? bytes.length : 0;
  if (pieces)
    for (const [piece] of bytes.toString("latin1").matchAll(new RegExp(`.{1,${pieces}}`, "gs")))
      socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`, "latin1");
  for (const cut of [...cuts, bytes.length]) {
    const part = bytes.subarray(from, cut);
    if (part.length > 0) {
      if (chunked) socket.write(`${part.length.toString(16)}\r\n`);
      socket.write(part);
      if (chunked) socket.write("\r\n");
    }
    from = cut;
    if (cut < bytes.length) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  if (chunked) socket.write("0\r\n\r\n");
  const outcome = await server.next();
  await closed;
  await server.close();
  return { outcome, status: Number(reply.slice(9, 12)) };
}

async function accepted(bytes: Buffer, sending?: Sending): Promise<Body> {
  const { outcome } = await send(bytes, sending);
  if (outcome instanceof GatewayError) throw outcome;
  return outcome;
}

async function refused(bytes: Buffer, sending?: Sending): Promise<GatewayError> {
  const { outcome, status } = await send(bytes, sending);
  if (!(outcome instanceof GatewayError)) throw new Error("was accepted");
  if (status !== outcome.status) throw new Error(`the client saw ${status} instead of ${outcome.status}`);
  return outcome;
}

const CHAT = Buffer.from('{"model":"fast","messages":[{"role":"user","content":"é😀 12345678901234567890"}],"n":1.0}');

t.test("a body is the received bytes, with its members found", async (t) => {
  for (const chunked of [false, true]) {
    const body = await accepted(CHAT, { chunked });
    t.ok(body.bytes().equals(CHAT));
    t.equal(body.length, CHAT.length);
    t.equal(body.member("n")?.kind, "number");
    t.equal(body.value("model"), "fast");
    t.equal(body.value("none"), undefined);
    t.equal(body.slice(body.member("n")?.start as number, body.member("n")?.end as number).toString(), "1.0");
    t.equal(readModel(body), "fast");
  }
});

t.test("it is the same body wherever its chunks are split", async (t) => {
  const every = Array.from(CHAT, (_, i) => i + 1).slice(0, -1);
  const body = await accepted(CHAT, { chunked: true, cuts: every });
  t.ok(body.pieces.length > 1);
  t.ok(body.bytes().equals(CHAT));
  t.strictSame(body.scan?.members, scan(CHAT).members);
  for (const cut of [40, 61, 62, 63, 64, 65, 66, 67])
    t.strictSame((await accepted(CHAT, { cuts: [cut] })).json(), JSON.parse(CHAT.toString()));
});

t.test("decodes one layer of each encoding, split anywhere", async (t) => {
  for (const [coding, bytes] of [
    ["gzip", gzipSync(CHAT)],
    ["x-gzip", gzipSync(CHAT)],
    ["deflate", deflateSync(CHAT)],
    ["deflate", deflateRawSync(CHAT)],
    ["br", brotliCompressSync(CHAT)],
    ["zstd", zstdCompressSync(CHAT)],
    ["identity", CHAT],
  ] as const) {
    const body = await accepted(bytes, { headers: [`content-encoding: ${coding}`], cuts: [1, 20], chunked: true });
    t.ok(body.bytes().equals(CHAT), coding);
    t.equal(readModel(body), "fast");
  }
});

t.test("refuses unknown, several and invalid encodings", async (t) => {
  const twice = gzipSync(gzipSync(CHAT));
  t.equal((await refused(twice, { headers: ["content-encoding: gzip, gzip"] })).code, "unsupported_encoding");
  t.equal((await refused(CHAT, { headers: ["content-encoding: x"] })).code, "unsupported_encoding");
  t.equal(
    (await refused(twice, { headers: ["content-encoding: gzip"] })).code,
    "invalid_json",
    "only one layer is decoded",
  );
  for (const bytes of [CHAT, gzipSync(CHAT).subarray(0, -10)]) {
    const error = await refused(bytes, { headers: ["content-encoding: gzip"] });
    t.equal(error.code, "bad_request");
    t.match(error.message, /not valid gzip/);
  }
  const followed = Buffer.concat([brotliCompressSync(CHAT), Buffer.from("more")]);
  const error = await refused(followed, { headers: ["content-encoding: br"] });
  t.match(error.message, /not valid br/, "no reader may take more of it than another one");
});

t.test("a decompression bomb is refused before it is decompressed", async (t) => {
  const bomb = gzipSync(Buffer.alloc(50 << 20, " "));
  const limits = { maxBytes: 32 << 20, idle: 5000 };
  const ratio = await refused(bomb, { headers: ["content-encoding: gzip"], limits });
  t.equal(ratio.code, "body_too_large");
  t.match(ratio.message, /more than 100 times its size/);
  const small = await refused(gzipSync(Buffer.alloc(2 << 20, " ")), { headers: ["content-encoding: gzip"], limits });
  t.match(small.message, /more than 100 times its size/, "from 1 MiB on");
  const tail = Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => Math.imul(i, 2654435761) >>> 24));
  const behind = await refused(Buffer.concat([bomb, tail]), { headers: ["content-encoding: gzip"], limits });
  t.match(behind.message, /more than 100 times its size/, "with data after it that has already arrived");
  const random = Buffer.from(
    `"${Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => (i * 2654435761) >>> 24)).toString("hex")}"`,
  );
  const grown = await refused(gzipSync(random), {
    headers: ["content-encoding: gzip"],
    limits: { maxBytes: 3 << 19, idle: 5000 },
  });
  t.match(grown.message, "The decoded request body is larger than 1.5 MiB.");
});

t.test("what compresses well but is small passes", async (t) => {
  const text = Buffer.from(`{"model":"fast","x":"${" ".repeat(500_000)}"}`);
  const body = await accepted(gzipSync(text), { headers: ["content-encoding: gzip"] });
  t.equal(body.length, text.length);
});

t.test("refuses a body over the limit by its announced length, or as soon as it exceeds it", async (t) => {
  const limits = { maxBytes: 1 << 20, idle: 5000 };
  const large = Buffer.from(`{"a":"${"x".repeat(1 << 20)}"}`);
  for (const chunked of [false, true]) {
    const error = await refused(large, { limits, chunked });
    t.equal(error.code, "body_too_large");
    t.equal(error.message, "The request body is larger than 1 MiB.");
  }
  const small = await refused(large, { limits: { maxBytes: 2048, idle: 5000 }, chunked: false });
  t.equal(small.message, "The request body is larger than 2 KiB.");
  const exact = Buffer.from(`{"a":"${"x".repeat((1 << 20) - 8)}"}`);
  t.equal((await accepted(exact, { limits, chunked: true })).length, 1 << 20);
});

t.test("refuses invalid JSON with the reason and the position", async (t) => {
  for (const [text, message] of [
    ["", "The request body is empty. Send a JSON object."],
    ["  \n", "The request body is empty. Send a JSON object."],
    ["{'a':1}", /not valid JSON\. Unexpected "'" at byte 1/],
    [
      '{"model":"a","\\u006dodel":"b"}',
      'The request body is not valid JSON. The name "model" occurs twice at byte 13.',
    ],
    ["[1]", "The request body must be a JSON object, not an array."],
    ['"model"', "The request body must be a JSON object, not a string."],
    ["null", "The request body must be a JSON object, not null."],
    ['{"a":1', /ends too early at byte 6/],
    ["[".repeat(200), /Nested deeper than 128 levels at byte 128/],
  ] as const)
    for (const chunked of [false, true]) {
      const error = await refused(Buffer.from(text), { chunked });
      t.equal(error.code, "invalid_json");
      t.match(error.message, message);
    }
});

t.test("refuses media types other than JSON", async (t) => {
  t.equal(
    (await refused(CHAT, { headers: ["content-type: multipart/form-data; boundary=x"] })).code,
    "unsupported_media_type",
  );
  t.equal(
    (await refused(CHAT, { headers: ["content-type: application/json; charset=utf-16"] })).code,
    "unsupported_media_type",
  );
  t.equal(readModel(await accepted(CHAT, { headers: ["content-type: text/plain; charset=utf-8"] })), "fast");
});

t.test("ends a body whose client stops sending", async (t) => {
  const server = await listening({ maxBytes: 1000, idle: 20 });
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{"mod');
  const outcome = (await server.next()) as GatewayError;
  t.equal(outcome.code, "body_timeout");
  socket.destroy();
  await server.close();
});

t.test("a body that is too slow is ended, one that only takes long is not", async (t) => {
  const patient = { maxBytes: 1000, idle: 5000, patience: 30 };
  for (const [slowest, outcome] of [
    [1_000_000, "body_timeout"],
    [1, undefined],
  ] as const) {
    const server = await listening({ ...patient, slowest });
    const socket = connect(server.port, "127.0.0.1").setNoDelay(true);
    socket.on("error", () => {});
    socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 16\r\n\r\n{"a":"');
    const read = server.next();
    for (let i = 0; i < 8; i++) {
      await new Promise((more) => setTimeout(more, 10));
      socket.write("x");
    }
    socket.write('"}');
    t.equal(((await read) as Partial<GatewayError>).code, outcome);
    socket.destroy();
    await server.close();
  }
});

t.test("notices a client that disconnects", async (t) => {
  for (const coding of ["identity", "gzip"]) {
    const server = await listening(LIMITS);
    const socket = connect(server.port, "127.0.0.1");
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\ncontent-encoding: ${coding}\r\n\r\n`);
    socket.write(gzipSync(CHAT).subarray(0, coding === "gzip" ? 20 : 0));
    await until(() => server.asked() === 1, "the request");
    socket.destroy();
    t.equal(((await server.next()) as GatewayError).code, "client_gone");
    await server.close();
  }
});

const vectors = shared("vectors/own/json-ambiguity-vectors.json");

t.test("bodies that two parsers could read differently", { skip: !vectors && "absent" }, async (t) => {
  const all: { id: string; body: string }[] = JSON.parse(readFileSync(vectors as string, "utf8"));
  for (const { id, body } of all) {
    if (!/^(?:model-|top-|case-|proto|ctor)/.test(id)) continue;
    const literal = /-(?:path|url|nfc|homoglyph)$|^(?:case-model|proto|ctor)$/.test(id);
    const { outcome } = await send(Buffer.from(body));
    let found: string | undefined;
    try {
      if (outcome instanceof Body) found = readModel(outcome);
    } catch (error) {
      t.equal((error as GatewayError).status, 400, id);
    }
    t.equal(found, literal ? JSON.parse(body).model : undefined, id);
  }
});

t.test("a body in very many small pieces is kept in few", async (t) => {
  const text = Buffer.from(`{"model":"m","x":"${"0123456789".repeat(4000)}","y":"${"z".repeat(5000)}"}`);
  const body = await accepted(text, { chunked: true, pieces: 40 });
  t.ok(body.pieces.length < 30, `${body.pieces.length} pieces`);
  t.same(Buffer.concat(body.pieces), text);
  t.equal(body.value("y"), "z".repeat(5000));
});

t.test("small pieces are scanned together", async (t) => {
  const push = t.capture(Scanner.prototype, "push", Scanner.prototype.push);
  const text = Buffer.from(`{"model":"m","x":"${"y".repeat(300_000)}"}`);
  const body = await accepted(text, { chunked: true, pieces: 40 });
  const scans = push().length;
  t.ok(scans < 60, `${scans} scans of 7,500 pieces`);
  t.equal(body.member("x")?.end, text.length - 1);
  const cut = await refused(Buffer.from(`{"model":"m","x":[${"1,".repeat(20_000)}}`), { chunked: true, pieces: 40 });
  t.match(cut, { code: "invalid_json" });
});

t.test("a body in very many tiny pieces is refused", async (t) => {
  const error = await refused(Buffer.from(`{"model":"${"m".repeat(12_000)}"}`), { chunked: true, pieces: 1 });
  t.match(error, { code: "bad_request", message: /pieces/ });
});
