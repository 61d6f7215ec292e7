import type { ServerResponse } from "node:http";
import t from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

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

// All at the same time, as each waits for the ends of connections.
t.jobs = Object.keys(ENDINGS).length;
for (const [how, { answer, isFault, whole = false }] of Object.entries(ENDINGS))
  t.test(`a target whose answers ${how} is ${isFault ? "" : "not "}suspended like one that refuses`, async (t) => {
    const upstream = await httpUpstream((_, reply) => answer(reply));
    t.teardown(() => upstream.close());
    const timeouts = how === "stall" ? ", timeouts: { idle: 100ms }" : "";
    const { url, log } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat]${timeouts}, health: { failures: 3, errors: off } } }
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
