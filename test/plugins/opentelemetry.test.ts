import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { startCollector } from "../support/otlp.ts";
import { httpUpstream } from "../support/upstream.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";
const CHAIN = "chains: { llm: [opentelemetry, sse, auth, scrub, models, limits, rewrite, usage] }";
const USAGE = {
  prompt_tokens: 100,
  completion_tokens: 40,
  prompt_tokens_details: { cached_tokens: 30 },
  completion_tokens_details: { reasoning_tokens: 10 },
};
const chunk = (json: object) => `data: ${JSON.stringify({ id: "chatcmpl-9", model: "fine-2026", ...json })}\n\n`;

async function vendor(t: Test) {
  const upstream = await httpUpstream(({ body }, reply) => {
    const { model, stream } = JSON.parse(body.toString()) as { model: string; stream?: boolean };
    if (model === "down") return reply.writeHead(503, { "content-type": "application/json" }).end("{}");
    const choices = [
      { index: 0, message: { role: "assistant", content: "canary of an answer" }, finish_reason: "stop" },
    ];
    if (!stream)
      return reply
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ id: "chatcmpl-9", model: "fine-2026", choices, usage: USAGE }));
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "some" }, finish_reason: null }] }));
    reply.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: "length" }] }));
    return reply.end(`${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`);
  });
  t.teardown(() => upstream.close());
  return upstream;
}

/** A gateway that tells a collector; `flush` ends it, so that all has been sent. */
async function traced(t: Test, options: string, env: Record<string, string> = {}) {
  const [upstream, collector] = [await vendor(t), await startCollector(t)];
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models:
  plain: { targets: [up:fine] }
  dear: { targets: [up:down], fallback: [plain] }
plugins: { opentelemetry: { endpoint: "${collector.url}"${options} } }
${CHAIN}
`;
  const running = await startGateway(t, yaml, {}, env);
  const send = async (body: object, headers: Record<string, string> = {}) => {
    const messages = [
      { role: "system", content: "canary of instructions" },
      { role: "user", content: "canary of a question" },
    ];
    const answer = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: asking(headers),
      body: JSON.stringify({ messages, ...body }),
    });
    await answer.text();
    return answer;
  };
  const flush = async () => {
    await running.gateway.stop({ drain: 0 });
    return collector.spans;
  };
  return { ...running, upstream, collector, send, flush };
}

t.test("a request is a span below the caller's, with one for each attempt, by the conventions", async (t) => {
  const { send, flush, upstream, collector, log } = await traced(
    t,
    ", headers: { authorization: $OTLP }, service: gate",
    {
      OTLP: "Basic canary-of-collector",
    },
  );
  const settings = { temperature: 0.5, max_tokens: 99, stop: ["END"], response_format: { type: "json_object" } };
  await send({ model: "dear", ...settings }, { traceparent: `00-${TRACE}-${SPAN}-01`, "x-session-id": "s-1" });
  const spans = await flush();
  t.match(collector.requests[0], { path: "/v1/traces", authorization: "Basic canary-of-collector" });
  const server = spans.find(({ kind }) => kind === 2);
  t.match(server, {
    ...{ traceId: TRACE, parentSpanId: SPAN, name: "chat dear", service: "gate", status: 0 },
    attributes: {
      "http.request.method": "POST",
      "url.path": "/v1/chat/completions",
      "http.response.status_code": 200,
      "gateway.key": "test",
      "gateway.model": "plain",
      "gateway.outcome": "completed",
      "gateway.attempts": 2,
      "gateway.api": "openai-chat",
    },
  });
  const [failed, served, ...more] = spans.filter(({ kind }) => kind === 3).toSorted((a, b) => a.start - b.start);
  t.same(more, []);
  for (const span of [failed, served]) {
    t.match(span, { traceId: TRACE, parentSpanId: server?.spanId });
    t.ok(span && server && span.start >= server.start - 1 && span.end <= server.end + 1);
  }
  t.match(failed, {
    ...{ name: "chat down", status: 2 },
    attributes: { "error.type": "503", "gen_ai.request.model": "down", "http.response.status_code": 503 },
  });
  t.notOk(failed?.attributes["gen_ai.response.id"]);
  t.match(served, {
    ...{ name: "chat fine", status: 0 },
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "fine",
      "gen_ai.conversation.id": "s-1",
      "gen_ai.output.type": "json",
      "gen_ai.request.temperature": 0.5,
      "gen_ai.request.max_tokens": 99,
      "gen_ai.request.stop_sequences": ["END"],
      "gen_ai.response.id": "chatcmpl-9",
      "gen_ai.response.model": "fine-2026",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 100,
      "gen_ai.usage.output_tokens": 40,
      "gen_ai.usage.cache_read.input_tokens": 30,
      "gen_ai.usage.reasoning.output_tokens": 10,
      "server.address": "127.0.0.1",
      "server.port": Number(upstream.origin.port),
      "gateway.target": "up:fine",
    },
  });
  const shown = upstream.seen.map(({ rawHeaders }) => rawHeaders[rawHeaders.indexOf("traceparent") + 1]);
  t.same(
    shown,
    [`00-${TRACE}-${failed?.spanId}-01`, `00-${TRACE}-${served?.spanId}-01`],
    "each as a child of our span",
  );
  const line = log.lines.find(({ message }) => message === "exchange");
  t.equal(line?.fields["trace_id"], TRACE);
  t.notMatch(JSON.stringify(spans), /canary/);
});

t.test(
  "a stream's span has its end and the time to its first chunk; a trace that begins here is in the log",
  async (t) => {
    const { send, flush, upstream, log } = await traced(t, "");
    await send({ model: "plain", stream: true });
    const spans = await flush();
    const [server, client] = [2, 3].map((kind) => spans.find((span) => span.kind === kind));
    t.equal(server?.parentSpanId, undefined);
    t.match(client?.attributes, {
      "gen_ai.request.stream": true,
      "gen_ai.response.finish_reasons": ["length"],
      "gen_ai.response.model": "fine-2026",
      "gen_ai.usage.output_tokens": 40,
    });
    t.type(client?.attributes["gen_ai.response.time_to_first_chunk"], "number");
    t.notOk(upstream.seen[0]?.rawHeaders.includes("traceparent"), "this was not configured");
    t.equal(log.lines.find(({ message }) => message === "exchange")?.fields["trace_id"], server?.traceId);
  },
);

t.test("propagate sends a trace that begins here to providers, content records input and output texts", async (t) => {
  const { send, flush, upstream } = await traced(t, ", propagate: true, content: true");
  await send({ model: "plain" });
  const spans = await flush();
  const client = spans.find(({ kind }) => kind === 3);
  t.match(upstream.seen[0]?.rawHeaders.join("\n"), `00-${client?.traceId}-${client?.spanId}-01`);
  const told = (name: string) => JSON.parse(String(client?.attributes[name])) as unknown;
  t.same(told("gen_ai.system_instructions"), [{ type: "text", content: "canary of instructions" }]);
  t.same(told("gen_ai.input.messages"), [{ role: "user", parts: [{ type: "text", content: "canary of a question" }] }]);
  t.same(told("gen_ai.output.messages"), [
    { role: "assistant", parts: [{ type: "text", content: "canary of an answer" }], finish_reason: "stop" },
  ]);
});

t.test("unsampled traces are not sent, unless the caller's trace is sampled", async (t) => {
  const { send, flush, upstream } = await traced(t, ", sample: 0, propagate: true");
  await send({ model: "plain" });
  await send({ model: "plain" }, { traceparent: `00-${TRACE}-${SPAN}-01` });
  await send({ model: "plain" }, { traceparent: `00-${"a".repeat(32)}-${SPAN}-00` });
  const spans = await flush();
  t.same([...new Set(spans.map(({ traceId }) => traceId))], [TRACE]);
  const flags = upstream.seen.map(({ rawHeaders }) => rawHeaders[rawHeaders.indexOf("traceparent") + 1]?.slice(-2));
  t.same(flags, ["00", "01", "00"]);
});

t.test("refusals are spans without an attempt, and a server's fault is an error", async (t) => {
  const { send, flush } = await traced(t, "");
  await send({ model: "unknown" });
  await send({ model: "plain" }, { authorization: "Bearer wrong-key-0123456789" });
  const spans = await flush();
  t.same(
    spans
      .map(({ kind, status, attributes }) => [
        kind,
        status,
        attributes["error.type"],
        attributes["http.response.status_code"],
      ])
      .sort(),
    [
      [2, 0, "invalid_api_key", 401],
      [2, 0, "model_not_found", 404],
    ].sort(),
  );
});

t.test("of requests refused without a key ten a minute are sent, though their traces are sampled", async (t) => {
  const { send, flush } = await traced(t, ", sample: 0");
  const wrong = { authorization: "Bearer wrong-key-0123456789" };
  for (let i = 0; i < 3; i++) await send({ model: "plain" }, wrong);
  for (let i = 0; i < 12; i++) await send({ model: "plain" }, { ...wrong, traceparent: `00-${TRACE}-${SPAN}-01` });
  await send({ model: "plain" }, { traceparent: `00-${"b".repeat(32)}-${SPAN}-01` });
  const spans = await flush();
  t.equal(spans.filter(({ traceId }) => traceId === TRACE).length, 10);
  t.equal(spans.length, 12, "and those with a key");
});

t.test("a span holds no more of a request than a collector takes, however large that is", async (t) => {
  const { send, flush } = await traced(t, ", content: true");
  const old = Array.from({ length: 50 }, (_, i) => ({ role: "user", content: `old ${i} ${"x".repeat(20_000)}` }));
  const messages = [...old, { role: "user", content: "the newest" }];
  await send({ model: "plain", messages, stop: Array.from({ length: 1000 }, () => "s".repeat(2000)) });
  await send({ model: "plain", messages: [{ role: "user", content: "y".repeat(5_000_000) }] });
  const [first, second] = (await flush()).filter(({ kind }) => kind === 3);
  const input = String(first?.attributes["gen_ai.input.messages"]);
  t.match(input, /old 49.*the newest/);
  t.notMatch(input, /old 0 /);
  t.ok(input.length < 150_000, `${input.length} characters`);
  t.ok(JSON.stringify(first).length < 200_000);
  t.match(second?.attributes, { "gen_ai.response.id": "chatcmpl-9" });
  t.notOk(second?.attributes["gen_ai.input.messages"], "of a larger one nothing is read");
});

t.test("a request whose texts readers could read differently is traced without them", async (t) => {
  const { send, flush, log } = await traced(t, ", content: true");
  t.equal((await send({ model: "plain", Messages: [] })).status, 200);
  const spans = await flush();
  t.same(spans.map(({ kind }) => kind).sort(), [2, 3]);
  t.notOk(spans.some(({ attributes }) => attributes["gen_ai.input.messages"]));
  t.same(
    log.lines.filter(({ level }) => level === "error" || level === "warn"),
    [],
  );
});

t.test("a collector that fails affects no request, and is reported in the log", async (t) => {
  const { send, flush, collector, log } = await traced(t, "");
  collector.how.status = 400;
  t.equal((await send({ model: "plain" })).status, 200);
  t.same(await flush(), []);
  t.ok(log.lines.some(({ message, level }) => level === "warn" && message === "spans could not be sent"));
});

t.test("the plugin comes before all others, and an invalid endpoint is an error", async (t) => {
  const yaml = (plugin: string, chain: string) =>
    `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nplugins: { opentelemetry: ${plugin} }\nchains: { llm: [${chain}] }\n`;
  await t.rejects(startGateway(t, yaml("{}", "sse, opentelemetry, auth, models, usage")), { message: /opentelemetry/ });
  await t.rejects(startGateway(t, yaml("{ endpoint: collector:4317 }", "opentelemetry, auth, models, usage")), {
    message: /http:\/\/127\.0\.0\.1:4318/,
  });
});
