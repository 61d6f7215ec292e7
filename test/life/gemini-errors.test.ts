/** Errors that Gemini reports in a stream, in each of its forms and however the stream ends, as clients of all protocols get them. */

import { request } from "node:http";
import type { Socket } from "node:net";
import t from "tap";
import { chunk } from "../support/chunk.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { afterHearing } from "../support/patience.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

const ERROR = '{"error":{"code":503,"message":"no power","status":"UNAVAILABLE"}}';
const TEXT = '{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"index":0}]}';

/** How a stream goes on after its first frame. */
const SSE: Record<string, string> = {
  "an event": `data: ${ERROR}\r\n\r\n`,
  "bare JSON": ERROR,
  "bare JSON on several lines": `${JSON.stringify(JSON.parse(ERROR), undefined, 2)}\n`,
};
const ARRAY: Record<string, string> = { "the last element": `${ERROR}\n]`, "an element of an open array": ERROR };

const ENDS: Record<string, (socket: Socket) => unknown> = {
  "ends properly": (socket) => socket.write("0\r\n\r\n"),
  "closes the connection": (socket) => socket.end(),
  "resets the connection": (socket) => afterHearing(20, () => socket.resetAndDestroy()),
};

const CONTENTS = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
const MESSAGES = { model: "any", stream: true, messages: [{ role: "user", content: "Hello" }] };
/** Each client's request, and the end of a stream with the error. */
const CLIENTS: Record<string, { path: string; body: object; end: RegExp }> = {
  "openai-chat": {
    path: "/v1/chat/completions",
    body: MESSAGES,
    end: /"content":"Hi"[^\n]*\n\ndata: \{"error":\{"message":"no power",[^\n]*\}\}\n\n$/,
  },
  "openai-responses": {
    path: "/v1/responses",
    body: { model: "any", stream: true, input: "Hello" },
    end: /\n\nevent: response\.failed\ndata: [^\n]*"no power[^\n]*\n\nevent: error\ndata: [^\n]*"no power"[^\n]*\n\n$/,
  },
  "anthropic-messages": {
    path: "/v1/messages",
    body: { ...MESSAGES, max_tokens: 9 },
    end: /"text":"Hi"\}\}\n\nevent: error\ndata: \{"type":"error","error":\{[^\n]*"no power"\}[^\n]*\}\n\n$/,
  },
  gemini: {
    path: "/v1beta/models/any:streamGenerateContent?alt=sse",
    body: CONTENTS,
    end: /"Hi"[^\n]*\r\n\r\n(?:data: )?\{\s*"error":\s*\{[^}]*"no power"[^}]*\}\s*\}\s*$/,
  },
};

interface Got {
  status: number;
  body: string;
  /** Whether the answer ended as HTTP says it must. */
  whole: boolean;
}

function ask({ port }: Running, path: string, body: object): Promise<Got> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: "127.0.0.1", method: "POST", path, headers: asking() }, (response) => {
      let text = "";
      const settle = () => resolve({ status: response.statusCode ?? 0, body: text, whole: response.complete });
      response
        .setEncoding("utf8")
        .on("data", (piece: string) => (text += piece))
        .on("end", settle)
        .on("error", settle);
    });
    outgoing.on("error", reject).end(JSON.stringify(body));
  });
}

/** A gateway before a provider that sends what the test says, and what a client gets of it. */
async function behind(t: { teardown(act: () => unknown): unknown }) {
  const sends = { type: "", text: "", end: "" };
  const upstream = await rawUpstream((socket) => {
    const head = `HTTP/1.1 200 OK\r\ncontent-type: ${sends.type}\r\ntransfer-encoding: chunked\r\n\r\n`;
    socket.write(head + chunk(sends.text), () => setImmediate(ENDS[sends.end] as (socket: Socket) => unknown, socket));
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1beta", speaks: [gemini] } }\nmodels: { any: { targets: [up:any] } }\n`,
  );
  let rows = 0;
  return async (type: string, text: string, end: string, path: string, body: object) => {
    Object.assign(sends, { type, text, end });
    const got = await ask(running, path, body);
    const { ledger } = running.gateway.stores;
    const recorded = () => running.log.lines.filter(({ message }) => message === "exchange").length;
    await until(() => recorded() > rows);
    await ledger.flush();
    const entries = await ledger.recent(1000);
    const added = entries.length - rows;
    rows = entries.length;
    return { ...got, added, outcome: entries[0]?.outcome, code: entries[0]?.error?.code };
  };
}

const RECORDED = { added: 1, outcome: "upstream_error", code: "upstream_refused" };

for (const [client, { path, body, end }] of Object.entries(CLIENTS))
  t.test(`${client}: the error is the client's own, once, and the stream does not look complete`, async (t) => {
    const get = await behind(t);
    for (const [form, error] of Object.entries(SSE))
      for (const way of Object.keys(ENDS)) {
        const what = `${form}, and the provider ${way}`;
        const got = await get("text/event-stream", `data: ${TEXT}\r\n\r\n${error}`, way, path, body);
        t.match(got, { status: 200, whole: false, ...RECORDED }, what);
        t.match(got.body, end, what);
        const first = await get("text/event-stream", error, way, path, body);
        t.match(first, { whole: true, ...RECORDED }, `${what}, at once`);
        t.ok(first.status === 503 || first.status === 529, `${what}, at once: ${first.status}`);
        t.match(first.body, "no power", what);
      }
  });

t.test("in an array the error is the last element, and the array is closed where the connection breaks", async (t) => {
  const get = await behind(t);
  const path = "/v1beta/models/any:streamGenerateContent";
  for (const [form, error] of Object.entries(ARRAY))
    for (const way of Object.keys(ENDS)) {
      const what = `${form}, and the provider ${way}`;
      const got = await get("application/json", `[${TEXT}\n,\r\n${error}`, way, path, CONTENTS);
      t.match(got, { status: 200, whole: true, ...RECORDED }, what);
      // What a provider has ended properly passes as it came.
      if (error === ERROR && way === "ends properly") t.equal(got.body, `[${TEXT}\n,\r\n${error}`, what);
      else t.same(JSON.parse(got.body), [JSON.parse(TEXT), JSON.parse(ERROR)], what);
      const first = await get("application/json", `[${error}`, way, path, CONTENTS);
      t.match(first, { status: 503, whole: true, ...RECORDED }, `${what}, at once`);
    }
});
