/** A Prometheus looks at a gateway that has much to do: what the dashboard's panels and the rules would show of it. */
import { readFileSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import t from "tap";
import { asking } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { startPrometheus } from "../support/prometheus.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
}
interface Rules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly name: string;
      readonly health: string;
      readonly lastError?: string;
      readonly alerts: readonly object[];
    }[];
  }[];
}
interface Found {
  readonly result: readonly { readonly metric: Readonly<Record<string, string>>; readonly value: [number, string] }[];
}

const dashboard = JSON.parse(readFileSync(`${DEPLOY}grafana/gateway.json`, "utf8")) as Dashboard;

/** As Grafana has it, with spans short enough for a test, and without the day before. */
const plain = (expr: string): string =>
  expr
    .replaceAll("$__rate_interval", "5s")
    .replaceAll(/"\$\w+"/g, '".+"')
    .replaceAll(/\[1[hd]\]/g, "[10s]")
    .replaceAll(/ offset \w+/g, "");

const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr, legendFormat }) => ({
    where: `${title}: ${legendFormat}`,
    expr: plain(expr),
    labels: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, name = ""]) => name),
  })),
);

const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
const LEFT = { "x-ratelimit-remaining-requests": "99", "x-ratelimit-remaining-tokens": "9999" };
const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...more })}\n\n`;

/** A provider whose models are fine, slow, broken or busy. */
const provider = () =>
  httpUpstream(async ({ body }, reply) => {
    const { model, stream } = JSON.parse(body.toString()) as { model: string; stream?: boolean };
    if (model === "slow") await after(200);
    const status = { broken: 503, busy: 429 }[model];
    if (status !== undefined) return reply.writeHead(status, { "content-type": "application/json" }).end("{}");
    if (!stream) {
      const choices = [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }];
      reply.writeHead(200, { "content-type": "application/json", ...LEFT });
      return reply.end(JSON.stringify({ id: "c", object: "chat.completion", choices, usage: USAGE }));
    }
    reply.writeHead(200, { "content-type": "text/event-stream", ...LEFT });
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "H" } }] }));
    await after(20);
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "i" }, finish_reason: "stop" }] }));
    return reply.end(`${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`);
  });

/** Asks in all ways, some of which end badly, until it is told to stop. */
function traffic(url: string): () => Promise<void> {
  const ask = async (model: string, { key, ms, ...more }: { key?: string; ms?: number; stream?: boolean } = {}) => {
    const body = JSON.stringify({ model, max_tokens: 9, messages: [{ role: "user", content: "Hello" }], ...more });
    const headers = asking(key === undefined ? {} : { authorization: `Bearer ${key}` });
    const signal = ms === undefined ? {} : { signal: AbortSignal.timeout(ms) };
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body, ...signal });
    await answer.arrayBuffer();
  };
  let going = true;
  const client = async () => {
    while (going) {
      const asked = [
        ask("fine"),
        ask("fine", { stream: true }),
        ask("falls"),
        ask("busy"),
        ask("faulty"),
        ask("slow", { ms: 50 }),
        ask("fine", { key: "limited-key-0123456789abcdef" }),
        fetch(`${url}/nowhere`).then((answer) => answer.arrayBuffer()),
      ];
      await Promise.allSettled(asked);
      await after(100);
    }
  };
  const running = client();
  return () => {
    going = false;
    return running;
  };
}

t.test("each panel of the dashboard has data, and each rule can be evaluated", async (t) => {
  const upstream = await provider();
  t.teardown(() => upstream.close());
  const model = (name: string, more: string) => `  ${name}: { output: 1k, price: { input: 1, output: 2 }, ${more} }\n`;
  const models = ["fine", "slow", "busy", "faulty"].map((name) => model(name, `targets: [up:${name}]`));
  const gateway = await startProcess(
    t,
    `workers: 2
providers: { up: { url: "${upstream.origin}v1", protocol: openai-chat, credential: $UP_KEY } }
models:
${models.join("")}${model("falls", "targets: [up:broken], fallback: [fine]")}keys: { test: { key: test-key-0123456789abcdef }, limited: { key: limited-key-0123456789abcdef, rpm: 1 } }
limits: { all: { budget: $1000/day } }
plugins: { faulty: { from: ./faulty.ts } }
chains: { llm: [sse, auth, models, faulty, limits, rewrite, usage] }
`,
    {
      env: { UP_KEY: "sk-up-0123456789" },
      files: {
        "faulty.ts":
          'export default class Faulty { route({ model }) { if (model?.id === "faulty") throw new Error("at fault"); } }\n',
      },
    },
  );
  const admin = /admin +http:\/\/(\S+)/.exec(gateway.text)?.[1] ?? "";
  const prometheus = await startPrometheus(t, admin, [`${DEPLOY}prometheus/alerts.yaml`]);
  if (!prometheus) return;
  t.teardown(traffic(gateway.url));
  const found = async ({ expr }: { expr: string }) => (await prometheus.ask<Found>("query", { query: expr })).result;
  let empty: string[] = [];
  await until(async () => {
    const shown = await Promise.all(queries.map(async (query) => ({ ...query, series: await found(query) })));
    empty = shown.flatMap(({ where, series }) => (series.length === 0 ? [where] : []));
    return empty.length === 0;
  }, "every panel").catch(() => {});
  t.same(empty, [], "panels without data");
  for (const query of queries)
    for (const { metric, value } of await found(query)) {
      const named = query.labels.length === 0 || query.labels.some((label) => label in metric);
      t.ok(named, `${query.where} has a name for ${JSON.stringify(metric)}`);
      t.ok(Number.isFinite(Number(value[1])) || value[1] === "NaN", `${query.where} is ${value[1]}`);
    }
  for (const { name, definition = "" } of dashboard.templating.list) {
    const [, series, label] = /^label_values\((.*), (\w+)\)$/.exec(definition) ?? [];
    if (series === undefined) continue;
    const values = await prometheus.ask<string[]>(`label/${label}/values`, { "match[]": plain(series) });
    t.ok(values.length > 0, `${name} has values`);
  }
  const { groups } = await prometheus.ask<Rules>("rules");
  const rules = groups.flatMap((group) => group.rules);
  t.ok(rules.length > 10);
  t.same(
    rules.filter(({ health }) => health !== "ok"),
    [],
  );
});
