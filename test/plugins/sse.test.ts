import t, { type Test } from "tap";
import { asking, startGateway, startGatewayTo } from "../support/gateway.ts";
import { until } from "../support/until.ts";

const DELTA =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n';
const END =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';

async function through(t: Test, stream: string) {
  const { url, gateway, log } = await startGatewayTo(t, "openai-chat", (_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(stream),
  );
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"m","stream":true,"stream_options":{"include_usage":true}}',
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let text = "";
  let whole = true;
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read())
      text += Buffer.from(read.value).toString();
  } catch {
    whole = false;
  }
  const { ledger } = gateway.stores;
  await until(() => log.lines.some(({ message }) => message === "exchange"), "the log line");
  await ledger.flush();
  const line = log.lines.find(({ message }) => message === "exchange");
  return { text, whole, headers: response.headers, line, row: (await ledger.recent(1))[0] };
}

t.test("a stream with its terminal event passes, whatever the vendor leaves out after it", async (t) => {
  for (const stream of [
    `${DELTA + END}data: [DONE]\n\n`,
    DELTA + END,
    `${DELTA}data: [DONE]\n`,
    `: hello\n\n${DELTA}${END}`,
  ]) {
    const { text, whole } = await through(t, stream);
    t.equal(text, stream);
    t.ok(whole);
  }
});

t.test("a stream that ends without one is ended with the protocol's error", async (t) => {
  for (const stream of [DELTA, `${DELTA}data: {"id":"c","cho`]) {
    const { text, whole } = await through(t, stream);
    t.notOk(whole);
    t.match(text, /data: \{"error":\{.*upstream_truncated.*\n\n$/s);
    t.notMatch(text, /"cho$/m, "half a frame is not sent");
  }
});

t.test(
  "a provider's own error in the stream passes unchanged, and is recorded as the provider's failure",
  async (t) => {
    const error = 'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n';
    for (const stream of [`${DELTA}${error}`, `${DELTA}${error}${END}data: [DONE]\n\n`]) {
      const { line, row, ...answer } = await through(t, stream);
      t.match(answer, { text: stream, whole: false });
      const told = { code: "upstream_refused", cause: /overloaded/ };
      t.match(line, { level: "warn", fields: { status: 200, outcome: "upstream_error", error: told } });
      t.match(row, { status: 200, outcome: "upstream_error" });
    }
    t.match(await through(t, DELTA + END), { row: { outcome: "completed" }, line: { fields: { error: undefined } } });
  },
);

t.test("streams tell proxies in front not to buffer them", async (t) => {
  const { headers } = await through(t, DELTA + END);
  t.equal(headers.get("x-accel-buffering"), "no");
  t.equal(headers.get("content-length"), null);
});

t.test("a plugin's stream without its terminal event, or with an error, is that plugin's failure", async (t) => {
  for (const [stream, cause] of [
    [DELTA, /no terminal event/],
    [`${DELTA}data: {"error":{"message":"no paper"}}\n\n`, /no paper/],
  ] as const) {
    const { url, log } = await startGateway(
      t,
      `providers: { demo: { url: "demo:" } }
models: { m: { targets: [demo:echo] } }
plugins: { own: { from: ./own.ts } }
chains: { llm: [sse, auth, own, models, rewrite, usage], read: [auth] }
`,
      {
        "own.ts": `import { type RequestExchange } from "model-gateway";
export default class Own {
  request(exchange: RequestExchange) { exchange.answer = { body: [Buffer.from(${JSON.stringify(stream)})] }; }
}`,
      },
    );
    const asked = { method: "POST", headers: asking(), body: '{"model":"m","stream":true}' };
    const text = await (await fetch(`${url}/v1/chat/completions`, asked)).text().catch(() => "cut");
    t.equal(text, "cut");
    await until(() => log.lines.some(({ message }) => message === "exchange"), "the log line");
    const error = { code: "plugin_failed", origin: "own.answer", cause };
    t.match(log.lines.find(({ message }) => message === "exchange")?.fields, { outcome: "failed", error });
  }
});
