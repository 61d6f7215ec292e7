import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import t from "tap";
import { metricsText } from "../../src/admin/metrics.ts";
import { METRICS } from "../../src/metrics/definitions.ts";
import { asking } from "../support/key.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";
import { startAdmin } from "./support.ts";

/** The values of a page of metrics by name and labels, as they stand there. */
const valuesIn = (page: string): Map<string, number> =>
  new Map([...page.matchAll(/^([a-z]\S*(?:\{.*\})?) (\S+)$/gm)].map(([, name = "", value]) => [name, Number(value)]));

t.test("each exchange is counted once, with names of gateway.yaml only", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1000, output: 1000 } } }
cors: { origins: ["https://app.example.com"] }
`;
  const { ask, url, gateway, folder } = await startAdmin(t, yaml, { metrics: () => metricsText(gateway) });
  for (const model of ["echo", "echo", "made-up-1", "made-up-2"]) {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
    await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body })).text();
  }
  for (const origin of ["https://app.example.com", "https://app.example.com", "https://other.example.com"])
    await fetch(url, { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST" } });
  writeFileSync(join(folder, "gateway.yaml"), "models: {");
  await gateway.reload().catch(() => {});
  const { status, headers, body } = await ask("GET", "/metrics");
  t.equal(status, 200);
  t.match(headers["content-type"], /^text\/plain; version=0\.0\.4/);
  const values = valuesIn(body);
  const of = (name: string) => values.get(name);
  const ok = 'api="openai-chat",model="echo",target="demo:echo",outcome="completed",code="200"';
  t.equal(of(`gateway_requests_total{${ok}}`), 2);
  t.equal(of('gateway_requests_total{api="openai-chat",model="",target="",outcome="rejected",code="404"}'), 2);
  t.notMatch(body, /made-up/);
  t.equal(of("gateway_preflights_total"), 2);
  t.equal(of('gateway_refused_total{reason="origin_not_allowed"}'), 1);
  t.equal(of('gateway_request_duration_seconds_count{api="openai-chat"}'), 4);
  t.equal(of('gateway_overhead_seconds_count{api="openai-chat"}'), 2);
  t.equal(of('gateway_ttft_seconds_count{model="echo",target="demo:echo"}'), 2);
  t.equal(of('gateway_ttft_seconds_bucket{model="echo",target="demo:echo",le="+Inf"}'), 2);
  t.ok((of('gateway_tokens_total{model="echo",target="demo:echo",type="out"}') ?? 0) > 0);
  t.ok((of('gateway_cost_usd_total{key="test",model="echo"}') ?? 0) > 0);
  t.equal(of('gateway_attempts_total{target="demo:echo",reason="200"}'), 2);
  t.equal(of('gateway_target_up{target="demo:echo"}'), 1);
  t.equal(of('gateway_target_cooldown_seconds{target="demo:echo"}'), 0);
  t.equal(of('gateway_inflight{api="openai-chat"}'), 0);
  t.equal(of("gateway_streams_open"), 0);
  t.equal(of("gateway_config_reload_failed"), 1);
  t.equal(of("gateway_store_waiting"), 0);
  t.ok((of("process_cpu_seconds_total") ?? 0) > 0);
  t.match(body, /^# TYPE nodejs_active_resources gauge$/m);
  t.same(body.match(/^# TYPE \S+_total (?!counter$).*$/gm), null, "only counters have names of counters");
  for (const name of Object.keys(METRICS))
    if (name !== "gateway_alerts_total")
      t.ok(body.includes(`\n# TYPE ${name} `) || body.startsWith(`# HELP ${name} `), name);
});

const USAGE = {
  prompt_tokens: 100,
  completion_tokens: 40,
  total_tokens: 140,
  prompt_tokens_details: { cached_tokens: 30 },
  completion_tokens_details: { reasoning_tokens: 10 },
};
const RATES = { "x-ratelimit-remaining-requests": "41", "x-ratelimit-remaining-tokens": "1234" };
const chunk = (json: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...json })}\n\n`;

t.test("counters exist before anything was counted", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { ask, url, gateway } = await startAdmin(t, yaml, { metrics: () => metricsText(gateway) });
  const read = async () => valuesIn((await ask("GET", "/metrics")).body);
  const before = await read();
  for (const series of [
    'refused_total{reason="path_not_found"}',
    'refused_total{reason="too_many_pipelined"}',
    'limited_total{kind="budget"}',
    'client_aborts_total{phase="waiting"}',
    'store_errors_total{store="ledger"}',
    'store_errors_total{store="keys"}',
    'plugin_errors_total{plugin="auth"}',
    'alerts_total{result="failed"}',
    "config_reloads_failed_total",
  ])
    t.equal(before.get(`gateway_${series}`), 0, series);
  await fetch(`${url}/nowhere`);
  t.equal((await read()).get('gateway_refused_total{reason="path_not_found"}'), 1);
});

t.test("tokens, money and requests match the ledger, by model and target", async (t) => {
  const upstream = await httpUpstream(({ body }, reply) => {
    const { model, stream } = JSON.parse(body.toString()) as { model: string; stream?: boolean };
    if (model === "down") return reply.writeHead(503, { "content-type": "application/json" }).end("{}");
    if (!stream)
      return reply
        .writeHead(200, { "content-type": "application/json", ...RATES })
        .end(JSON.stringify({ choices: [], usage: USAGE }));
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "some words of an answer" } }] }));
    if (model === "cut") return setImmediate(() => reply.destroy());
    return setTimeout(
      () =>
        reply.end(
          `${chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`,
        ),
      20,
    );
  });
  t.teardown(() => upstream.close());
  const price = "price: { input: 3, cached: 0.3, output: 15 }";
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models:
  plain: { ${price}, targets: [up:fine] }
  broken: { ${price}, targets: [up:cut] }
  dear: { ${price}, targets: [up:down], fallback: [plain] }
`;
  const { ask, url, gateway } = await startAdmin(t, yaml, { metrics: () => metricsText(gateway) });
  const send = async (model: string, stream: boolean) => {
    const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: "hi" }] });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    return answer.text().catch(() => "");
  };
  for (const [model, stream] of [
    ["plain", false],
    ["plain", true],
    ["dear", false],
    ["broken", true],
    ["unknown", false],
  ] as const)
    await send(model, stream);
  await gateway.stores.ledger.flush();
  const { body } = await ask("GET", "/metrics");
  const values = valuesIn(body);
  const sum = (name: string, ...labels: string[]) =>
    [...values].reduce(
      (total, [key, value]) =>
        key.startsWith(`${name}{`) && labels.every((label) => key.includes(label)) ? total + value : total,
      0,
    );
  const rows = await gateway.stores.ledger.sums({ by: ["model", "target"] });
  t.ok(rows.length >= 3);
  for (const { group, requests, tokensIn, tokensOut, cached, reasoning, cost } of rows) {
    const labels = [`model="${group[0]}"`, `target="${group[1]}"`];
    t.equal(sum("gateway_requests_total", ...labels), requests, group.join());
    for (const [type, tokens] of [
      ["in", tokensIn],
      ["out", tokensOut],
      ["cache_read", cached],
      ["reasoning", reasoning],
    ] as const)
      t.equal(sum("gateway_tokens_total", ...labels, `type="${type}"`), tokens, `${group.join()} ${type}`);
    if (cost > 0) t.ok(sum("gateway_cost_usd_total", labels[0] as string) >= cost / 1e9 - 1e-12);
  }
  const cost = rows.reduce((total, row) => total + row.cost, 0);
  for (const name of ["gateway_cost_usd_total", "gateway_upstream_cost_usd_total"])
    t.equal(Math.round(sum(name) * 1e9), cost, name);
  t.equal(sum("gateway_fallbacks_total", 'from="up:down"', 'to="up:fine"'), 1);
  t.equal(sum("gateway_attempts_total", 'target="up:down"', 'reason="503"'), 1);
  t.equal(values.get("gateway_estimated_usage_total"), 1, "the interrupted stream");
  t.equal(values.get('gateway_output_tokens_per_second_count{model="plain",target="up:fine"}'), 1);
  t.equal(values.get('gateway_inter_chunk_seconds_count{model="plain",target="up:fine"}'), 1);
  t.equal(values.get('gateway_upstream_ratelimit_remaining{target="up:fine",kind="requests"}'), 41);
  t.equal(values.get('gateway_upstream_ratelimit_remaining{target="up:fine",kind="tokens"}'), 1234);
});

t.test("limits, budgets and plugins' actions are counted by kind", async (t) => {
  const plugin = `
export default class Odd {
  done(exchange) { if (exchange.status === 200) throw new Error("no"); }
}
`;
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], output: 1k, price: { input: 1, output: 1 } } }
keys:
  narrow: { key: key-of-narrow-0123456789, rpm: 1 }
  poor: { key: key-of-poor-0123456789, budget: $0.0000001/day }
  rich: { key: key-of-rich-0123456789, budget: $5/month }
plugins: { odd: { from: ./odd.ts } }
chains: { llm: [odd, sse, auth, scrub, models, limits, rewrite, usage] }
`;
  const { ask, url, gateway } = await startAdmin(
    t,
    yaml,
    { metrics: () => metricsText(gateway) },
    { "odd.ts": plugin },
  );
  const send = async (key: string) => {
    const body = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] });
    const headers = asking({ authorization: `Bearer key-of-${key}-0123456789` });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    await answer.text();
    return answer.status;
  };
  const statuses: number[] = [];
  for (const key of ["narrow", "narrow", "poor", ...Array(20).fill("rich")]) statuses.push(await send(key));
  t.same(statuses.slice(0, 4), [200, 429, 429, 200]);
  const { body } = await ask("GET", "/metrics");
  const values = valuesIn(body);
  t.equal(values.get('gateway_limited_total{kind="rpm"}'), 1);
  t.equal(values.get('gateway_limited_total{kind="budget"}'), 1);
  const left = values.get('gateway_budget_remaining_usd{of="key",name="rich",per="month",soft="false"}') ?? 0;
  t.ok(left > 4.9 && left < 5, String(left));
  t.equal(values.get('gateway_budget_limit_usd{of="key",name="rich",per="month",soft="false"}'), 5);
  t.equal(values.get('gateway_plugin_errors_total{plugin="odd"}'), 21);
  const timed = [...values].filter(([key]) => key.startsWith("gateway_plugin_seconds_count"));
  const hooks = timed.map(([key]) => /hook="(\w+)"/.exec(key)?.[1]);
  for (const hook of ["access", "route", "send", "response", "done"]) t.ok(hooks.includes(hook), hook);
});

t.test(
  "requests refused before they are an exchange are counted by reason, and by nothing that a client chooses",
  async (t) => {
    const { ask, url, port, gateway } = await startAdmin(t, undefined, { metrics: () => metricsText(gateway) });
    for (const path of ["/nowhere-1", "/nowhere-2"]) await (await fetch(url + path)).text();
    await (await fetch(`${url}/v1/models`, { method: "PUT" })).text();
    const socket = connect(port, "127.0.0.1").end("GARBAGE\r\n\r\n").resume();
    await once(socket, "close");
    const { body } = await ask("GET", "/metrics");
    const told = [...valuesIn(body)].filter(([name, value]) => name.startsWith("gateway_refused_total") && value > 0);
    t.same(Object.fromEntries(told), {
      'gateway_refused_total{reason="path_not_found"}': 2,
      'gateway_refused_total{reason="method_not_allowed"}': 1,
      'gateway_refused_total{reason="bad_request"}': 1,
    });
  },
);

t.test("requests over the concurrency limit count as refused", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
overload: { delay: off, heap: 0.1% }
`;
  const { ask, url, gateway } = await startAdmin(t, yaml, { metrics: () => metricsText(gateway) });
  let refused = 0;
  while (refused < 3) {
    const body = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] });
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await answer.text();
    if (answer.status === 503) refused++;
  }
  const values = valuesIn((await ask("GET", "/metrics")).body);
  t.equal(values.get('gateway_refused_total{reason="overloaded"}'), 3);
});

t.test("a hard and a soft budget are apart, and a key's are those that it has now", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], output: 10, price: { request: 0.4 } } }
`;
  const { ask, url, gateway } = await startAdmin(t, yaml, { metrics: () => metricsText(gateway) });
  const { keys } = gateway.stores;
  const limits = (soft: number) => ({
    budgets: [
      { nano: 1e9, per: "month", soft: false },
      { nano: soft, per: "month", soft: true },
    ] as const,
  });
  const { key } = await keys.create({ name: "both", limits: limits(4e8) });
  const send = async () => {
    const body = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "hi" }] });
    await (
      await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: asking({ authorization: `Bearer ${key}` }),
        body,
      })
    ).text();
  };
  const left = async () => {
    const values = valuesIn((await ask("GET", "/metrics")).body);
    return ["false", "true"].map((soft) =>
      values.get(`gateway_budget_remaining_usd{of="key",name="both",per="month",soft="${soft}"}`),
    );
  };
  await send();
  await until(async () => (await left())[1] === 0, "the settlement");
  t.same(await left(), [0.6, 0]);
  await keys.edit("both", { limits: limits(8e8) });
  await until(async () => (await left())[1] === undefined, "the change");
  await send();
  await until(async () => (await left())[1] !== undefined, "the next request");
  await keys.revoke("both");
  await until(async () => (await left())[1] === undefined, "the revocation");
});
