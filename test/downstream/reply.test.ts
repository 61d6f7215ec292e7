import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, Socket } from "node:net";
import t, { type Test } from "tap";
import { REFUSALS } from "../../src/core/errors.ts";
import { endResponse } from "../../src/downstream/reply.ts";
import { Downstream } from "../../src/downstream/server.ts";
import { talk } from "../support/connection.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { until } from "../support/until.ts";
import { rawUpstream, type Script } from "../support/upstream.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';

/** Refuses with what the request asks for. */
const REFUSING = `
import { type AccessExchange, type ErrorCode, GatewayError } from "model-gateway";
export default class Refusing {
  access(exchange: AccessExchange) {
    const note = exchange.query.get("note");
    for (let i = Number(exchange.query.get("notes") ?? 1); note && i > 0; i--) exchange.notices.push(note);
    const dropped = Number(exchange.query.get("dropped") ?? 0);
    for (let i = 0; i < dropped; i++) exchange.dropped.push("messages." + i + ".näme");
    if (exchange.query.has("wrong")) {
      exchange.notices.push(5 as never, "fine");
      exchange.dropped.push(undefined as never, "fine");
      throw new Error("It has failed.");
    }
    const code = exchange.query.get("code") as ErrorCode | null;
    const after = exchange.query.get("after");
    if (code) throw new GatewayError(code, after === null ? {} : { retryAfter: Number(after) });
  }
}`;
const refusing = (t: Test): Promise<Running> =>
  startGateway(
    t,
    `${MODELS}plugins: { refusing: { from: ./refusing.ts } }\nchains: { llm: [sse, auth, refusing, models, rewrite, usage], read: [auth] }\n`,
    { "refusing.ts": REFUSING },
  );

const DIALECTS: Record<string, { path: string; shape: object }> = {
  "openai-chat": { path: "/v1/chat/completions", shape: { error: { code: String, message: String, type: String } } },
  "anthropic-messages": { path: "/v1/messages", shape: { type: "error", error: { type: String, message: String } } },
  gemini: {
    path: "/v1beta/models/echo:generateContent",
    shape: { error: { code: Number, message: String, status: String } },
  },
};

const ask = ({ url }: Running, path: string) => fetch(url + path, { method: "POST", headers: asking(), body: BODY });

for (const [protocol, { path, shape }] of Object.entries(DIALECTS)) {
  gathered(
    t,
    `${protocol}: each refusal has its status, the dialect, an id, and says whether to ask again`,
    async (t) => {
      const running = await refusing(t);
      for (const [code, refusal] of Object.entries(REFUSALS)) {
        if (code === "client_gone") continue;
        const response = await ask(running, `${path}?code=${code}`);
        t.equal(response.status, refusal.status, code);
        t.match(await response.json(), shape, code);
        t.equal(response.headers.get("content-type"), "application/json", code);
        t.ok(response.headers.get("x-request-id"), code);
        t.equal(response.headers.get("x-should-retry"), refusal.retry ? null : "false", code);
        t.equal(response.headers.get("retry-after"), null, code);
      }
    },
  );
}

t.test("the id is also in the header that the protocol's clients read, and is the one in the log", async (t) => {
  const running = await refusing(t);
  for (const path of ["/v1/messages", "/v1/messages?code=no_target"]) {
    const { headers } = await ask(running, path);
    const id = headers.get("x-request-id");
    t.ok(id);
    t.equal(headers.get("request-id"), id);
    await until(() => running.log.lines.some(({ fields }) => fields["id"] === id), "the log line");
  }
});

t.test("retry-after is in whole seconds, rounded up, next to the exact time", async (t) => {
  const running = await refusing(t);
  for (const [after, header] of Object.entries({ "7": "7", "0.2": "1", "1.5": "2" })) {
    const { headers } = await ask(running, `/v1/messages?code=no_target&after=${after}`);
    t.equal(headers.get("retry-after"), header);
    t.equal(headers.get("retry-after-ms"), String(Number(after) * 1000));
    t.equal(headers.get("x-should-retry"), null);
  }
});

t.test("notices are sent with responses and refusals, as one line of plain text", async (t) => {
  const running = await refusing(t);
  const note = `&note=${encodeURIComponent("an äpple\r\nx-evil: 1")}`;
  for (const query of [`?code=no_target${note}`, `?x=1${note}`]) {
    const { headers } = await ask(running, `/v1/messages${query}`);
    t.equal(headers.get("gateway-notice"), "an ?pple??x-evil: 1");
    t.equal(headers.get("x-evil"), null);
  }
  const long = await ask(running, `/v1/messages?note=${"word ".repeat(600)}&notes=99`);
  const sent = long.headers.get("gateway-notice") ?? "";
  t.match([long.status, sent.length > 6000 && sent.length < 8300], [200, true], `${sent.length}`);
});

t.test("what is no text among the notices of a plugin that has failed is left out", async (t) => {
  const { status, headers } = await ask(await refusing(t), "/v1/messages?wrong");
  t.equal(status, 500);
  t.same([headers.get("gateway-notice"), headers.get("gateway-dropped")], ["fine", "fine"]);
});

t.test(
  "omitted features are listed with responses and refusals, and a long list is shortened to a count",
  async (t) => {
    const running = await refusing(t);
    for (const query of ["?code=no_target&dropped=2", "?x=1&dropped=2"])
      t.equal(
        (await ask(running, `/v1/messages${query}`)).headers.get("gateway-dropped"),
        "messages.0.n?me, messages.1.n?me",
      );
    const long = (await ask(running, "/v1/messages?dropped=500")).headers.get("gateway-dropped") ?? "";
    t.ok(long.length < 2200, `${long.length}`);
    const listed = long.split(", ");
    t.equal(listed.at(-1), `+${500 - (listed.length - 1)}`);
  },
);

t.test("a client that still sends its body receives the refusal, and its connection stays open", async (t) => {
  const running = await startGateway(t, MODELS);
  const size = 5 << 20;
  const head = `POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${size}\r\n`;
  const client = talk(t, running.port, `${head}\r\n`);
  await until(() => client.text.endsWith("}"), "the refusal to come before the body");
  t.match(client.text, /^HTTP\/1\.1 401 /);
  for (let sent = 0; sent < size; sent += 1 << 16)
    if (!client.socket.write(Buffer.alloc(1 << 16, "x"))) await once(client.socket, "drain");
  client.text = "";
  client.socket.write(
    `POST /v1/messages HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
  );
  await until(() => client.text.includes('"type":"message"'), "the next answer");
  t.match(client.text, /^HTTP\/1\.1 200 /);
  t.equal(client.error, undefined);
});

t.test("a body that was sent together with its head does not reset the connection of the refusal", async (t) => {
  const running = await startGateway(t, MODELS);
  const size = 5 << 20;
  const head = `POST /v1/messages HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${size}\r\n\r\n`;
  const client = talk(t, running.port, Buffer.concat([Buffer.from(head), Buffer.alloc(size, "x")]));
  await until(() => client.closed, "the connection to close");
  t.match(client.text, /^HTTP\/1\.1 401 [\s\S]*\}$/);
  t.equal(client.error, undefined);
});

t.test("ambiguous framing closes the connection: what follows is not read as a request", async (t) => {
  const running = await startGateway(t, MODELS);
  const second = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
  for (const head of [
    "POST /v1/messages HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: 0\r\n\r\n",
    "POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  ]) {
    const client = talk(t, running.port, head + second);
    await until(() => client.closed, "the connection to close");
    t.match(client.text, /^HTTP\/1\.1 400 /);
    t.match(client.text, /\r\nconnection: close\r\n/i);
    t.equal(client.text.split("HTTP/1.1 ").length, 2);
  }
});

/** Asks Chat for a whole answer of a provider that does what `script` says, through one more plugin. */
async function askedOf(t: Test, script: Script, plugin: string, path = "/v1/chat/completions") {
  const upstream = await rawUpstream(script);
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { any: { targets: [up:any] } }
plugins: { own: { from: ./own.ts } }
chains: { llm: [sse, auth, own, models, rewrite, usage], read: [auth] }
`,
    {
      "own.ts": `import { type Frame, type ResponseExchange } from "model-gateway";\nexport default class Own { ${plugin} }`,
    },
  );
  const text = '{"model":"any","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';
  const client = talk(
    t,
    running.port,
    `POST ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
  await until(() => running.log.lines.length > 0, "the log line");
  return { client, line: running.log.lines.at(-1)?.fields };
}

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const NOTHING = "access() {}";

t.test(
  "a complete response that fails before any byte was sent becomes an error in the client's protocol",
  async (t) => {
    const answer =
      '{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}';
    const cut: Script = (socket) => void socket.write(`${HEAD}content-length: 100\r\n\r\n`, () => socket.destroy());
    const half: Script = (socket) =>
      void socket.write(`${HEAD}content-length: 100\r\n\r\n{"half":`, () => setTimeout(() => socket.destroy(), 20));
    const whole: Script = (socket) => socket.write(`${HEAD}content-length: ${answer.length}\r\n\r\n${answer}`);
    const holding =
      'response(exchange: ResponseExchange) { return exchange.replaceResponseText({ pattern: /a/, maxLength: 1 }, () => "b"); }';
    const throwing = (kind: string) =>
      `response() { return (frame: Frame) => { if (frame.kind === "${kind}") throw new Error("no more"); }; }`;
    const broken = [502, { outcome: "upstream_error", error: { code: "upstream_truncated" } }] as const;
    const failed = [500, { outcome: "failed", error: { code: "plugin_failed", origin: "own.response" } }] as const;
    for (const [script, plugin, status, fields] of [
      [cut, NOTHING, ...broken],
      [half, NOTHING, ...broken],
      [half, holding, ...broken],
      [whole, throwing("piece"), ...failed],
      [whole, throwing("end"), ...failed],
    ] as const) {
      const { client, line } = await askedOf(t, script, plugin);
      await until(() => client.text.endsWith("}"), "the answer");
      const [head = "", body = ""] = client.text.split("\r\n\r\n");
      t.equal(head.split(" ")[1], String(status));
      t.match(JSON.parse(body), { error: { code: fields.error.code } });
      t.match(line, { ...fields, status, bytes: 0, first_byte_ms: undefined });
      t.notOk(client.closed, "the connection stays open");
    }
    const translated = await askedOf(t, half, NOTHING, "/v1/messages");
    await until(() => translated.client.text.endsWith("}"), "the answer");
    t.match(translated.client.text, /^HTTP\/1\.1 502 [\s\S]*\{"type":"error"/);
  },
);

t.test("a client has received the error of a stream before its connection ends", async (t) => {
  const { destroySoon } = Socket.prototype;
  const order: string[] = [];
  Socket.prototype.destroySoon = function (this: Socket) {
    order.push("end");
    destroySoon.call(this);
  };
  t.teardown(() => {
    Socket.prototype.destroySoon = destroySoon;
  });
  const event = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
  for (const last of ["", 'data: {"error":{"message":"an error","code":503}}\n\n']) {
    const upstream = await rawUpstream((socket) => void socket.write(head + event + last, () => socket.destroy()));
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { echo: { targets: [up:m] } }\n`,
    );
    const body = '{"model":"echo","stream":true,"messages":[]}';
    const lines = Object.entries({ ...asking(), host: "a", "content-length": body.length });
    const request = `POST /v1/chat/completions HTTP/1.1\r\n${lines.map((line) => line.join(": ")).join("\r\n")}\r\n\r\n${body}`;
    const got = talk(t, running.port, request);
    got.socket.on("data", () => {
      if (got.text.includes('"error"') && order.length === 0) order.push("error");
    });
    await until(() => got.closed, "the end");
    t.same(order.splice(0), ["error", "end"], got.text);
    t.notMatch(got.text, /\r\n0\r\n/, "which does not look like that of a complete response");
    t.equal(got.error, undefined, "and is no reset");
  }
});

t.test("an error after the first bytes of a response that is no stream just closes the connection", async (t) => {
  // So little is not passed on before it is known to be no error: it leaves at once when it is cut.
  for (const [framing, first, second, left] of [
    ["content-length: 100", '{"half":', '"no', '{"half":"no'],
    ["transfer-encoding: chunked", '8\r\n{"half":\r\n', '3\r\n"no\r\n', '8\r\n{"half":\r\n3\r\n"no\r\n'],
  ] as const) {
    const { client, line } = await askedOf(
      t,
      (socket) => {
        socket.write(`${HEAD}${framing}\r\n\r\n${first}`);
        setTimeout(() => socket.write(second, () => setTimeout(() => socket.destroy(), 20)), 20);
      },
      NOTHING,
    );
    await until(() => client.closed, "the connection to close");
    t.match(client.text, /^HTTP\/1\.1 200 /);
    const sent = client.text.slice(client.text.indexOf("\r\n\r\n") + 4);
    t.equal(sent, left, "what had arrived, and nothing else");
    t.match(line, { status: 200, outcome: "upstream_error" });
  }
});

t.test("a response that a plugin returns itself has its status, headers and length", async (t) => {
  const teapot = `export default class Teapot { serve() { return { status: 418, headers: { "x-pot": "short" }, body: '{"tea":"ä"}' }; } }`;
  const running = await startGateway(
    t,
    `${MODELS}plugins: { teapot: { from: ./teapot.ts } }\nchains: { llm: [sse, auth, models, rewrite, usage], read: [auth] }\npaths:\n  /tea: { serve: teapot, use: read }\n`,
    { "teapot.ts": teapot },
  );
  const response = await fetch(`${running.url}/tea`, { headers: asking() });
  t.equal(response.status, 418);
  t.match(Object.fromEntries(response.headers), {
    "x-pot": "short",
    "content-type": "application/json",
    "content-length": "12",
    "x-request-id": /./,
  });
  t.equal(await response.text(), '{"tea":"ä"}');
  await until(() => running.log.lines.length > 0, "the log line");
  t.match(running.log.lines.at(-1)?.fields, { status: 418, outcome: "completed", bytes: 12 });
});

t.test("a client that does not read our response is disconnected, one that does keeps its connection", async (t) => {
  const large = Buffer.alloc(32 << 20, "x");
  // Who reads may be kept from it for longer than that on a busy machine.
  const server = createServer(({ url }, response) =>
    endResponse(response, url === "/small" ? "small" : large, url === "/deaf" ? 100 : 30_000),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  let open = 0;
  server.on("connection", (socket) => {
    open++;
    socket.on("close", () => open--);
  });
  const ask = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`;
  const deaf = connect(port, "127.0.0.1", () => deaf.write(ask("/deaf")));
  deaf.pause().on("error", () => {});
  t.teardown(() => deaf.destroy());
  await until(() => open === 1, "a connection");
  await until(() => open === 0, "it to be given up");
  t.equal(open, 0);
  let bytes = 0;
  const reader = connect(port, "127.0.0.1", () => reader.write(ask("/")));
  reader.on("data", (piece) => (bytes += piece.length)).on("error", () => {});
  t.teardown(() => reader.destroy());
  await until(() => bytes > large.length, "all of it");
  await new Promise((resolve) => setTimeout(resolve, 300));
  reader.write(ask("/small"));
  const before = bytes;
  await until(() => bytes > before, "another answer on the same connection");
  t.equal(open, 1);
});

t.test("no cache in front may store the response to one key: it does not distinguish keys", async (t) => {
  const upstream = await rawUpstream((socket) =>
    socket.write(
      "HTTP/1.1 200 OK\r\ncache-control: public, s-maxage=60\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n" +
        '{"id":"f_1"} ',
    ),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { targets: [up:x] } }
paths: { /v1/files/*: { pass: up, open: true } }
plugins: { own: { from: ./own.ts } }
chains: { llm: [sse, auth, models, rewrite, usage], read: [auth, own, models] }
`,
    {
      "own.ts":
        'export default class Own { access(e) { if (e.path === "/v1/models/own") e.answer = { body: "{}", headers: { "cache-control": "max-age=5" } }; } }',
    },
  );
  const caching = async (path: string, init: RequestInit = { headers: asking() }) => {
    const response = await fetch(url + path, init);
    await response.text();
    return `${response.status} ${response.headers.get("cache-control")}`;
  };
  t.equal(await caching("/v1/responses", { method: "POST", headers: asking(), body: '{"model":"m"}' }), "200 null");
  t.equal(await caching("/v1/models"), "200 no-store");
  t.equal(await caching("/v1/models", { headers: {} }), "401 no-store");
  t.equal(await caching("/v1/models", { method: "HEAD", headers: asking() }), "200 no-store");
  t.equal(await caching("/nowhere"), "404 no-store");
  t.equal(await caching("/v1/responses/f_1"), "200 no-store", "a stored response");
  t.equal(await caching("/v1/files"), "200 private", "a pass-through response");
  t.equal(await caching("/v1/models/own"), "200 max-age=5", "a plugin sets it itself");
});

gathered(
  t,
  "a request refused by overload gets its protocol's usual error, and its connection stays open",
  async (t) => {
    const running = await startGateway(t, MODELS);
    const downstream = new Downstream(() => running.gateway.generation, { overload: { delay: 0, heap: 0.0001 } });
    t.teardown(() => downstream.close({ drain: 0 }));
    const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
    const url = `http://127.0.0.1:${port}`;
    while ((await fetch(`${url}/v1/models`, { headers: asking() })).status !== 503);
    for (const [protocol, { path, shape }] of Object.entries(DIALECTS)) {
      const ids = new Set<string>();
      for (let i = 0; i < 3; i++) {
        const answer = await fetch(url + path, { method: "POST", headers: asking(), body: BODY });
        t.equal(answer.status, 503, protocol);
        t.match(answer.headers.get("retry-after"), /^[1-3]$/);
        t.match(answer.headers.get("retry-after-ms"), /^\d{4}$/);
        t.not(answer.headers.get("x-should-retry"), "false");
        const text = await answer.text();
        t.equal(Number(answer.headers.get("content-length")), Buffer.byteLength(text));
        t.match(JSON.parse(text), shape);
        const id = answer.headers.get("x-request-id") ?? "";
        ids.add(id);
        if (text.includes("request_id")) t.match(JSON.parse(text), { request_id: id });
      }
      t.equal(ids.size, 3);
    }
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ${BODY.length}\r\n\r\n`;
    const client = talk(t, port, head + BODY + head + BODY.slice(0, 9));
    const answers = () => client.text.split("HTTP/1.1 503 ").length - 1;
    await until(() => answers() === 2, "an answer also before the body is there");
    client.socket.write(BODY.slice(9) + head + BODY);
    await until(() => answers() === 3, "and the next request behind it");
    t.equal(client.closed, false);
  },
);
