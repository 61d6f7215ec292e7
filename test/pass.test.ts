import { once } from "node:events";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { Gateway } from "../src/gateway.ts";
import { asking, KEY, startGateway } from "./support/gateway.ts";
import { journalAt } from "./support/journal-at.ts";
import { until } from "./support/until.ts";
import { httpUpstream } from "./support/upstream.ts";

/** Lets a gateway accept connections at a Unix socket too. Returns its file. */
async function acceptAt(t: Test, gateway: Gateway, folder: string): Promise<string> {
  const file = join(folder, "socket");
  const server = createServer((socket) => gateway.accept(socket)).listen(file);
  t.teardown(() => server.close());
  await once(server, "listening");
  return file;
}

const PLUGIN = `
export default class Watch {
  access({ query }) { if (query.has("refuse")) throw new Error("not you"); }
  request() { throw new Error("nobody reads a body here"); }
  route() { throw new Error("there is no model here"); }
  send(exchange, attempt) {
    attempt.headers.set("x-sent", "1");
    attempt.path = attempt.path.replace("/asked", "//else/where");
  }
  response() { throw new Error("nobody reads an answer here"); }
  done(exchange) { globalThis.watched = [exchange.status, exchange.outcome, exchange.received, exchange.written]; }
}
`;

t.test(
  "access, send and done run: a plugin may refuse and change head and path, and is notified of the end",
  async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
plugins: { watch: { from: ./watch.ts } }
paths: { "/v1/*": { pass: a, use: [auth, watch] } }
`,
      { "watch.ts": PLUGIN },
    );
    const watched = () => (globalThis as { watched?: unknown }).watched;
    const ask = (path: string) => fetch(running.url + path, { method: "POST", headers: asking(), body: "{}" });
    const response = await ask("/v1/asked?x=1");
    t.equal(await response.text(), "{}");
    t.match(response.headers.get("x-request-id"), /./);
    t.match(upstream.seen, [{ method: "POST", url: "/v1//else/where?x=1" }]);
    t.ok(upstream.seen[0]?.rawHeaders.includes("x-sent"));
    t.same(watched(), [200, "completed", 2, 2]);
    t.equal((await ask("/v1/asked?refuse")).status, 500);
    t.same(watched(), [500, "failed", undefined, 0]);
    t.equal(upstream.seen.length, 1);
  },
);

t.test(
  "the journal has an exchange before its provider is called, and its row before its last byte is sent",
  async (t) => {
    let error = false;
    const upstream = await httpUpstream((_request, response) => {
      response.writeHead(error ? 400 : 200, { "content-type": "application/json" });
      response.end('{"usage":{"prompt_tokens":3,"completion_tokens":2}}');
    });
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/v1/*": { pass: a, use: [auth, usage] } }
`,
    );
    const { port } = upstream.origin;
    const asked = journalAt(t, running.folder, "http.client.request.created", Number(port));
    const answered = journalAt(t, running.folder, "http.server.response.finish", running.port);
    for (const failing of [false, true, false]) {
      error = failing;
      const response = await fetch(`${running.url}/v1/x`, { method: "POST", headers: asking(), body: "{}" });
      t.equal(response.status, failing ? 400 : 200);
      await response.text();
    }
    t.same(
      asked,
      [0, 1, 2].map((ended) => ({ ended, open: 1 })),
    );
    t.same(
      answered,
      [1, 2, 3].map((ended) => ({ ended, open: 0 })),
    );
    await running.gateway.stores.ledger.flush();
    const rows = await running.gateway.stores.ledger.recent(10);
    t.match(
      rows.map(({ outcome, status }) => [outcome, status]),
      [
        ["completed", 200],
        ["upstream_error", 400],
        ["completed", 200],
      ],
    );
    t.match(rows[0], { source: "reported", usage: { in: { total: 3 }, out: { total: 2 } }, bytes: { up: 2 } });
  },
);

t.test("the usage of an object that is fetched counts once, when it is finished", async (t) => {
  let [status, tokens, noise] = ["in_progress", 0, ""];
  const upstream = await httpUpstream((_, response) => {
    const usage = { input_tokens: tokens, output_tokens: tokens, total_tokens: 2 * tokens };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ id: "batch_1", object: "batch", status, noise, usage }));
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { targets: [a:m] } }
paths: { "/v1/batches/*": { pass: a } }
`,
  );
  await fetch(`${url}/v1/batches`, { method: "POST", headers: asking(), body: "{}" });
  for ([status, tokens, noise] of [
    ["validating", 0, ""],
    ["in_progress", 20, ""],
    ["completed", 50, ""],
    ["completed", 50, "x".repeat(9000)],
    ["completed", 50, ""],
  ] as const)
    t.equal((await fetch(`${url}/v1/batches/batch_1`, { headers: asking() })).status, 200);
  await gateway.stores.ledger.flush();
  t.match(await gateway.stores.ledger.sums({ by: [] }), [{ requests: 6, tokensIn: 50, tokensOut: 50 }]);
});

t.test("a request that is cancelled while the owner of an object is looked up reaches no provider", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url, gateway, log } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/v1/*": { pass: a, use: [auth] } }
`,
  );
  const lookedUp = Promise.withResolvers<void>();
  const find = async (id: string) => {
    await lookedUp.promise;
    return [{ id, provider: "a", key: "test" }];
  };
  Object.assign(gateway.stores.owners, { find });
  const asked = fetch(`${url}/v1/files/file-1`, { headers: asking() });
  await until(() => gateway.cancel(gateway.exchanges[0]?.exchange.id ?? ""), "the exchange");
  t.equal((await asked).status, 503);
  lookedUp.resolve();
  const ended = () => log.lines.find(({ message }) => message === "exchange");
  await until(() => ended() !== undefined, "its end");
  t.match(ended()?.fields, { outcome: "interrupted", attempts: 0 });
  t.equal(upstream.seen.length, 0);
});

t.test(
  "a response without length that breaks off ends a connection over a Unix socket, and nothing else",
  async (t) => {
    const upstream = await httpUpstream((_request, response) => {
      response.writeHead(200, { "content-type": "text/plain" }).write("some");
      setTimeout(() => response.destroy(), 20);
    });
    t.teardown(() => upstream.close());
    const { gateway, log, folder } = await startGateway(
      t,
      `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/v1/*": { pass: a, use: [auth], open: true } }
`,
    );
    const file = join(folder, "socket");
    const server = createServer((socket) => gateway.accept(socket)).listen(file);
    t.teardown(() => server.close());
    await once(server, "listening");
    const client = connect(file, () => client.write(`GET /v1/x HTTP/1.0\r\nx-api-key: ${KEY}\r\n\r\n`));
    let text = "";
    for await (const piece of client) text += piece;
    t.match(text, /some$/);
    const ended = () => log.lines.find(({ message }) => message === "exchange");
    await until(() => ended() !== undefined, "its end");
    t.match(ended()?.fields, { outcome: "upstream_error" });
  },
);

t.test("a stored answer that is fetched counts once, on whatever path it was made and is fetched", async (t) => {
  let made = { id: "resp_1", background: false };
  const upstream = await httpUpstream((_, response) => {
    const usage = { input_tokens: 50, output_tokens: 5, total_tokens: 55 };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ ...made, object: "response", status: "completed", output: [], usage }));
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-responses] } }
models: { m: { targets: [a:m] } }
paths: { "/a/*": { pass: a } }
`,
  );
  const request = async (method: string, path: string, body?: string) => {
    const response = await fetch(url + path, { method, headers: asking(), ...(body !== undefined && { body }) });
    t.equal(response.status, 200);
    await response.text();
  };
  let tokensIn = 0;
  for (const path of ["/v1/responses", "/a/responses"]) {
    await request("POST", path, '{"model":"m","input":"x"}');
    tokensIn += 50;
    for (const fetched of ["/a/responses/resp_1", "/v1/responses/resp_1"]) await request("GET", fetched);
    await gateway.stores.ledger.flush();
    t.match(await gateway.stores.ledger.sums({ by: [] }), [{ tokensIn }], `made at ${path}`);
  }
  made = { id: "resp_2", background: true };
  await request("POST", "/v1/responses", '{"model":"m","input":"x","background":true}');
  for (const fetched of ["/v1/responses/resp_2", "/a/responses/resp_2"]) await request("GET", fetched);
  await gateway.stores.ledger.flush();
  t.match(await gateway.stores.ledger.sums({ by: [] }), [{ tokensIn: tokensIn + 50 }], "made in the background");
});

t.test("a stored Chat completion that is fetched or changed has been counted, a deferred one once", async (t) => {
  let id = "chatcmpl-1";
  const upstream = await httpUpstream((_, response) => {
    const usage = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ id, object: "chat.completion", choices: [], usage }));
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-completions, openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/a/*": { pass: a, open: true } }
`,
  );
  const request = async (path: string, body?: string) => {
    const init = body === undefined ? {} : { method: "POST", body };
    await (await fetch(url + path, { headers: asking(), ...init })).text();
    await gateway.stores.ledger.flush();
    return (await gateway.stores.ledger.sums({ by: [] }))[0]?.tokensIn;
  };
  t.equal(await request("/v1/chat/completions", '{"model":"m","messages":[],"store":true}'), 50);
  t.equal(await request("/a/chat/completions/chatcmpl-1"), 50);
  t.equal(await request("/a/chat/completions/chatcmpl-1", '{"metadata":{"a":"b"}}'), 50, "its labels are changed");
  id = "a3d1008e-4544-40d4-d075-11527e794e4a";
  for (let i = 0; i < 2; i++) t.equal(await request("/a/chat/deferred-completion/a3d1008e"), 100);
  id = "";
  for (const sum of [150, 200]) t.equal(await request("/a/chat/completions", "{}"), sum, "the server gives no ids");
});

t.test("a client that does not read a response, or its end, is disconnected", async (t) => {
  const upstream = await httpUpstream(({ url }, response) => {
    if (!url.endsWith("/slow")) return void response.end(Buffer.alloc(Number(url.split("/").at(-1))));
    response.write("some ");
    setTimeout(() => response.end("more"), 500);
  });
  t.teardown(() => upstream.close());
  const { url, gateway, log, folder } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
connections: { stalled: 200ms }
paths: { "/v1/*": { pass: a, use: [auth], open: true } }
`,
  );
  // A Unix socket takes the same number of bytes each time.
  const file = await acceptAt(t, gateway, folder);
  const ask = (size: number) => {
    const client = connect(file)
      .on("error", () => {})
      .pause();
    t.teardown(() => client.destroy());
    client.write(`GET /v1/${size} HTTP/1.1\r\nhost: x\r\nx-api-key: ${KEY}\r\n\r\n`);
  };
  ask(1 << 20);
  const ended = () => log.lines.find(({ message }) => message === "exchange");
  await until(() => ended() !== undefined, "its end");
  t.match(ended()?.fields, { error: { code: "client_gone", message: "The client took no byte for 0.2 s." } });
  const taken = Number(ended()?.fields["bytes"]);
  // Some of these end at the provider before all of their bytes have room in the system.
  for (let less = 0; less <= 100; less += 5) ask(taken - less * 1024);
  await until(() => gateway.exchanges.length > 0, "the requests");
  await until(() => gateway.exchanges.length === 0, "the ends of all");
  const slow = await fetch(`${url}/v1/slow`, { headers: asking() });
  t.equal(await slow.text(), "some more", "a client that waits for its provider reads");
});

t.test("an attempt that a limit has refused has that error in the ledger", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/v1/*": { pass: a } }
limits: { default: { rpm: 1 } }
`,
  );
  const ask = () => fetch(`${url}/v1/asked`, { method: "POST", headers: asking(), body: "{}" });
  for (const status of [200, 429]) {
    const answer = await ask();
    t.equal(answer.status, status, await answer.text());
  }
  const { ledger } = gateway.stores;
  await ledger.flush();
  const rows = await ledger.recent(2);
  t.match(
    rows.map(({ attempts }) => attempts),
    [[{ error: "rate_limit_exceeded" }], [{ status: 200, error: undefined }]],
  );
  t.equal(upstream.seen.length, 1);
});

t.test("a key of the store with a budget may use an open path", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
paths: { "/open/*": { pass: a, open: true }, "/closed/*": { pass: a } }
`,
  );
  const budgets = [{ nano: 1e9, per: "month" as const, soft: false }];
  const { key } = await gateway.stores.keys.create({ name: "limited", limits: { budgets } });
  const ask = (path: string) => fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  const open = await ask("/open/files");
  t.equal(open.status, 200, await open.text());
  const closed = await ask("/closed/files");
  t.equal(closed.status, 403, await closed.text());
});
