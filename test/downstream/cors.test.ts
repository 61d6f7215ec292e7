import { connect } from "node:net";
import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const YAML = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const PAGE = "https://app.example.com";
const BODY = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] });
/** What a browser sends before a script's request with a key goes out. */
const preflight = (origin: string) => ({
  method: "OPTIONS",
  headers: {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-lang",
  },
});

async function started(t: Test, cors: string, more = YAML) {
  const { url, log } = await startGateway(t, `${more}${cors}`);
  const ask = (path: string, init: RequestInit) => fetch(url + path, init);
  const chat = (origin: string, body = BODY, headers: object = asking()) =>
    ask("/v1/chat/completions", { method: "POST", headers: { ...headers, origin }, body });
  return { ask, chat, log };
}

t.test("no page of another site may send requests unless gateway.yaml names it", async (t) => {
  const { ask, chat } = await started(t, "");
  const asked = await ask("/v1/chat/completions", preflight(PAGE));
  t.equal(asked.status, 405);
  t.equal(asked.headers.get("access-control-allow-origin"), null);
  const answer = await chat(PAGE);
  t.equal(answer.status, 200);
  t.equal(answer.headers.get("access-control-allow-origin"), null);
});

t.test("a named page may send a key, and read responses, their headers, and errors", async (t) => {
  const { ask, chat } = await started(t, `cors: { origins: [${PAGE}], max_age: 2m }\n`);
  for (const path of ["/v1/chat/completions", "/v1beta/models/echo:generateContent", "/v1/models"]) {
    const { status, headers } = await ask(path, preflight(PAGE));
    t.equal(status, 204, path);
    t.equal(headers.get("access-control-allow-origin"), PAGE);
    t.equal(headers.get("access-control-allow-headers"), "authorization,content-type,x-stainless-lang");
    t.match(headers.get("access-control-allow-methods"), /POST/);
    t.equal(headers.get("access-control-max-age"), "120");
    t.equal(headers.get("access-control-allow-credentials"), null, "no cookies are allowed");
    t.match(headers.get("vary"), /origin/);
  }
  const stream = JSON.stringify({ ...JSON.parse(BODY), stream: true });
  for (const [answer, status] of [
    [await chat(PAGE), 200],
    [await chat(PAGE, stream), 200],
    [await chat(PAGE, "{"), 400],
    [await chat(PAGE, BODY, { authorization: "Bearer wrong" }), 401],
    [await ask("/nowhere", { headers: { origin: PAGE } }), 404],
    [await ask("/v1/models", { headers: { ...asking(), origin: PAGE } }), 200],
  ] as const) {
    t.equal(answer.status, status);
    t.equal(answer.headers.get("access-control-allow-origin"), PAGE);
    t.equal(answer.headers.get("access-control-expose-headers"), "*");
    await answer.text();
  }
});

t.test("a preflight is logged, as refusals are: without a key in its path", async (t) => {
  const { ask, log } = await started(t, `cors: { origins: [${PAGE}] }\n`);
  const answers = [
    await ask("/v1/models", preflight(PAGE)),
    await ask("/v1/gw_0123456789abcdef0123456789abcdef", preflight(PAGE)),
    await ask("/v1/models", preflight("https://evil.example.com")),
  ];
  const lines = log.lines.filter(({ message }) => message === "preflight" || message === "refused");
  const [asked, keyed, refused] = lines.map(({ fields }) => fields);
  const { id: _, ...known } = asked as { id: string };
  t.equal(asked?.["id"], answers[0]?.headers.get("x-request-id"));
  t.same(known, { address: "127.0.0.1", method: "OPTIONS", status: 204, path: "/v1/models" });
  t.notMatch(JSON.stringify(keyed), /gw_/);
  t.match(refused, { method: "OPTIONS", status: 403, error: { code: "origin_not_allowed" }, path: "/v1/models" });
});

t.test("no key of gateway.yaml in a path is logged, and no provider's credential", async (t) => {
  const [key, credential] = ["qv7-own-choice-93kd81mzt", "credential-of-90dk2m1xqz"];
  const yaml = `providers: { up: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat], credential: ${credential} } }
models: { m: { targets: [up:x] } }
keys: { mine: { key: ${key} } }\n`;
  const { ask, log } = await started(t, `cors: { origins: [${PAGE}] }\n`, yaml);
  const ways = [preflight(PAGE), preflight("https://evil.example.com"), {}, { method: "POST", body: "{}" }];
  for (const path of [`/v1/${key}`, `/v1/models/${key}`, `/v1/x:${key}/y`, `/%71v7-own-choice-93kd81mzt?key=${key}`])
    for (const way of ways) await (await ask(path, way)).text();
  for (const way of ways) await (await ask(`/v1/${credential}`, way)).text();
  await (await ask(`/v1/models/${key}`, { headers: { authorization: "Bearer another-key-of-nobody" } })).text();
  t.ok(log.lines.length > 16);
  for (const { fields, message } of log.lines)
    t.notMatch(JSON.stringify([fields, message]), /own-choice|credential-of/);
});

t.test("another page gets the reason in its preflight, and is served like other clients without one", async (t) => {
  const { ask, chat } = await started(t, `cors: { origins: [${PAGE}] }\n`);
  for (const origin of ["https://evil.example.com", `${PAGE}.evil.example`, "http://app.example.com", "null"]) {
    const refused = await ask("/v1/chat/completions", preflight(origin));
    t.equal(refused.status, 403, origin);
    t.match(await refused.json(), { error: { code: "origin_not_allowed", message: /cors: \{ origins/ } });
    t.equal(refused.headers.get("access-control-allow-origin"), null);
    t.equal((await chat(origin)).headers.get("access-control-allow-origin"), null);
  }
});

t.test("a preflight is checked like every request: the start of the next one must be unambiguous", async (t) => {
  const { url } = await startGateway(t, `${YAML}cors: { origins: [${PAGE}] }\n`);
  const { hostname, port } = new URL(url);
  const { headers } = preflight(PAGE);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const raw = async (more: string) => {
    const socket = connect(Number(port), hostname);
    t.teardown(() => socket.destroy());
    socket.end(`OPTIONS /v1/models HTTP/1.1\r\nhost: a\r\n${lines.join("")}${more}connection: close\r\n\r\n`);
    return (await socket.setEncoding("utf8").toArray()).join("");
  };
  t.match(await raw(""), /^HTTP\/1\.1 204 /);
  for (const more of ["host: b\r\n", "expect: 200-ok\r\n", "transfer-encoding: gzip, chunked\r\n"]) {
    const answer = await raw(more);
    t.match(answer, /^HTTP\/1\.1 4\d\d /, more);
  }
});

t.test(
  "a response without the request's body closes the connection, and no further request follows on it",
  async (t) => {
    const { url } = await startGateway(t, `${YAML}cors: { origins: [${PAGE}] }\n`);
    const { hostname, port } = new URL(url);
    const asked = Object.entries(preflight(PAGE).headers).map(([name, value]) => `${name}: ${value}\r\n`);
    for (const begin of ["OPTIONS /v1/models", "GET /livez", "GET /", "HEAD /openapi.json"]) {
      const socket = connect(Number(port), hostname).setEncoding("utf8");
      t.teardown(() => socket.destroy());
      let text = "";
      socket.on("data", (piece: string) => (text += piece));
      const closed = new Promise((done) => socket.on("error", () => {}).once("close", done));
      const head = `${begin} HTTP/1.1\r\nhost: a\r\n${asked.join("")}content-length: 1000000000\r\n\r\n`;
      const flood = setInterval(() => socket.writable && socket.write("x".repeat(10_000)), 5);
      socket.write(head);
      await closed;
      clearInterval(flood);
      t.match(text, /^HTTP\/1\.1 20[04] .*\r\nconnection: close\r\n/is, begin);
    }
  },
);

t.test("a response lists in Vary all headers on which it depends", async (t) => {
  const { ask } = await started(t, `cors: { origins: [${PAGE}] }\n`);
  const init = (accept: string) => ({ headers: { origin: PAGE, accept } });
  for (const accept of ["text/html", "application/json"])
    t.match((await ask("/", init(accept))).headers.get("vary"), /^origin, accept/, accept);
});

t.test("a star matches a label, a port or, alone, every page", async (t) => {
  const some = await started(t, 'cors: { origins: ["https://*.example.com", "http://localhost:*"] }\n');
  const status = async (origin: string) => (await some.ask("/v1/models", preflight(origin))).status;
  for (const origin of ["https://a.example.com", "https://a.b.example.com", "http://localhost:5173"])
    t.equal(await status(origin), 204, origin);
  for (const origin of [
    "https://example.com",
    "https://a.example.com.evil.org",
    "http://localhost",
    "https://aXexample.com",
    "https://a..example.com",
    "https://.example.com",
    "https://-.example.com",
    "http://localhost:evil",
    "http://localhost:1.2",
  ])
    t.equal(await status(origin), 403, origin);
  const all = await started(t, 'cors: { origins: ["*"] }\n');
  t.equal((await all.chat("null")).headers.get("access-control-allow-origin"), "*");
});

t.test("a provider's CORS headers do not reach pages", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": "application/json", "access-control-allow-origin": "*" });
    reply.end("{}");
  });
  t.teardown(() => upstream.close());
  const passing = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], credential: the-providers-own } }
models: { echo: { targets: [up:x] } }
paths: { /v1/files/*: { pass: up } }
`;
  const closed = await started(t, "", passing);
  const own = await started(t, `cors: { origins: [${PAGE}] }\n`, passing);
  const init = { headers: { ...asking(), origin: PAGE } };
  t.equal((await closed.ask("/v1/files/some", init)).headers.get("access-control-allow-origin"), null);
  t.equal((await own.ask("/v1/files/some", init)).headers.get("access-control-allow-origin"), PAGE);
  t.equal((await closed.chat(PAGE)).headers.get("access-control-allow-origin"), null);
});

t.test("a page can read why a passthrough request has failed", async (t) => {
  const upstream = await httpUpstream((_, reply) => reply.writeHead(302, { location: "/elsewhere" }).end());
  t.teardown(() => upstream.close());
  const { ask } = await started(
    t,
    `cors: { origins: [${PAGE}] }\n`,
    `providers:
  gone: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat] }
  moved: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] }
models: { echo: { targets: [gone:x] } }
paths: { /v1/gone/*: { pass: gone, open: true }, /v1/moved/*: { pass: moved, open: true } }
`,
  );
  for (const [path, code] of [
    ["/v1/gone/x", "upstream_unreachable"],
    ["/v1/moved/x", "upstream_redirect"],
  ] as const) {
    const answer = await ask(path, { headers: { ...asking(), origin: PAGE } });
    const { status, headers } = answer;
    t.equal(status, 502);
    t.equal(headers.get("access-control-allow-origin"), PAGE);
    t.equal(headers.get("access-control-expose-headers"), "*");
    t.equal(headers.get("vary"), "origin");
    t.match(await answer.json(), { error: { code } });
  }
});

t.test("an origin with a path, or an invalid one, is a mistake in the file", async (t) => {
  for (const cors of [
    "{ origins: [https://app.example.com/] }",
    "{ origins: [] }",
    "{ origin: [https://a.example] }",
    "on",
  ])
    await t.rejects(startGateway(t, `${YAML}cors: ${cors}\n`), { message: /cors/ }, cors);
});
