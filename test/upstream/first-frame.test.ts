import t, { type Test } from "tap";
import { peekFirstFrame } from "../../src/upstream/first-frame.ts";
import type { Frame } from "../../src/wire/frame.ts";
import { chunk } from "../support/chunk.ts";
import { startGateway } from "../support/gateway.ts";
import { asking } from "../support/key.ts";
import { proxied } from "../support/proxied.ts";
import { CHUNKED, client, httpUpstream, outgoing, type Script, whole } from "../support/upstream.ts";

/** The first frame of what an upstream answers, and all of it read afterwards. */
async function first(t: Test, script: Script, limit = 2000, framing: "sse" | "array" = "sse") {
  const { upstream, proxy } = await proxied(t, script);
  const response = await proxy.send(outgoing(upstream.origin), client());
  const isError = ({ bytes }: Frame) => /^\{"error":.*\}\s*$/.test(bytes.toString());
  const frame = await peekFirstFrame(response, framing, limit, isError);
  return { text: frame === "none" ? frame : (frame?.text ?? frame?.bytes.toString()), read: () => whole(response) };
}

t.test(
  "the first frame with a text is found however it is split, and the stream stays readable completely",
  async (t) => {
    const stream = ': hello\n\nevent: a\ndata: {"x":1}\n\ndata: second\n\n';
    for (let at = 1; at < stream.length; at++) {
      const { text, read } = await first(t, (socket) => {
        socket.write(CHUNKED + chunk(stream.slice(0, at)));
        setImmediate(() => socket.write(`${chunk(stream.slice(at))}0\r\n\r\n`));
      });
      t.equal(text, '{"x":1}');
      t.same(await read(), { body: Buffer.from(stream), calls: 1 });
    }
    const array = await first(t, (socket) => socket.write(`${CHUNKED}${chunk('[{"a":1}\n,')}`), 2000, "array");
    t.equal(array.text, '{"a":1}');
  },
);

t.test(
  "a stream that is empty, ends (which is reported), is interrupted or begins with something huge has none, and stays complete",
  async (t) => {
    const silent = await first(t, (socket) => socket.write(CHUNKED), 50);
    t.equal(silent.text, undefined);
    const comments = await first(t, (socket) => socket.write(`${CHUNKED}${chunk(": a\n\n: b\n\n")}0\r\n\r\n`));
    t.equal(comments.text, "none");
    t.same((await comments.read()).body.toString(), ": a\n\n: b\n\n");
    const cut = await first(t, (socket) => socket.end(`${CHUNKED}${chunk("data: ha")}`));
    t.equal(cut.text, undefined);
    t.match(await cut.read(), { body: Buffer.from("data: ha"), error: { code: "upstream_truncated" } });
    const huge = `data: ${"x".repeat(200_000)}\n\n`;
    const large = await first(t, (socket) => socket.write(`${CHUNKED}${chunk(huge)}0\r\n\r\n`));
    t.equal(large.text, undefined);
    t.equal((await large.read()).body.toString(), huge);
  },
);

t.test("an error as bare JSON is the first frame, also with nothing behind it, if it is whole", async (t) => {
  const error = '{"error":{"code":503}}';
  const sent = async (text: string, end: string) =>
    (await first(t, (socket) => socket.end(`${CHUNKED}${chunk(": a\n\n")}${chunk(text)}${end}`))).text;
  for (const [text, end] of [
    [`${error}\n\ndata: more\n\n`, "0\r\n\r\n"],
    [error, "0\r\n\r\n"],
    [error, ""],
  ] as const)
    t.equal((await sent(text, end))?.trim(), error);
  t.equal(await sent(error.slice(0, -2), "0\r\n\r\n"), "none");
  t.equal(await sent(error.slice(0, -2), ""), undefined);
});

t.test("pings are no first frame: what follows them is", async (t) => {
  const ping = 'event: ping\ndata: {"type": "ping"}\n\n';
  const error = 'event: error\ndata: {"type":"error"}\n\n';
  const { text, read } = await first(t, (socket) => {
    socket.write(CHUNKED + chunk(ping));
    setTimeout(() => socket.write(`${chunk(ping + error)}0\r\n\r\n`), 20);
  });
  t.equal(text, '{"type":"error"}');
  t.equal((await read()).body.toString(), ping + ping + error);
  t.equal((await first(t, (socket) => socket.write(`${CHUNKED}${chunk(ping)}0\r\n\r\n`))).text, "none");
});

// At the same time from here on: most of it is waiting before retries.
t.jobs = 5;
t.test("a stream that ends before its first event is no answer: another target is called", async (t) => {
  const fine = 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
  const streaming = async (text: string) => {
    const upstream = await httpUpstream((_, reply) =>
      reply.writeHead(200, { "content-type": "text/event-stream" }).end(text),
    );
    t.teardown(() => upstream.close());
    return `{ url: "${upstream.origin.origin}/v1", protocol: openai-chat }`;
  };
  for (const nothing of ["", ": processing\n\n", "<html>no stream</html>\n\n"]) {
    const targets = "targets: [{ to: bad:m, weight: 1000000000 }, good:m]";
    const yaml = `providers: { bad: ${await streaming(nothing)}, good: ${await streaming(fine)} }\nmodels: { m: { ${targets} }, only: { targets: [bad:m] } }\n`;
    const { url } = await startGateway(t, yaml);
    const ask = (model: string) =>
      fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: asking(),
        body: JSON.stringify({ model, stream: true, messages: [] }),
      });
    t.equal(await (await ask("m")).text(), fine);
    const only = await ask("only");
    t.equal(only.status, 502);
    t.match(await only.json(), { error: { message: /ended before its first event/ } });
  }
});

/** For each protocol: an error as the first event, in its words, and a whole stream. */
const STREAMS = {
  "openai-chat": [
    "/v1/chat/completions",
    'data: {"error":{"message":"too busy","type":"overloaded_error"}}\n\n',
    'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    503,
  ],
  "openai-responses": [
    "/v1/responses",
    'event: error\ndata: {"type":"error","code":"server_is_overloaded","message":"too busy","param":null,"sequence_number":0}\n\n',
    'event: response.completed\ndata: {"type":"response.completed","sequence_number":0,"response":{"id":"r","object":"response","status":"completed","output":[]}}\n\n',
    503,
  ],
  "anthropic-messages": [
    "/v1/messages",
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too busy"}}\n\n',
    'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":1,"output_tokens":1}}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
    529,
  ],
  gemini: [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    'data: {"error":{"code":503,"message":"too busy","status":"UNAVAILABLE"}}\n\n',
    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}]}\n\n',
    503,
  ],
} as const;

for (const [protocol, [path, error, fine, status]] of Object.entries(STREAMS))
  t.test(`${protocol}: a stream that begins with an error is a failed attempt, and no 200`, async (t) => {
    const streaming = async (...texts: string[]) => {
      let count = 0;
      const upstream = await httpUpstream((_, reply) => {
        reply.writeHead(200, { "content-type": "text/event-stream" });
        reply.end(texts[Math.min(count++, texts.length - 1)]);
      });
      t.teardown(() => upstream.close());
      return upstream;
    };
    const [bad, good] = [await streaming(error), await streaming(fine)];
    const gateway = (origins: URL[], more = "") =>
      startGateway(
        t,
        `providers:\n${origins.map((origin, i) => `  p${i}: { url: "${origin.origin}", speaks: [${protocol}] }\n`).join("")}models: { m: { targets: [${origins.map((_, i) => `{ to: "p${i}:m", weight: ${10 ** (9 - 6 * i)} }`).join(", ")}] } }\n${more}`,
      );
    const ask = async ({ url }: { url: string }, to = path) => {
      const body = JSON.stringify({
        model: "m",
        stream: true,
        messages: [{ role: "user", content: "x" }],
        ...(to === "/v1/responses" ? { input: "x" } : {}),
        max_tokens: 9,
      });
      const answer = await fetch(url + to, { method: "POST", headers: asking(), body });
      let text = "";
      const cut = await (async () => {
        for await (const piece of answer.body ?? []) text += Buffer.from(piece).toString("latin1");
      })().then(
        () => ({}),
        () => ({ cut: true }),
      );
      return { status: answer.status, text, type: answer.headers.get("content-type"), ...cut };
    };
    t.same(await ask(await gateway([bad.origin, good.origin])), { status: 200, text: fine, type: "text/event-stream" });
    const running = await gateway([bad.origin]);
    const last = await ask(running);
    t.match(last, { status, text: /too busy/, type: "application/json" });
    const translated = await ask(running, protocol === "openai-chat" ? "/v1/messages" : "/v1/chat/completions");
    t.match(translated, { status: protocol === "openai-chat" ? 529 : 503, text: /too busy/ });
    await running.gateway.stores.ledger.flush();
    const [entry] = await running.gateway.stores.ledger.recent(1);
    t.match(entry, { outcome: "upstream_error", attempts: [{ error: "upstream_refused" }, {}] });
    const passed = await ask(await gateway([bad.origin], "retry: { first_frame: off }\n"));
    t.match(passed, { status: 200, text: error, cut: true }, "the error does not end the stream like a complete one");
  });
