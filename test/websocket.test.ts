import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import t from "tap";
import { readJournals } from "../src/store/journal/lines.ts";
import { rowToEntry } from "../src/store/ledger-row.ts";
import { KEY, startGateway } from "./support/gateway.ts";
import { journalAt } from "./support/journal-at.ts";
import { open, socketUpstream } from "./support/sockets.ts";
import { until } from "./support/until.ts";
import { httpUpstream } from "./support/upstream.ts";

const PLUGIN = `
export default class Watch {
  access(exchange) { if (exchange.query.has("answer")) exchange.answer = { status: 418, body: '{"short":"stout"}' }; }
  request(exchange) { if (exchange.requestedModel === "bad") throw new Error("not this model"); }
  send(exchange, attempt) { attempt.headers.set("x-sent", attempt.target.model); }
  done(exchange) { globalThis.socketsWatched = [exchange.status, exchange.outcome]; }
}
`;

t.test("a handshake passes the phases of a request without a body; a plugin may refuse and answer it", async (t) => {
  const upstream = await socketUpstream(t);
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true, forward: [x-more] } }
models: { m: { targets: [a:vendor-m] }, bad: { targets: [a:x] } }
plugins: { watch: { from: ./watch.ts } }
share: all
paths:
  /v1/realtime: { protocol: openai-realtime, use: [auth, watch, models, rewrite, usage] }
  /v1/live: { pass: a, use: [auth, watch] }
`,
    { "watch.ts": PLUGIN },
  );
  const watched = () => (globalThis as { socketsWatched?: unknown }).socketsWatched;
  const ask = (query: string, path = "/v1/realtime") =>
    open(`ws://127.0.0.1:${running.port}${path}?${query}`, [], { "x-api-key": KEY, "x-more": "1" });
  const seen = await ask("model=m");
  t.match(upstream.handshakes[0]?.headers, { "x-sent": "vendor-m", "x-more": "1" });
  seen.socket.close();
  await seen.closed;
  await t.rejects(ask("model=bad"), /^500 /);
  t.same(watched(), [500, "failed"]);
  await t.rejects(ask("model=m&answer=1"), /^418 {"short":"stout"}/);
  await t.rejects(ask("answer=1"), /^418 {"short":"stout"}/, "no model is needed for it");
  await t.rejects(ask("answer=1", "/v1/live"), /^418 {"short":"stout"}/, "on a passthrough path too");
  t.equal(upstream.handshakes.length, 1);
});

t.test("a handshake is refused where a plugin changes texts, as no plugin sees those of a WebSocket", async (t) => {
  const upstream = await socketUpstream(t);
  const address = "{ pattern: /[a-z]{1,9}@home/, maxLength: 14 }";
  const changes = {
    mask: `await exchange.maskText("address", ${address});`,
    replace: `await exchange.replaceText(${address}, () => "");`,
    caught: `await exchange.replaceText(${address}, () => "").catch(() => {});`,
    map: "exchange.mapText(['user'], () => '');",
    looks: `await exchange.findText(${address}); exchange.texts();`,
  };
  const names = Object.keys(changes);
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
plugins: { ${names.map((name) => `${name}: { from: ./${name}.ts }`).join(", ")} }
paths: { ${names.map((name) => `/${name}/v1/realtime: { protocol: openai-realtime, use: [auth, ${name}, models, rewrite, usage] }`).join(", ")} }
`,
    Object.fromEntries(
      Object.entries(changes).map(([name, code]) => [
        `${name}.ts`,
        `export default class { async request(exchange) { ${code} } }`,
      ]),
    ),
  );
  const ask = (name: string) =>
    open(`ws://127.0.0.1:${running.port}/${name}/v1/realtime?model=m`, [], { "x-api-key": KEY });
  for (const name of names.slice(0, -1)) await t.rejects(ask(name), /^426 .*no plugin sees the messages/, name);
  t.equal(upstream.handshakes.length, 0);
  const { socket, closed } = await ask("looks");
  socket.close();
  await closed;
});

t.test("a client that leaves while its handshake waits reaches no provider, and its exchange ends", async (t) => {
  const upstream = await socketUpstream(t);
  const waiting = `
export default class Wait {
  async access() { await globalThis.clientLeft; }
  done(exchange) { globalThis.leftAs = [exchange.status, exchange.outcome]; }
}
`;
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
plugins: { wait: { from: ./wait.ts } }
paths: { /v1/realtime: { protocol: openai-realtime, use: [auth, wait, models, rewrite, usage] } }
`,
    { "wait.ts": waiting },
  );
  const left = Promise.withResolvers<void>();
  Object.assign(globalThis, { clientLeft: left.promise });
  const client = connect({ port: running.port, host: "127.0.0.1", allowHalfOpen: true });
  t.teardown(() => client.destroy());
  client.on("error", () => {}).resume();
  client.end(
    `GET /v1/realtime?model=m HTTP/1.1\r\nhost: x\r\nx-api-key: ${KEY}\r\nconnection: upgrade\r\nupgrade: websocket\r\n` +
      "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  );
  await once(client, "finish");
  // What a later connection sent has been read, so its end has been too.
  for (let i = 0; i < 3; i++) await fetch(`http://127.0.0.1:${running.port}/livez`);
  left.resolve();
  const leftAs = () => (globalThis as { leftAs?: unknown }).leftAs;
  await until(() => leftAs() !== undefined, "its end to be recorded");
  t.same(leftAs(), [499, "aborted"]);
  t.equal(upstream.handshakes.length, 0);
});

t.test("a socket that is cancelled is interrupted; before its handshake was sent, no provider gets that", async (t) => {
  const upstream = await socketUpstream(t);
  const { port, gateway, log } = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/v1/*": { pass: a, use: [auth] } }
`,
  );
  const cancel = () => gateway.cancel(gateway.exchanges[0]?.exchange.id ?? "");
  const lookedUp = Promise.withResolvers<void>();
  const find = async (id: string) => {
    await lookedUp.promise;
    return [{ id, provider: "a", key: "test" }];
  };
  Object.assign(gateway.stores.owners, { find });
  const ask = () => open(`ws://127.0.0.1:${port}/v1/files/file-1/live`, [], { "x-api-key": KEY });
  const early = ask().catch((thrown: Error) => thrown.message);
  await until(() => cancel(), "the exchange");
  lookedUp.resolve();
  t.match(await early, /^503 .*"cancelled"/);
  t.equal(upstream.handshakes.length, 0);
  const late = await ask();
  cancel();
  await late.closed;
  const ends = () => log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields);
  await until(() => ends().length === 2, "both ends");
  t.match(ends(), [
    { outcome: "interrupted", status: 503, attempts: 0 },
    { outcome: "interrupted", status: 101, attempts: 1 },
  ]);
});

t.test("a client that does not read the answer of a plugin to its handshake is disconnected", async (t) => {
  const large = `
export default class Large {
  access(exchange) {
    const body = exchange.query.has("whole") ? Buffer.alloc(32 << 20) : Array(512).fill(Buffer.alloc(64 << 10));
    exchange.answer = { headers: { "content-type": "text/plain" }, body };
  }
}
`;
  const { port } = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
plugins: { large: { from: ./large.ts } }
connections: { stalled: 100ms }
paths: { /v1/realtime: { protocol: openai-realtime, use: [auth, large, models, usage] } }
`,
    { "large.ts": large },
  );
  for (const query of ["whole=1", "pieces=1"]) {
    const client = connect(port, "127.0.0.1").on("error", () => {});
    t.teardown(() => client.destroy());
    const lines = [`GET /v1/realtime?${query} HTTP/1.1`, "host: x", "connection: upgrade", "upgrade: websocket"];
    lines.push("sec-websocket-version: 13", `sec-websocket-key: ${"A".repeat(22)}==`, `x-api-key: ${KEY}`);
    client.write(`${lines.join("\r\n")}\r\n\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    let received = 0;
    client.on("data", ({ length }) => (received += length));
    await once(client, "close");
    t.ok(received > 0 && received < 32 << 20, `${query}: ${received} bytes`);
  }
});

t.test("a client is told why a plugin's answer to its handshake could not be sent", async (t) => {
  const failing = "export default class Failing { response() { throw new Error('not this answer'); } }\n";
  const streaming = `
export default class Watch {
  access(exchange) { exchange.answer = { body: { [Symbol.iterator]: () => this } }; }
  next() { return { done: true }; }
  return() { globalThis.answerEnded = true; return { done: true }; }
}
`;
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
plugins: { watch: { from: ./watch.ts }, failing: { from: ./failing.ts } }
paths: { /v1/realtime: { protocol: openai-realtime, use: [auth, failing, watch, models, rewrite, usage] } }
`,
    { "watch.ts": streaming, "failing.ts": failing },
  );
  const asked = open(`ws://127.0.0.1:${running.port}/v1/realtime?model=m`, [], { "x-api-key": KEY });
  await t.rejects(asked, /^500 .*plugin/);
  t.equal((globalThis as { answerEnded?: boolean }).answerEnded, true, "its source is told that nobody reads it");
  t.notOk(running.log.lines.some(({ message }) => message.startsWith("a request failed")));
});

t.test("a refused handshake has the usual head, whether gateway or provider refuses it", async (t) => {
  let status = 429;
  const provider = await httpUpstream((_, response) => response.writeHead(status, "Whatever").end("{}"));
  t.teardown(() => provider.close());
  const running = await startGateway(
    t,
    `providers: { a: { url: "${provider.origin.origin}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
`,
  );
  const headFor = async (key: string) => {
    const socket = connect(running.port, "127.0.0.1").setEncoding("latin1");
    const lines = ["GET /v1/realtime?model=m HTTP/1.1", "host: x", "connection: upgrade", "upgrade: websocket"];
    lines.push("sec-websocket-version: 13", `sec-websocket-key: ${"A".repeat(22)}==`, `x-api-key: ${key}`);
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    let text = "";
    for await (const piece of socket) text += piece;
    return text.split("\r\n\r\n", 1)[0];
  };
  const unauthorized = /^HTTP\/1.1 401 Unauthorized\r\n.*^www-authenticate: Bearer realm="model-gateway"\r$/ms;
  t.match(await headFor("nobody-0123456789abcdef"), unauthorized);
  t.match(await headFor(KEY), /^HTTP\/1.1 429 Too Many Requests\r\n/);
  status = 401;
  t.match(await headFor(KEY), unauthorized);
});

t.test("the journal has a WebSocket before its provider is called", async (t) => {
  const upstream = await socketUpstream(t);
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m] } }
`,
  );
  const asked = journalAt(t, running.folder, "http.client.request.created", upstream.port);
  const seen = await open(`ws://127.0.0.1:${running.port}/v1/realtime?model=m`, [], { "x-api-key": KEY });
  t.same(asked, [{ ended: 0, open: 1 }]);
  seen.socket.close();
  await seen.closed;
});

t.test("the journal has the usage of each answer on a WebSocket, and one row when it has ended", async (t) => {
  const told = JSON.stringify({ type: "response.done", response: { usage: { input_tokens: 10, output_tokens: 5 } } });
  const upstream = await socketUpstream(t, (message) => (message === "more" ? told : message));
  const running = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:vendor-m], price: { input: 1, output: 2 } } }
`,
  );
  const { ledger } = running.gateway.stores;
  const seen = await open(`ws://127.0.0.1:${running.port}/v1/realtime?model=m`, [], { "x-api-key": KEY });
  const rows = () => readJournals(join(running.folder, "gateway.db.journal"));
  for (let nth = 1; nth <= 3; nth++) {
    seen.socket.send("more");
    seen.socket.send("and words");
    await until(() => seen.messages.length === 2 * nth, "an answer");
    ledger.persist();
    const open = (await rows()).open.map(rowToEntry);
    t.match(open, [{ outcome: "interrupted", source: "partial", status: 101, streaming: true }], `${nth}`);
    t.match(open[0]?.usage, { in: { total: 10 * nth }, out: { total: 5 * nth } });
    t.equal(open[0]?.cost, nth * (10 * 1000 + 5 * 2000));
    t.ok((open[0]?.duration ?? 0) > 0);
  }
  seen.socket.close();
  await seen.closed;
  await until(async () => (await rows()).open.length === 0, "its end");
  await ledger.flush();
  t.match(await ledger.recent(5), [{ outcome: "completed", usage: { in: { total: 30 }, out: { total: 15 } } }]);
});
