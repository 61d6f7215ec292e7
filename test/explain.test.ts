import t, { type Test } from "tap";
import type { Explanation } from "../src/explain.ts";
import { asking, KEY, startGateway } from "./support/gateway.ts";
import { json, startVendor } from "./support/vendor.ts";

const DRY = { "gateway-explain": "dry-run" };
const CHAT = { model: "fast", messages: [{ role: "user", content: "Hello" }] };

/** A gateway in front of a provider that counts what it is asked. */
async function gateway(
  t: Test,
  more = "",
  keys = `test: { key: ${KEY}, group: acme }, few: { key: few-key-0123456789abcdef, budget: $0.001/day }`,
) {
  const provider = await startVendor(t, json({}, 500));
  const running = await startGateway(
    t,
    `providers:
  own: { url: ${provider.url}/v1, credential: provider-secret-1234, protocol: openai-chat }
  demo: { url: "demo:" }
models:
  fast: { price: { input: 1, output: 10 }, output: 1k, targets: [own:small], fallback: [echo] }
  claude: { targets: [demo:echo] }
  echo: { targets: [demo:echo] }
keys: { ${keys} }
${more}`,
  );
  const explained = async (body: object, headers: Record<string, string> = {}, path = "/v1/chat/completions") => {
    const response = await fetch(`${running.url}${path}`, {
      method: "POST",
      headers: asking({ ...DRY, ...headers }),
      body: JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, json: (await response.json()) as Explanation };
  };
  return { ...running, provider, explained };
}

t.test("a dry run reports chain, caller, targets in order and the maximum cost, and calls no provider", async (t) => {
  const { explained, provider, gateway: running } = await gateway(t);
  const { status, json, headers } = await explained(CHAT, { "x-portkey-provider": "x" });
  t.equal(status, 200);
  t.equal(headers.get("gateway-model"), null, "no model served");
  t.match(json, {
    path: "/v1/chat/completions",
    protocol: "openai-chat",
    chain: { name: "llm", plugins: ["sse", "auth", "scrub", "models", "limits", "rewrite", "usage"] },
    caller: { name: "test", group: "acme" },
    model: { asked: "fast", id: "fast" },
    answer: ["usage", "rewrite", "scrub", "sse"],
    refused: null,
  });
  t.same(
    json.targets.map(({ target }) => target),
    ["own:small", "demo:echo"],
  );
  t.match(json.targets[1]?.why, [/fallback: the model echo/]);
  const step = (plugin: string, phase: string) =>
    [...json.steps, ...(json.targets[0]?.steps ?? [])].find((each) => each.plugin === plugin && each.phase === phase);
  t.match(step("auth", "access")?.did, [/accepts it as test/]);
  t.match(step("scrub", "access")?.did, ["removes header x-portkey-provider"]);
  t.match(step("rewrite", "send")?.did, ['member model: "fast" → "small"']);
  t.equal(json.maximum?.usd, (Math.ceil(JSON.stringify(CHAT).length / 3) * 1 + 1000 * 10) / 1e6);
  t.equal(json.targets[0]?.request, null, "callers do not get addresses and headers");
  t.equal(provider.requests.length, 0);
  const rows = await running.stores.ledger.sums({ by: ["key"] });
  t.same(rows, [], "nothing is in the ledger");
});

t.test("a refusal is a part of the explanation, with the plugin that refuses", async (t) => {
  const { explained } = await gateway(t);
  t.match((await explained({ ...CHAT, model: "fats" })).json.refused, {
    status: 404,
    code: "model_not_found",
    by: "models.route",
  });
  const poor = await explained(CHAT, { authorization: "Bearer few-key-0123456789abcdef" });
  t.match(poor.json.refused, { status: 429, code: "insufficient_quota", by: "limits.route" });
  t.match((await explained({ ...CHAT, logit_bias: { 1: 2 } }, {}, "/v1/messages")).status, 200);
});

t.test("where no target is available the refusal is the one that a request would get", async (t) => {
  const { url, gateway } = await startGateway(
    t,
    `providers: { other: { url: "http://127.0.0.1:9/v1", credential: provider-secret-1234, protocol: anthropic-messages } }
models: { claude: { targets: [other:small, other:large] } }
`,
  );
  const ask = async (body: object, headers = {}) => {
    const init = { method: "POST", headers: asking(headers), body: JSON.stringify(body) };
    return (await fetch(`${url}/v1/chat/completions`, init)).json();
  };
  for (const [more, code] of [
    [{ n: 2 }, "not_translatable"],
    [{ messages: [] }, "invalid_field"],
  ] as const) {
    const body = { ...CHAT, model: "claude", ...more };
    const { error } = (await ask(body)) as { error: { code: string; message: string } };
    const { refused, targets } = (await ask(body, DRY)) as Explanation;
    t.equal(error.code, code);
    t.match(refused, { status: 400, code });
    t.match(error.message, refused?.message ?? "none");
    t.match(targets[0]?.refused, { code });
  }
  const body = { ...CHAT, model: "claude" };
  gateway.switch("other:small", true);
  const { targets } = (await ask(body, DRY)) as Explanation;
  t.match(targets, [
    { target: "other:large", refused: null },
    { target: "other:small", why: [/switched off by an admin/], refused: { code: "no_target" } },
  ]);
  gateway.switch("other", true);
  const { error } = (await ask(body)) as { error: { message: string } };
  const { refused } = (await ask(body, DRY)) as Explanation;
  t.match(refused, { status: 503, code: "no_target", message: /operator has switched off/ });
  t.equal(error.message, refused?.message);
});

t.test("an unauthorised caller is refused as ever, and a value other than dry-run is an error", async (t) => {
  const { explained } = await gateway(t);
  const stranger = await explained(CHAT, { authorization: "Bearer nobody" });
  t.equal(stranger.status, 401);
  t.match(stranger.json, { error: { code: "invalid_api_key" } });
  const other = await explained(CHAT, { "gateway-explain": "yes" });
  t.equal(other.status, 400);
  t.match(other.json, { error: { message: /gateway-explain.*dry-run/ } });
});

t.test("a key made at run time gets a 403 where a chain does not enforce its limits, explained too", async (t) => {
  const keys = `test: { key: ${KEY} }`;
  const open = await gateway(t, "chains: { llm: [sse, auth, models, rewrite, usage] }", keys);
  const budgets = [{ nano: 1e9, per: "day", soft: false }] as const;
  const { key } = await open.gateway.stores.keys.create({ name: "paid", limits: { budgets } });
  const init = { method: "POST", body: JSON.stringify(CHAT) };
  for (const headers of [{ authorization: `Bearer ${key}` }, { authorization: `Bearer ${key}`, ...DRY }]) {
    const response = await fetch(`${open.url}/v1/chat/completions`, { ...init, headers: asking(headers) });
    t.equal(response.status, 403);
    t.match(await response.json(), {
      error: { message: /"paid" has limits, and nothing enforces them on .*"limits"/ },
    });
  }
  t.equal(open.provider.requests.length, 0);
  t.equal((await open.explained(CHAT)).json.refused, null, "a key without limits is served");
});

t.test("a translation's losses are listed for each target", async (t) => {
  const { explained } = await gateway(
    t,
    "plugins: { rewrite: {} }\npaths: { /acme: { protocol: anthropic-messages } }\n",
  );
  const { json } = await explained(
    { model: "fast", max_tokens: 100, top_k: 3, messages: [{ role: "user", content: "Hello" }] },
    {},
    "/v1/messages",
  );
  t.match(json.targets[0], { target: "own:small", protocol: "openai-chat", dropped: ["top_k"], refused: null });
  t.match(json.targets[1], { target: "demo:echo", protocol: "anthropic-messages", dropped: { length: 0 } });
});

t.test("reserved budget is released after a dry run", async (t) => {
  const { explained } = await gateway(t, "limits: { groups: { acme: { concurrency: 1 } } }\n");
  for (let i = 0; i < 3; i++) t.equal((await explained(CHAT)).json.refused, null);
});

t.test("a plugin with an asynchronous result can refuse a dry run as it refuses a request", async (t) => {
  const from = `${t.testdir({ "later.mjs": LATER })}/later.mjs`;
  const { explained } = await gateway(
    t,
    `chains: { llm: [sse, auth, models, limits, later, rewrite, usage] }\nplugins: { later: { from: ${from} } }\n`,
  );
  const { json } = await explained(CHAT);
  t.match(json, { refused: { status: 403, code: "denied_later" }, targets: { length: 0 } });
  t.match(json.steps.at(-1), { plugin: "later", phase: "route", did: ["refuses it: 403 denied_later"] });
});

/** A plugin that gives something with a `then`, as database clients' queries are, which fails later. */
const LATER = `import { GatewayError } from "model-gateway";
export default class Later {
  route() {
    const then = (ok, no) => setTimeout(() => no(new GatewayError("denied_later", { status: 403, message: "No." })), 20);
    return { then };
  }
}`;

t.test("a plugin that responds itself is named", async (t) => {
  const { explained } = await gateway(
    t,
    "chains: { llm: [sse, auth, models, limits, hello, rewrite, usage] }\nplugins: { hello: { from: ./hello.mjs } }\n".replace(
      "./hello.mjs",
      new URL("./support/answers-itself.mjs", import.meta.url).pathname,
    ),
  );
  const { json } = await explained(CHAT);
  t.match(json, { answered_by: "hello", targets: { length: 0 }, refused: null });
});

t.test("a dry run says where another protocol than the client's serves the request better", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat, openai-responses] } }
models: { m: { targets: [up:gpt-6] } }
`,
  );
  const explain = async (path: string, body: object) => {
    const response = await fetch(url + path, { method: "POST", headers: asking(DRY), body: JSON.stringify(body) });
    return ((await response.json()) as Explanation).targets;
  };
  const asked = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] };
  const tools = [{ type: "function", function: { name: "one", parameters: { type: "object" } } }];
  t.match(await explain("/v1/chat/completions", { ...asked, tools }), [
    {
      protocol: "openai-responses",
      why: ["serves this request better in openai-responses than in openai-chat: translated"],
    },
  ]);
  t.match(await explain("/v1/messages", { ...asked, tools: [{ name: "one", input_schema: { type: "object" } }] }), [
    { protocol: "openai-responses", why: ["does not speak anthropic-messages: translated"] },
  ]);
  t.match(await explain("/v1/messages", asked), [{ protocol: "openai-chat" }]);
});

t.test("a large request is not parsed or serialized more often to be explained than to be served", async (t) => {
  const { url, explained } = await gateway(t);
  const body = { ...CHAT, messages: [{ role: "user", content: "x".repeat(200_000) }] };
  const sent = JSON.stringify(body);
  let large = 0;
  const { parse, stringify } = JSON;
  const count = <Result>(text: string, result: Result): Result => {
    if (text?.length > 100_000) large++;
    return result;
  };
  t.intercept(JSON, "parse", { value: (text: string, ...more: []) => count(text, parse(text, ...more)) });
  t.intercept(JSON, "stringify", {
    value: (value: unknown, ...more: []) => {
      const text = stringify(value, ...more);
      return count(text, text);
    },
  });
  const init = { method: "POST", headers: asking(), body: sent };
  await (await fetch(`${url}/v1/chat/completions`, init)).text();
  const served = large;
  large = 0;
  const { json } = await explained(body);
  t.match(json, { refused: null, targets: [{ target: "own:small" }, { target: "demo:echo" }] });
  // The test's own request is one.
  t.ok(large - 1 <= served, `${large - 1} times, and ${served} times when it was served`);
});

t.test("of the targets' requests no body is kept for a client, who does not get them", async (t) => {
  const from = `${t.testdir({ "bodies.mjs": BODIES })}/bodies.mjs`;
  const { explained } = await gateway(
    t,
    `chains: { llm: [sse, auth, models, limits, rewrite, usage, bodies] }\nplugins: { bodies: { from: ${from} } }\n`,
  );
  const { json } = await explained(CHAT);
  t.match(json.targets, [{ request: null }, { request: null }]);
  t.same((globalThis as { keptBodies?: number[] }).keptBodies, [0, 0]);
});

/** A plugin that notes the length of each attempt's body at the end. */
const BODIES = `export default class Bodies {
  done({ attempts }) {
    globalThis.keptBodies = attempts.map(({ body }) => body.length);
  }
}`;
