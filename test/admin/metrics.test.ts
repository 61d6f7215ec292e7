import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { metricsText } from "../../src/admin/metrics.ts";
import { asking } from "../support/gateway.ts";
import { startAdmin } from "./support.ts";

t.test("each exchange counts once, by names of gateway.yaml only", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1000, output: 1000 } } }
`;
  const { ask, url, gateway, folder } = await startAdmin(t, yaml, { metrics: () => metricsText(gateway) });
  for (const model of ["echo", "echo", "made-up-1", "made-up-2"]) {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
    await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body })).text();
  }
  writeFileSync(join(folder, "gateway.yaml"), "models: {");
  await gateway.reload().catch(() => {});
  const { status, headers, body } = await ask("GET", "/metrics");
  t.equal(status, 200);
  t.match(headers["content-type"], /^text\/plain; version=0\.0\.4/);
  const value = (line: RegExp) => Number(new RegExp(`^${line.source} (\\S+)$`, "m").exec(body)?.[1]);
  const ok =
    /gateway_requests_total\{api="openai-chat",model="echo",target="demo:echo",outcome="completed",code="200"\}/;
  t.equal(value(ok), 2);
  const unknown = /gateway_requests_total\{api="openai-chat",model="",target="",outcome="rejected",code="404"\}/;
  t.equal(value(unknown), 2);
  t.notMatch(body, /made-up/);
  t.equal(value(/gateway_request_duration_seconds_count\{api="openai-chat"\}/), 4);
  t.equal(value(/gateway_ttft_seconds_count\{model="echo",target="demo:echo"\}/), 2);
  t.ok(value(/gateway_tokens_total\{model="echo",target="demo:echo",type="out"\}/) > 0);
  t.ok(value(/gateway_cost_usd_total\{key="test",model="echo"\}/) > 0);
  t.equal(value(/gateway_attempts_total\{target="demo:echo",reason="200"\}/), 2);
  t.equal(value(/gateway_target_up\{target="demo:echo"\}/), 1);
  t.equal(value(/gateway_inflight/), 0);
  t.equal(value(/gateway_config_reload_failed/), 1);
});
