import { once } from "node:events";
import { connect as connectHttp2, constants } from "node:http2";
import { type AddressInfo, connect, createServer } from "node:net";
import t, { type Test } from "tap";
import { Networks } from "../../src/core/networks.ts";
import { Downstream } from "../../src/downstream/server.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { CHUNKED, httpUpstream, rawUpstream } from "../support/upstream.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';
const STREAM = BODY.replace("{", '{"stream":true,');
const ID = /\r\nx-request-id: (\S+)\r\n/gi;

/** A whole request, latin1. */
const request = (line: string, headers: readonly string[] = [], body = ""): string =>
  [`${line} HTTP/1.1`, "host: a", ...headers, ...(body ? [`content-length: ${body.length}`] : []), "", body].join(
    "\r\n",
  );
const JSON_BODY = [`authorization: Bearer ${KEY}`, "content-type: application/json"];
const chat = (body = BODY): string => request("POST /v1/chat/completions", JSON_BODY, body);

/** A connection that keeps all that comes back. */
function talk(t: Test, port: number, bytes: string) {
  const socket = connect(port, "127.0.0.1", () => socket.write(bytes, "latin1"));
  const got = { text: "", closed: false };
  socket.setEncoding("latin1").on("data", (text: string) => (got.text += text));
  socket.on("error", () => {}).on("close", () => (got.closed = true));
  t.teardown(() => socket.destroy());
  return Object.assign(got, { socket });
}

const closed = async (t: Test, port: number, bytes: string): Promise<string> => {
  const client = talk(t, port, bytes);
  await until(() => client.closed, "the connection to close");
  return client.text;
};

/** A second listener in front of a gateway's generation, with a provider that answers when it is let go. */
async function held(t: Test) {
  const { promise: open, resolve: go } = Promise.withResolvers<void>();
  let asked = 0;
  const upstream = await rawUpstream(async (socket) => {
    asked++;
    socket.write(`${CHUNKED}5\r\n{"a":\r\n`);
    await open;
    socket.write("2\r\n1}\r\n0\r\n\r\n");
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { echo: { targets: [up:echo] } }\n`,
  );
  const downstream = new Downstream(() => running.gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  return { running, downstream, port, go, asked: () => asked };
}

t.test("every response has an id of its own, whatever the request", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const end = ["connection: close"];
  const asked: Record<string, [bytes: string, status: number]> = {
    greeting: [request("GET /", end), 200],
    answer: [request("POST /v1/chat/completions", [...JSON_BODY, ...end], BODY), 200],
    stream: [request("POST /v1/chat/completions", [...JSON_BODY, ...end], STREAM), 200],
    "served by a plugin": [request("GET /v1/models", [...JSON_BODY, ...end]), 200],
    "not JSON": [request("POST /v1/chat/completions", [...JSON_BODY, ...end], "{"), 400],
    "no key": [request("POST /v1/chat/completions", end, BODY), 401],
    "unknown path": [request("GET /nowhere", end), 404],
    "wrong method": [request("GET /v1/chat/completions", end), 405],
    websocket: [request("GET /v1/responses", ["connection: upgrade", "upgrade: websocket"]), 426],
    "two hosts": [request("GET /", ["host: b", ...end]), 400],
    "no HTTP": ["GARBAGE\r\n\r\n", 400],
    "a huge head": [request("GET /", [`x: ${"y".repeat(17_000)}`]), 431],
    tunnel: ["CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n", 400],
  };
  const ids = new Set<string>();
  for (const [name, [bytes, status]] of Object.entries(asked)) {
    const text = await closed(t, port, bytes);
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), name);
    const found = [...text.matchAll(ID)];
    t.equal(found.length, 1, `${name}: one id`);
    ids.add(found[0]?.[1] ?? "");
  }
  t.equal(ids.size, Object.keys(asked).length);
});

t.test("a websocket is refused with advice on streaming, and nothing after it is read", async (t) => {
  const { port } = await startGateway(t, MODELS);
  for (const name of ["websocket", "WebSocket"]) {
    const upgrade = request("GET /v1/responses", ["connection: upgrade", `upgrade: ${name}`, "sec-websocket-key: x"]);
    const text = await closed(t, port, upgrade + request("GET /"));
    t.match(text, /^HTTP\/1\.1 426 [\s\S]*stream: true[\s\S]*upgrade_required/);
    t.equal(text.split("HTTP/1.1 ").length, 2);
  }
});

t.test("CONNECT is refused: the gateway is no open proxy", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const text = await closed(t, port, `CONNECT 127.0.0.1:${port} HTTP/1.1\r\nhost: a\r\n\r\n${request("GET /")}`);
  t.match(text, /^HTTP\/1\.1 400 /);
  t.equal(text.split("HTTP/1.1 ").length, 2);
});

t.test("what is not HTTP gets a JSON error that says so, and is logged", async (t) => {
  const running = await startGateway(t, MODELS);
  for (const bytes of [
    "GARBAGE\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "\x16\x03\x01\x02",
    "GET / HTTP/1.1\r\nno colon\r\n\r\n",
  ]) {
    const text = await closed(t, running.port, bytes);
    t.match(text, /^HTTP\/1\.1 400 [\s\S]*\r\nconnection: close\r\n/i);
    const [, body = ""] = text.split("\r\n\r\n");
    t.match(JSON.parse(body), { error: { code: "bad_request" } });
    t.match(running.log.lines.at(-1), {
      message: "refused",
      fields: { id: ID.exec(text)?.[1] ?? String, status: 400 },
    });
    ID.lastIndex = 0;
  }
});

t.test("a client that begins with HTTP/2 is told in HTTP/2 to use HTTP/1.1, and is counted and logged", async (t) => {
  const running = await startGateway(t, MODELS);
  const session = connectHttp2(running.url);
  session.on("error", () => {});
  t.teardown(() => session.destroy());
  const [code, , why] = await once(session, "goaway");
  t.equal(code, constants.NGHTTP2_HTTP_1_1_REQUIRED);
  t.match(String(why), /HTTP\/1\.1/);
  t.match(running.log.lines.at(-1), { message: "refused", fields: { status: 400, error: { code: "bad_request" } } });
});

t.test("a connection serves one request after another, also after a finished stream and a refusal", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const client = talk(t, port, "");
  const ways: [string, RegExp][] = [
    [chat(STREAM), /\r\n0\r\n\r\n$/],
    [chat(), /"object":"chat\.completion"[\s\S]*\r\n0\r\n\r\n$/],
    [request("POST /v1/chat/completions", ["content-type: application/json"], BODY), /^HTTP\/1\.1 401 [\s\S]*\}$/],
    [request("GET /nowhere"), /^HTTP\/1\.1 404 [\s\S]*\}$/],
    [request("GET /"), /\}\n$/],
    [chat(STREAM), /\r\n0\r\n\r\n$/],
  ];
  for (const [bytes, end] of ways) {
    client.text = "";
    client.socket.write(bytes);
    await until(() => end.test(client.text), `an answer to ${bytes.split("\r\n")[0]}`);
    t.equal(client.text.split("HTTP/1.1 ").length, 2);
  }
  t.notOk(client.closed);
});

t.test("pipelined requests are answered in order", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const client = talk(t, port, chat(STREAM) + request("GET /nowhere") + chat());
  await until(() => client.text.includes('"object":"chat.completion"'), "the last answer");
  t.same(
    client.text.match(/HTTP\/1\.1 \d+/g)?.map((line) => line.slice(9)),
    ["200", "404", "200"],
  );
  t.ok(client.text.indexOf("data: [DONE]") < client.text.indexOf("HTTP/1.1 404"));
});

t.test("a client that expects 100 Continue receives it once its key was accepted", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const waiting = ["content-type: application/json", `content-length: ${BODY.length}`, "expect: 100-continue"];
  const refused = await new Promise<string>((resolve) => {
    const client = talk(t, port, request("POST /v1/chat/completions", waiting));
    client.socket.on("data", () => {
      if (!client.text.endsWith("}")) return;
      client.socket.destroy();
      resolve(client.text);
    });
  });
  t.match(refused, /^HTTP\/1\.1 401 /, "no 100 before it");
  t.match(refused, /\r\nconnection: close\r\n/i, "for it is unknown whether the body will be sent");
  const client = talk(t, port, request("POST /v1/chat/completions", [...waiting, `authorization: Bearer ${KEY}`]));
  await until(() => client.text !== "", "the go-ahead");
  t.equal(client.text, "HTTP/1.1 100 Continue\r\n\r\n");
  client.text = "";
  client.socket.write(BODY);
  await until(() => client.text.includes("chat.completion"), "the answer");
  t.match(client.text, /^HTTP\/1\.1 200 /);
});

t.test(
  "a client that expects 100 Continue is refused at once where the head alone shows that the body is not acceptable",
  async (t) => {
    const { port } = await startGateway(t, `${MODELS}body: { limit: 1KiB }\n`);
    const json = "content-type: application/json";
    for (const [status, lines] of [
      [413, [json, "content-length: 1025"]],
      [415, ["content-type: text/csv", `content-length: ${BODY.length}`]],
      [415, [json, "content-encoding: compress", `content-length: ${BODY.length}`]],
    ] as const) {
      const all = [...lines, "expect: 100-continue", `authorization: Bearer ${KEY}`];
      const client = talk(t, port, request("POST /v1/chat/completions", all));
      await until(() => client.text.endsWith("}"), `the ${status}`);
      t.match(client.text, new RegExp(`^HTTP/1.1 ${status} `), "no 100 before it");
      t.match(client.text, /\r\nconnection: close\r\n/i);
      client.socket.destroy();
    }
  },
);

t.test("a query parameter that occurs twice, or cannot be decoded, is refused", async (t) => {
  const { url } = await startGateway(t, MODELS);
  for (const [query, reason] of [
    ["alt=sse&alt=json", /"alt" occurs twice\. Send it once/],
    ["a=%zz", /broken escape/],
  ] as const) {
    const refused = await fetch(`${url}/v1/chat/completions?${query}`, {
      method: "POST",
      headers: asking(),
      body: BODY,
    });
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { code: "bad_target", message: reason } });
  }
});

t.test("close() waits for the running exchange, and accepts no new connection", async (t) => {
  const { downstream, port, go, asked } = await held(t);
  const idle = talk(t, port, request("GET /"));
  await until(() => idle.text !== "", "the greeting");
  const client = talk(t, port, chat());
  await until(() => asked() === 1, "the provider to be asked");
  t.equal(downstream.active, 1);
  let over = false;
  const ending = downstream.close({ drain: 60_000 }).then(() => (over = true));
  await until(() => downstream.isStopping, "the stop");
  // Who comes while what waits is being taken is taken too.
  for (let refused = false; !refused; ) {
    const late = connect(port, "127.0.0.1");
    refused = await once(late, "connect").then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ECONNREFUSED",
    );
    late.destroy();
  }
  t.notOk(over || client.closed || idle.closed);
  idle.socket.write(request("GET /"));
  await until(() => idle.closed, "the idle connection to close");
  t.match(idle.text, /200 OK.*200 OK[^{]*connection: close/is, "with the answer to another request");
  go();
  await ending;
  await until(() => client.closed, "the answer to be read");
  t.match(client.text, /^HTTP\/1\.1 200 /);
  t.match(client.text, /1\}\r\n0\r\n\r\n$/, "the response is complete");
  await until(() => downstream.active === 0, "the exchange to be over");
  await downstream.close({ drain: 60_000 });
  t.pass("and closing again has no effect");
});

t.test("close() aborts what does not end in time", async (t) => {
  const { running, downstream, port, asked } = await held(t);
  const client = talk(t, port, chat());
  await until(() => asked() === 1, "the provider to be asked");
  await downstream.close({ drain: 10 });
  await until(() => client.closed, "the connection to close");
  await until(() => downstream.active === 0, "the exchange to be over");
  t.match(running.log.lines.at(-1)?.fields, { outcome: "interrupted", error: { code: "interrupted" } });
});

t.test("connections of one address are limited; one more is closed, and one that ends makes room", async (t) => {
  const running = await startGateway(t, MODELS);
  const trust = new Networks(["192.0.2.1"]);
  const limits = { keepAlive: 75_000, head: 10_000, perAddress: 2, trust };
  const downstream = new Downstream(() => running.gateway.generation, limits);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const [first, second] = [talk(t, port, request("GET /")), talk(t, port, request("GET /"))];
  await until(() => first.text.includes("200 OK") && second.text.includes("200 OK"), "both answers");
  t.equal(await closed(t, port, request("GET /")), "", "the third gets nothing");
  first.socket.destroy();
  await until(() => first.closed, "room");
  let text = "";
  for (let i = 0; i < 50 && text === ""; i++) text = await closed(t, port, request("GET /", ["connection: close"]));
  t.match(text, "200 OK");
  const open = await Promise.all(
    Array.from({ length: 300 }, () => closed(t, running.port, request("GET /", ["connection: close"]))),
  );
  t.ok(
    open.every((answer) => answer.includes("200 OK")),
    "where no proxy is named, connections of this machine are not counted",
  );
});

t.test("a head that arrived while the gateway was busy is not a slow one", async (t) => {
  const { gateway } = await startGateway(t, MODELS);
  const head = 200;
  const downstream = new Downstream(() => gateway.generation, { head });
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const whole = talk(t, port, "");
  const half = talk(t, port, "GET / HTTP/1.1\r\n");
  const { promise: parsing, resolve: begun } = Promise.withResolvers<void>();
  half.socket.once("connect", () => setTimeout(begun, 20));
  await parsing;
  // The system takes the bytes at once; nobody reads them until the clock has been looked at.
  await new Promise<void>((resolve) =>
    setImmediate(() => {
      whole.socket.write(request("GET /v1/models", ["connection: close"]));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 + 2 * head);
      resolve();
    }),
  );
  await until(() => whole.closed && half.closed, "both connections to close");
  t.match(whole.text, /^HTTP\/1\.1 401 /, "it is checked as it is");
  t.match(half.text, /^HTTP\/1\.1 408 /, "one with a missing part is refused");
});

t.test("a query cannot name the model: path and body do, and were checked", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, gemini] } }\nmodels: { echo: { targets: [up:vendor-echo] } }\n`,
  );
  const ask = async (path: string, body: object) => {
    const response = await fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify(body) });
    await response.text();
    return { asked: upstream.seen.at(-1)?.url, dropped: response.headers.get("gateway-dropped") };
  };
  const chat = JSON.parse(BODY);
  const names = [
    "model",
    "Model",
    "mod%65l",
    "model[]",
    "models",
    "model_id",
    "modelId",
    "deployment",
    "deployment-id",
  ];
  for (const name of [...names, "engine", "%20model"]) {
    const { asked, dropped } = await ask(`/v1/chat/completions?a=1&${name}=dear&include=a%20b`, chat);
    t.equal(asked, "/v1/chat/completions?a=1&include=a%20b", name);
    t.equal(dropped, `?${decodeURIComponent(name)}`, name);
  }
  const contents = [{ parts: [{ text: "hi" }] }];
  t.same(await ask("/v1beta/models/echo:generateContent?model=dear&x=1", { contents }), {
    asked: "/v1/models/vendor-echo:generateContent?x=1",
    dropped: "?model",
  });
  const others = "modelled=1&remodel=2&module=3&engineering=4";
  t.equal((await ask(`/v1/chat/completions?${others}`, chat)).asked, `/v1/chat/completions?${others}`);
});

t.test("a query cannot change what was checked in the body: objects, lengths, tiers", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses, anthropic-messages, gemini] } }
models: { echo: { targets: [up:echo] } }
`,
  );
  const ask = async (path: string, body: object) => {
    const response = await fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify(body) });
    await response.text();
    return { asked: upstream.seen.at(-1)?.url, dropped: response.headers.get("gateway-dropped") };
  };
  const contents = [{ parts: [{ text: "hi" }] }];
  for (const name of [
    "cachedContent",
    "cached_content",
    "contents.parts.file_data.file_uri",
    "contents[0].parts[0].fileData.fileUri",
    "tools.fileSearch.fileSearchStoreNames",
    "generationConfig.maxOutputTokens",
    "generation_config.candidate_count",
    "service_tier",
  ]) {
    const { asked, dropped } = await ask(`/v1beta/models/echo:generateContent?prettyPrint=false&${name}=5`, {
      contents,
    });
    t.equal(asked, "/v1/models/echo:generateContent?prettyPrint=false", name);
    t.equal(dropped, `?${name}`);
  }
  const input = { model: "echo", input: "hi" };
  for (const name of ["previous_response_id", "background", "max_output_tokens", "prompt[id]"])
    t.equal((await ask(`/v1/responses?a=1&${name}=5`, input)).asked, "/v1/responses?a=1", name);
  const messages = { model: "echo", max_tokens: 5, messages: [{ role: "user", content: "hi" }] };
  for (const name of ["fallbacks", "container", "max_tokens", "speed"])
    t.equal((await ask(`/v1/messages?beta=true&${name}=5`, messages)).asked, "/v1/messages?beta=true", name);
});

t.test("a method that is not supported is refused with the list of those that are", async (t) => {
  const { url, port } = await startGateway(t, MODELS);
  for (const [method, path, allow] of [
    ["PUT", "/v1/chat/completions", "POST"],
    ["GET", "/chat/completions", "POST"],
    ["DELETE", "/v1/models", "GET, HEAD"],
  ] as const) {
    const answer = await fetch(url + path, { method });
    t.equal(answer.status, 405, `${method} ${path}`);
    t.equal(answer.headers.get("allow"), allow, `${method} ${path}`);
    await answer.text();
  }
  const traced = await closed(t, port, request("TRACE /v1/models", ["connection: close"]));
  t.match(traced, /^HTTP\/1\.1 405 [\s\S]*\r\nallow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n/);
});

t.test("an exchange that fails unexpectedly closes only its own connection, and ends", async (t) => {
  const { gateway, log } = await startGateway(t, MODELS);
  const downstream = new Downstream(() => gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const ended: string[] = [];
  let failing = true;
  // The line behind an exchange is written when it can no longer be refused.
  const { info } = log;
  log.info = (fields, message) => {
    if (message === "exchange" && failing) throw new Error("the log failed");
    info.call(log, fields, message);
  };
  downstream.onEnded = ({ id, headers }) => {
    ended.push(id);
    if (headers.has("x-bad")) throw new Error("the count failed");
  };
  const failed = await closed(t, port, chat());
  await until(() => ended.length === 1, "the end of the exchange");
  failing = false;
  await closed(t, port, request("POST /v1/chat/completions", [...JSON_BODY, "x-bad: yes", "connection: close"], BODY));
  await until(() => ended.length === 2, "the end of the other one");
  t.equal(downstream.active, 0);
  t.notMatch(failed, "HTTP/1.1 500");
  const told = log.lines.filter(({ level }) => level === "error");
  t.match(told, [
    { message: "a request failed, and its connection is closed", fields: { id: ended[0], cause: /the log failed/ } },
    { message: "a request failed, and its connection is closed", fields: { id: ended[1], cause: /the count failed/ } },
  ]);
  t.match(
    await closed(t, port, request("POST /v1/chat/completions", [...JSON_BODY, "connection: close"], BODY)),
    "200 OK",
  );
});

t.test("a stop serves what has arrived while the process waited for a core", async (t) => {
  const { gateway } = await startGateway(t, MODELS);
  const downstream = new Downstream(() => gateway.generation);
  const server = createServer({ allowHalfOpen: true }, (socket) => downstream.accept(socket)).listen(0, "127.0.0.1");
  t.teardown(() => server.close());
  await once(server, "listening");
  const client = talk(t, (server.address() as AddressInfo).port, chat());
  await until(() => client.text.includes("200 OK"), "the first answer");
  const linger = 100;
  const stopped = downstream.close({ linger, drain: 10_000 });
  client.socket.write(chat());
  for (const busyUntil = performance.now() + 3 * linger; performance.now() < busyUntil; );
  t.same(await stopped, []);
  await until(() => client.closed, "the end");
  t.equal(client.text.split("200 OK").length, 3);
});
