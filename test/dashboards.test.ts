import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { parse, stringify } from "yaml";
import { METRICS, type MetricDefinition } from "../src/metrics/definitions.ts";
import { reportMissing } from "./support/missing.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const DEFINITIONS: Readonly<Record<string, MetricDefinition>> = METRICS;

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}
interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
  readonly targets?: readonly { readonly expr: string }[];
}
interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] };
}

const rules = (parse(text("deploy/prometheus/alerts.yaml")) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
);
const dashboard = JSON.parse(text("deploy/grafana/gateway.json")) as Dashboard;
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ where: title, expr })),
);
const all = [...rules.map(({ alert, expr }) => ({ where: alert, expr })), ...queries];

/** A metric's definition by the name of a series; undefined: there is none. */
function definitionOf(series: string): MetricDefinition | undefined {
  const [, name = "", part] = /^(.*?)(?:_(bucket|sum|count))?$/.exec(series) ?? [];
  const found = DEFINITIONS[name];
  return found && (found.type === "histogram") === (part !== undefined) ? found : undefined;
}

t.test("rules and panels query existing metrics, by existing labels", async (t) => {
  t.ok(queries.length > 40 && rules.length > 10);
  for (const { where, expr } of all) {
    const series = [...expr.matchAll(/\b(gateway_\w+)(?:\{([^}]*)\})?/g)];
    t.ok(series.length > 0 || /\b(?:process|nodejs)_\w+/.test(expr), `${where}: ${expr}`);
    const labels = new Set(["job", "instance", "le"]);
    for (const [, name = "", matchers = ""] of series) {
      const definition = definitionOf(name);
      t.ok(definition, `${where}: ${name}`);
      for (const label of definition?.labels ?? []) labels.add(label);
      for (const [, label = ""] of matchers.matchAll(/(\w+)=?[=~!]/g))
        t.ok([...(definition?.labels ?? []), "job", "instance"].includes(label), `${where}: ${name}{${label}}`);
    }
    for (const [, by = ""] of expr.matchAll(/\bby \(([^)]*)\)/g))
      for (const label of by.split(",")) t.ok(labels.has(label.trim()), `${where}: by (${label.trim()})`);
  }
});

t.test("each metric of the gateway is on the dashboard or in a rule", async (t) => {
  const used = all.map(({ expr }) => expr).join("\n");
  const aside = [
    "gateway_generations",
    "gateway_alerts_total",
    "gateway_providers_off",
    "gateway_config_reloads_total",
    "gateway_config_reloads_failed_total",
  ];
  t.same(
    Object.keys(METRICS).filter((name) => !used.includes(name) && !aside.includes(name)),
    [],
  );
});

t.test("panels do not overlap, and rules describe the problem in labels that they keep", async (t) => {
  const ids = dashboard.panels.map(({ id }) => id);
  t.equal(new Set(ids).size, ids.length);
  const taken = new Set<string>();
  for (const {
    title,
    gridPos: { x, y, w, h },
  } of dashboard.panels) {
    t.ok(x + w <= 24, title);
    for (let column = x; column < x + w; column++)
      for (let line = y; line < y + h; line++) {
        t.notOk(taken.has(`${column} ${line}`), title);
        taken.add(`${column} ${line}`);
      }
  }
  for (const { expr } of queries)
    for (const [, name = ""] of expr.matchAll(/\$(\w+)/g))
      if (name !== "__rate_interval")
        t.ok(
          dashboard.templating.list.some((each) => each.name === name),
          name,
        );
  for (const { alert, expr, labels, annotations } of rules) {
    t.match(alert, /^Gateway[A-Z]\w+$/);
    t.match(labels["severity"], /^(?:info|warning|critical)$/);
    for (const [, label = ""] of (annotations["summary"] ?? "").matchAll(/\$labels\.(\w+)/g))
      t.match(expr, new RegExp(`by \\([^)]*\\b${label}\\b`), `${alert}: ${label}`);
  }
});

t.test("each panel has a description and a unit", async (t) => {
  for (const { type, title, description, fieldConfig } of dashboard.panels) {
    if (type === "row") continue;
    t.ok(description, title);
    t.ok(fieldConfig?.defaults.unit, title);
  }
});

const PROMTOOL = spawnSync("promtool", ["--version"]).status === 0;
const promtool = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8" });
  return { status, said: stdout + stderr };
};

t.test("Prometheus accepts the rules and every query of the dashboard, and the rules fire", async (t) => {
  if (!PROMTOOL) {
    reportMissing(t, "GATEWAY_TEST_PROMTOOL", "promtool", "prometheus");
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), "gateway-rules-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = join(ROOT, "deploy/prometheus/alerts.yaml");
  const checked = promtool("check", "rules", file);
  t.equal(checked.status, 0, checked.said);
  const plain = (expr: string) => expr.replaceAll("$__rate_interval", "5m").replaceAll(/"\$\w+"/g, '".*"');
  const records = queries.map(({ expr }, i) => ({ record: `panel:${i}`, expr: plain(expr) }));
  writeFileSync(join(folder, "panels.yaml"), stringify({ groups: [{ name: "panels", rules: records }] }));
  const panels = promtool("check", "rules", join(folder, "panels.yaml"));
  t.equal(panels.status, 0, panels.said);
  const series = (name: string, values: string) => ({ series: name, values });
  const expected = (alertname: string, minutes: number, labels: Record<string, string>, summary: string) => ({
    ...{ alertname, eval_time: `${minutes}m` },
    exp_alerts: [{ exp_labels: labels, exp_annotations: { summary } }],
  });
  const tests = [
    {
      interval: "1m",
      input_series: [
        series('gateway_target_up{target="up:fine",instance="a"}', "0x30"),
        series('gateway_target_up{target="up:fine",instance="b"}', "1x30"),
        series('gateway_ledger_lag_seconds{instance="a"}', "90x30"),
        series('gateway_config_reload_failed{instance="a"}', "1x30"),
        series('gateway_budget_remaining_usd{of="key",name="ci",per="day",soft="false",instance="a"}', "0.5x30"),
        series('gateway_budget_remaining_usd{of="key",name="ci",per="day",soft="true",instance="a"}', "0x30"),
        series('gateway_budget_limit_usd{of="key",name="ci",per="day",soft="false",instance="a"}', "10x30"),
        series('gateway_budget_limit_usd{of="key",name="ci",per="day",soft="true",instance="a"}', "8x30"),
        series('gateway_workers_wanted{instance="a"}', "4x30"),
        series('gateway_workers_up{instance="a"}', "3x30"),
        series('gateway_worker_deaths_total{instance="a"}', "0+1x30"),
        series('gateway_workers_wanted{instance="b"}', "4x30"),
        series('gateway_workers_up{instance="b"}', "4x30"),
        series('gateway_worker_deaths_total{instance="b"}', "1x30"),
        series('gateway_config_info{hash="1",instance="a"}', "1x30"),
        series('gateway_config_info{hash="1",instance="b"}', "1x30"),
        ...(["c", "d", "e"] as const).flatMap((instance, i) => [
          series(
            `gateway_requests_total{target="up:hung",outcome="aborted",code="499",instance="${instance}"}`,
            "0+10x30",
          ),
          series(
            `gateway_client_aborts_total{phase="${instance === "e" ? "answer" : "waiting"}",instance="${instance}"}`,
            i === 1 ? "0+1x30" : "0+5x30",
          ),
        ]),
        series('gateway_requests_total{target="",outcome="failed",code="500"}', "0+30x30"),
        series('gateway_requests_total{target="up:fine",outcome="upstream_error",code="502"}', "0+20x30"),
        series('gateway_requests_total{target="up:fine",outcome="upstream_error",code="429"}', "0+10x30"),
        ...[400, 404, 413, 422, 451].map((code) =>
          series(`gateway_requests_total{target="up:asked",outcome="upstream_error",code="${code}"}`, "0+30x30"),
        ),
        ...[401, 402, 403, 408, 503].map((code) =>
          series(`gateway_requests_total{target="up:ours",outcome="upstream_error",code="${code}"}`, "0+30x30"),
        ),
        series('gateway_requests_total{target="up:fine",outcome="completed"}', "0+30x30"),
      ],
      alert_rule_test: [
        expected(
          "GatewayTargetDown",
          10,
          { severity: "warning", target: "up:fine" },
          "up:fine fails too often and is suspended, or is switched off",
        ),
        { alertname: "GatewayTargetDown", eval_time: "2m", exp_alerts: [] },
        {
          ...{ alertname: "GatewayFailures", eval_time: "25m" },
          exp_alerts: [
            {
              exp_labels: { severity: "warning" },
              exp_annotations: { summary: "100% of the requests that reach no provider fail" },
            },
            {
              exp_labels: { severity: "warning", target: "up:fine" },
              exp_annotations: { summary: "50% of the requests to up:fine fail" },
            },
            {
              exp_labels: { severity: "warning", target: "up:ours" },
              exp_annotations: { summary: "100% of the requests to up:ours fail" },
            },
          ],
        },
        expected("GatewayLedgerLags", 5, { severity: "critical", instance: "a" }, "The ledger of a is 1m 30s behind"),
        expected(
          "GatewayReloadFailed",
          1,
          { severity: "warning", instance: "a" },
          "gateway.yaml of a was not reloaded",
        ),
        expected(
          "GatewayBudgetNearlySpent",
          1,
          { severity: "warning", of: "key", name: "ci", per: "day" },
          "More than 90 % of the budget of key ci for a day is spent or reserved",
        ),
        expected(
          "GatewaySoftBudgetSpent",
          1,
          { severity: "info", of: "key", name: "ci", per: "day" },
          "The soft budget of key ci for a day is spent; nothing is refused",
        ),
        expected(
          "GatewayClientsGiveUp",
          25,
          { severity: "warning", instance: "c" },
          "50% of the clients of c leave before a provider has begun to answer: one may hang",
        ),
        expected(
          "GatewayWorkersMissing",
          5,
          { severity: "critical", instance: "a" },
          "a lacks 1 of its workers: they die, or do not start",
        ),
        expected(
          "GatewayWorkersDie",
          25,
          { severity: "warning", instance: "a" },
          "Workers of a have died 15 times in a quarter of an hour",
        ),
        { alertname: "GatewayConfigsDiffer", eval_time: "25m", exp_alerts: [] },
      ],
    },
  ];
  writeFileSync(join(folder, "tests.yaml"), stringify({ rule_files: [file], evaluation_interval: "1m", tests }));
  const fired = promtool("test", "rules", join(folder, "tests.yaml"));
  t.equal(fired.status, 0, fired.said);
});
