import type { ServerResponse } from "node:http";
import t from "tap";
import { Downstream } from "../../src/downstream/server.ts";
import { JSON_BODY, requestText, talk, talkToEnd } from "../support/connection.ts";
import { startGateway, startGatewayTo } from "../support/gateway.ts";
import { until } from "../support/until.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';
const chat = (): string => requestText("POST /v1/chat/completions", JSON_BODY, BODY);

t.test("an exchange that fails unexpectedly closes only its own connection, and ends", async (t) => {
  const { gateway, log } = await startGateway(t, MODELS);
  const downstream = new Downstream(() => gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const ended: string[] = [];
  let failing = true;
  // The line behind an exchange is written when it can no longer be refused.
  const { info } = log;
  log.info = (fields, message) => {
    if (message === "exchange" && failing) throw new Error("the log failed");
    info.call(log, fields, message);
  };
  downstream.exchanges.onEnded = ({ id, headers }) => {
    ended.push(id);
    if (headers.has("x-bad")) throw new Error("the count failed");
  };
  const failed = await talkToEnd(t, port, chat());
  await until(() => ended.length === 1, "the end of the exchange");
  failing = false;
  await talkToEnd(
    t,
    port,
    requestText("POST /v1/chat/completions", [...JSON_BODY, "x-bad: yes", "connection: close"], BODY),
  );
  await until(() => ended.length === 2, "the end of the other one");
  t.equal(downstream.exchanges.size, 0);
  t.notMatch(failed, "HTTP/1.1 500");
  const told = log.lines.filter(({ level }) => level === "error");
  t.match(told, [
    { message: "a request failed, and its connection is closed", fields: { id: ended[0], cause: /the log failed/ } },
    { message: "a request failed, and its connection is closed", fields: { id: ended[1], cause: /the count failed/ } },
  ]);
  t.match(
    await talkToEnd(t, port, requestText("POST /v1/chat/completions", [...JSON_BODY, "connection: close"], BODY)),
    "200 OK",
  );
});

t.test("the end of an exchange is reported after it is recorded", async (t) => {
  const { gateway } = await startGateway(t, MODELS);
  const downstream = new Downstream(() => gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const events: string[] = [];
  downstream.exchanges.onEnded = () => events.push("recorded");
  downstream.exchanges.afterEnd = () => events.push(`over, ${downstream.exchanges.size} left`);
  await talkToEnd(t, port, requestText("POST /v1/chat/completions", [...JSON_BODY, "connection: close"], BODY));
  await until(() => events.length === 2, "both events");
  t.same(events, ["recorded", "over, 0 left"]);
});

t.test("a response is awaited until it begins, not until it ends", async (t) => {
  const asked = Promise.withResolvers<ServerResponse>();
  const { gateway } = await startGatewayTo(t, "openai-chat", (_, reply) => asked.resolve(reply));
  const downstream = new Downstream(() => gateway.generation);
  t.teardown(() => downstream.close({ drain: 0 }));
  const { port } = await downstream.listen({ host: "127.0.0.1", port: 0 });
  const { exchanges } = downstream;
  const body = BODY.replace("echo", "m").replace("{", '{"stream":true,');
  const client = talk(t, port, requestText("POST /v1/chat/completions", [...JSON_BODY, "connection: close"], body));
  const reply = await asked.promise;
  t.same([exchanges.size, exchanges.areAwaited], [1, true]);
  reply.setHeader("content-type", "text/event-stream");
  reply.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
  await until(() => client.text.includes('"a"'), "the first chunk");
  t.same([exchanges.size, exchanges.areAwaited], [1, false]);
  reply.end("data: [DONE]\n\n");
  await until(() => client.closed && exchanges.size === 0, "the end");
});
