import { readFileSync } from "node:fs";
import t, { type Test } from "tap";
import { loadConfig } from "../../src/config/load.ts";
import type { Config } from "../../src/config/types.ts";
import { findExtensions } from "../../src/loaded-config.ts";
import { formatGatewayFile } from "../../src/setup/gateway-file.ts";
import { importNames } from "../../src/setup/import-names.ts";
import { readImport } from "../../src/setup/imports.ts";

/** A file of another gateway as ours, and what has no counterpart; what check would refuse fails the test. */
async function imported(t: Test, kind: string, text: string, env: Record<string, string> = {}) {
  const { file, lost } = await readImport(kind, text, "of a test");
  const folder = t.testdir({ "gateway.yaml": formatGatewayFile(file) });
  const config: Config = await loadConfig(`${folder}/gateway.yaml`, await findExtensions(folder), env, folder);
  const model = (id: string) => config.models.find((each) => each.id === id);
  const provider = (name: string) => config.providers.find((each) => each.name === name);
  const lostAt = (path: string) => lost.find((each) => each.path.startsWith(path))?.why ?? "";
  return { config, model, provider, lost, lostAt, text: formatGatewayFile(file) };
}

const foreign = (name: string): string => readFileSync(new URL(`../support/foreign/${name}`, import.meta.url), "utf8");

t.test("a LiteLLM file of 40 models becomes a gateway.yaml that check accepts", async (t) => {
  const env = { OPENAI_API_KEY: "sk-0123456789abcdef", AZURE_API_KEY: "azure-0123456789abcdef" };
  const { config, model, provider, lostAt, lost, text } = await imported(t, "litellm", foreign("litellm.yaml"), env);
  t.equal(config.models.length, 33, "35 names, of which 2 cannot be served");
  t.match(model("gpt-5.6")?.targets, [
    { provider: "openai", model: "gpt-5.6", weight: 3 },
    { provider: "azure", model: "gpt-56-eu", weight: 1 },
  ]);
  t.match(model("gpt-5.6"), { balance: "latency" });
  t.equal(String(provider("azure")?.url), "https://acme-eu.openai.azure.com/openai/v1");
  t.equal(provider("azure")?.header, "api-key");
  t.match(model("claude-haiku-4-5")?.targets, [{ provider: "anthropic" }], "a bare name has its vendor");
  t.match(model("claude-sonnet-5"), { context: 200_000, output: 64_000, fallback: ["gpt-5.6", "gpt-5.4-mini"] });
  t.match(model("smart"), { aliases: ["best"], fallback: ["gpt-5.6", "gemini-pro", "gpt-5.4-mini"] });
  t.match(model("qwen-coder")?.targets, [{ provider: "openrouter", model: "qwen/qwen3-coder" }]);
  t.match(model("local-qwen")?.targets[0]?.price, { input: 0.2, output: 0.6 });
  t.equal(model("local-qwen")?.targets.length, 2, "the same model at two addresses");
  t.equal(String(provider("ollama")?.url), "http://127.0.0.1:11434/v1");
  t.same(model("embed-small")?.fallback, [], "a text model is no fallback for embeddings");
  t.match(config.keys, [{ name: "master" }]);
  t.match(config.retry, { attempts: 2 });
  for (const [path, why] of [
    ["model_list.11", /signed/],
    ["model_list.12", /signed/],
    ["model_list.2.litellm_params.rpm", /limits: \{ models: \{ gpt-5\.4-mini: \{ rpm: 500/],
    ["model_list.1.litellm_params.api_version", /no versions/],
    ["model_list.7.model_info.supports_…", /can: /],
    ["model_list.34.litellm_params.temperature", /clients/],
    ["model_list.5.litellm_params (timeouts)", /whole provider openai/],
    ["model_list.28.litellm_params (concurrency)", /whole provider llm\.acme\.example/],
    ["model_list.38", /name those/],
    ["model_list.39", /"acme_cloud" is unknown/],
    ["litellm_settings.fallbacks (nobody)", /no such model/],
    ["litellm_settings.cache", /examples\/cache\.ts/],
    ["router_settings.redis_host", /store: \{ limits: /],
    ["general_settings.database_url", /in the store.*hash: … .*docs\/keys\.md/],
  ] as const)
    t.match(lostAt(path), why, path);
  t.equal(lost.length, 16);
  t.notMatch(text + JSON.stringify(lost), "sk-written-in-the-file");
  t.match(provider("openai-3")?.off, /OPENAI_API_KEY_FROM_FILE is not set/, "it may be of another account");
});

t.test(
  "fallbacks of every model are read wherever LiteLLM's file sets them, and those of no model are named",
  async (t) => {
    const { model, lost } = await imported(
      t,
      "litellm",
      `model_list:
  - { model_name: a, litellm_params: { model: openai/x, api_key: none } }
  - { model_name: b, litellm_params: { model: openai/y, api_key: none } }
  - { model_name: c, litellm_params: { model: openai/z, api_key: none } }
router_settings: { default_fallbacks: [b, gone] }
litellm_settings: { default_fallbacks: [c, nobody] }
`,
    );
    t.same(model("a")?.fallback, ["b", "c"]);
    t.same(
      lost.map(({ path, why }) => [path, why]).filter(([path]) => path?.includes("fallbacks")),
      [
        ["router_settings.default_fallbacks (gone)", "there is no such model in the file"],
        ["litellm_settings.default_fallbacks (nobody)", "there is no such model in the file"],
      ],
    );
  },
);

t.test(
  "models of LiteLLM's file with a named credential are called with its key, and no other account's",
  async (t) => {
    const env = { OPENAI_API_KEY: "sk-0123456789abcdef", TEAM_KEY: "sk-team-0123456789abcdef" };
    const { model, provider, lostAt } = await imported(
      t,
      "litellm",
      `model_list:
  - { model_name: usual, litellm_params: { model: openai/x } }
  - { model_name: team, litellm_params: { model: openai/x, litellm_credential_name: team } }
  - { model_name: lab, litellm_params: { model: openai/x, litellm_credential_name: lab-east } }
credential_list:
  - { credential_name: team, credential_values: { api_key: os.environ/TEAM_KEY, api_base: "https://eu.example/v1" } }
`,
      env,
    );
    t.match(model("usual")?.targets, [{ provider: "openai" }]);
    t.match(model("team")?.targets, [{ provider: "eu.example" }]);
    t.equal(String(provider("eu.example")?.url), "https://eu.example/v1");
    t.match(model("lab")?.targets, [{ provider: "openai-2" }]);
    t.match(provider("openai-2")?.off, /LAB_EAST_API_KEY is not set/);
    t.match(lostAt("model_list.2.litellm_params.litellm_credential_name"), /LAB_EAST_API_KEY/);
  },
);

t.test("a model of LiteLLM's for realtime is one here, where its provider takes WebSockets", async (t) => {
  const { model, lostAt } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: voice, litellm_params: { model: openai/gpt-realtime }, model_info: { mode: realtime } }
  - { model_name: other, litellm_params: { model: groq/voice }, model_info: { mode: realtime } }
  - { model_name: text, litellm_params: { model: openai/gpt-5.4-mini, azure_ad_token: os.environ/AD } }
router_settings: { default_fallbacks: [text], model_group_alias: { old: { model: text, hidden: true } } }
`,
  );
  t.match(model("voice"), { targets: [{ provider: "openai", model: "gpt-realtime" }], fallback: { length: 0 } });
  t.match(lostAt("model_list.1 (other)"), /websocket: true/);
  t.match(lostAt("model_list.2.litellm_params.azure_ad_token"), /API key/);
  t.same(model("old")?.fallback, [], "no model falls back to the very targets that it has");
});

t.test("models of LiteLLM's for embeddings get no text model as fallback, whether by mode or by name", async (t) => {
  const names = ["text-embedding-3-small", "embed-english-v3", "bge-m3", "nomic-embed-text"];
  const { model, provider, lostAt } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: other, litellm_params: { model: gemini/gemini-embedding-001, api_key: os.environ/G } }
  - { model_name: chat, litellm_params: { model: openai/x, api_base: "http://10.0.0.1/v1", api_key: none } }
  - { model_name: by-mode, litellm_params: { model: openai/y, api_base: "http://10.0.0.1/v1", api_key: none }, model_info: { mode: embedding } }
${names.map((name) => `  - { model_name: ${name}-x, litellm_params: { model: openai/${name}, api_base: "http://10.0.0.1/v1", api_key: none } }`).join("\n")}
router_settings: { default_fallbacks: [chat] }
litellm_settings: { fallbacks: [{ "*": [chat] }] }
`,
  );
  t.same(model("by-mode")?.fallback, []);
  t.same(provider("gemini")?.speaks, ["gemini"]);
  t.match(lostAt("model_list.0.litellm_params"), /not called by openai-embeddings/);
  for (const name of names) t.same(model(`${name}-x`)?.fallback, [], name);
  t.same(provider("10.0.0.1")?.speaks, ["openai-chat", "openai-embeddings"]);
});

t.test("Claude at Azure is called by Anthropic's protocol, at Azure's address, with its prices", async (t) => {
  const { model, provider, lost } = await imported(
    t,
    "litellm",
    `model_list:
${["", "/", "/anthropic", "/anthropic/v1/messages", "/models"]
  .map(
    (path, n) =>
      `  - { model_name: c${n}, litellm_params: { model: azure_ai/claude-sonnet-4-5, api_base: "https://acme.services.ai.azure.com${path}", api_key: os.environ/F } }`,
  )
  .join("\n")}
`,
    { F: "f-0123456789abcdef" },
  );
  const names = new Set([0, 1, 2, 3, 4].map((n) => model(`c${n}`)?.targets[0]?.provider));
  t.equal(names.size, 1);
  const [name = ""] = names;
  t.equal(String(provider(name)?.url), "https://acme.services.ai.azure.com/anthropic/v1");
  t.match(provider(name), { speaks: ["anthropic-messages"], header: undefined, vendor: "anthropic", off: undefined });
  t.same(lost, []);
});

t.test("a hidden alias of LiteLLM's is a model of its own that pages do not list", async (t) => {
  const { model } = await imported(
    t,
    "litellm",
    `model_list: [{ model_name: a, litellm_params: { model: openai/x } }]
router_settings: { model_group_alias: { seen: a, unseen: { model: a, hidden: true } } }
`,
  );
  t.match(model("a"), { aliases: ["seen"] });
  t.not(model("a")?.public, false);
  t.match(model("unseen"), { aliases: { length: 0 }, public: false, targets: [{ provider: "openai", model: "x" }] });
});

t.test("LiteLLM's budget of all requests is imported, and for other settings the equivalent is named", async (t) => {
  const { config, lostAt } = await imported(
    t,
    "litellm",
    `model_list:
  - model_name: a
    litellm_params: { model: openai/x, api_key: none, api_base: "http://10.0.0.1/v1", max_retries: 3, additional_drop_params: [seed], extra_headers: { a: b }, input_cost_per_token: 0.000001, output_cost_per_token: 0.000001 }
    model_info: { access_groups: [beta], team_id: t }
litellm_settings: { max_budget: 500, budget_duration: 30d }
environment_variables: { A: b }
guardrails: [{ guardrail_name: a }]
mcp_servers: { a: { url: "http://10.0.0.2" } }
vector_store_registry: []
general_settings: { pass_through_endpoints: [], global_max_parallel_requests: 9, enable_jwt_auth: true, alerting_threshold: 300, ui_access_mode: admin_only }
`,
  );
  t.match(JSON.stringify(config.limits.all), /500000000000/);
  for (const [path, why] of [
    ["model_list.0.litellm_params.max_retries", /retry: \{ attempts: 3 \}/],
    ["model_list.0.litellm_params.additional_drop_params", /plugin/],
    ["model_list.0.litellm_params.extra_headers", /examples\/stamp\.ts/],
    ["model_list.0.model_info.access_groups", /--models/],
    ["model_list.0.model_info.team_id", /--models/],
    ["environment_variables", /themselves/],
    ["guardrails", /examples\/prompt-guard\.ts/],
    ["mcp_servers", /nothing like it/],
    ["vector_store_registry", /nothing like it/],
    ["general_settings.pass_through_endpoints", /pass: PROVIDER/],
    ["general_settings.global_max_parallel_requests", /concurrency: 9 /],
    ["general_settings.enable_jwt_auth", /oidc/],
    ["general_settings.alerting_threshold", /alerts/],
    ["general_settings.ui_access_mode", /admin/],
  ] as const)
    t.match(lostAt(path), why, path);
  t.equal(lostAt("litellm_settings"), "");
});

t.test(
  "members of LiteLLM's file that would change nothing here are reported, unless they ask for nothing else",
  async (t) => {
    const { config, lost, lostAt } = await imported(
      t,
      "litellm",
      `model_list:
  - model_name: a
    litellm_params: { model: openai/x, api_key: none, api_base: "http://10.0.0.1/v1", weight: "3", timeout: "60", max_parallel_requests: os.environ/MOST, drop_params: true, api_version: "2025-04-01" }
    model_info: { id: one, mode: chat, supports_vision: true, supports_function_calling: true, max_input_tokens: "8000", litellm_provider: openai }
  - { model_name: a, litellm_params: { model: openai/y, api_key: none, api_base: "http://10.0.0.1/v1", weight: 0, timeout: 60 } }
  - { model_name: ranks, litellm_params: { model: cohere/rerank-v3, api_key: none }, model_info: { mode: rerank } }
router_settings: { num_retries: "2", allowed_fails: 0, timeout: os.environ/WAIT }
credential_list: [{ credential_name: c, credential_values: { api_key: none }, credential_info: { description: d } }]
litellm_settings: { drop_params: false, set_verbose: true, json_logs: true, num_retries: 12 }
`,
    );
    t.match(config.models, [{ id: "a", context: 8000, targets: [{ weight: 3 }, { weight: 1 }] }]);
    t.equal(config.models.length, 1);
    t.match(config.retry, { attempts: 2 });
    t.match(config.providers, [{ timeouts: { total: 60_000 } }]);
    const expected: [path: string, why: RegExp][] = [
      ["model_list.0.litellm_params.max_parallel_requests", /not written as a number/],
      ["model_list.0.litellm_params.api_version", /no versions/],
      ["model_list.0.model_info.supports_…", /models: \{ a: \{ can: \[tools, vision\] \} \}/],
      ["model_list.0.model_info.id", /provider and model/],
      ["model_list.0.model_info.litellm_provider", /custom_llm_provider/],
      ["model_list.1.litellm_params.weight", /gets requests/],
      ["model_list.2 (ranks)", /mode rerank .* pass: PROVIDER/],
      ["router_settings.timeout", /not written as a number/],
      ["router_settings.allowed_fails", /failures: 1/],
      ["litellm_settings.num_retries", /at most 9/],
      ["credential_list.0.credential_info", /nothing like it/],
      ["litellm_settings.drop_params", /strict: true/],
      ["litellm_settings.set_verbose", /level: debug/],
    ];
    for (const [path, why] of expected) t.match(lostAt(path), why, path);
    t.equal(lost.length, expected.length, JSON.stringify(lost));
  },
);

t.test("LiteLLM's deployments at Azure have the address and protocols that they are called with", async (t) => {
  const { model, provider, lostAt } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: cohere, litellm_params: { model: azure_ai/command-r, api_base: "https://cohere.eastus.inference.ai.azure.com/v1/", api_key: os.environ/C } }
  - { model_name: mistral, litellm_params: { model: azure_ai/mistral, api_base: "https://mistral.eastus.models.ai.azure.com/chat/completions?api-version=1", api_key: os.environ/M } }
  - { model_name: foundry, litellm_params: { model: azure_ai/grok, api_base: "https://acme.services.ai.azure.com/models", api_key: os.environ/F } }
  - { model_name: chat, litellm_params: { model: azure/o_series/mine, api_base: "https://acme.openai.azure.com", api_key: os.environ/A }, model_info: { base_model: azure/o3 } }
  - { model_name: embed, litellm_params: { model: azure/embed, api_base: "https://acme.openai.azure.com", api_key: os.environ/A }, model_info: { mode: embedding, base_model: azure/embed } }
  - { model_name: priced, litellm_params: { model: azure/x, api_base: "https://acme.openai.azure.com", api_key: os.environ/A, output_cost_per_token: 0.000001, tpm: 1000 }, model_info: { base_model: azure/o3, input_cost_per_token: 0.000001 } }
`,
    { C: "c-0123456789abcdef", M: "m-0123456789abcdef", F: "f-0123456789abcdef", A: "a-0123456789abcdef" },
  );
  const of = (id: string) => provider(model(id)?.targets[0]?.provider ?? "");
  t.equal(String(of("cohere")?.url), "https://cohere.eastus.inference.ai.azure.com/v1");
  t.equal(of("cohere")?.header, undefined, "a key there is a bearer token");
  t.equal(String(of("mistral")?.url), "https://mistral.eastus.models.ai.azure.com/");
  t.equal(String(of("foundry")?.url), "https://acme.services.ai.azure.com/openai/v1");
  t.equal(of("foundry")?.header, "api-key");
  t.match(model("chat")?.targets, [{ model: "mine" }]);
  t.equal(of("embed"), of("chat"));
  t.same(of("embed")?.speaks, ["openai-chat", "openai-embeddings"]);
  t.match(lostAt("model_list.3.model_info.base_model"), /"mine" here: give the target the price of o3/);
  for (const at of [4, 5]) t.equal(lostAt(`model_list.${at}.model_info`), "", "the price is known");
  t.match(
    lostAt("model_list.5.litellm_params.tpm"),
    /limits: \{ models: \{ priced: \{ tpm: 1000 \} \} \}, .* providers: /,
  );
});

t.test("rates of LiteLLM's deployments are named as the limit of their model", async (t) => {
  const { lost } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: ab, litellm_params: { model: openai/x, rpm: 300, tpm: "100000" } }
  - { model_name: ab, litellm_params: { model: openai/y, rpm: 200 } }
  - { model_name: c, litellm_params: { model: openai/y, rpm: os.environ/RATE } }
  - { model_name: e, litellm_params: { model: openai/y, rpm: 7 } }
router_settings: { model_group_alias: { d: ab } }
litellm_settings: { max_budget: 20, budget_duration: 5h }
`,
  );
  const rates =
    "a target has none: use limits: { models: { ab: { rpm: 500, tpm: 100000 }, e: { rpm: 7 } } }, the sums of their deployments, or providers: for all models of a provider";
  t.same(
    lost.map(({ path, why }) => `${path}: ${why}`),
    [
      "model_list.2.litellm_params.rpm: it is not written as a number",
      `model_list.0.litellm_params.rpm: ${rates}`,
      `model_list.0.litellm_params.tpm: ${rates}`,
      `model_list.1.litellm_params.rpm: ${rates}`,
      `model_list.3.litellm_params.rpm: ${rates}`,
      "litellm_settings.max_budget: use limits: { all: { budget: $20/month } }",
      "litellm_settings.budget_duration: a budget's period is a day, a week or a month",
    ],
  );
});

t.test("numbers of LiteLLM that make no sense here are named, and the file stays valid", async (t) => {
  const places = [
    ["model_list.0.litellm_params.timeout", 0],
    ["model_list.0.litellm_params.max_parallel_requests", 0],
    ["model_list.0.litellm_params.max_parallel_requests", 1.5],
    ["model_list.0.litellm_params.weight", -1],
    ["model_list.0.litellm_params.input_cost_per_token", -1],
    ["model_list.0.litellm_params.output_cost_per_token", "os.environ/PRICE"],
    ["model_list.0.model_info.input_cost_per_token", true],
    ["model_list.0.model_info.max_input_tokens", 0],
    ["model_list.0.model_info.max_tokens", 0.5],
    ["router_settings.timeout", -1],
    ["router_settings.num_retries", 1.5],
    ["router_settings.allowed_fails", 1.5],
    ["router_settings.cooldown_time", -1],
    ["litellm_settings.num_retries", -1],
    ["litellm_settings.request_timeout", 0],
  ] as const;
  for (const [path, value] of places) {
    const deployment = { model_name: "a", litellm_params: { model: "ollama/x" }, model_info: {} };
    const file = { model_list: [deployment], router_settings: {}, litellm_settings: {} };
    const names = path.split(".");
    const last = names.pop() ?? "";
    const at = names.reduce((fields, name) => Reflect.get(fields, name) as object, file as object);
    Reflect.set(at, last, value);
    const { lostAt } = await imported(t, "litellm", JSON.stringify(file));
    t.match(lostAt(path), /^it is not (written as )?a (whole )?number/, `${path}: ${value}`);
  }
});

t.test("a model has the smallest lengths of LiteLLM's deployments", async (t) => {
  const { model, lostAt } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: a, litellm_params: { model: ollama/x }, model_info: { max_input_tokens: 128000, max_tokens: 4096 } }
  - { model_name: a, litellm_params: { model: ollama/y }, model_info: { max_input_tokens: 32000, max_tokens: 4096 } }
`,
  );
  t.match(model("a"), { context: 32_000, output: 4096 });
  t.equal(lostAt("model_list.1"), "a model has one context: here the smallest of its deployments, 32000");
});

t.test("imported models have the facts of their generation, of the vendor that serves them", async (t) => {
  const { model, text } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: opus, litellm_params: { model: anthropic/claude-opus-5 } }
  - { model_name: older, litellm_params: { model: anthropic/claude-sonnet-4-5-20250929, api_base: "https://api.anthropic.com" } }
  - { model_name: azure, litellm_params: { model: azure_ai/claude-opus-5, api_base: "https://acme.services.ai.azure.com/anthropic", api_key: os.environ/A } }
  - { model_name: smart, litellm_params: { model: anthropic/claude-opus-5 } }
  - { model_name: smart, litellm_params: { model: openai/gpt-5.6 } }
  - { model_name: smart, litellm_params: { model: openai/claude-like, api_base: "http://10.0.0.1/v1", api_key: none, weight: 2 } }
`,
  );
  const opus = { sampling: false, thinking: "adaptive", prefill: false };
  for (const id of ["opus", "azure"]) t.same(model(id)?.targets[0]?.facts, opus, id);
  t.match(model("older")?.targets[0]?.facts, { thinking: "budget" });
  t.same(
    model("smart")?.targets.map(({ facts }) => facts),
    [opus, { thinking: "level", prefill: false }, undefined],
  );
  t.match(text, "  opus: { facts: { sampling: false, thinking: adaptive, prefill: false }, targets: [");
});

t.test("Cohere and Perplexity are reached at their addresses for OpenAI's clients", async (t) => {
  const { model, provider, lost } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: command, litellm_params: { model: cohere_chat/command-a-03-2025, api_key: os.environ/COHERE_API_KEY } }
  - { model_name: embed, litellm_params: { model: cohere/embed-v4.0 } }
  - { model_name: search, litellm_params: { model: perplexity/sonar-pro } }
`,
    { COHERE_API_KEY: "c-0123456789abcdef", PERPLEXITY_API_KEY: "p-0123456789abcdef" },
  );
  t.same(lost, []);
  t.match(model("command")?.targets, [{ provider: "cohere", model: "command-a-03-2025" }]);
  t.match(model("embed")?.targets, [{ provider: "cohere", model: "embed-v4.0" }]);
  t.match(provider("cohere"), { url: { href: "https://api.cohere.ai/compatibility/v1" } });
  t.match(model("search")?.targets, [{ provider: "perplexity", model: "sonar-pro" }]);
  t.match(provider("perplexity"), { url: { href: "https://api.perplexity.ai/v1" } });
});

t.test("LiteLLM's deployments for Responses are reached by that protocol, whatever clients speak", async (t) => {
  const { model, provider } = await imported(
    t,
    "litellm",
    `model_list:
  - { model_name: pro, litellm_params: { model: openai/responses/o1-pro } }
  - { model_name: codex, litellm_params: { model: openai/codex, api_base: "http://10.0.0.1/v1", api_key: none }, model_info: { mode: responses } }
`,
    { OPENAI_API_KEY: "sk-0123456789abcdef" },
  );
  t.match(model("pro")?.targets, [{ provider: "openai", model: "o1-pro", via: "openai-responses" }]);
  t.match(model("codex")?.targets, [{ model: "codex", via: "openai-responses" }]);
  t.same(provider("10.0.0.1")?.speaks, ["openai-chat", "openai-responses"]);
});

t.test(
  "other contents of LiteLLM's file: addresses in variables, providers by a member, conflicting settings",
  async (t) => {
    const { model, provider, lostAt } = await imported(
      t,
      "litellm",
      `model_list:
  - { model_name: a, litellm_params: { model: my-model, custom_llm_provider: openai, api_base: "http://10.0.0.1:9000", api_key: os.environ/A } }
  - { model_name: b, litellm_params: { model: openai/x, api_base: os.environ/B_BASE } }
  - { model_name: c, litellm_params: { model: azure/x } }
  - { model_name: d, litellm_params: { api_key: none } }
  - { model_name: own, litellm_params: { model: openai/y, api_base: "http://10.0.0.2:8000/v1", api_key: none } }
  - { model_name: own, litellm_params: { model: openai/y, api_base: "http://10.0.0.2:8000/v1", api_key: none, weight: 2 } }
  - { model_name: eu, litellm_params: { model: azure/z, api_base: "https://acme.openai.azure.com", api_key: none } }
router_settings: { routing_strategy: usage-based-routing-v2, model_group_alias: { z: nobody } }
surprise: true
`,
      { B_BASE: "http://10.0.0.2/v1" },
    );
    t.equal(String(provider("10.0.0.1")?.url), "http://10.0.0.1:9000/v1");
    t.match(model("a")?.targets, [{ provider: "10.0.0.1", model: "my-model" }]);
    t.match(lostAt("model_list.1.litellm_params.api_base"), /B_BASE/);
    t.match(lostAt("model_list.2"), /api_base/);
    t.match(provider("10.0.0.2"), { credentials: { length: 0 }, off: undefined }, "a server of one's own has no key");
    t.equal(lostAt("model_list.4"), "");
    t.match(model("own")?.targets, [{ provider: "10.0.0.2", model: "y", weight: 3 }], "two of one account are one");
    t.equal(model("own")?.targets.length, 1);
    t.match(
      provider("azure"),
      { credentials: { length: 0 }, header: undefined },
      "a header is only set with a credential",
    );
    t.match(lostAt("router_settings.routing_strategy"), /usage-based/);
    t.match(lostAt("router_settings.model_group_alias.z"), /no such model/);
    t.match(lostAt("surprise"), /nothing like it/);
  },
);

t.test("a Portkey config becomes one model with its weights and fallbacks", async (t) => {
  const { model, lostAt, text } = await imported(t, "portkey", foreign("portkey.json"), {
    OPENAI_API_KEY: "sk-0123456789abcdef",
  });
  t.match(model("default")?.targets, [
    { provider: "openai", model: "gpt-5.6", weight: 0.7 },
    { provider: "anthropic", model: "claude-opus-5", weight: 0.3 },
  ]);
  t.same(model("default")?.fallback, ["default-3"]);
  t.match(model("default-3")?.targets, [{ provider: "llm.acme.example", model: "acme-1" }]);
  t.match(lostAt("targets.1"), /virtual key/);
  t.match(lostAt("cache"), /examples\/cache\.ts/);
  t.match(lostAt("targets.0.targets.1.override_params.max_tokens"), /clients/);
  t.notMatch(text, "sk-ant-written-here");
  const one = await imported(
    t,
    "portkey",
    '{"provider":"anthropic","api_key":"{{ANTHROPIC_API_KEY}}","override_params":{"model":"claude-opus-5"}}',
  );
  t.match(one.model("default")?.targets, [{ provider: "anthropic", model: "claude-opus-5" }]);
});

t.test(
  "weights of Portkey's groups are those of their targets, and the account of a virtual key is reported",
  async (t) => {
    const target = (model: string, more: object = {}) => ({ provider: "openai", override_params: { model }, ...more });
    const nested = {
      strategy: { mode: "loadbalance" },
      targets: [
        { weight: 0.8, strategy: { mode: "fallback" }, targets: [target("a"), target("b", { virtual_key: "vk" })] },
        { weight: 0.1, strategy: { mode: "loadbalance" }, targets: [target("c", { weight: 3 }), target("d")] },
        target("e", { weight: 0.1 }),
        target("f", { weight: 0 }),
      ],
    };
    const { model, lostAt } = await imported(t, "portkey", JSON.stringify(nested));
    t.match(model("default")?.targets, [
      { model: "a", weight: 0.8 },
      { model: "c", weight: 0.075 },
      { model: "d", weight: 0.025 },
      { model: "e", weight: 0.1 },
    ]);
    t.same(model("default")?.fallback, ["default-2"]);
    t.match(lostAt("targets.0.targets.1.virtual_key"), /variable of the provider openai/);
    t.match(lostAt("targets.3.weight"), /gets requests/);
  },
);

t.test("Bifrost's providers and keys become models by the names that its clients use", async (t) => {
  const { model, provider, lostAt } = await imported(t, "bifrost", foreign("bifrost.json"));
  t.match(model("openai/gpt-5.6"), {
    aliases: ["gpt-5.6"],
    targets: [{ provider: "openai" }, { provider: "openai-2", weight: 0.5 }],
  });
  t.match(provider("openai"), { concurrency: 8, timeouts: { total: 30_000 }, off: "OPENAI_API_KEY is not set" });
  t.match(model("ollama/llama3.2")?.targets, [{ provider: "10.0.0.9" }]);
  t.match(lostAt("providers.anthropic.keys.0.models"), /name those/);
  t.match(lostAt("governance"), /limits/);
  const keys = [{ value: "env.OPENAI_API_KEY", models: ["gpt-5.6"] }];
  const openai = { keys, network_config: { max_retries: 2 }, proxy_config: {} };
  const own = JSON.stringify({
    providers: { openai, vllm: { network_config: { base_url: "http://10.0.0.8" } } },
    mcp: {},
  });
  const { lostAt: ownLostAt } = await imported(t, "bifrost", own);
  t.match(ownLostAt("providers.openai.network_config.max_retries"), /retry/);
  t.match(ownLostAt("providers.openai.proxy_config"), /HTTPS_PROXY/);
  t.match(ownLostAt("providers.vllm"), /names no models/, "a provider without keys");
  t.equal(ownLostAt("mcp"), "there is nothing like it in gateway.yaml");
});

t.test("a model that several of Bifrost's vendors have is meant without its vendor only once", async (t) => {
  const keys = [{ value: "env.KEY", models: ["gpt-5.6", "openai/gpt-5.6"], weight: 1 }];
  const file = { providers: { openrouter: { keys }, openai: { keys }, groq: { keys } } };
  const { model, lostAt } = await imported(t, "bifrost", JSON.stringify(file));
  t.same(model("openrouter/gpt-5.6")?.aliases, ["gpt-5.6"]);
  t.same(model("openai/gpt-5.6")?.aliases, []);
  t.same(model("openrouter/openai/gpt-5.6")?.aliases, [], "that is the other vendor's model");
  t.match(lostAt("providers.groq.keys.0.models (gpt-5.6)"), /that of openrouter\/gpt-5\.6/);
});

t.test("claude-code-router's routes keep their providers, and its address and log level are kept", async (t) => {
  const provider = (name: string, models: string[]) => ({ name, api_base_url: `https://${name}.example/v1`, models });
  const file = {
    ...{ HOST: "::1", LOG_LEVEL: "debug", Router: { default: "two,m", background: "one,m" } },
    Providers: [provider("one", ["m"]), provider("two", ["m"])],
  };
  const { config, model, lostAt } = await imported(t, "claude-code-router", JSON.stringify(file));
  t.same(config.listen, { host: "::1", port: 3456 });
  t.equal(config.log.level, "debug");
  t.match(model("m"), { aliases: ["claude-haiku-*"], targets: [{ provider: "one" }] });
  t.match(model("two/m"), { aliases: ["claude-*"], targets: [{ provider: "two" }] });
  t.match(lostAt("Providers.1.models (m)"), /it is two\/m/);
});

t.test("claude-code-router's address may contain variables, and a time that is no number is named", async (t) => {
  const Providers = [{ name: "one", api_base_url: "https://one.example/v1", models: ["m"] }];
  const file = { HOST: "$CCR_HOST", PORT: "$CCR_PORT", API_TIMEOUT_MS: "$CCR_TIMEOUT", Providers };
  const env = { CCR_HOST: "127.0.0.1", CCR_PORT: "3457" };
  const { config, lostAt } = await imported(t, "claude-code-router", JSON.stringify(file), env);
  t.same(config.listen, { host: "127.0.0.1", port: 3457 });
  t.equal(lostAt("API_TIMEOUT_MS"), "it is not written as a number above 0");
});

t.test("claude-code-router's routes become aliases of the models that its client requests", async (t) => {
  const { config, model, provider, lostAt, text } = await imported(
    t,
    "claude-code-router",
    foreign("claude-code-router.json"),
  );
  t.equal(config.listen.port, 3456);
  t.same(model("qwen/qwen3-coder")?.aliases, ["claude-*"]);
  t.same(model("qwen3:32b")?.aliases, ["claude-haiku-*"]);
  t.match(provider("gemini"), { speaks: ["gemini"] });
  t.equal(String(provider("gemini")?.url), "https://generativelanguage.googleapis.com/v1beta");
  t.match(lostAt("Router.longContext"), /chosen by name/);
  t.match(lostAt("Providers.0.transformer"), /plugin/);
  t.notMatch(text, "own-secret-of-the-router");
  const proxied = { ...JSON.parse(foreign("claude-code-router.json")), PROXY_URL: "http://127.0.0.1:7890" };
  const { lostAt: proxiedLostAt } = await imported(t, "claude-code-router", JSON.stringify(proxied));
  t.match(proxiedLostAt("PROXY_URL"), /HTTPS_PROXY/);
});

t.test("an unknown kind, an invalid file and an empty one are reported as such", async (t) => {
  t.same(importNames(), ["bifrost", "claude-code-router", "litellm", "portkey"]);
  await t.rejects(readImport("litelm", "{}", ""), { message: /did you mean litellm/ });
  await t.rejects(readImport("litellm", "{ [", ""), { message: /neither YAML nor JSON/ });
  for (const kind of importNames())
    await t.rejects(readImport(kind, "hello: 1", ""), { message: /no model in it/ }, kind);
});

t.test("a LiteLLM file of thousands of deployments with rates and keys has a short report", async (t) => {
  const deployments = Array.from(
    { length: 2000 },
    (_, i) =>
      `  - { model_name: m${i}, litellm_params: { model: openai/x${i}, rpm: 5, api_key: "sk-0123456789-${i}" } }\n`,
  );
  const { file, lost } = await readImport("litellm", `model_list:\n${deployments.join("")}`, "of a test");
  t.equal(lost.length, 4000);
  t.ok(JSON.stringify(lost).length < 10_000_000);
  t.match(lost.at(-1)?.why, /m99: \{ rpm: 5 \}, … \} \}/);
  t.match(JSON.stringify(file), /"\$OPENAI_API_KEY_FROM_FILE_2000"/);
});

t.test("members that are named like methods of every object have no counterpart", async (t) => {
  for (const kind of importNames())
    await t.rejects(
      readImport(kind, '{ "__proto__": 1, "hasOwnProperty": 2 }', ""),
      { message: /no model in it.*\n {2}__proto__: there is nothing like it.*\n {2}hasOwnProperty: there is nothing/s },
      kind,
    );
});
