import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const USAGE = {
  prompt_tokens: 1000,
  completion_tokens: 200,
  total_tokens: 1200,
  prompt_tokens_details: { cached_tokens: 600 },
};
const YAML = (origin: string) =>
  `providers: { up: { url: "${origin}/v1", speaks: [openai-chat, openai-embeddings] } }
models: { m: { price: { input: 3, cached: 0.3, output: 15 }, targets: [up:x] } }
`;

/** The ledger's row of one request that the provider answers so. */
async function row(
  t: Test,
  answer: string | Buffer,
  type = "application/json",
  status = 200,
  path = "/v1/chat/completions",
) {
  const upstream = await httpUpstream((_, reply) => reply.writeHead(status, { "content-type": type }).end(answer));
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(t, YAML(upstream.origin.origin));
  const response = await fetch(url + path, { method: "POST", headers: asking(), body: '{"model":"m"}' });
  t.equal(await response.text(), answer.toString());
  await gateway.stores.ledger.flush();
  return (await gateway.stores.ledger.recent(1))[0];
}

t.test("tokens, cost, times and target of an answer are one row", async (t) => {
  const entry = await row(t, JSON.stringify({ id: "c", choices: [], usage: USAGE }));
  t.match(entry, {
    key: "test",
    model: "m",
    target: "up:x",
    protocol: "openai-chat",
    status: 200,
    outcome: "completed",
    streaming: false,
    source: "reported",
    cost: Math.round((400 * 3 + 600 * 0.3 + 200 * 15) * 1000),
    attempts: [{ target: "up:x", status: 200 }],
    usage: { in: { total: 1000, cached: 600 }, out: { total: 200 } },
  });
  t.ok((entry?.duration ?? -1) >= 0 && (entry?.firstByte ?? -1) >= 0);
});

t.test("usage is found wherever it stands in a large answer, and a nested one is not taken for it", async (t) => {
  const filler = "x".repeat(300_000);
  const places = [
    { usage: USAGE, choices: [{ text: filler }] },
    { a: filler, usage: USAGE, b: filler },
    { choices: [{ usage: { prompt_tokens: 7 } }, filler], usage: USAGE },
  ];
  for (const place of places)
    t.match(await row(t, JSON.stringify(place)), { usage: { in: { total: 1000 }, out: { total: 200 } } });
  const without = await row(t, JSON.stringify({ choices: [{ usage: USAGE }, filler] }));
  t.match(without, { source: "none", outcome: "completed" });
  t.notOk(without?.usage);
});

t.test("an answer that is no JSON, or an error, has no usage and still a row", async (t) => {
  t.match(await row(t, "plain", "text/plain"), { source: "none", status: 200 });
  t.match(await row(t, '{"error":{"message":"no"},"usage":{"prompt_tokens":5}}', "application/json", 400), {
    source: "none",
    status: 400,
  });
});

t.test(
  "what was refused before any provider was asked is free and settled; it has a row without a target",
  async (t) => {
    const { url, gateway } = await startGateway(t, YAML("http://127.0.0.1:9"));
    const { ledger } = gateway.stores;
    const ask = async (model: string, headers = asking()) => {
      await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: `{"model":"${model}"}` });
      await ledger.flush();
      return (await ledger.recent(1))[0];
    };
    const free = { source: "free", cost: 0 };
    t.match(await ask("none"), { ...free, outcome: "rejected", status: 404, target: "", model: "", attempts: [] });
    t.match(await ask("m", { "content-type": "application/json" }), { ...free, status: 401, key: "" });
    t.match(await ask("m"), { ...free, status: 502, target: "up:x" }, "nor did one hear of it that cannot be reached");
    t.match(await ledger.sums({ by: [] }), [{ requests: 3, unsettled: 0, cost: 0 }]);
  },
);

const ANSWERING = `
import { injectable } from "tsyringe";
import { type RouteExchange } from "model-gateway";
@injectable()
export default class Answering {
  route(exchange: RouteExchange) { exchange.answer = { body: '{"usage":{"prompt_tokens":9}}' }; }
}`;

t.test("an answer of a plugin is in the ledger under its name, at no cost", async (t) => {
  const yaml = `${YAML("http://127.0.0.1:9")}plugins: { hello: { from: ./hello.ts } }
chains: { llm: [auth, models, hello, rewrite, usage], read: [auth] }\n`;
  const { url, gateway, log } = await startGateway(t, yaml, { "hello.ts": ANSWERING });
  const asked = { method: "POST", headers: asking(), body: '{"model":"m"}' };
  t.equal(await (await fetch(`${url}/v1/chat/completions`, asked)).text(), '{"usage":{"prompt_tokens":9}}');
  await gateway.stores.ledger.flush();
  const row = (await gateway.stores.ledger.recent(1))[0];
  const told = { target: "answered by hello", outcome: "completed", source: "free", cost: 0, model: "m", status: 200 };
  t.match(row, told);
  t.notOk(row?.usage);
  t.match(log.lines.find(({ message }) => message === "exchange")?.fields, { answered_by: "hello", attempts: 0 });
});
