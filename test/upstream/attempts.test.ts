import type { ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { type FakeUpstream, httpUpstream, rawUpstream, type SeenRequest } from "../support/upstream.ts";

const answering = async (t: Test, status: number, headers: Record<string, string> = {}) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(status, { "content-type": "application/json", ...headers }).end(`{"status":${status}}`),
  );
  t.teardown(() => upstream.close());
  return upstream;
};

/** A gateway with one model whose targets are these upstreams, in this order. */
function gateway(t: Test, upstreams: readonly (FakeUpstream | string)[], more = ""): Promise<Running> {
  const origins = upstreams.map((each) => (typeof each === "string" ? each : each.origin.origin));
  const providers = origins.map(
    (origin, i) =>
      `  p${i}: { url: "${origin}/v1", credential: "secret-${i}-0123456789", speaks: [openai-chat, anthropic-messages]${more} }`,
  );
  const targets = origins.map((_, i) => `{ to: "p${i}:vendor/m ${i}", weight: ${10 ** (12 - 4 * i)} }`);
  return startGateway(t, `providers:\n${providers.join("\n")}\nmodels:\n  m: { targets: [${targets.join(", ")}] }\n`);
}

const chat = (running: Running, headers: Record<string, string> = {}, body = '{"model":"m"}') =>
  fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(headers), body });

t.test("429, 5xx and a refused connection lead to the next target before the first byte", async (t) => {
  const dead = await rawUpstream(() => {});
  await dead.close();
  const [limited, broken, fine] = [await answering(t, 429), await answering(t, 503), await answering(t, 200)];
  const running = await gateway(t, [dead, limited, broken, fine]);
  const response = await chat(running);
  t.equal(response.status, 200);
  await running.gateway.stores.ledger.flush();
  const [entry] = await running.gateway.stores.ledger.recent(1);
  t.match(entry?.attempts, [
    { target: "p0:vendor/m 0", error: "upstream_unreachable" },
    { status: 429 },
    { status: 503 },
    { target: "p3:vendor/m 3", status: 200 },
  ]);
  t.equal(entry?.target, "p3:vendor/m 3");
});

t.test("each attempt has its own target's model and credential, and the body otherwise unchanged", async (t) => {
  const [broken, fine] = [await answering(t, 500), await answering(t, 200)];
  const running = await gateway(t, [broken, fine]);
  await chat(running, {}, ' { "seed": 12345678901234567890, "model" : "m", "temperature": 1.0 }\n');
  const sent = (upstream: { seen: SeenRequest[] }) => upstream.seen[0] as SeenRequest;
  t.equal(
    sent(broken).body.toString(),
    ' { "seed": 12345678901234567890, "model" : "vendor/m 0", "temperature": 1.0 }\n',
  );
  t.equal(
    sent(fine).body.toString(),
    ' { "seed": 12345678901234567890, "model" : "vendor/m 1", "temperature": 1.0 }\n',
  );
  t.ok(sent(fine).rawHeaders.includes("Bearer secret-1-0123456789"));
  t.notOk(sent(fine).rawHeaders.join().includes("secret-0"));
});

t.test("other answers and the last target's answer reach the client unchanged", async (t) => {
  const [refusing, unused] = [await answering(t, 400), await answering(t, 200)];
  const first = await chat(await gateway(t, [refusing, unused]));
  t.equal(first.status, 400);
  t.equal(await first.text(), '{"status":400}');
  t.equal(unused.seen.length, 0);
  const limited = await answering(t, 429, { "retry-after": "7" });
  const last = await chat(await gateway(t, [await answering(t, 502), limited]));
  t.equal(last.status, 429);
  t.equal(last.headers.get("retry-after"), "7");
});

t.test(
  "a connection that breaks after the request was sent is not retried: the provider may have billed it",
  async (t) => {
    const breaking = await rawUpstream((socket) => socket.destroy());
    t.teardown(() => breaking.close());
    const unused = await answering(t, 200);
    const response = await chat(await gateway(t, [breaking, unused]));
    t.equal(response.status, 502);
    t.equal(unused.seen.length, 0);
  },
);

t.test("only headers of the protocol, and those the operator configures, are sent upstream", async (t) => {
  const fine = await answering(t, 200);
  const running = await gateway(t, [fine], ", forward: [x-acme, x-team-*]");
  await chat(running, {
    "user-agent": "test/1",
    "openai-beta": "b",
    "x-stainless-lang": "js",
    "x-acme": "1",
    "x-team-a": "2",
    "openai-organization": "org",
    "x-unknown": "no",
    "x-forwarded-for": "1.2.3.4",
    cookie: "a=b",
    "x-api-key": "other-0123456789abcdefgh",
  });
  const names = (fine.seen[0] as SeenRequest).rawHeaders
    .filter((_, i) => i % 2 === 0)
    .map((name) => name.toLowerCase());
  for (const kept of ["user-agent", "openai-beta", "x-stainless-lang", "x-acme", "x-team-a", "content-type"])
    t.ok(names.includes(kept), kept);
  for (const gone of ["openai-organization", "x-unknown", "x-forwarded-for", "cookie", "x-api-key"])
    t.notOk(names.includes(gone), gone);
});

t.test("only harmless headers are sent to the client, with advice against a useless retry", async (t) => {
  const upstream = await answering(t, 401, {
    "openai-organization": "acme",
    "set-cookie": "a=b",
    server: "x",
    "x-ratelimit-limit-requests": "5",
    "openai-processing-ms": "12",
    "x-request-id": "req_vendor",
    via: "1.1 x",
  });
  const running = await gateway(t, [upstream]);
  const { headers } = await chat(running);
  for (const gone of ["openai-organization", "set-cookie", "server", "x-ratelimit-limit-requests", "via"])
    t.equal(headers.get(gone), null, gone);
  t.equal(headers.get("openai-processing-ms"), "12");
  t.equal(headers.get("x-should-retry"), "false");
  t.match(headers.get("x-request-id"), /^[0-9a-f-]{36}$/);
  t.match(running.log.lines.at(-1)?.fields, { upstream_id: "req_vendor", id: headers.get("x-request-id") });
});

t.test("a provider whose address is a bare origin gets the protocol's own version segment", async (t) => {
  const fine = await answering(t, 200);
  const running = await startGateway(
    t,
    `providers: { p: { url: "${fine.origin.origin}", speaks: [anthropic-messages] } }\nmodels: { m: { targets: [p:x] } }\n`,
  );
  await fetch(`${running.url}/v1/messages?beta=true`, { method: "POST", headers: asking(), body: '{"model":"m"}' });
  t.equal(fine.seen[0]?.url, "/v1/messages?beta=true");
  t.ok(fine.seen[0]?.rawHeaders.includes("anthropic-version"), "the vendor's required header is there");
});

t.test("a response without a body has no length", async (t) => {
  for (const status of [204, 304]) {
    const upstream = await rawUpstream((socket) => socket.write(`HTTP/1.1 ${status} x\r\ncontent-length: 0\r\n\r\n`));
    t.teardown(() => upstream.close());
    const provider = `{ url: "${upstream.origin.origin}/v1", protocol: openai-chat }`;
    const yaml = `providers: { p: ${provider} }\nmodels: { m: { targets: [p:m] } }\nretry: { first_frame: off }\n`;
    const response = await chat(await startGateway(t, yaml));
    t.equal(response.status, status);
    t.equal(response.headers.get("content-length"), null);
  }
});

t.test("the ledger has an attempt's queue time, and the duration of a failed one", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    setTimeout(() => reply.writeHead(200, { "content-type": "application/json" }).end("{}"), 60),
  );
  t.teardown(() => upstream.close());
  const running = await gateway(t, [upstream], ", concurrency: 1");
  for (const response of await Promise.all([chat(running), chat(running)])) await response.text();
  await running.gateway.stores.ledger.flush();
  const waits = (await running.gateway.stores.ledger.recent(2)).map(({ attempts }) => attempts[0]?.queue ?? 0);
  t.equal(Math.min(...waits), 0, "there was one slot");
  t.ok(Math.max(...waits) >= 30, `${waits}`);
  const failing = await gateway(t, [await answering(t, 503), await answering(t, 200)]);
  await (await chat(failing)).text();
  await failing.gateway.stores.ledger.flush();
  const [entry] = await failing.gateway.stores.ledger.recent(1);
  t.type(entry?.attempts[0]?.took, "number");
  t.equal(entry?.attempts[1]?.took, undefined);
});

t.test("an error in any shape, and a comment, reach the client without the credential", async (t) => {
  const credential = "Canary-credential-0123456789";
  const told = JSON.stringify(`the key ${credential} is wrong`);
  const errors = [
    `data: {"type":"response.failed","response":{"status":"failed","error":{"message":${told}}}}\n\n`,
    `event: error\ndata: {"type":"error","error":{"type":"api_error","message":${told}}}\n\n`,
    `data: {"error":{"code":500,"message":${told}}}\n\n`,
    `data: {"error": ${told}}\n\n`,
    `{"error":{"message":${told}}}\n\n`,
    `data: {"error":\ndata: {"message":${told}}}\n\n`,
    `data: {"response":{"error"\rdata: :\rdata: ${told}}}\r\r`,
    `event: error\ndata: ${told}\n\n`,
    `event: ERROR\ndata: {"detail":${told}}\n\n`,
    `event: Stream.Error\ndata: {"detail":${told}}\n\n`,
    `data: {"type": "error","code":"invalid","message":${told}}\n\n`,
    `data: {"object":"error","message":${told}}\n\n`,
    `data: error: ${told}\n\n`,
    `data: Error: ${told}\n\n`,
    `<p>error: ${told}</p>\n\n`,
    `: error ${told}\n\n`,
    `: ${told}\r\n\r\n`,
  ];
  const clients = [
    ["openai-chat", "/v1/chat/completions", 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}'],
    ["openai-responses", "/v1/responses", 'event: response.in_progress\ndata: {"type":"response.in_progress"}'],
    ["anthropic-messages", "/v1/messages", 'event: ping\ndata: {"type":"ping"}'],
    ["gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", 'data: {"candidates":[{"content":{"parts":[]}}]}'],
  ] as const;
  const upstream = await httpUpstream(({ body }, reply) => {
    const [, n] = /"input":"(\d+)"/.exec(body.toString()) ?? [];
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(streams[Number(n)]);
  });
  const streams: string[] = [];
  t.teardown(() => upstream.close());
  for (const [protocol, path, start] of clients) {
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: ${credential}, speaks: [${protocol}] } }
models: { m: { targets: [{ to: "up:v" }] } }
`,
    );
    const read = async (error: string) => {
      const n = streams.push(`${start}\n\n${error}`) - 1;
      const body = JSON.stringify({
        model: "m",
        stream: true,
        max_tokens: 9,
        messages: [],
        input: `${n}`,
        contents: [],
      });
      const response = await fetch(`${running.url}${path}`, { method: "POST", headers: asking(), body });
      let text = "";
      try {
        for await (const piece of response.body ?? []) text += Buffer.from(piece).toString();
      } catch {
        // A stream without its terminal event is broken off.
      }
      t.equal(response.status, 200, `${protocol}: ${text}`);
      t.ok(text.includes("the key *** is wrong"), `${protocol}: ${text}`);
      t.notOk(text.includes(credential), `${protocol}: ${error}`);
    };
    await Promise.all(errors.map(read));
  }
});

t.test("comments are redacted beside data, which passes unchanged whatever words it has", async (t) => {
  const secret = "secret-0-0123456789";
  const said = JSON.stringify({ choices: [{ index: 0, delta: { content: `an error: ${secret}` } }], error: null });
  const stream = (key: string) =>
    `\ufeff: ${key}\ndata: ${said}\n: ${key}\n\n:\n\n: error ${key}\r: ${key}\r\rdata: [DONE]\n\n: ${key}`;
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(stream(secret)),
  );
  t.teardown(() => upstream.close());
  const response = await chat(await gateway(t, [upstream]), {}, '{"model":"m","stream":true}');
  t.equal(Buffer.from(await response.arrayBuffer()).toString(), stream("***"));
});

const SSE_HEAD = { "content-type": "text/event-stream" };
const JSON_HEAD = { "content-type": "application/json" };
const CHUNK = 'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';
const FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
/** Reports a failure, or a fault of the request, in the middle of a stream. */
const reportOf = (type: string, code: number) => `data: {"error":{"message":"no","type":"${type}","code":${code}}}\n\n`;

/** How answers end that have begun with a 200, and whether that is the provider's fault. */
const ENDINGS: Record<string, { answer: (reply: ServerResponse) => unknown; isFault: boolean; whole?: true }> = {
  "are cut": {
    answer: (reply) => reply.writeHead(200, SSE_HEAD).write(CHUNK, () => setTimeout(() => reply.destroy(), 5)),
    isFault: true,
  },
  stall: { answer: (reply) => reply.writeHead(200, SSE_HEAD).write(CHUNK), isFault: true },
  "end without the terminal event": { answer: (reply) => reply.writeHead(200, SSE_HEAD).end(CHUNK), isFault: true },
  "end in a failure": {
    answer: (reply) => reply.writeHead(200, SSE_HEAD).end(CHUNK + reportOf("server_error", 503)),
    isFault: true,
  },
  "end in a fault of the request": {
    answer: (reply) => reply.writeHead(200, SSE_HEAD).end(CHUNK + reportOf("invalid_request_error", 400)),
    isFault: false,
  },
  "begin with what is no JSON": {
    answer: (reply) => reply.writeHead(200, SSE_HEAD).end(`data: {"choices":[{"index"\n\n${FINISH}`),
    isFault: true,
  },
  "cannot be decoded": {
    answer: (reply) => reply.writeHead(200, { ...SSE_HEAD, "content-encoding": "gzip" }).end("not packed"),
    isFault: true,
  },
  "are errors that cannot be decoded": {
    answer: (reply) => reply.writeHead(400, { ...JSON_HEAD, "content-encoding": "gzip" }).end("not packed"),
    isFault: false,
  },
  "are whole": { answer: (reply) => reply.writeHead(200, SSE_HEAD).end(CHUNK + FINISH), isFault: false },
  "are whole, but no JSON": {
    answer: (reply) => reply.writeHead(200, JSON_HEAD).end('{"choices":[{"index":0,'),
    isFault: true,
    whole: true,
  },
};

for (const [how, { answer, isFault, whole = false }] of Object.entries(ENDINGS))
  t.test(`a target whose answers ${how} is ${isFault ? "" : "not "}suspended like one that refuses`, async (t) => {
    const upstream = await httpUpstream((_, reply) => answer(reply));
    t.teardown(() => upstream.close());
    const { url, log } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], timeouts: { idle: 100ms }, health: { failures: 3, errors: off } } }
models: { m: { targets: [up:m] } }
retry: { attempts: 0 }
`,
    );
    const paths = ["/v1/chat/completions", "/v1/messages"];
    const ask = async (path: string) => {
      const messages = [{ role: "user", content: "a" }];
      const body = JSON.stringify({ model: "m", stream: !whole, max_tokens: 9, messages });
      const response = await fetch(`${url}${path}`, { method: "POST", headers: asking(), body });
      await response.text().catch(() => {});
    };
    // A whole answer is read only where it is translated.
    for (let i = 0; i < 3; i++) await ask(paths[whole ? 1 : i % 2] as string);
    const suspended = () => log.lines.some(({ message }) => message.startsWith("target is suspended"));
    if (isFault) await until(suspended, "it is suspended");
    else t.notOk(suspended());
  });

t.test("a target whose model fails in its answers is not suspended", async (t) => {
  const candidates = [{ content: { role: "model", parts: [] }, finishReason: "MALFORMED_FUNCTION_CALL", index: 0 }];
  const answer = JSON.stringify({ candidates, usageMetadata: { promptTokenCount: 1, totalTokenCount: 1 } });
  const upstream = await httpUpstream(({ url }, reply) => {
    if (url.includes("stream")) reply.writeHead(200, SSE_HEAD).end(`data: ${answer}\n\n`);
    else reply.writeHead(200, JSON_HEAD).end(answer);
  });
  t.teardown(() => upstream.close());
  const { url, log } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1beta", speaks: [gemini], health: { failures: 2, errors: off } } }
models: { m: { targets: [up:m] } }
retry: { attempts: 0 }
`,
  );
  for (const stream of [true, false, true, false]) {
    const body = JSON.stringify({ model: "m", stream, messages: [{ role: "user", content: "a" }] });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await response.text().catch(() => {});
  }
  t.equal(upstream.seen.length, 4);
  t.notOk(log.lines.some(({ message }) => message.startsWith("target is suspended")));
});
