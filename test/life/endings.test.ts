import { request } from "node:http";
import type { Socket } from "node:net";
import t, { type Test } from "tap";
import { chunk } from "../support/chunk.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { afterHearing } from "../support/patience.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

/** A stream of each protocol: its path, its frames, and how many of them make it complete. */
const STREAMS = {
  "openai-chat": {
    path: "/v1/chat/completions",
    frames: [
      'data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n',
      'data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    ],
    broken: /^data: \{"error":\{.*upstream_truncated.*\}\}\n\n$/,
  },
  "openai-responses": {
    path: "/v1/responses",
    frames: [
      'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"r1","object":"response","status":"in_progress","output":[]}}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","sequence_number":1,"response":{"id":"r1","object":"response","status":"completed","output":[]}}\n\n',
    ],
    broken: /^event: response\.failed\ndata: \{.*"id":"r1".*\}\n\nevent: error\ndata: \{.*\}\n\n$/,
  },
  "anthropic-messages": {
    path: "/v1/messages",
    frames: [
      'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","usage":{"input_tokens":7,"output_tokens":1}}}\n\n',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
    broken: /^event: error\ndata: \{"type":"error","error":\{.*\}.*\}\n\n$/,
  },
  gemini: {
    path: "/v1beta/models/any:streamGenerateContent?alt=sse",
    frames: [
      'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]}}]}\r\n\r\n',
      'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"."}]},"finishReason":"STOP"}]}\r\n\r\n',
    ],
    broken: /^data: \{"error":\{.*\}\}\r\n\r\n$/,
  },
} as const;

interface Got {
  status: number;
  body: string;
  /** Whether the answer ended as HTTP says it must. */
  whole: boolean;
}

function ask({ port }: Running, path: string): Promise<Got> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: "127.0.0.1", method: "POST", path, headers: asking() }, (response) => {
      let body = "";
      const settle = () => resolve({ status: response.statusCode ?? 0, body, whole: response.complete });
      response
        .setEncoding("utf8")
        .on("data", (text: string) => (body += text))
        .on("end", settle)
        .on("error", settle);
    });
    outgoing.on("error", reject).end('{"model":"any","stream":true,"stream_options":{"include_usage":true}}');
  });
}

/** A gateway whose one provider lets `script` own the socket. */
async function behind(t: Test, script: (socket: Socket) => unknown, more = ""): Promise<Running> {
  const upstream = await rawUpstream((socket) => script(socket));
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${Object.keys(STREAMS).join(", ")}]${more} } }\nmodels: { any: { targets: [up:any] } }\n`,
  );
  t.teardown(() => upstream.close());
  return running;
}

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

for (const [protocol, { path, frames, broken }] of Object.entries(STREAMS)) {
  t.test(`${protocol}: a complete stream ends as the provider ended it`, async (t) => {
    const running = await behind(t, (socket) => socket.write(`${HEAD}${frames.map(chunk).join("")}0\r\n\r\n`));
    t.same(await ask(running, path), { status: 200, body: frames.join(""), whole: true });
  });

  const ways: Record<string, (socket: Socket) => unknown> = {
    "closes the connection": (socket) => socket.end(HEAD + chunk(frames[0])),
    "resets the connection": (socket) =>
      socket.write(HEAD + chunk(frames[0]), () => afterHearing(20, () => socket.resetAndDestroy())),
    "breaks off inside a frame": (socket) => socket.end(HEAD + chunk(frames[0]) + chunk(frames[1].slice(0, 30))),
    "ends properly without the terminal event": (socket) => socket.write(`${HEAD}${chunk(frames[0])}0\r\n\r\n`),
  };
  for (const [way, script] of Object.entries(ways)) {
    t.test(
      `${protocol}: when the provider ${way}, the client gets its protocol's error event and an unclean close`,
      async (t) => {
        const running = await behind(t, script);
        const { status, body, whole } = await ask(running, path);
        t.equal(status, 200);
        t.ok(body.startsWith(frames[0]), body);
        t.match(body.slice(frames[0].length), broken);
        t.notOk(whole, "the answer must not look complete");
        await until(() => running.log.lines.some(({ message }) => message === "exchange"));
        t.match(running.log.lines.at(-1)?.fields, { outcome: "upstream_error", error: { code: "upstream_truncated" } });
        const [entry] = await recent(running);
        t.match(entry, {
          outcome: "upstream_error",
          status: 200,
          // What came of its text is counted where it did not tell its tokens.
          source: protocol === "anthropic-messages" ? "partial" : "estimated",
        });
      },
    );
  }
}

/** The provider's own error in each protocol's stream, and what may follow it. */
const REPORTED: readonly [protocol: keyof typeof STREAMS, error: string, rest?: "whole" | RegExp][] = [
  ["openai-chat", 'data: {"error":{"message":"no power","type":"server_error"}}\n\n'],
  ["openai-chat", 'data: {"error":{"message":"no power","type":"server_error"}}\n\ndata: [DONE]\n\n'],
  ["openai-chat", 'event: error\ndata: {"error":{"message":"no power"}}\n\n'],
  // SDKs do not throw on this event, and would report the lost connection: it is repeated as the event on which they do.
  [
    "openai-responses",
    'event: error\ndata: {"type":"error","sequence_number":1,"code":"rate_limit_exceeded","message":"no power"}\n\n',
    /^event: response\.failed\ndata: \{"type":"response.failed","sequence_number":2,"response":\{"id":"r1",.*"error":\{"code":"rate_limit_exceeded","message":"no power"\}.*\}\n\nevent: error\ndata: \{"type":"error","sequence_number":3,.*"error":\{.*"message":"no power".*\}\}\n\n$/,
  ],
  [
    "openai-responses",
    'event: response.failed\ndata: {"type":"response.failed","sequence_number":1,"response":{"id":"r1","object":"response","status":"failed","error":{"code":"server_error","message":"no power"}}}\n\nevent: error\ndata: {"type":"error","sequence_number":2,"message":"no power"}\n\n',
  ],
  // The vendor's regular last event: SDKs return the response in it, and would report a lost connection in its place.
  [
    "openai-responses",
    'event: response.failed\ndata: {"type":"response.failed","sequence_number":1,"response":{"id":"r1","object":"response","status":"failed","error":{"code":"server_error","message":"no power"}}}\n\n',
    "whole",
  ],
  // Its terminal event may also follow the error.
  [
    "openai-responses",
    'event: error\ndata: {"type":"error","sequence_number":1,"message":"no power"}\n\nevent: response.failed\ndata: {"type":"response.failed","sequence_number":2,"response":{"id":"r1","object":"response","status":"failed","error":{"code":"server_error","message":"no power"}}}\n\n',
    "whole",
  ],
  [
    "anthropic-messages",
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no power"}}\n\n',
  ],
  ["gemini", '{"error":{"code":503,"message":"no power","status":"UNAVAILABLE"}}'],
  ["gemini", 'data: {"error":{"code":503,"message":"no power","status":"UNAVAILABLE"}}\r\n\r\n'],
];

t.test("a provider's own error in a stream passes as it came, and the stream does not look complete", async (t) => {
  for (const [protocol, error, rest = /^$/] of REPORTED) {
    const { path, frames } = STREAMS[protocol];
    for (const [way, end] of Object.entries<(socket: Socket) => unknown>({
      "ends properly": (socket) => socket.write("0\r\n\r\n"),
      "closes the connection": (socket) => socket.end(),
    })) {
      const what = `${protocol}, ${error.slice(0, 22)}…, the provider ${way}`;
      const running = await behind(t, (socket) =>
        socket.write(HEAD + chunk(frames[0]) + chunk(error), () => setImmediate(end, socket)),
      );
      const { status, body, whole } = await ask(running, path);
      const passed = frames[0] + error;
      t.same([status, body.slice(0, passed.length), whole], [200, passed, rest === "whole"], what);
      t.match(body.slice(passed.length), rest === "whole" ? /^$/ : rest, what);
      await until(() => running.log.lines.some(({ message }) => message === "exchange"));
      const { fields } = running.log.lines.at(-1) ?? {};
      t.match(fields, { outcome: "upstream_error", error: { code: "upstream_refused" } }, what);
    }
  }
});

async function recent({ gateway }: Running) {
  await gateway.stores.ledger.flush();
  return gateway.stores.ledger.recent(1);
}

t.test(
  "a provider that cannot be reached is a 502, one that does not respond a 504, in the client's own dialect",
  async (t) => {
    const closed = await rawUpstream(() => {});
    const { origin } = closed.origin;
    await closed.close();
    const unreachable = await startGateway(
      t,
      `providers: { up: { url: "${origin}/v1", speaks: [openai-chat, anthropic-messages, gemini] } }\nmodels: { any: { targets: [up:any] } }\n`,
    );
    t.match(await ask(unreachable, "/v1/messages"), { status: 502, body: /"type":"error"/, whole: true });
    t.match(await ask(unreachable, "/v1/chat/completions"), {
      status: 502,
      body: /"code":"upstream_unreachable"/,
      whole: true,
    });
    t.match(await ask(unreachable, STREAMS.gemini.path), { status: 502, body: /"status":"/, whole: true });
    const silent = await behind(t, () => {}, ", timeouts: { first_byte: 50ms }");
    t.match(await ask(silent, "/v1/chat/completions"), { status: 504, body: /"code":"upstream_timeout"/ });
  },
);

t.test(
  "a client that disconnects, before or during the answer, is noticed by the provider, and recorded as aborted",
  async (t) => {
    for (const start of ["", HEAD, HEAD + chunk(STREAMS["anthropic-messages"].frames[0])]) {
      let closed = false;
      let asked = false;
      const running = await behind(t, (socket) => {
        asked = true;
        socket.on("close", () => (closed = true));
        socket.write(start);
      });
      const outgoing = request({
        port: running.port,
        host: "127.0.0.1",
        method: "POST",
        path: "/v1/messages",
        headers: asking(),
      });
      outgoing.on("error", () => {}).end('{"model":"any","stream":true}');
      if (start === "") await until(() => asked, "the provider to be asked");
      else await new Promise((resolve) => outgoing.once("response", resolve));
      if (start.length > HEAD.length) await new Promise((resolve) => setTimeout(resolve, 20));
      outgoing.destroy();
      await until(() => closed, "the provider to be told");
      await until(() => running.log.lines.length > 0, "the log line");
      t.match(running.log.lines.at(-1)?.fields, { outcome: "aborted" });
      t.match((await recent(running))[0], {
        outcome: "aborted",
        source: start === "" || start === HEAD ? "estimated" : "partial",
      });
    }
  },
);

t.test("a client that reads slowly pauses the provider instead of filling memory", async (t) => {
  const piece = chunk(`data: ${"x".repeat(60_000)}\n\n`);
  let written = 0;
  const running = await behind(t, async (socket) => {
    socket.write(HEAD);
    for (let i = 0; i < 1000 && !socket.destroyed; i++) {
      written += piece.length;
      if (!socket.write(piece)) await new Promise((more) => socket.once("drain", more).once("close", more));
    }
  });
  const outgoing = request({
    port: running.port,
    host: "127.0.0.1",
    method: "POST",
    path: "/v1/chat/completions",
    headers: asking(),
  });
  outgoing.on("error", () => {}).end('{"model":"any","stream":true}');
  await new Promise((resolve) => outgoing.once("response", (response) => resolve(response.pause())));
  let before = -1;
  while (before !== written) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  t.ok(written < 40_000_000, `${written} bytes were read from the provider`);
  outgoing.destroy();
});

t.test("an idle stream is kept alive with frames that are no content", async (t) => {
  const upstream = await rawUpstream((socket) => {
    socket.write(HEAD + chunk(STREAMS["anthropic-messages"].frames[0]));
    setTimeout(() => socket.write(`${chunk(STREAMS["anthropic-messages"].frames[1])}0\r\n\r\n`), 1300);
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [anthropic-messages] } }\nmodels: { any: { targets: [up:any] } }\nplugins: { sse: { ping: 1 } }\n`,
  );
  const { body, whole } = await ask(running, "/v1/messages");
  const [first, last] = STREAMS["anthropic-messages"].frames;
  t.equal(body, `${first}event: ping\ndata: {"type": "ping"}\n\n${last}`);
  t.ok(whole);
});
