import t, { type Test } from "tap";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

/** Each model at another price. */
const YAML = (origin: string) =>
  `providers: { up: { url: "${origin}/v1", protocol: anthropic-messages } }
models:
  asked: { price: { input: 1, output: 2, request: 0.5 }, targets: [up:first] }
  served: { price: { input: 10, output: 20, request: 0.25 }, targets: [up:second] }
  advisor: { price: { input: 100, output: 200 }, targets: ["up:third-20260101"] }
`;
const MILLION = 1_000_000_000;

/** The ledger's row of a request that the provider answers with this usage, whole or as a stream. */
async function row(t: Test, usage: object, stream = false) {
  const message = { id: "m", type: "message", role: "assistant", model: "x", content: [] };
  const told = { ...message, stop_reason: "end_turn", usage: { input_tokens: 7, output_tokens: 3, ...usage } };
  const events = [
    { type: "message_start", message: { ...message, usage: { input_tokens: 1, output_tokens: 1 } } },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: told.usage },
    { type: "message_stop" },
  ];
  const text = stream
    ? events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")
    : JSON.stringify(told);
  const type = stream ? "text/event-stream" : "application/json";
  const upstream = await httpUpstream((_, reply) => reply.writeHead(200, { "content-type": type }).end(text));
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(t, YAML(upstream.origin.origin));
  const body = JSON.stringify({ model: "asked", max_tokens: 9, stream, messages: [{ role: "user", content: "x" }] });
  await (await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body })).text();
  await gateway.stores.ledger.flush();
  const [found] = await gateway.stores.ledger.recent(1);
  const version = async (id: string | undefined) => (await gateway.stores.prices.find(id ?? ""))?.price;
  return { ...found, terms: await version(found?.price), version };
}

const FALLBACK = [
  { type: "message", model: "first", input_tokens: 5, output_tokens: 0 },
  { type: "fallback_message", model: "second", input_tokens: 7, output_tokens: 3 },
];

for (const stream of [false, true])
  t.test(`an answer of a model that the vendor fell back to has that model's price (stream: ${stream})`, async (t) => {
    const found = await row(t, { iterations: FALLBACK }, stream);
    t.match(found, { model: "asked", target: "up:first", source: "reported", usage: { model: "second" } });
    t.equal(found.cost, (7 * 10 + 3 * 20) * 1000 + MILLION / 4);
    t.match(found.terms, { input: 10, output: 20 }, "and the row names that price");
  });

t.test("a model that refused in the middle of its answer is charged too, at its own price", async (t) => {
  const [declined, served] = FALLBACK;
  const { cost, usage } = await row(t, { iterations: [{ ...declined, output_tokens: 4 }, served] });
  t.equal(cost, (7 * 10 + 3 * 20 + 5 * 1 + 4 * 2) * 1000 + MILLION / 4);
  t.match(usage?.besides, [{ model: "first", in: { total: 5 }, out: { total: 4 } }]);
});

t.test("a model without a known price leaves the answer unpriced", async (t) => {
  const iterations = [{ type: "fallback_message", model: "unknown", input_tokens: 7, output_tokens: 3 }];
  const { cost, price, usage } = await row(t, { iterations });
  t.same([cost, price, usage?.model], [undefined, undefined, "unknown"]);
});

t.test("a compaction and an advisor, which the totals exclude, are charged: each once, at its own price", async (t) => {
  const iterations = [
    { type: "compaction", input_tokens: 1000, output_tokens: 10, cache_read_input_tokens: 1 },
    { type: "message", input_tokens: 4, output_tokens: 1 },
    { type: "advisor_message", model: "third", input_tokens: 50, output_tokens: 5 },
    { type: "message", input_tokens: 3, output_tokens: 2 },
  ];
  const found = await row(t, { iterations });
  const own = 7 * 1 + 3 * 2 + 1001 * 1 + 10 * 2;
  t.equal(found.cost, (own + 50 * 100 + 5 * 200) * 1000 + MILLION / 2);
  t.match(found.usage, { in: { total: 7 }, out: { total: 3 } });
  const advisor = found.usage?.besides?.[1];
  t.match(await found.version(advisor?.price), { input: 100 }, "its price can be looked up");
  const unknown = await row(t, { iterations: [{ ...iterations[2], model: "unknown" }] });
  t.equal(unknown.cost, undefined);
});
