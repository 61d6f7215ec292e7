import { Agent, request } from "node:http";
import t from "tap";
import { backgroundUpstream } from "../support/background.ts";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

/** Sends one request over a connection of its own, so that all workers get some. */
function ask({ url }: GatewayProcess): Promise<void> {
  const asked = request(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), agent: new Agent() });
  asked.end(JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] }));
  return new Promise((resolve, reject) => {
    asked.once("error", reject).once("response", (answer) => answer.resume().once("end", resolve));
  });
}

/** Sums of a counter and of a histogram over all their labels. */
async function counted({ admin }: GatewayProcess): Promise<{ requests: number; observed: number }> {
  const text = await (await fetch(`${admin}/metrics`)).text();
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"))].reduce(
      (all, [, one]) => all + Number(one),
      0,
    );
  return { requests: sum("gateway_requests_total"), observed: sum("gateway_request_duration_seconds_count") };
}

t.test("counters keep their values when workers are replaced or killed", async (t) => {
  const gateway = await startProcess(
    t,
    `workers: 2
linger: 50ms
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`,
  );
  await Promise.all(Array.from({ length: 8 }, () => ask(gateway)));
  // No scrape before: what the workers report when they end is all that the primary knows of them.
  gateway.child.kill("SIGUSR2");
  await until(() => gateway.text.includes("workers are replaced"), "the replacement");
  await until(async () => (await counted(gateway)).requests === 8, "the counts of the replaced workers");
  await Promise.all(Array.from({ length: 8 }, () => ask(gateway)));
  const before = { requests: 16, observed: 16 };
  await until(async () => (await counted(gateway)).requests === 16, "the counts of all");
  t.same(await counted(gateway), before);
  for (const pid of gateway.workers()) process.kill(pid, "SIGKILL");
  await until(async () => {
    const { requests, observed } = await counted(gateway);
    // Of a single scrape below that Prometheus would make a restart from 0.
    if (requests < before.requests || observed < before.observed) t.fail(`${requests}, ${observed}`);
    return (await gateway.ready())?.body["workers"] === "2 of 2" && gateway.text.includes("a worker has died");
  }, "successors of the killed workers");
  t.same(await counted(gateway), before);
  t.equal(await gateway.end(), 0);
});

t.test("a background answer that several workers fetch counts once", async (t) => {
  const upstream = await backgroundUpstream(t);
  const gateway = await startProcess(
    t,
    `workers: 2
linger: 50ms
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { targets: [p:x], price: { input: 1000, output: 1000 } } }
`,
  );
  const headers = asking({ "content-type": "application/json", connection: "close" });
  const body = '{"model":"m","input":"a","background":true}';
  await (await fetch(`${gateway.url}/v1/responses`, { method: "POST", headers, body })).text();
  const fetchIt = async () => (await fetch(`${gateway.url}/v1/responses/resp_1`, { headers })).text();
  const metrics = async () => (await fetch(`${gateway.admin}/metrics`)).text();
  await fetchIt();
  // The other worker hears of it before it gets a connection that arrives after this.
  await metrics();
  for (let i = 0; i < 12; i++) await fetchIt();
  t.match(await metrics(), /^gateway_tokens_total\{.*type="in".*\} 9$/m);
  t.equal(await gateway.end(), 0);
});
