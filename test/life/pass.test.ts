import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import t, { type Test } from "tap";
import { chunk } from "../support/chunk.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { post, send } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { type FakeUpstream, httpUpstream, type RawRequest, rawUpstream, type Script } from "../support/upstream.ts";

const SECRET = "provider-secret-0123456789";
const LIMITED = "limited-key-0123456789abcdef";

/** A gateway that passes some paths on to an upstream. */
async function passing(t: Test, upstream: FakeUpstream, more = "", provider = ""): Promise<Running> {
  t.teardown(() => upstream.close());
  return startGateway(
    t,
    `providers:
  vendor: { url: "${upstream.origin.origin}/v1", credential: ${SECRET}, speaks: [openai-chat, openai-responses]${provider} }
share: all                           # whose an object is, is a matter of test/objects/pass-through-objects.test.ts
models:
  m: { targets: [vendor:m] }
keys:
  test: { key: ${KEY} }
  limited: { key: ${LIMITED}, models: [m] }
paths:
  /v1/chat/completions: { protocol: openai-chat }
  /v1/models: { serve: models }
  /v1/audio/*: { pass: vendor, use: [auth, usage] }
  /v1/files/*: { pass: vendor }
  /v1/moderations: { pass: vendor, open: true }
  /vendors/one/*: { pass: vendor }
${more}`,
  );
}

const raw = async (t: Test, script: Script) => {
  const upstream = await rawUpstream(script);
  return { upstream, running: await passing(t, upstream) };
};

const http = async (t: Test, answer?: Parameters<typeof httpUpstream>[0], more?: string) => {
  const upstream = await httpUpstream(answer);
  return { upstream, running: await passing(t, upstream, more) };
};

async function ledger({ gateway }: Running) {
  await gateway.stores.ledger.flush();
  return gateway.stores.ledger.recent(10);
}

const ended = ({ log }: Running) =>
  log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields);

t.test("a matching path is sent below the provider's address, query and body unchanged", async (t) => {
  const { upstream, running } = await http(t);
  const cases: [method: string, path: string, upstream: string][] = [
    ["POST", "/v1/audio/speech", "/v1/audio/speech"],
    ["POST", "/v1/moderations", "/v1/moderations"],
    ["GET", "/v1/files", "/v1/files"],
    ["GET", "/v1/files/file-1/content?after=x%20y&limit=2", "/v1/files/file-1/content?after=x%20y&limit=2"],
    ["DELETE", "/v1/files/file-1", "/v1/files/file-1"],
    ["POST", "/vendors/one/audio/speech", "/v1/audio/speech"],
    ["POST", "/vendors/one/v1/audio/speech", "/v1/audio/speech"],
    ["GET", "/vendors/one/chat/completions", "/v1/chat/completions"],
    ["POST", "/v1/v1//audio/speech/", "/v1/audio/speech"],
    ["POST", "/audio/speech", "/v1/audio/speech"],
  ];
  const seen: string[] = [];
  for (const [method, path] of cases) {
    const body = method === "POST" ? "as it came" : null;
    const response = await fetch(running.url + path, { method, headers: asking({ "content-type": "text/x" }), body });
    t.equal(response.status, 200, `${method} ${path}`);
    await response.arrayBuffer();
    const { method: asked, url, body: sent } = upstream.seen.at(-1) as (typeof upstream.seen)[number];
    seen.push(`${asked} ${url}`);
    t.equal(sent.toString(), body ?? "", `${method} ${path}: body`);
  }
  t.same(
    seen,
    cases.map(([method, , path]) => `${method} ${path}`),
  );
});

t.test("content other than JSON and streams runs no script on the host of the pages", async (t) => {
  let type: string | undefined;
  const { running } = await http(t, ({ method }, reply) => {
    reply.statusCode = method === "PUT" ? 400 : 200;
    if (type) reply.setHeader("content-type", type);
    reply.setHeader("content-security-policy", "script-src *").end("<script>alert(1)</script>");
  });
  for (const [given, kept] of [
    ["text/html", true],
    ["image/svg+xml; charset=utf-8", true],
    ["application/xhtml+xml", true],
    [undefined, true],
    ["application/json", false],
    ["text/event-stream", false],
  ] as const) {
    type = given;
    for (const method of ["GET", "POST", "PUT"]) {
      const { headers } = await fetch(`${running.url}/v1/files/file-1/content?key=${KEY}`, { method });
      t.equal(headers.get("content-security-policy"), kept ? "sandbox" : null, `${method} ${given}`);
      t.equal(headers.get("x-content-type-options"), kept ? "nosniff" : null);
    }
  }
});

t.test(
  "the gateway's credential is added and the caller's removed, wherever it was; other headers pass by an allow-list",
  async (t) => {
    const { upstream, running } = await http(t, (_, reply) =>
      reply
        .setHeader("content-type", "application/json")
        .setHeader("set-cookie", "a=1")
        .setHeader("server", "vendor")
        .setHeader("x-request-id", "theirs")
        .setHeader("connection", "keep-alive, etag")
        .setHeader("etag", "named by connection")
        .setHeader("openai-processing-ms", "5")
        .end("{}"),
    );
    const places = [
      { authorization: `Bearer ${KEY}` },
      { "x-api-key": KEY },
      { "x-goog-api-key": KEY },
      { "api-key": KEY },
    ] as Record<string, string>[];
    for (const place of [...places, {}] as Record<string, string>[]) {
      const query = Object.keys(place).length === 0 ? `?key=${KEY}&limit=1` : "";
      const response = await fetch(`${running.url}/v1/files${query}`, {
        headers: { ...place, cookie: `k=${KEY}`, "x-unknown": "1", range: "bytes=0-1", "openai-beta": "x" },
      });
      t.equal(response.status, 200);
      t.not(response.headers.get("x-request-id"), "theirs");
      t.equal(response.headers.get("openai-processing-ms"), "5");
      for (const name of ["set-cookie", "server", "etag"]) t.equal(response.headers.get(name), null, name);
      await response.text();
      const { rawHeaders, url } = upstream.seen.at(-1) as (typeof upstream.seen)[number];
      const lines = rawHeaders.join("\n");
      t.notMatch(lines + url, KEY);
      t.match(lines, `Bearer ${SECRET}`);
      t.match(rawHeaders.join("|").toLowerCase(), "range|bytes=0-1");
      t.notMatch(lines, /cookie|x-unknown/i);
      t.equal(url, query === "" ? "/v1/files" : "/v1/files?limit=1");
    }
  },
);

t.test(
  "there is one ledger entry and one log line, with bytes of both directions and tokens where JSON contains them",
  async (t) => {
    const answers: Record<string, [type: string, body: string]> = {
      "/v1/audio/speech": ["audio/mpeg", "x".repeat(5000)],
      "/v1/audio/transcriptions": [
        "application/json; charset=utf-8",
        '{"text":"hi","usage":{"type":"tokens","input_tokens":14,"output_tokens":45,"total_tokens":59}}',
      ],
      "/v1/audio/transcriptions?stream": [
        "text/event-stream",
        [
          { type: "transcript.text.delta", delta: "hi" },
          {
            type: "transcript.text.done",
            text: "hi",
            usage: {
              ...{ type: "tokens", input_tokens: 14, output_tokens: 45, total_tokens: 59 },
              input_token_details: { text_tokens: 4, audio_tokens: 10 },
            },
          },
        ]
          .map((event) => `data: ${JSON.stringify(event)}\n\n`)
          .join(""),
      ],
      "/v1/moderations": ["application/json", '{"usage":{"prompt_tokens":7,"completion_tokens":0}}'],
      "/v1/files": ["application/json", "not JSON at all"],
    };
    const { running } = await http(t, ({ url }, reply) => {
      const [type, body] = answers[url] as [string, string];
      reply.setHeader("content-type", type).end(body);
    });
    for (const [path, [, body]] of Object.entries(answers)) {
      const { body: got } = await post(running.port, path, "12345");
      t.equal(got.toString(), body);
    }
    const entries = (await ledger(running)).toReversed();
    t.match(
      entries.map(({ bytes, usage, source, status, target, operation, model, outcome }) => [
        ...[bytes, usage?.in.total, usage?.in.audio, usage?.out.total, source],
        ...[status, target, operation, model, outcome],
      ]),
      [
        [{ up: 5, down: 5000 }, undefined, undefined, undefined, "none", 200, "vendor:*", "pass", "", "completed"],
        [{ up: 5, down: 94 }, 14, undefined, 45, "reported", 200, "vendor:*", "pass", "", "completed"],
        [{ up: 5, down: 243 }, 14, 10, 45, "reported", 200, "vendor:*", "pass", "", "completed"],
        [{ up: 5, down: 51 }, 7, undefined, 0, "reported", 200, "vendor:*", "pass", "", "completed"],
        [{ up: 5, down: 15 }, undefined, undefined, undefined, "none", 200, "vendor:*", "pass", "", "completed"],
      ],
    );
    const lines = ended(running);
    t.equal(lines.length, 5);
    t.match(lines[1], { target: "vendor:*", status: 200, tokens_in: 14, tokens_out: 45, bytes: 94, bytes_up: 5 });
  },
);

t.test("a key limited to some models is refused where the model is unknown, unless the path is open", async (t) => {
  const { upstream, running } = await http(t);
  const ask = (path: string, key: string) => fetch(running.url + path, { headers: { authorization: `Bearer ${key}` } });
  const refused = await ask("/v1/files", LIMITED);
  t.equal(refused.status, 403);
  t.match(await refused.text(), /may use some models only.*pass-through path is not known/);
  t.equal(upstream.seen.length, 0);
  t.equal((await ask("/v1/files", KEY)).status, 200);
  t.equal((await ask("/v1/moderations", LIMITED)).status, 200);
  t.equal((await ask("/v1/files", "unknown-key-0123456789abc")).status, 401);
  t.match(
    (await ledger(running)).map(({ status, outcome, key }) => [status, outcome, key]),
    [
      [401, "rejected", ""],
      [200, "completed", "limited"],
      [200, "completed", "test"],
    ],
  );
});

t.test("paths that are served otherwise do not pass, and no path leads upwards", async (t) => {
  const { upstream, running } = await http(t, undefined, "  /v1/*: { pass: vendor }\n");
  const { body } = await post(running.port, "/v1/chat/completions", '{"model":"nobody"}');
  t.match(body.toString(), "model_not_found");
  t.match(await (await fetch(`${running.url}/v1/models`, { headers: asking() })).json(), { data: [{ id: "m" }] });
  t.equal(upstream.seen.length, 0);
  for (const path of ["/v1/files/../admin", "/v1/files/%2e%2e/admin", "/v1/files/..%2fadmin", "/v1/files\\..\\admin"]) {
    const { statuses } = await send(running.port, `GET ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${KEY}\r\n\r\n`);
    t.same(statuses, [400], path);
  }
  for (const path of ["http://evil.test/x", "//evil.test/x"]) {
    const { statuses } = await send(running.port, `GET ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${KEY}\r\n\r\n`);
    t.not(statuses[0], 502, path);
  }
  t.ok(upstream.seen.every(({ url }) => url.startsWith("/v1/")));
});

t.test(
  "a refusal before the provider is called drains the upload, in the dialect of the provider's protocol",
  async (t) => {
    const { upstream, running } = await http(t);
    for (const way of WAYS) {
      const port = await entrance(t, way, running.port);
      if (port === undefined) continue;
      const { status, body } = await post(port, "/v1/audio/speech", Buffer.alloc(300_000), {
        authorization: "Bearer nobody-0123456789abcdef",
      });
      t.equal(status, 401, way);
      t.match(JSON.parse(body.toString()), { error: { code: "invalid_api_key" } }, way);
    }
    t.equal(upstream.seen.length, 0);
  },
);

t.test("query parameters may occur twice, except the one that the gateway reads", async (t) => {
  const { upstream, running } = await http(t);
  const ask = (query: string) => fetch(`${running.url}/v1/files?${query}`, { headers: asking() });
  t.equal((await ask("include[]=a&include[]=b&x=1&x=1")).status, 200);
  t.equal(upstream.seen.at(-1)?.url, "/v1/files?include[]=a&include[]=b&x=1&x=1");
  const refused = await ask("key=a&x=1&key=b");
  t.equal(refused.status, 400);
  t.match(await refused.json(), { error: { code: "bad_target", message: /"key" occurs twice/ } });
  t.equal(upstream.seen.length, 1);
});

t.test("a key in the path is refused, and is in no log", async (t) => {
  const { upstream, running } = await http(t);
  for (const path of [`/v1/files/${KEY}`, `/v1/files/x;key=${KEY}/x`, `/v1/audio/x;gw_${"a".repeat(40)}`]) {
    const { status, body } = await post(running.port, path, "{}");
    t.equal(status, 400, path);
    t.match(JSON.parse(body.toString()), { error: { code: "misplaced_key" } }, path);
  }
  t.equal((await post(running.port, `/nowhere/${KEY}`, "{}")).status, 404);
  t.equal(upstream.seen.length, 0);
  t.notOk(new RegExp(`${KEY}|gw_a`).test(JSON.stringify(running.log.lines)));
});

t.test("a provider that is switched off is a 503 with that reason", async (t) => {
  const upstream = await httpUpstream();
  const running = await passing(t, upstream, "", ", header: x-own");
  t.equal((await fetch(`${running.url}/v1/files`, { headers: asking() })).status, 200);
  t.ok(upstream.seen[0]?.rawHeaders.includes(SECRET), "the credential is in the provider's own header");
  const off = await startGateway(
    t,
    'share: all\nproviders: { vendor: { url: "http://127.0.0.1:1/v1", credential: $NOT_SET, speaks: [openai-chat] }, d: { url: "demo:" } }\n' +
      "models: { m: { targets: [d:echo] } }\npaths: { /v1/files/*: { pass: vendor } }\n",
  );
  const response = await fetch(`${off.url}/v1/files`, { headers: asking() });
  t.equal(response.status, 503);
  t.match(await response.text(), "switched off");
});

t.test("a client that waits for 100 Continue receives it once it is authorised", async (t) => {
  const { running } = await http(t);
  const head = (key: string) =>
    `POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nok`;
  t.match((await send(running.port, head(KEY))).text, /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200/);
  t.match((await send(running.port, head("nobody-0123456789abcdef"))).text, /^HTTP\/1.1 401/);
});

for (const way of WAYS) {
  t.test(
    `bodies stream in both directions ${way}, a provider's failure interrupts them, and a client's disconnect reaches it`,
    async (t) => {
      let provider: Socket | undefined;
      let last: RawRequest | undefined;
      const { upstream, running } = await raw(t, (socket, request) => {
        provider = socket;
        last = request;
        socket.write(
          "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        );
      });
      const unbuffered = "proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;";
      const port = await entrance(t, way, running.port, unbuffered);
      if (port === undefined) return;
      const begin = async () => {
        const asked = httpRequest({
          ...{ port, host: "127.0.0.1", path: "/v1/audio/speech", method: "POST" },
          headers: asking({ "transfer-encoding": "chunked" }),
        });
        asked.on("error", () => {}).write("one");
        const [answer] = (await once(asked, "response")) as [IncomingMessage];
        let text = "";
        answer.on("data", (piece: Buffer) => (text += piece)).on("error", () => {});
        await until(() => text === "first", "the first bytes down");
        // The answer has begun, the upload has not ended.
        const before = last?.received ?? 0;
        asked.write("two");
        await until(() => (last?.received ?? 0) > before, "more bytes up");
        provider?.write("6\r\nsecond\r\n");
        await until(() => text === "firstsecond", "more bytes down");
        return { asked, answer };
      };
      const { answer } = await begin();
      provider?.destroy();
      await new Promise((closed) => answer.once("close", closed));
      t.notOk(answer.complete, "the client sees that it is incomplete");
      await until(() => ended(running).length === 1);
      t.match(ended(running)[0], { status: 200, outcome: "upstream_error", error: { code: "upstream_truncated" } });

      const { asked } = await begin();
      asked.destroy();
      await until(() => upstream.open === 0, "the provider to hear of it");
      await until(() => ended(running).length === 2);
      t.match(ended(running)[1], { outcome: "aborted", bytes: 11, bytes_up: 6 });
    },
  );
}

t.test(
  "a client that leaves at the terminal event of a stream has all of it; one that has not got that has left",
  async (t) => {
    const event = (content: string) => `data: {"choices":[{"index":0,"delta":{"content":"${content}"}}]}\n\n`;
    const usage = `data: {"choices":[],"usage":{"prompt_tokens":14,"completion_tokens":45}}\n\n`;
    const done = "data: [DONE]\n\n";
    let text = "";
    // The end of the body never comes.
    const { upstream, running } = await raw(t, (socket) =>
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${chunk(text)}`,
      ),
    );
    const leaveAfter = async (awaited: string) => {
      const before = ended(running).length;
      const asked = httpRequest({
        ...{ port: running.port, host: "127.0.0.1", path: "/vendors/one/chat/completions", method: "POST" },
        headers: asking(),
      });
      asked.on("error", () => {}).end("{}");
      const [answer] = (await once(asked, "response")) as [IncomingMessage];
      answer.on("error", () => {});
      let received = "";
      for await (const piece of answer) {
        received += piece;
        if (received.includes(awaited)) break;
      }
      asked.destroy();
      await until(() => ended(running).length > before);
      await until(() => upstream.open === 0, "the provider to hear of it");
      return ended(running).at(-1);
    };
    text = event("Hi") + usage + done;
    t.match(await leaveAfter(done), { status: 200, outcome: "completed", bytes: text.length });
    t.match((await ledger(running))[0], { outcome: "completed", usage: { in: { total: 14 }, out: { total: 45 } } });
    text = event("Hi") + usage;
    t.match(await leaveAfter(usage), { outcome: "aborted" });
    text = event("x".repeat(1 << 16)).repeat(500) + done;
    t.match(await leaveAfter("xxx"), { outcome: "aborted" }, "it has not read so far");
  },
);

t.test(
  "calls that create a vendor's own keys are refused, in any spelling, unless the path is marked mint",
  async (t) => {
    const { upstream, running } = await http(
      t,
      undefined,
      "  /v1/realtime/*: { pass: vendor, open: true }\n  /minting/*: { pass: vendor, mint: true }\n",
    );
    const ask = async (path: string) => (await post(running.port, path, "{}")).status;
    const refused = ["/v1/realtime/client_secrets", "/v1/realtime/%63lient_secrets", "/vendors/one/realtime/sessions"];
    refused.push("/vendors/one/v1/realtime//sessions/", "/vendors/one/chatkit/sessions", "/vendors/one/auth_tokens");
    for (const path of refused) t.equal(await ask(path), 403, path);
    t.equal(upstream.seen.length, 0);
    for (const path of ["/minting/realtime/client_secrets", "/v1/realtime/calls/c_1/accept"])
      t.equal(await ask(path), 200, path);
  },
);

t.test("a key with a budget may not use a path whose cost is unknown", async (t) => {
  const upstream = await httpUpstream((_, reply) => reply.writeHead(200).end("{}"));
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x], output: 1k, price: { input: 1, output: 1 } } }
keys: { spender: { key: "a-key-with-a-budget-of-its-own", budget: $1/month } }
paths: { /v1/files/*: { pass: up }, /v1/audio/*: { pass: up, open: true } }
`,
  );
  const ask = (path: string) =>
    fetch(url + path, { headers: { authorization: "Bearer a-key-with-a-budget-of-its-own" } });
  t.same([(await ask("/v1/files/x")).status, (await ask("/v1/audio/x")).status], [403, 200]);
});
