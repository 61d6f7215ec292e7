import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Test } from "tap";
import { stringify } from "yaml";
import { freePort } from "./free-port.ts";
import { reportMissing } from "./missing.ts";
import { until } from "./until.ts";

/** A Prometheus that scrapes every second. */
export interface Prometheus {
  /** Returns `data` of its response to `/api/v1/PATH`. */
  ask<Data>(path: string, query?: Record<string, string>): Promise<Data>;
}

/**
 * Starts a real Prometheus, stopped with the test. Undefined if it is not installed, after skipping the test; with
 * `GATEWAY_TEST_PROMTOOL=required` that fails instead.
 * @param target the admin side of a gateway, `HOST:PORT`
 * @param rules files with rules, which it evaluates every second
 */
export async function startPrometheus(t: Test, target: string, rules: string[]): Promise<Prometheus | undefined> {
  if (spawnSync("prometheus", ["--version"]).status !== 0) {
    reportMissing(t, "GATEWAY_TEST_PROMTOOL", "prometheus", "prometheus");
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "gateway-prometheus-"));
  const config = {
    global: { scrape_interval: "1s", evaluation_interval: "1s" },
    rule_files: rules,
    scrape_configs: [{ job_name: "model-gateway", static_configs: [{ targets: [target] }] }],
  };
  writeFileSync(join(folder, "prometheus.yaml"), stringify(config));
  const port = await freePort();
  const places = [`--config.file=${folder}/prometheus.yaml`, `--storage.tsdb.path=${folder}/data`];
  const child = spawn("prometheus", [...places, `--web.listen-address=127.0.0.1:${port}`], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  t.teardown(async () => {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    rmSync(folder, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`no Prometheus: ${output}`);
    return (await fetch(`${url}/-/ready`).catch(() => undefined))?.ok === true;
  }, "Prometheus");
  return {
    async ask<Data>(path: string, query: Record<string, string> = {}) {
      const answer = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(query)}`);
      const { data, error } = (await answer.json()) as { data: Data; error?: string };
      if (error !== undefined) throw new Error(`${error}: ${path} ${JSON.stringify(query)}`);
      return data;
    },
  };
}
