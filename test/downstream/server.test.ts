import t from "tap";
import { Networks } from "../../src/core/networks.ts";
import { Downstream } from "../../src/downstream/server.ts";
import { JSON_BODY, requestText, talk, talkToEnd } from "../support/connection.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';
const STREAM = BODY.replace("{", '{"stream":true,');
const ID = /\r\nx-request-id: (\S+)\r\n/gi;

const chat = (body = BODY): string => requestText("POST /v1/chat/completions", JSON_BODY, body);

t.test("every response has an id of its own, whatever the request", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const end = ["connection: close"];
  const asked: Record<string, [bytes: string, status: number]> = {
    greeting: [requestText("GET /", end), 200],
    answer: [requestText("POST /v1/chat/completions", [...JSON_BODY, ...end], BODY), 200],
    stream: [requestText("POST /v1/chat/completions", [...JSON_BODY, ...end], STREAM), 200],
    "served by a plugin": [requestText("GET /v1/models", [...JSON_BODY, ...end]), 200],
    "not JSON": [requestText("POST /v1/chat/completions", [...JSON_BODY, ...end], "{"), 400],
    "no key": [requestText("POST /v1/chat/completions", end, BODY), 401],
    "unknown path": [requestText("GET /nowhere", end), 404],
    "wrong method": [requestText("GET /v1/chat/completions", end), 405],
    websocket: [requestText("GET /v1/responses", ["connection: upgrade", "upgrade: websocket"]), 426],
    "two hosts": [requestText("GET /", ["host: b", ...end]), 400],
    "no HTTP": ["GARBAGE\r\n\r\n", 400],
    "a huge head": [requestText("GET /", [`x: ${"y".repeat(17_000)}`]), 431],
    tunnel: ["CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n", 400],
  };
  const ids = new Set<string>();
  for (const [name, [bytes, status]] of Object.entries(asked)) {
    const text = await talkToEnd(t, port, bytes);
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
    const upgrade = requestText("GET /v1/responses", [
      "connection: upgrade",
      `upgrade: ${name}`,
      "sec-websocket-key: x",
    ]);
    const text = await talkToEnd(t, port, upgrade + requestText("GET /"));
    t.match(text, /^HTTP\/1\.1 426 [\s\S]*stream: true[\s\S]*upgrade_required/);
    t.equal(text.split("HTTP/1.1 ").length, 2);
  }
});

t.test("a connection serves one request after another, also after a finished stream and a refusal", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const client = talk(t, port, "");
  const ways: [string, RegExp][] = [
    [chat(STREAM), /\r\n0\r\n\r\n$/],
    [chat(), /"object":"chat\.completion"[\s\S]*\r\n0\r\n\r\n$/],
    [requestText("POST /v1/chat/completions", ["content-type: application/json"], BODY), /^HTTP\/1\.1 401 [\s\S]*\}$/],
    [requestText("GET /nowhere"), /^HTTP\/1\.1 404 [\s\S]*\}$/],
    [requestText("GET /"), /\}\n$/],
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
  const client = talk(t, port, chat(STREAM) + requestText("GET /nowhere") + chat());
  await until(() => client.text.includes('"object":"chat.completion"'), "the last answer");
  t.same(
    client.text.match(/HTTP\/1\.1 \d+/g)?.map((line) => line.slice(9)),
    ["200", "404", "200"],
  );
  t.ok(client.text.indexOf("data: [DONE]") < client.text.indexOf("HTTP/1.1 404"));
});

t.test(
  "a response without the request's body arrives whenever that is sent, and a short one ends no connection",
  async (t) => {
    const { port } = await startGateway(t, MODELS);
    for (const line of ["GET /", "GET /livez", "GET /v1/models", "HEAD /v1/models"]) {
      const client = talk(t, port, requestText(line, [`authorization: Bearer ${KEY}`, "content-length: 5"]));
      await until(() => client.text.includes("\r\n\r\n"), `the answer to ${line}`);
      client.socket.write(`later${requestText("GET /nowhere")}`);
      await until(() => client.text.includes("path_not_found"), "the answer to the next request");
      t.match(client.text, /^HTTP\/1\.1 200 /, line);
      t.notOk(client.closed);
      const asked = talk(
        t,
        port,
        requestText(line, [`authorization: Bearer ${KEY}`, "content-length: 5", "expect: 100-continue"]),
      );
      await until(() => asked.closed, "the connection to close, as the body may never come");
      t.match(asked.text, /^HTTP\/1\.1 200 [\s\S]*\r\nconnection: close\r\n/i);
    }
  },
);

t.test("a pipelined request whose chunked body has no bytes is refused at its turn, as an empty one", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const empty = `${requestText("POST /v1/chat/completions", [...JSON_BODY, "transfer-encoding: chunked"])}0\r\n\r\n`;
  const client = talk(t, port, chat(STREAM) + empty + chat());
  await until(() => client.text.includes('"object":"chat.completion"'), "the last answer");
  t.same(
    client.text.match(/HTTP\/1\.1 \d+/g)?.map((line) => line.slice(9)),
    ["200", "400", "200"],
  );
  t.match(client.text, "The request body is empty");
});

t.test("a client that expects 100 Continue receives it once its key was accepted", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const waiting = ["content-type: application/json", `content-length: ${BODY.length}`, "expect: 100-continue"];
  const refused = await new Promise<string>((resolve) => {
    const client = talk(t, port, requestText("POST /v1/chat/completions", waiting));
    client.socket.on("data", () => {
      if (!client.text.endsWith("}")) return;
      client.socket.destroy();
      resolve(client.text);
    });
  });
  t.match(refused, /^HTTP\/1\.1 401 /, "no 100 before it");
  t.match(refused, /\r\nconnection: close\r\n/i, "for it is unknown whether the body will be sent");
  const client = talk(t, port, requestText("POST /v1/chat/completions", [...waiting, `authorization: Bearer ${KEY}`]));
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
      const client = talk(t, port, requestText("POST /v1/chat/completions", all));
      await until(() => client.text.endsWith("}"), `the ${status}`);
      t.match(client.text, new RegExp(`^HTTP/1.1 ${status} `), "no 100 before it");
      t.match(client.text, /\r\nconnection: close\r\n/i);
      client.socket.destroy();
    }
  },
);

t.test("connections of one address are limited; one more is closed, and one that ends makes room", async (t) => {
  const running = await startGateway(t, MODELS);
  const trust = new Networks(["192.0.2.1"]);
  const limits = { keepAlive: 75_000, head: 10_000, perAddress: 2, trust };
  const downstream = new Downstream(() => running.gateway.generation, limits);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const [first, second] = [talk(t, port, requestText("GET /")), talk(t, port, requestText("GET /"))];
  await until(() => first.text.includes("200 OK") && second.text.includes("200 OK"), "both answers");
  t.equal(await talkToEnd(t, port, requestText("GET /")), "", "the third gets nothing");
  first.socket.destroy();
  await until(() => first.closed, "room");
  let text = "";
  for (let i = 0; i < 50 && text === ""; i++)
    text = await talkToEnd(t, port, requestText("GET /", ["connection: close"]));
  t.match(text, "200 OK");
  const open = await Promise.all(
    Array.from({ length: 300 }, () => talkToEnd(t, running.port, requestText("GET /", ["connection: close"]))),
  );
  t.ok(
    open.every((answer) => answer.includes("200 OK")),
    "where no proxy is named, connections of this machine are not counted",
  );
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
  const traced = await talkToEnd(t, port, requestText("TRACE /v1/models", ["connection: close"]));
  t.match(traced, /^HTTP\/1\.1 405 [\s\S]*\r\nallow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n/);
});
