import t from "tap";
import openaiRealtime from "../../plugins/protocols/openai-realtime/index.ts";
import { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { Exchange } from "../../src/core/exchange.ts";
import type { Operation } from "../../src/core/protocol.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { SocketMeter } from "../../src/upstream/socket-meter.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { providerOf } from "../support/provider.ts";

function metered() {
  const operation: Operation = {
    ...{ name: "x", method: "GET", body: "none", streams: true, framing: "sse", generates: true },
    upstream: () => "/",
  };
  const exchange = new Exchange({
    ...{ id: "x", time: 0, arrivedAt: 0, method: "GET", path: "/", query: new Query(), headers: new HeaderList() },
    ...{ credentials: [], protocol: openaiRealtime, operation },
  });
  const target = { provider: providerOf(), model: "m", weight: 1 };
  const start = {
    target,
    protocol: openaiRealtime,
    method: "GET",
    headers: new HeaderList(),
    body: Body.empty,
    startedAt: 0,
  };
  const attempt = new Attempt(start);
  attempt.sent = true;
  const refused: GatewayError[] = [];
  const client = {
    gatewayHeaders: () => ["x-request-id", "ours"],
    refuse: (error: GatewayError) => void refused.push(error),
  };
  const allowed = (received: HeaderList) => received.filter((name) => name !== "x-request-id");
  return {
    exchange,
    attempt,
    refused,
    meter: new SocketMeter(exchange, attempt, allowed, openaiRealtime.socket, client, new Redactor([])),
  };
}

t.test("status, ids, bytes and usage are recorded; a response without a body records none", async (t) => {
  const { exchange, attempt, meter } = metered();
  const head = meter.onResponseHead(101, ["X-Request-Id", "theirs", "content-length", "0", "x-other", "1"]);
  t.same(head, { "x-other": "1", "x-request-id": "ours" });
  t.same([exchange.status, exchange.streaming, attempt.status, attempt.requestId], [101, true, 101, "theirs"]);
  meter.onClientBytes(Buffer.alloc(3));
  meter.onProviderBytes(Buffer.alloc(4));
  meter.onProviderBytes(Buffer.alloc(5));
  t.same([exchange.received, exchange.written], [3, 9]);
  meter.onTextMessage?.(Buffer.from('{"type":"response.done","response":{"usage":{"input_tokens":2}}}'));
  t.equal(exchange.usage?.in.total, 2);
});

t.test("a provider's refusal has what clients need beside the status, as on other paths", async (t) => {
  const head = metered().meter.onResponseHead(401, []);
  t.match(head, { "www-authenticate": 'Bearer realm="model-gateway"', "x-should-retry": "false" });
});

t.test("a refusal is recorded, and a provider that was never reached counts as not called", async (t) => {
  for (const [code, sent] of [
    ["upstream_unreachable", false],
    ["upstream_failed", true],
  ] as const) {
    const { attempt, refused, meter } = metered();
    meter.refuse(new GatewayError(code));
    t.match([refused[0]?.code, attempt.error?.code, attempt.sent], [code, code, sent]);
  }
  t.notOk(metered().meter.onResponseHead(403, ["content-length", "2"])["content-length"] === undefined);
});
