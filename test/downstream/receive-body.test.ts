import { connect } from "node:net";
import { setTimeout } from "node:timers/promises";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { chunk } from "../support/chunk.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream, rawUpstream } from "../support/upstream.ts";

const KIB = 1024;
const OTHER = "other-key-0123456789abcdef";
const THIRD = "third-key-0123456789abcdef";
const LAST = "fourth-key-0123456789abcdef";
const MORE = "fifth-key-0123456789abcdef";

/** Room for three bodies of a key, and for four in all. */
const small = (t: Test, more = "", provider = '{ url: "demo:" }', patience = "60s") =>
  startGateway(
    t,
    `body: { limit: 1MiB, memory: 4MiB, memory_per_key: 3MiB, spool: 4MiB, spool_per_key: 3MiB, patience: ${patience} }
providers: { demo: ${provider} }
models: { echo: { targets: [demo:echo] } }
keys: { test: { key: ${KEY}, concurrency: 1 }, other: { key: ${OTHER} }, third: { key: ${THIRD} },
  fourth: { key: ${LAST} }, fifth: { key: ${MORE} } }
${more}`,
  );

const chat = (bytes: number): Buffer =>
  Buffer.from(`{"model":"echo","messages":[{"role":"user","content":"${"a".repeat(bytes)}"}]}`);

interface Holding {
  key?: string;
  bytes: Buffer;
  headers?: string;
  path?: string;
  from?: string;
}

/** Sends a request without the end of its body, and collects what comes back. */
function hold(t: Test, running: Running, { key = KEY, bytes, headers = "", path, from = "127.0.0.1" }: Holding) {
  const socket = connect({ port: running.port, host: "127.0.0.1", localAddress: from });
  const client = { socket, text: "" };
  socket.setEncoding("latin1").on("data", (text: string) => (client.text += text));
  socket.on("error", () => {});
  t.teardown(() => socket.destroy());
  const bearer = key && `authorization: Bearer ${key}\r\n`;
  socket.write(`POST ${path ?? "/v1/chat/completions"} HTTP/1.1\r\nhost: a\r\n${bearer}${headers}`);
  socket.write(`transfer-encoding: chunked\r\n\r\n${bytes.length.toString(16)}\r\n`);
  socket.write(bytes);
  socket.write("\r\n");
  return client;
}

/** What has been counted. */
const counted = ({ gateway }: Running): number => gateway.generation.bodies.size;
const refusedOf = (clients: readonly { text: string }[]) => clients.filter(({ text }) => text !== "");

t.test("an operation without a body reads none, one with a JSON body reads it completely", async (t) => {
  const running = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  const chat = (body: string) =>
    fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  t.equal((await chat('{"model":"echo","messages":[{"role":"user","content":"hi"}]}')).status, 200);
  t.equal((await chat('{"model":"echo",')).status, 400);
  const kept = await fetch(`${running.url}/v1/responses/resp_none`, { headers: asking() });
  t.match(await kept.json(), { error: { code: "object_not_found" } });
});

t.test("incomplete bodies of a key have a bound in memory, as decompressed; others are still read", async (t) => {
  const running = await small(t);
  const bytes = gzipSync(chat(900 * KIB), { finishFlush: constants.Z_SYNC_FLUSH });
  const headers = "content-encoding: gzip\r\n";
  const clients = Array.from({ length: 8 }, () => hold(t, running, { bytes, headers }));
  await until(() => refusedOf(clients).length === 5, "five to be refused");
  for (const { text } of refusedOf(clients)) {
    t.match(text, /^HTTP\/1\.1 429 /);
    t.match(text, /retry-after: \d/);
    t.match(text, /too large together/);
  }
  await until(() => counted(running) > 2400 * KIB);
  t.ok(counted(running) <= 3072 * KIB);
  const post = (key: string, body: Buffer) =>
    fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: { authorization: `Bearer ${key}` }, body });
  t.equal((await post(KEY, chat(60 * KIB))).status, 200, "a small one of this key");
  t.equal((await post(OTHER, chat(900 * KIB))).status, 200, "a large one of another key");
  const [first, ...left] = clients.filter(({ text }) => text === "");
  first?.socket.destroy();
  await until(() => counted(running) < 2000 * KIB, "what is aborted to be released");
  t.equal((await post(KEY, chat(900 * KIB))).status, 200, "and there is room again");
  for (const { socket } of left) socket.destroy();
  await until(() => counted(running) === 0);
});

t.test("the bodies of all keys have a bound: what a key has beyond the average gives way to others", async (t) => {
  const running = await small(t);
  const held = [KEY, OTHER].map((key) => [0, 1, 2].map(() => hold(t, running, { key, bytes: chat(900 * KIB) })));
  await until(() => refusedOf(held.flat()).length === 2, "two to be refused");
  const late = hold(t, running, { key: THIRD, bytes: chat(900 * KIB) });
  await until(() => refusedOf(held.flat()).length === 3, "one to make room for a third key");
  await until(() => counted(running) > 3200 * KIB);
  t.equal(late.text, "");
  for (const { text } of refusedOf(held.flat())) {
    t.match(text, /^HTTP\/1\.1 503 /);
    t.match(text, /retry-after: \d/);
    t.match(text, /"code":"overloaded"/);
  }
  t.ok(held.flat().some(({ text }) => text.includes("was given up before it had arrived")));
  const fourth = hold(t, running, { key: THIRD, bytes: chat(900 * KIB) });
  await until(() => fourth.text.startsWith("HTTP/1.1 503 "), "a key with the average to be refused itself");
  for (const { socket } of [...held.flat(), late]) socket.destroy();
  await until(() => counted(running) === 0);
});

t.test("one slow body of each key gives way too, once it takes longer than patience", async (t) => {
  const running = await small(t, "", undefined, "1s");
  const keys = [KEY, OTHER, THIRD, LAST];
  const held = keys.map((key) => hold(t, running, { key, bytes: chat(1000 * KIB) }));
  await until(() => counted(running) > 3700 * KIB);
  const post = (key: string, bytes: number) =>
    fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: chat(bytes),
    });
  t.equal((await post(MORE, 900 * KIB)).status, 503, "they may still be on their way");
  t.equal((await post(MORE, 60 * KIB)).status, 200, "a small body always passes");
  await setTimeout(1000);
  t.equal((await post(MORE, 900 * KIB)).status, 200);
  t.equal(refusedOf(held).length, 1);
});

t.test("many large requests at the same time pass, and each releases what it took", async (t) => {
  const running = await small(t, "overload: { delay: off, concurrency: 3, wait: 60s }");
  const sent = Array.from({ length: 12 }, () =>
    fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: asking({ authorization: `Bearer ${OTHER}` }),
      body: chat(900 * KIB),
    }),
  );
  t.same(
    (await Promise.all(sent)).map(({ status }) => status),
    sent.map(() => 200),
  );
  const invalid = await fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: `${chat(500 * KIB)}x`,
  });
  t.equal(invalid.status, 400);
  const tooLarge = hold(t, running, { bytes: chat(1100 * KIB) });
  await until(() => tooLarge.text.startsWith("HTTP/1.1 413"));
  await until(() => counted(running) === 0);
});

t.test("bodies whose provider has not answered yet count for all, and not for their key any more", async (t) => {
  const waiting: (() => void)[] = [];
  const upstream = await httpUpstream((_, reply) => {
    waiting.push(() => reply.setHeader("content-type", "application/json").end('{"choices":[]}'));
  });
  t.teardown(() => upstream.close());
  const running = await small(t, "", `{ url: "${upstream.origin.origin}/v1", speaks: [openai-chat] }`);
  const post = () =>
    fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${OTHER}` },
      body: chat(900 * KIB),
    });
  const sent: Promise<Response>[] = [];
  for (let n = 1; n <= 4; n++) {
    sent.push(post());
    await until(() => waiting.length === n, "the provider to have it");
  }
  t.ok(counted(running) > 3072 * KIB, "more than the share of a key");
  t.equal((await post()).status, 503);
  for (const answer of waiting) answer();
  for (const each of sent) t.equal((await each).status, 200);
  t.equal(counted(running), 0);
});

t.test("what a decoder keeps for itself is counted", async (t) => {
  const running = await small(t);
  const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 1 };
  const bytes = brotliCompressSync(chat(900 * KIB), { params }).subarray(0, -10);
  const held = hold(t, running, { bytes, headers: "content-encoding: br\r\n" });
  await until(() => counted(running) > 1500 * KIB);
  t.equal(held.text, "", "one is always read");
});

t.test("without a key the bound is that of a network", async (t) => {
  const running = await small(t, "plugins: { auth: { anonymous: true } }\nshare: all\n");
  const own = Array.from({ length: 4 }, () => hold(t, running, { key: "", bytes: chat(900 * KIB) }));
  await until(() => refusedOf(own).length === 1);
  const other = hold(t, running, { key: "", bytes: chat(900 * KIB), from: "127.0.0.2" });
  await until(() => counted(running) > 3200 * KIB, "another network's body to be read");
  t.equal(other.text, "");
});

t.test("the part of a form that waits in memory is counted until the form ends", async (t) => {
  const running = await small(t);
  const bytes = Buffer.from(
    `--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n${"a".repeat(200 * KIB)}`,
  );
  const headers = "content-type: multipart/form-data; boundary=b\r\n";
  const held = Array.from({ length: 30 }, () => hold(t, running, { path: "/v1/images/edits", bytes, headers }));
  await until(() => refusedOf(held).length > 5, "some to be refused");
  for (const { text } of refusedOf(held)) t.match(text, /^HTTP\/1\.1 429 /);
  for (const { socket } of held) socket.destroy();
  await until(() => counted(running) === 0);
});

t.test("forms of the key that has most give way to others while their model is awaited", async (t) => {
  const running = await small(t);
  const bytes = Buffer.from(
    `--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n${"a".repeat(200 * KIB)}`,
  );
  const headers = "content-type: multipart/form-data; boundary=b\r\n";
  const held = [KEY, OTHER].map((key, i) =>
    Array.from({ length: 20 - 10 * i }, () => hold(t, running, { key, path: "/v1/images/edits", bytes, headers })),
  );
  await until(() => counted(running) > 29 * 136 * KIB);
  hold(t, running, { key: THIRD, bytes: chat(900 * KIB) });
  await until(() => refusedOf(held[0] ?? []).length >= 6, "some to make room");
  for (const { text } of refusedOf(held.flat())) t.match(text, /^HTTP\/1\.1 503 .*was given up before it had arrived/s);
  t.same(refusedOf(held[1] ?? []), []);
});

/** A form of which most waits in a file. */
/** Five of them do not fit into 4 MiB, even if the last bytes of each wait in memory. */
const SPOOLED = {
  path: "/v1/images/edits",
  headers: "content-type: multipart/form-data; boundary=b\r\n",
  bytes: Buffer.from(
    `--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n${"a".repeat(1000 * KIB)}`,
  ),
};

t.test("what forms of a key keep in files until their model is known has a bound, until they end", async (t) => {
  const running = await small(t);
  const { spools } = running.gateway.generation;
  const held = Array.from({ length: 6 }, () => hold(t, running, SPOOLED));
  await until(() => refusedOf(held).length > 0, "some to be refused");
  for (const { text } of refusedOf(held))
    t.match(text, /^HTTP\/1\.1 429 .*retry-after: .*Put the field model before the files/is);
  const other = hold(t, running, { ...SPOOLED, key: OTHER });
  await until(() => spools.size > 3 * 1024 * KIB, "another key's form to be kept");
  t.equal(other.text, "");
  for (const { socket } of [...held, other]) socket.destroy();
  await until(() => spools.size === 0, "all to be released");
  const whole = hold(t, running, SPOOLED);
  const end = '\r\n--b\r\ncontent-disposition: form-data; name="model"\r\n\r\necho\r\n--b--\r\n';
  await until(() => spools.size > 0);
  whole.socket.write(`${chunk(end)}0\r\n\r\n`);
  await until(() => whole.text !== "" && spools.size === 0, "an answer, and its room");
});

t.test("the files of the key that has most give way to those of others", async (t) => {
  const running = await small(t);
  const { spools } = running.gateway.generation;
  const held = Array.from({ length: 3 }, () => hold(t, running, SPOOLED));
  await until(() => spools.size > 3 * 550 * KIB, "the forms of one key");
  const others = [OTHER, THIRD].map((key) => hold(t, running, { ...SPOOLED, key }));
  await until(() => refusedOf(held).length > 0, "one to make room");
  for (const { text } of refusedOf(held)) t.match(text, /^HTTP\/1\.1 503 .*was given up before it had arrived/s);
  t.same(refusedOf(others), []);
});

t.test(
  "JSON that is kept for a check on a pass-through path is counted until it is complete; a file is not kept",
  async (t) => {
    const upstream = await rawUpstream(async (socket, request) => {
      await request.body;
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
    });
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `body: { limit: 1MiB, memory: 4MiB, memory_per_key: 3MiB }
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-responses] } }
models: { any: { targets: [up:any] } }
paths: { "/up/*": { pass: up } }
`,
    );
    const json = { path: "/up/evals", bytes: chat(900 * KIB), headers: "content-type: application/json\r\n" };
    const held = Array.from({ length: 5 }, () => hold(t, running, json));
    await until(() => refusedOf(held).length === 2, "two to be refused");
    for (const { text } of refusedOf(held)) t.match(text, /^HTTP\/1\.1 429 /);
    const file = { path: "/up/files", bytes: Buffer.alloc(900 * KIB, 1), headers: "content-type: image/png\r\n" };
    const files = Array.from({ length: 3 }, () => hold(t, running, file));
    for (const { socket } of files) socket.write("0\r\n\r\n");
    await until(() => files.every(({ text }) => text.startsWith("HTTP/1.1 200 ")), "files to pass");
    const before = counted(running);
    const [first, ...left] = held.filter(({ text }) => text === "");
    first?.socket.write("0\r\n\r\n");
    await until(() => first?.text.startsWith("HTTP/1.1 200 ") === true, "a complete one to pass");
    t.ok(counted(running) < before);
    for (const { socket } of left) socket.destroy();
    await until(() => counted(running) === 0);
  },
);

t.test("JSON on a pass-through path gives way too, and its end does not reach the provider", async (t) => {
  let ended = 0;
  const upstream = await rawUpstream(async (socket, request) => {
    await request.body;
    ended++;
    socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}");
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `body: { limit: 1MiB, memory: 4MiB, memory_per_key: 3MiB }
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-responses] } }
models: { any: { targets: [up:any] } }
keys: { test: { key: ${KEY} }, other: { key: ${OTHER} }, third: { key: ${THIRD} } }
paths: { "/up/*": { pass: up } }
`,
  );
  const json = { path: "/up/evals", bytes: chat(900 * KIB), headers: "content-type: application/json\r\n" };
  const held = [0, 1, 2].map(() => hold(t, running, json));
  await until(() => counted(running) > 2400 * KIB);
  hold(t, running, { ...json, key: OTHER });
  await until(() => counted(running) > 3300 * KIB);
  hold(t, running, { ...json, key: THIRD });
  await until(() => refusedOf(held).length === 1, "one to make room, without a further byte of it");
  t.ok(counted(running) < 3500 * KIB);
  for (const { socket } of held) socket.write("0\r\n\r\n");
  await until(() => held.every(({ text }) => text !== ""));
  t.equal(refusedOf(held).filter(({ text }) => text.startsWith("HTTP/1.1 503 ")).length, 1);
  t.equal(ended, 2);
});

t.test(
  "a request that is cancelled while its body arrives ends at once, and its connection when the client wants",
  async (t) => {
    const running = await small(t);
    const { gateway } = running;
    const part = '--x\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n';
    const headers = (type: string) => `content-type: ${type}\r\n`;
    for (const holding of [
      { bytes: chat(100 * KIB).subarray(0, -1), headers: headers("application/json") },
      {
        bytes: Buffer.from(part + "a".repeat(100 * KIB)),
        headers: headers("multipart/form-data; boundary=x"),
        path: "/v1/images/edits",
      },
    ]) {
      const client = hold(t, running, holding);
      await until(() => counted(running) > 0, "the body");
      t.ok(gateway.cancel(gateway.exchanges[0]?.exchange.id ?? ""));
      await until(() => gateway.exchanges.length === 0, "the end of the request");
      t.equal(counted(running), 0);
      client.socket.write("1\r\n}\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n");
      await until(() => client.text.includes("model-gateway"), "the answer to the next request");
      t.match(client.text, /^HTTP\/1\.1 503 [\s\S]*"cancelled"[\s\S]*HTTP\/1\.1 200 /);
    }
  },
);
