import t, { type Test } from "tap";
import type { Admission } from "../../src/core/admission.ts";
import { HeaderList } from "../../src/wire/headers.ts";
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

t.test("a client's accept reaches the provider, unless it names only forms that cannot be read", async (t) => {
  const upstream = await answering(t, 200);
  const running = await gateway(t, [upstream]);
  const sent = async (accept: string) => {
    await (await chat(running, { accept })).text();
    return new HeaderList(upstream.seen.at(-1)?.rawHeaders ?? []).get("accept");
  };
  for (const accept of ["application/json", "text/event-stream", "*/*", "application/vnd.x+json; q=1, text/plain"])
    t.equal(await sent(accept), accept);
  for (const accept of ["application/x-protobuf", "application/octet-stream, text/plain"])
    t.equal(await sent(accept), undefined, accept);
});

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

t.test("a stream is one in whatever case its content type is", async (t) => {
  const stream = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n';
  for (const type of ["Text/Event-Stream", "text/event-stream;charset=UTF-8"]) {
    const upstream = await httpUpstream((_, reply) => reply.writeHead(200, { "content-type": type }).end(stream));
    t.teardown(() => upstream.close());
    const running = await gateway(t, [upstream]);
    const response = await chat(running, {}, '{"model":"m","stream":true}');
    t.same([response.status, await response.text()], [200, stream], type);
  }
});

t.test("a suspended target is probed by one request, however long plugins wait before they send", async (t) => {
  let isProbed = false;
  const fine = await answering(t, 200);
  const failing = await httpUpstream(async (_, reply) => {
    // Two requests have been to both; the probe lasts until each of the others has reached a target.
    if (isProbed) await until(() => failing.seen.length + fine.seen.length >= 4 + 30);
    reply.writeHead(500).end("{}");
  });
  t.teardown(() => failing.close());
  const running = await startGateway(
    t,
    `providers:
  a: { url: "${failing.origin.origin}/v1", protocol: openai-chat }
  b: { url: "${fine.origin.origin}/v1", protocol: openai-chat }
health: { failures: 2, open: 200ms, longest: 200ms }
models: { m: { targets: [{ to: "a:m", weight: 1000000 }, "b:m"] } }
chains: { llm: [auth, models, rewrite, wait] }
plugins: { models: { continuity: off }, wait: { from: ./wait.ts } }
`,
    { "wait.ts": "export default class Wait { send() { return new Promise((done) => setTimeout(done, 50)); } }" },
  );
  for (let i = 0; i < 2; i++) await chat(running);
  t.equal(failing.seen.length, 2);
  await new Promise((done) => setTimeout(done, 250));
  isProbed = true;
  const statuses = await Promise.all(Array.from({ length: 30 }, async () => (await chat(running)).status));
  t.same(new Set(statuses), new Set([200]));
  t.equal(failing.seen.length, 3);
});

t.test("while one target is healthy, suspended ones get no requests, however many they are", async (t) => {
  // A connection that breaks after the request is not retried: each request there would fail.
  let asked = 0;
  const breaking = await rawUpstream((socket) => {
    asked++;
    socket.destroy();
  });
  t.teardown(() => breaking.close());
  const fine = await answering(t, 200);
  const running = await startGateway(
    t,
    `providers:
  broken: { url: "${breaking.origin.origin}/v1", protocol: openai-chat }
  fine: { url: "${fine.origin.origin}/v1", protocol: openai-chat }
models: { m: { targets: [broken:a, broken:b, broken:c, fine:m] } }
health: { failures: 1 }
plugins: { models: { continuity: off } }
`,
  );
  for (let i = 0; i < 100 && asked < 3; i++) await chat(running);
  t.equal(asked, 3, "each was suspended after one failure");
  const statuses = await Promise.all(Array.from({ length: 40 }, async () => (await chat(running)).status));
  t.same(new Set(statuses), new Set([200]));
  t.equal(asked, 3);
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
  const upstream = await rawUpstream((socket) => socket.write("HTTP/1.1 204 x\r\ncontent-length: 0\r\n\r\n"));
  t.teardown(() => upstream.close());
  const provider = `{ url: "${upstream.origin.origin}/v1", protocol: openai-chat }`;
  const yaml = `providers: { p: ${provider} }\nmodels: { m: { targets: [p:m] } }\nretry: { first_frame: off }\n`;
  const response = await chat(await startGateway(t, yaml));
  t.equal(response.status, 204);
  t.equal(response.headers.get("content-length"), null);
});

t.test("the ledger has an attempt's queue time, and the duration of a failed one", async (t) => {
  const upstream = await httpUpstream(async (_, reply) => {
    if (upstream.seen.length === 1) {
      await until(() => queued() === 1, "the other request to wait");
      await new Promise((done) => setTimeout(done, 60));
    }
    reply.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  t.teardown(() => upstream.close());
  const running = await gateway(t, [upstream], ", concurrency: 1");
  const admissions = Reflect.get(running.gateway.generation.upstreams.slots, "admissions") as Map<string, Admission>;
  const queued = () => Reflect.get(admissions.values().next().value as Admission, "queued");
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

t.test("a model that a provider without a credential does not have is requested of the next target", async (t) => {
  const missing = await httpUpstream((_, reply) =>
    reply
      .writeHead(404, { "content-type": "application/json" })
      .end('{"error":{"message":"model \\"m\\" not found, try pulling it first","type":"api_error"}}'),
  );
  t.teardown(() => missing.close());
  const fine = await answering(t, 200);
  const running = await startGateway(
    t,
    `providers:
  local: { url: "${missing.origin.origin}/v1", speaks: [openai-chat] }
  other: { url: "${fine.origin.origin}/v1", credential: secret-0123456789, speaks: [openai-chat] }
models:
  m: { targets: [{ to: "local:m", weight: 1000000 }, { to: "other:m", weight: 1 }] }
`,
  );
  const response = await chat(running);
  t.same([response.status, missing.seen.length, fine.seen.length], [200, 1, 1]);
});

t.test("a response that cannot be judged is closed", async (t) => {
  const closed = Promise.withResolvers<void>();
  const upstream = await httpUpstream((_, reply) => {
    reply.on("close", closed.resolve).writeHead(200, { "content-type": "application/json" }).write('{"id":');
  });
  t.teardown(() => upstream.close());
  const plugin = `export default class {
  send(_, attempt) {
    attempt.protocol = { ...attempt.protocol, get respondsWithJson() { throw new Error("broken"); } };
  }
}`;
  const running = await startGateway(
    t,
    `providers:
  p: { url: "${upstream.origin.origin}/v1", credential: secret-0123456789, speaks: [openai-chat], timeouts: { idle: off, total: off } }
models:
  m: { targets: ["p:m"] }
plugins: { bad: { from: ./bad.ts } }
chains: { llm: [sse, auth, models, rewrite, bad, usage], read: [auth] }
`,
    { "bad.ts": plugin },
  );
  t.equal((await chat(running)).status, 500);
  await closed.promise;
});
