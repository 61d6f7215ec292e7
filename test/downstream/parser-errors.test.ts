import { once } from "node:events";
import { connect as connectHttp2, constants } from "node:http2";
import t from "tap";
import { Downstream } from "../../src/downstream/server.ts";
import { requestText, talk, talkToEnd } from "../support/connection.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const ID = /\r\nx-request-id: (\S+)\r\n/gi;

t.test("CONNECT is refused: the gateway is no open proxy", async (t) => {
  const { port } = await startGateway(t, MODELS);
  const text = await talkToEnd(t, port, `CONNECT 127.0.0.1:${port} HTTP/1.1\r\nhost: a\r\n\r\n${requestText("GET /")}`);
  t.match(text, /^HTTP\/1\.1 400 /);
  t.equal(text.split("HTTP/1.1 ").length, 2);
});

t.test("what is not HTTP gets a JSON error that says so, and is logged", async (t) => {
  const running = await startGateway(t, MODELS);
  for (const bytes of [
    "GARBAGE\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "\x16\x03\x01\x02",
    "GET / HTTP/1.1\r\nno colon\r\n\r\n",
  ]) {
    const text = await talkToEnd(t, running.port, bytes);
    t.match(text, /^HTTP\/1\.1 400 [\s\S]*\r\nconnection: close\r\n/i);
    const [, body = ""] = text.split("\r\n\r\n");
    t.match(JSON.parse(body), { error: { code: "bad_request" } });
    t.match(running.log.lines.at(-1), {
      message: "refused",
      fields: { id: ID.exec(text)?.[1] ?? String, status: 400 },
    });
    ID.lastIndex = 0;
  }
});

t.test("a client that begins with HTTP/2 is told in HTTP/2 to use HTTP/1.1, and is counted and logged", async (t) => {
  const running = await startGateway(t, MODELS);
  const session = connectHttp2(running.url);
  session.on("error", () => {});
  t.teardown(() => session.destroy());
  const [code, , why] = await once(session, "goaway");
  t.equal(code, constants.NGHTTP2_HTTP_1_1_REQUIRED);
  t.match(String(why), /HTTP\/1\.1/);
  t.match(running.log.lines.at(-1), { message: "refused", fields: { status: 400, error: { code: "bad_request" } } });
});

t.test("a head that arrived while the gateway was busy is not a slow one", async (t) => {
  const { gateway } = await startGateway(t, MODELS);
  const head = 200;
  const downstream = new Downstream(() => gateway.generation, { head });
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const whole = talk(t, port, "");
  const half = talk(t, port, "GET / HTTP/1.1\r\n");
  const { promise: parsing, resolve: begun } = Promise.withResolvers<void>();
  half.socket.once("connect", () => setTimeout(begun, 20));
  await parsing;
  // The system takes the bytes at once; nobody reads them until the clock has been looked at.
  await new Promise<void>((resolve) =>
    setImmediate(() => {
      whole.socket.write(requestText("GET /v1/models", ["connection: close"]));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 + 2 * head);
      resolve();
    }),
  );
  await until(() => whole.closed && half.closed, "both connections to close");
  t.match(whole.text, /^HTTP\/1\.1 401 /, "it is checked as it is");
  t.match(half.text, /^HTTP\/1\.1 408 /, "one with a missing part is refused");
});
