import { appendFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import t from "tap";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** The status of one request, over a connection of its own. */
function ask({ url }: GatewayProcess, model: string): Promise<number | undefined> {
  const agent = new Agent();
  const asked = request(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), agent });
  asked.end(JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] }));
  return new Promise((resolve, reject) => {
    asked.once("error", reject).once("response", (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode));
    });
  });
}

/** At the same time: no worker gets all of them. */
const askAll = async (gateway: GatewayProcess, model: string) => [
  ...new Set(await Promise.all(Array.from({ length: 8 }, () => ask(gateway, model)))),
];

const turn = async ({ admin }: GatewayProcess, name: string, word: string) =>
  (await fetch(`${admin}/api/providers/${name}/${word}`, { method: "POST" })).json();

t.test("a provider that is switched off is off in all workers, those that start later too", async (t) => {
  const gateway = await startProcess(
    t,
    `workers: 2
linger: 50ms
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`,
  );
  t.same(await askAll(gateway, "echo"), [200]);
  t.match(await turn(gateway, "demo", "off"), { provider: { switched_off: true, targets: [{ state: "off" }] } });
  t.same(await askAll(gateway, "echo"), [503]);
  const { status, body } = await fetch(`${gateway.admin}/metrics`).then(async (answer) => ({
    status: answer.status,
    body: await answer.text(),
  }));
  t.equal(status, 200);
  t.match(body, /^gateway_target_up\{target="demo:echo"\} 0$/m);
  appendFileSync(join(gateway.folder, "gateway.yaml"), "drain: 7s\n");
  gateway.child.kill("SIGUSR2");
  await until(() => gateway.text.includes("workers are replaced"), "the replacement");
  t.same(await askAll(gateway, "echo"), [503], "a reload and new workers keep it so");
  await turn(gateway, "demo", "on");
  t.same(await askAll(gateway, "echo"), [200]);
  const { entries } = (await (await fetch(`${gateway.admin}/api/audit`)).json()) as { entries: { action: string }[] };
  const turned = entries.map(({ action }) => action).filter((action) => action.startsWith("providers"));
  t.same(turned, ["providers.on", "providers.off"], "recorded once each");
  t.equal(await gateway.end(), 0);
});

t.test("all workers try a target again when a user requests it", async (t) => {
  let well = false;
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(well ? 200 : 503, { "content-type": "application/json" }).end('{"choices":[]}'),
  );
  t.teardown(() => upstream.close());
  const gateway = await startProcess(
    t,
    `workers: 2
linger: 50ms
providers:
  p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], health: { failures: 1, open: 1h, longest: 1h } }
models: { m: { targets: [p:x] } }
`,
  );
  await ask(gateway, "m");
  const stateOf = async () => {
    const { providers } = (await (await fetch(`${gateway.admin}/api/providers`)).json()) as {
      providers: { targets: { state: string }[] }[];
    };
    return providers[0]?.targets[0]?.state;
  };
  await until(async () => (await stateOf()) === "open", "it is left alone");
  well = true;
  t.match(await turn(gateway, "p", "try"), { provider: { targets: [{ state: "half-open" }] } });
  t.equal(await ask(gateway, "m"), 200);
  await until(async () => (await stateOf()) === "closed", "it is well in both");
  t.equal(await gateway.end(), 0);
});
