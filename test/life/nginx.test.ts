import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import t, { type Test } from "tap";
import { chunk } from "../support/chunk.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { sendByHttp2 } from "../support/http2-talk.ts";
import { BARE, KEPT, startNginx } from "../support/nginx.ts";
import { each, post } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { httpUpstream, type RawRequest, rawUpstream } from "../support/upstream.ts";

const CONFIGURATIONS = { "a bare proxy_pass": BARE, "kept connections": KEPT };
const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

interface Behind {
  running: Running;
  /** nginx's port. */
  port: number;
}

/** A gateway behind nginx, with one provider. */
async function behind(t: Test, provider: string, directives: string): Promise<Behind | undefined> {
  const running = await startGateway(
    t,
    `providers: { up: { url: "${provider}/v1", speaks: [openai-chat, anthropic-messages] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
  );
  const nginx = await startNginx(t, running.port, directives);
  return nginx && { running, port: nginx.port };
}

async function scripted(t: Test, directives: string, script: (socket: Socket, request: RawRequest) => unknown) {
  const upstream = await rawUpstream(script);
  t.teardown(() => upstream.close());
  return behind(t, upstream.origin.origin, directives);
}

/** Asks for a stream; the answer's head is in. */
function open(port: number): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const options = { port, host: "127.0.0.1", method: "POST", path: "/v1/messages", headers: asking() };
    const outgoing = request(options, resolve);
    outgoing.on("error", reject).end('{"model":"any","stream":true}');
  });
}

for (const [name, directives] of Object.entries(CONFIGURATIONS)) {
  t.test(`${name}: what the provider sends in chunks arrives in chunks`, async (t) => {
    const count = 25;
    const pieces = Array.from({ length: count }, (_, i) =>
      i === count - 1
        ? 'event: message_stop\ndata: {"type":"message_stop"}\n\n'
        : `event: ping\ndata: {"type":"ping","n":${i}}\n\n`,
    );
    let body = "";
    const prove = (sent: string) => until(() => body === sent, `${JSON.stringify(sent.slice(-60))} to arrive`);
    let proven: Promise<void> | undefined;
    const place = await scripted(t, directives, (socket) => {
      // The next piece is sent only when the client has the one before: were any kept back, nothing would go on.
      proven = (async () => {
        socket.write(HEAD);
        let sent = "";
        for (const piece of pieces) {
          socket.write(chunk(piece));
          sent += piece;
          await prove(sent);
        }
        socket.write("0\r\n\r\n");
      })();
      proven.catch(() => socket.destroy());
    });
    if (!place) return;
    const response = await open(place.port);
    t.equal(response.statusCode, 200);
    response.setEncoding("utf8").on("data", (text: string) => (body += text));
    await new Promise((ended) => response.once("close", ended));
    await proven;
    t.equal(body, pieces.join(""));
    t.ok(response.complete);
  });

  t.test(`${name}: the provider notices a client that disconnects`, async (t) => {
    let asked = false;
    let closed = false;
    let start = "";
    const place = await scripted(t, directives, (socket) => {
      asked = true;
      socket.on("close", () => (closed = true));
      socket.write(start);
    });
    if (!place) return;
    for (start of ["", HEAD + chunk("event: ping\ndata: {}\n\n")]) {
      asked = closed = false;
      const options = { port: place.port, host: "127.0.0.1", method: "POST", path: "/v1/messages", headers: asking() };
      const outgoing = request(options).on("error", () => {});
      outgoing.end('{"model":"any","stream":true}');
      await (start === ""
        ? until(() => asked, "the provider to be asked")
        : new Promise((resolve) => outgoing.once("response", resolve)));
      outgoing.destroy();
      await until(() => closed, "the provider to be told");
    }
    const ended = () => place.running.log.lines.filter(({ message }) => message === "exchange");
    await until(() => ended().length === 2, "both log lines");
    for (const { fields } of ended()) t.match(fields, { outcome: "aborted" });
  });

  t.test(`${name}: a mebibyte is uploaded, and a HEAD is answered without a body`, async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const place = await behind(t, upstream.origin.origin, directives);
    if (!place) return;
    const start = '{"model":"any","user":"';
    const body = `${start}${"x".repeat(2 ** 20 - start.length - 2)}"}`;
    t.equal((await post(place.port, "/v1/chat/completions", body)).status, 200);
    t.ok(upstream.seen[0]?.body.equals(Buffer.from(body.replace('"any"', '"vendor"'))), "byte for byte");
    for (const path of ["/v1/models", "/"]) {
      const [get, head] = await Promise.all([ask(place.port, "GET", path), ask(place.port, "HEAD", path)]);
      t.equal(head.status, 200);
      t.equal(head.body, "");
      t.equal(head.length, get.length, "the length that GET has");
      t.equal(get.body.length, Number(get.length));
    }
  });
}

function ask(port: number, method: string, path: string) {
  return new Promise<{ status: number; length: string | undefined; body: string }>((resolve, reject) => {
    const outgoing = request({ port, host: "127.0.0.1", method, path, headers: asking() }, (response) => {
      let body = "";
      const { statusCode: status = 0, headers } = response;
      response.setEncoding("latin1").on("data", (text: string) => (body += text));
      response.on("end", () => resolve({ status, length: headers["content-length"], body }));
    });
    outgoing.on("error", reject).end();
  });
}

t.test("many requests share the few keep-alive connections of nginx", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const place = await behind(t, upstream.origin.origin, KEPT);
  if (!place) return;
  const used = new Set<Socket>();
  const count = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    if (socket.localPort === place.running.port) used.add(socket);
  };
  subscribe("http.server.request.start", count);
  t.teardown(() => unsubscribe("http.server.request.start", count));
  const all = Array.from({ length: 300 }, (_, i) => i);
  const answers = await each(all, (i) => post(place.port, "/v1/chat/completions", `{"model":"any","user":"${i}"}`), 4);
  t.ok(answers.every(({ status }) => status === 200));
  t.equal(upstream.seen.length, all.length);
  t.ok(used.size <= 4, `${used.size} connections`);
});

t.test("an interrupted stream does not look complete behind nginx either, over keep-alive connections", async (t) => {
  const place = await scripted(t, KEPT, (socket) => socket.end(HEAD + chunk("event: ping\ndata: {}\n\n")));
  if (!place) return;
  const response = await open(place.port);
  let body = "";
  response
    .setEncoding("utf8")
    .on("data", (text: string) => (body += text))
    .on("error", () => {});
  await new Promise((ended) => response.once("close", ended));
  t.match(body, /^event: ping\ndata: \{\}\n\nevent: error\ndata: /);
  t.notOk(response.complete);
});

t.test("nor by HTTP/2, where nginx breaks off the stream", async (t) => {
  const upstream = await rawUpstream((socket) => socket.end(HEAD + chunk("event: ping\ndata: {}\n\n")));
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [anthropic-messages] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
  );
  const nginx = await startNginx(t, running.port, KEPT, " http2");
  if (!nginx) return;
  const body = '{"model":"any","stream":true}';
  const { statuses, text } = await sendByHttp2(
    nginx.port,
    `POST /v1/messages HTTP/1.1\r\nx-api-key: ${KEY}\r\ncontent-type: application/json\r\n\r\n${body}`,
  );
  t.same(statuses, [200]);
  t.match(text, /event: ping\ndata: \{\}\n\nevent: error\ndata: .*\(broken off\)$/s);
});
