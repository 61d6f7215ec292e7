import { request } from "node:http";
import t, { type Test } from "tap";
import type { Exchange } from "../../src/core/exchange.ts";
import { pluginAnswer } from "../../src/downstream/plugin-answer.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";

/** A plugin that answers with what is put into its class's body; `witness` stands above and below it. */
async function answering(t: Test, body: string, more = "") {
  const plugin = (name: string, text: string) => `
import { injectable } from "tsyringe";
import { type AccessExchange, type Answer, Frame, type Head, Log, type RequestExchange, type ResponseExchange } from "model-gateway";
@injectable()
export default class ${name} { constructor(private readonly log: Log) {} ${text} }`;
  const witness = (name: string) =>
    plugin(
      name,
      `response(_exchange: ResponseExchange, head: Head) {
        this.log.info({ framing: head.framing, status: head.status }, "${name}");
        head.headers.set("x-seen-by", "${name}");
        return (frame: Frame) => frame.kind === "event" ? new Frame("event", Buffer.from(frame.bytes.toString().toUpperCase())) : undefined;
      }`,
    );
  return startGateway(
    t,
    `providers: { up: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
plugins: { own: { from: ./own.ts${more} }, above: { from: ./above.ts }, below: { from: ./below.ts } }
chains: { llm: [auth, above, own, below, models, rewrite, usage], read: [auth] }
`,
    { "own.ts": plugin("Own", body), "above.ts": witness("Above"), "below.ts": witness("Below") },
  );
}

const ask = (url: string) =>
  fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: '{"model":"m","stream":true}' });

t.test("a complete response passes the plugins above the one that returned it, and no others", async (t) => {
  const { url, log } = await answering(
    t,
    'request(exchange: RequestExchange) { exchange.answer = { status: 203, body: "{}", headers: { "x-own": "1" } }; }',
  );
  const response = await ask(url);
  t.equal(response.status, 203);
  t.equal(await response.text(), "{}");
  const headers = { "content-type": "application/json", "content-length": "2", "x-own": "1", "x-seen-by": "Above" };
  t.match(Object.fromEntries(response.headers), { ...headers, "x-request-id": String });
  t.match(
    log.lines.filter(({ message }) => /Above|Below/.test(message)),
    [{ message: "Above", fields: { framing: undefined, status: 203 } }],
  );
});

t.test("a 401 has a challenge, as HTTP's clients require it; the plugin's own stays", async (t) => {
  for (const [own, challenge] of [
    ["{}", 'Bearer realm="model-gateway"'],
    ['{ "WWW-Authenticate": "Basic" }', "Basic"],
  ]) {
    const { url } = await answering(
      t,
      `request(exchange: RequestExchange) { exchange.answer = { status: 401, body: "{}", headers: ${own} }; }`,
    );
    const { status, headers } = await ask(url);
    t.same([status, headers.get("www-authenticate")], [401, challenge]);
  }
});

t.test("a response without a body announces no length", async (t) => {
  const { url } = await answering(
    t,
    'request(exchange: RequestExchange) { exchange.answer = { status: 204, body: "" }; }',
  );
  const response = await ask(url);
  t.equal(response.status, 204);
  t.equal(response.headers.get("content-length"), null);
});

t.test("a streamed response passes them frame by frame, however it is split into chunks", async (t) => {
  const { url, log } = await answering(
    t,
    `async *pieces() { for (const piece of ["data: o", "ne\\n\\nda", "ta: two\\n", "\\n"]) yield Buffer.from(piece); }
    route() {}
    access(exchange: AccessExchange) { exchange.answer = { body: this.pieces() }; }`,
  );
  const response = await ask(url);
  t.equal(response.headers.get("content-type"), "text/event-stream");
  t.equal(await response.text(), "DATA: ONE\n\nDATA: TWO\n\n");
  t.match(log.lines.find(({ message }) => message === "Above")?.fields, { framing: "sse" });
});

t.test("a stream that is given as a complete body passes them frame by frame too", async (t) => {
  const { url, log } = await answering(
    t,
    `access(exchange: AccessExchange) {
      exchange.answer = { headers: { "content-type": "text/event-stream" }, body: "data: one\\n\\ndata: two\\n\\n" };
    }`,
  );
  const response = await ask(url);
  t.equal(await response.text(), "DATA: ONE\n\nDATA: TWO\n\n");
  t.equal(response.headers.get("content-length"), null);
  t.match(log.lines.find(({ message }) => message === "Above")?.fields, { framing: "sse" });
});

t.test("a complete body for a stream of elements is one if it is an array", async (t) => {
  const path = "/v1beta/models/m:streamGenerateContent";
  for (const [body, framing] of [
    [' [{"a":1},{"a":2}]', "array"],
    ['{"a":1}', undefined],
  ] as const) {
    const { url, log } = await answering(
      t,
      `access(exchange: AccessExchange) { exchange.answer = { body: '${body}' }; }`,
    );
    const response = await fetch(`${url}${path}`, { method: "POST", headers: asking(), body: "{}" });
    t.same(await response.json(), JSON.parse(body));
    t.equal(log.lines.find(({ message }) => message === "Above")?.fields["framing"], framing);
  }
});

t.test("a chunk may come from any thenable", async (t) => {
  const { url } = await answering(
    t,
    `access(exchange: AccessExchange) {
      const left = ["data: one\\n\\n", "data: two\\n\\n"].map((value) => ({ done: false, value: Buffer.from(value) }));
      const next = () => ({ then: (ok: (made: unknown) => void) => setTimeout(ok, 1, left.shift() ?? { done: true }) });
      exchange.answer = { body: { [Symbol.asyncIterator]: () => ({ next }) } as never };
    }`,
  );
  t.equal(await (await ask(url)).text(), "DATA: ONE\n\nDATA: TWO\n\n");
});

t.test("a stream that fails or stalls is ended with an error that names its plugin", async (t) => {
  for (const [end, code] of [
    ['throw new Error("no more")', "plugin_failed"],
    ["await new Promise(() => {})", "plugin_timeout"],
  ]) {
    const { url, log } = await answering(
      t,
      `async *pieces() { yield Buffer.from("data: one\\n\\n"); ${end}; }
      access(exchange: AccessExchange) { exchange.answer = { body: this.pieces() }; }`,
      ", deadline: 50ms",
    );
    await t.rejects(
      ask(url).then((response) => response.text()),
      { message: /terminated/ },
    );
    await until(() => log.lines.some(({ message }) => message === "exchange"), "the log line");
    const error = { code, origin: "own.answer" };
    t.match(log.lines.find(({ message }) => message === "exchange")?.fields, { outcome: "failed", error });
  }
});

t.test("it is pulled as fast as the client reads, and ends when the client disconnects", async (t) => {
  const { url, log } = await answering(
    t,
    `async *pieces() {
      let given = 0;
      try {
        for (;;) { given++; yield Buffer.from("data: " + "x".repeat(65536) + "\\n\\n"); }
      } finally {
        this.log.info({ given }, "over");
      }
    }
    access(exchange: AccessExchange) { exchange.answer = { body: this.pieces() }; }`,
  );
  const leave = new AbortController();
  const asked = { method: "POST", headers: asking(), body: "{}", signal: leave.signal };
  const response = await fetch(`${url}/v1/chat/completions`, asked);
  await response.body?.getReader().read();
  await new Promise((later) => setTimeout(later, 100));
  leave.abort();
  await until(() => log.lines.some(({ message }) => message === "over"), "the generator's end");
  const { given } = log.lines.find(({ message }) => message === "over")?.fields as { given: number };
  t.ok(given < 2000, `${given} chunks were requested`);
});

t.test(
  "one chunk is requested at a time, also where the client catches up while the next one is awaited",
  async (t) => {
    let requested = 0;
    const next = Promise.withResolvers<IteratorResult<Buffer>>();
    const body = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          requested++;
          return requested === 1 ? next.promise : Promise.resolve({ done: true as const, value: undefined });
        },
      }),
    };
    const answerer = { name: "own", index: 0, origin: "own.answer", deadline: 0 };
    const operation = { framing: "sse", streams: true };
    const answer = pluginAnswer({ answerer, operation } as unknown as Exchange, { body });
    const received: string[] = [];
    const ended = new Promise<void>((end, fail) =>
      answer.read({ chunk: (bytes) => received.push(String(bytes)) > 0, end, fail }),
    );
    answer.resume();
    t.equal(requested, 1);
    next.resolve({ done: false, value: Buffer.from("data: one\n\n") });
    await ended;
    t.same(received, ["data: one\n\n"]);
    t.equal(requested, 2);
  },
);

t.test("an invalid response is its plugin's failure, complete or streamed", async (t) => {
  for (const [answer, cause] of [
    ["{ body: { a: 1 } }", /body is a text, a buffer/],
    ["{ body: null }", /body is a text, a buffer/],
    ['{ body: "", status: 999.5 }', /status 999\.5/],
    ['{ body: "", status: 103 }', /status 103/],
    ['{ body: "", headers: { "bad header": "x" } }', /"bad header" cannot be the name/],
    ['{ body: "", headers: { "x-own": "x\\ny" } }', /header x-own has a value/],
    ["{ body: (function* () { yield 5; })() }", /type number/],
    ["{ body: (async function* () { yield 5; })() }", /type number/],
  ] as const) {
    const { url, log } = await answering(
      t,
      `access(exchange: AccessExchange) { exchange.answer = ${answer} as unknown as Answer; }`,
    );
    const response = await ask(url);
    if (response.status !== 200) t.match(await response.json(), { error: { code: "plugin_failed" } }, answer);
    else await t.rejects(response.text(), answer);
    await until(() => log.lines.some(({ message }) => message === "exchange"), "the log line");
    const error = { code: "plugin_failed", origin: "own.answer", cause };
    t.match(log.lines.find(({ message }) => message === "exchange")?.fields, { outcome: "failed", error }, answer);
  }
});

t.test("the pieces of an answer with an impossible status are ended on every kind of path", async (t) => {
  const running = await startGateway(
    t,
    `providers: { up: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [up:x] } }
plugins: { own: { from: ./own.ts } }
paths:
  /v1/chat/completions: { protocol: openai-chat, use: [auth, own, models, rewrite, usage] }
  /v1/realtime: { protocol: openai-realtime, use: [auth, own, models, rewrite, usage] }
  "/files/*": { pass: up, use: [auth, own] }
`,
    {
      "own.ts": `
import { injectable } from "tsyringe";
import { type AccessExchange, Log } from "model-gateway";
@injectable()
export default class Own {
  constructor(private readonly log: Log) {}
  access(exchange: AccessExchange) {
    const body = {
      next: () => ({ done: true }),
      return: () => { this.log.info({}, "returned"); return { done: true }; },
      [Symbol.iterator]: () => body,
    };
    exchange.answer = { status: 99, body: body as never };
  }
}`,
    },
  );
  const socket = { connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
  for (const [method, path, headers] of [
    ["POST", "/v1/chat/completions", {}],
    ["POST", "/files/one", {}],
    ["GET", "/v1/realtime?model=m", { ...socket, "sec-websocket-key": `${"A".repeat(22)}==` }],
  ] as const) {
    const before = running.log.lines.filter(({ message }) => message === "returned").length;
    const options = { port: running.port, host: "127.0.0.1", method, path, headers: asking(headers), agent: false };
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    request(options, (response) => resolve(response.resume().statusCode))
      .on("error", reject)
      .end(method === "POST" ? '{"model":"m"}' : undefined);
    t.equal(await promise, 500, path);
    t.equal(running.log.lines.filter(({ message }) => message === "returned").length, before + 1, path);
  }
});
