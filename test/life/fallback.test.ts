import t from "tap";
import { runUsage } from "../../src/cli/usage.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { captured } from "../support/terminal.ts";
import { httpUpstream } from "../support/upstream.ts";

t.test("after a fallback, name and cost are those of the model that answered, everywhere", async (t) => {
  const upstream = await httpUpstream(({ body }, reply) => {
    const { model } = JSON.parse(body.toString()) as { model: string };
    if (model === "down") return reply.writeHead(503).end("{}");
    const usage = { prompt_tokens: 1_000_000, completion_tokens: 1_000_000, total_tokens: 2_000_000 };
    return reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ model, usage }));
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models:
  dear: { price: { input: 100, output: 100 }, targets: [up:down], fallback: [cheap] }
  cheap: { price: { input: 1, output: 1 }, targets: [{ to: up:fine, price: { input: 2, output: 3 } }] }
`,
  );
  const answer = await fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"dear"}',
  });
  t.same([answer.status, answer.headers.get("gateway-model")], [200, "cheap"]);
  await answer.text();
  const { stores } = running.gateway;
  await stores.ledger.flush();
  const [entry] = await stores.ledger.recent(1);
  t.match(entry, { model: "cheap", target: "up:fine", cost: 5e9, attempts: [{ target: "up:down" }, {}] });
  const line = running.log.lines.find(({ message }) => message === "exchange");
  t.match(line?.fields, { model: "cheap", asked: "dear", target: "up:fine" });
  const { code, out: printed } = await captured((io) => runUsage([], io, stores, () => "UTC"));
  t.equal(code, 0);
  t.match(printed, /^cheap +1 .*\$5/m);
  t.notMatch(printed, /dear/);
});

t.test("while all targets of a model are suspended its fallback is tried first, however many they are", async (t) => {
  let asked = 0;
  const upstream = await httpUpstream(({ body }, reply) => {
    const isDown = body.toString().includes("down");
    if (isDown) asked++;
    return reply.writeHead(isDown ? 503 : 200, { "content-type": "application/json" }).end("{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
health: { failures: 1 }
models: { m: { targets: [up:down-1, up:down-2, up:down-3], fallback: [other] }, other: { targets: [up:fine] } }
`,
  );
  const ask = async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: asking(),
      body: '{"model":"m"}',
    });
    return [response.status, response.headers.get("gateway-model")];
  };
  for (let i = 0; i < 60 && asked < 3; i++) await ask();
  t.equal(asked, 3, "each target was suspended after one failure");
  for (let i = 0; i < 20; i++) t.same(await ask(), [200, "other"]);
  t.equal(asked, 3);
});

t.test("a model that answers itself is named too; the gateway's own refusals name none", async (t) => {
  const running = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  const ask = (model: string) =>
    fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers: asking(),
      body: JSON.stringify({ model, messages: [{ role: "user", content: "x" }] }),
    });
  t.equal((await ask("echo")).headers.get("gateway-model"), "echo");
  t.equal((await ask("nobody")).headers.get("gateway-model"), null);
});
