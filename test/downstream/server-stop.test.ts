import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { Downstream } from "../../src/downstream/server.ts";
import { JSON_BODY, requestText, talk } from "../support/connection.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { CHUNKED, rawUpstream } from "../support/upstream.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';
const chat = (): string => requestText("POST /v1/chat/completions", JSON_BODY, BODY);

/** A second listener in front of a gateway's generation, with a provider that answers when it is let go. */
async function held(t: Test) {
  const { promise: open, resolve: go } = Promise.withResolvers<void>();
  let asked = 0;
  const upstream = await rawUpstream(async (socket) => {
    asked++;
    socket.write(`${CHUNKED}5\r\n{"a":\r\n`);
    await open;
    socket.write("2\r\n1}\r\n0\r\n\r\n");
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { echo: { targets: [up:echo] } }\n`,
  );
  const downstream = new Downstream(() => running.gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  return { running, downstream, port, go, asked: () => asked };
}

/** A server that gets its connections from another one, as a worker does. */
async function behindServer(t: Test) {
  const { gateway } = await startGateway(t, MODELS);
  const downstream = new Downstream(() => gateway.generation);
  const server = createServer({ allowHalfOpen: true }, (socket) => downstream.accept(socket)).listen(0, "127.0.0.1");
  t.teardown(() => server.close());
  await once(server, "listening");
  return { downstream, port: (server.address() as AddressInfo).port };
}

t.test("close() waits for the running exchange, and accepts no new connection", async (t) => {
  const { downstream, port, go, asked } = await held(t);
  const idle = talk(t, port, requestText("GET /"));
  await until(() => idle.text !== "", "the greeting");
  const client = talk(t, port, chat());
  await until(() => asked() === 1, "the provider to be asked");
  t.equal(downstream.exchanges.size, 1);
  let over = false;
  const ending = downstream.close({ drain: 60_000 }).then(() => (over = true));
  await until(() => downstream.stop.hasBegun, "the stop");
  // Who comes while what waits is being taken is taken too.
  for (let refused = false; !refused; ) {
    const late = connect(port, "127.0.0.1");
    refused = await once(late, "connect").then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ECONNREFUSED",
    );
    late.destroy();
  }
  t.notOk(over || client.closed || idle.closed);
  idle.socket.write(requestText("GET /"));
  await until(() => idle.closed, "the idle connection to close");
  t.match(idle.text, /200 OK.*200 OK[^{]*connection: close/is, "with the answer to another request");
  go();
  await ending;
  await until(() => client.closed, "the answer to be read");
  t.match(client.text, /^HTTP\/1\.1 200 /);
  t.match(client.text, /1\}\r\n0\r\n\r\n$/, "the response is complete");
  await until(() => downstream.exchanges.size === 0, "the exchange to be over");
  await downstream.close({ drain: 60_000 });
  t.pass("and closing again has no effect");
});

t.test("close() aborts what does not end in time", async (t) => {
  const { running, downstream, port, asked } = await held(t);
  const client = talk(t, port, chat());
  await until(() => asked() === 1, "the provider to be asked");
  await downstream.close({ drain: 10 });
  await until(() => client.closed, "the connection to close");
  await until(() => downstream.exchanges.size === 0, "the exchange to be over");
  t.match(running.log.lines.at(-1)?.fields, { outcome: "interrupted", error: { code: "interrupted" } });
});

t.test("a stop serves what has arrived while the process waited for a core", async (t) => {
  const { downstream, port } = await behindServer(t);
  const client = talk(t, port, chat());
  await until(() => client.text.includes("200 OK"), "the first answer");
  const linger = 100;
  const stopped = downstream.close({ linger, drain: 10_000 });
  client.socket.write(chat());
  for (const busyUntil = performance.now() + 3 * linger; performance.now() < busyUntil; );
  t.same(await stopped, []);
  await until(() => client.closed, "the end");
  t.equal(client.text.split("200 OK").length, 3);
});

// At the same time, as both wait for seconds.
t.jobs = 2;
// At the same time: most of it is waiting for times to pass.
t.jobs = 2;
t.test("a client that connects shortly before the linger period ends is served", async (t) => {
  const { gateway } = await startGateway(t, MODELS);
  const downstream = new Downstream(() => gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const stopped = downstream.close({ linger: 2000, drain: 60_000 });
  await after(1200);
  const client = talk(t, port, "");
  await once(client.socket, "connect");
  await after(1300);
  client.socket.write(chat());
  await until(() => client.closed, "the end");
  t.match(client.text, /^HTTP\/1\.1 200 /);
  t.same(await stopped, []);
});

t.test("time since a stop was prepared counts towards the wait for requests on idle connections", async (t) => {
  const { downstream, port } = await behindServer(t);
  const client = talk(t, port, chat());
  await until(() => client.text.includes("200 OK"), "the first answer");
  const linger = 2000;
  downstream.stop.prepare();
  await after(linger);
  const began = performance.now();
  t.same(await downstream.close({ linger, drain: 60_000 }), []);
  t.ok(performance.now() - began < linger, "as in a worker, whose primary has waited");
});
