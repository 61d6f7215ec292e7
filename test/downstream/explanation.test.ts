import { request } from "node:http";
import { connect } from "node:net";
import t, { type Test } from "tap";
import { wantsExplanation } from "../../src/downstream/explanation.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

// What it answers is shown with whole gateways in explain.test.ts.

t.test("only the header's one value requests an explanation", async (t) => {
  t.equal(wantsExplanation(new HeaderList()), false);
  t.equal(wantsExplanation(new HeaderList(["Gateway-Explain", "dry-run"])), true);
  t.throws(() => wantsExplanation(new HeaderList(["gateway-explain", "on"])), { code: "invalid_field", status: 400 });
});

t.test("a pass-through request is not explained, and its provider is not called", async (t) => {
  const asked: string[] = [];
  const upstream = await httpUpstream(({ url }, reply) => {
    asked.push(url);
    reply.end("{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], websocket: true, credential: the-providers-own } }
models: { m: { targets: [up:x] } }
paths: { /v1/files/*: { pass: up } }
`,
  );
  const explain = { "gateway-explain": "dry-run" };
  const passed = await fetch(`${url}/v1/files/some`, { headers: asking(explain) });
  t.equal(passed.status, 400);
  t.match(await passed.json(), {
    error: { code: "invalid_field", param: "gateway-explain", message: /nothing to explain/ },
  });
  const upgrade = { connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
  const shaken = await new Promise<number | undefined>((done, failed) =>
    request(`${url}/v1/realtime?model=m`, {
      headers: {
        ...upgrade,
        ...explain,
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
        authorization: `Bearer ${KEY}`,
      },
    })
      .on("response", ({ statusCode }) => done(statusCode))
      .on("upgrade", () => done(101))
      .on("error", failed)
      .end(),
  );
  t.equal(shaken, 400);
  t.same(asked, []);
});

/** Sends the head of a request to explain and the beginning of its body on a connection of its own. */
async function explaining(t: Test, framing: string, beginning: string) {
  const running = await startGateway(t, "providers: { a: { url: 'demo:' } }\nmodels: { m: { targets: [a:echo] } }\n");
  const socket = connect({ port: running.port, host: "127.0.0.1", allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  const seen = { text: "", ended: false };
  socket.setEncoding("latin1").on("data", (text) => (seen.text += text));
  socket.on("end", () => (seen.ended = true)).on("error", () => {});
  const lines = ["POST /v1/chat/completions HTTP/1.1", "host: x", `x-api-key: ${KEY}`, "gateway-explain: dry-run"];
  socket.write(`${[...lines, framing].join("\r\n")}\r\n\r\n${beginning}`);
  return { ...running, socket, seen };
}

t.test("of a request that is refused before it has arrived the rest is read for a limited time only", async (t) => {
  const { socket, seen } = await explaining(t, "transfer-encoding: chunked", "1\r\nx\r\n");
  await until(() => seen.text.includes("invalid_json"), "the explanation");
  socket.write("1\r\nx\r\n".repeat(3000));
  await until(() => seen.ended, "the end of the connection");
  const unsent = await explaining(t, "expect: 100-continue\r\ncontent-length: 99999999", "");
  await until(() => unsent.seen.text.includes("body_too_large"), "the explanation");
  t.match(unsent.seen.text, /\r\nconnection: close\r\n/i, "its body may never come");
});

t.test("a request that is broken off before it has arrived is told that once", async (t) => {
  const body = '{"model":"m","messages":[]}';
  const { gateway, log, socket, seen } = await explaining(t, `content-length: ${body.length}`, body.slice(0, 9));
  await until(() => gateway.cancel(gateway.exchanges[0]?.exchange.id ?? ""), "the exchange");
  await until(() => seen.text.includes('"cancelled"'), "the error");
  socket.write(body.slice(9));
  await until(() => gateway.exchanges.length === 0, "its end");
  t.notOk(log.lines.find(({ message }) => message.startsWith("a request failed")));
  t.equal(seen.text.match(/HTTP\/1\.1/g)?.length, 1);
});
