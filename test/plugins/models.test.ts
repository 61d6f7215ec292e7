import t from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models:
  acme/sage: { name: Acme Sage, aliases: [sage, "sage-haiku-*"], context: 400k, can: [tools, vision], price: { input: 0.25, output: 2 }, targets: [demo:echo] }
  echo: { targets: [demo:echo] }
`;

t.test("one list is readable for OpenAI, OpenRouter-style and unnamed Anthropic clients", async (t) => {
  const { url } = await startGateway(t, YAML);
  for (const path of [
    "/v1/models",
    "/v1/models?limit=1000",
    "/v1/models?client_version=0.169.0",
    "/models",
    "/v1/models/",
  ]) {
    const body = (await (await fetch(url + path, { headers: asking() })).json()) as { data: unknown[] };
    t.match(body, { object: "list", has_more: false, first_id: "acme/sage", last_id: "echo" }, path);
    t.match(body.data[0], {
      id: "acme/sage",
      object: "model",
      type: "model",
      display_name: "Acme Sage",
      owned_by: "acme",
      context_length: 400_000,
      pricing: { prompt: "0.00000025", completion: "0.000002" },
    });
  }
});

t.test("a model is listed with its input and output kinds, and the protocols in which it can be called", async (t) => {
  const { url } = await startGateway(
    t,
    `providers:
  chat: { url: "https://chat.test/v1", speaks: [anthropic-messages, openai-embeddings] }
  paint: { url: "https://paint.test/v1", speaks: [openai-images] }
  both: { url: "https://both.test", speaks: [gemini] }
models:
  talk: { can: [tools, vision, files, video, json_schema, reasoning], targets: [chat:t] }
  vectors: { can: [embeddings], targets: [chat:v] }
  pictures: { can: [images], targets: [paint:p] }
  drawn: { can: [images, audio], targets: [both:d] }
`,
  );
  const { data } = (await (await fetch(`${url}/v1/models`, { headers: asking() })).json()) as {
    data: { id: string; protocols: object; supported_parameters: string[]; architecture: Record<string, string[]> }[];
  };
  const told = Object.fromEntries(
    data.map(({ id, architecture: { input_modalities: goesIn, output_modalities: comesOut } }) => [
      id,
      [goesIn, comesOut],
    ]),
  );
  t.same(told, {
    talk: [["text", "image", "video", "file"], ["text"]],
    vectors: [["text"], ["embeddings"]],
    pictures: [["text"], ["image"]],
    drawn: [
      ["text", "audio"],
      ["text", "image"],
    ],
  });
  const of = (id: string) => data.find((model) => model.id === id);
  t.match(of("talk")?.protocols, {
    "anthropic-messages": "native",
    "openai-chat": "translated",
    gemini: "translated",
  });
  t.same(of("vectors")?.protocols, { "openai-embeddings": "native" });
  t.same(of("talk")?.supported_parameters, [
    ...[
      "max_tokens",
      "tools",
      "tool_choice",
      "response_format",
      "structured_outputs",
      "reasoning",
      "include_reasoning",
    ],
  ]);
  t.same(of("pictures")?.supported_parameters, []);
});

t.test("an Anthropic client gets Anthropic's complete shape", async (t) => {
  const { url } = await startGateway(t, YAML);
  const headers = { "x-api-key": KEY, "anthropic-version": "2023-06-01" };
  const list = (await (await fetch(`${url}/v1/models?limit=1000`, { headers })).json()) as { data: object[] };
  t.match(list, { has_more: false, first_id: "acme/sage", last_id: "echo" });
  const sage = {
    type: "model",
    id: "acme/sage",
    display_name: "Acme Sage",
    max_input_tokens: 400_000,
    max_tokens: null,
  };
  const unknown = { capabilities: null, line: null, deprecated_at: null, retires_at: null };
  t.match(list.data[0], { ...sage, ...unknown, lifecycle: "active", created_at: /^\d{4}-\d\d-\d\dT[\d:]{8}Z$/ });
  t.same(await (await fetch(`${url}/v1/models/sage`, { headers })).json(), list.data[0]);
});

t.test("a model whose targets are all switched off is not listed, unless a fallback serves it", async (t) => {
  const { url, gateway } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" }, spare: { url: "https://spare.test/v1", speaks: [openai-chat] } }
models:
  alone: { targets: [demo:echo] }
  backed: { targets: [demo:echo], fallback: [spared] }
  spared: { targets: [spare:s] }
`,
  );
  const listed = async (path: string) =>
    JSON.stringify(await (await fetch(url + path, { headers: asking() })).json()).match(/alone|backed|spared/g);
  const paths = ["/v1/models", "/v1beta/models"];
  for (const path of paths) t.ok((await listed(path))?.includes("alone"), path);
  gateway.switch("demo", true);
  for (const path of paths)
    t.same([...new Set(await listed(path))], ["backed", "spared"], `${path} with a provider switched off`);
  gateway.switch("demo", false);
  gateway.switch("spare:s", true);
  t.notOk((await listed("/v1/models"))?.includes("spared"), "with a target switched off");
});

t.test("a Gemini client gets Gemini's shape, on its own path and on the shared one", async (t) => {
  const { url } = await startGateway(t, YAML);
  for (const path of ["/v1beta/models", "/v1/models?pageSize=50"]) {
    const response = await fetch(url + path, { headers: { "x-goog-api-key": KEY } });
    t.match(
      await response.json(),
      { models: [{ name: "models/acme/sage", inputTokenLimit: 400_000 }, { name: "models/echo" }] },
      path,
    );
  }
});

t.test(
  "lists in a vendor's own shape have the models that can be called in its protocol, through a fallback too",
  async (t) => {
    const { url } = await startGateway(
      t,
      `providers:
  chat: { url: "https://chat.test/v1", speaks: [openai-chat] }
  rest: { url: "https://rest.test/v1", speaks: [openai-embeddings, openai-images] }
  later: { url: "https://later.test/v1", speaks: [openai-chat], credential: $UNSET_KEY }
models:
  talk: { targets: [chat:t] }
  paint: { targets: [rest:p] }
  vectors: { can: [embeddings], targets: [rest:v] }
  off: { targets: [later:t], fallback: [talk] }
`,
    );
    const list = async (path: string, headers: Record<string, string>) => (await fetch(url + path, { headers })).json();
    const google = { "x-goog-api-key": KEY };
    const { models } = (await list("/v1beta/models", google)) as { models: { name: string }[] };
    t.same(
      models.map(({ name }) => name),
      ["models/talk", "models/off"],
    );
    t.match(await list("/v1beta/models/paint", google), {
      name: "models/paint",
      supportedGenerationMethods: { length: 0 },
    });
    const anthropic = await list("/v1/models", { "x-api-key": KEY, "anthropic-version": "2023-06-01" });
    t.match(anthropic, { data: { length: 2 }, first_id: "talk", last_id: "off" });
    const { data } = (await list("/v1/models", asking())) as { data: { id: string; protocols: object }[] };
    t.same(
      data.map(({ id }) => id),
      ["talk", "paint", "vectors", "off"],
    );
    t.match(data[3]?.protocols, { "openai-chat": "native", gemini: "translated" });
  },
);

t.test("one model is found by an id with slashes, raw or escaped", async (t) => {
  const { url } = await startGateway(t, YAML);
  for (const path of ["/v1/models/acme/sage", "/v1/models/acme%2Fsage", "/v1/models/sage"])
    t.match(await (await fetch(url + path, { headers: asking() })).json(), { id: "acme/sage" }, path);
  const missing = await fetch(`${url}/v1/models/acme/sagee`, { headers: asking() });
  t.equal(missing.status, 404);
  t.match(await missing.json(), { error: { message: /Did you mean "acme\/sage"/ } });
});

t.test("an unknown model is a 404 that suggests near names", async (t) => {
  const { url } = await startGateway(t, YAML);
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"ehco"}',
  });
  t.equal(response.status, 404);
  t.equal(response.headers.get("x-should-retry"), "false");
  t.match(await response.json(), {
    error: {
      code: "model_not_found",
      param: "model",
      message: /No model "ehco"\. Did you mean "echo"\? This key may use 2 models/,
    },
  });
});

t.test("requests are distributed by weight, and a fallback model's targets come last", async (t) => {
  const seen: string[] = [];
  const upstream = await httpUpstream(({ body }, reply) => {
    seen.push((JSON.parse(body.toString()) as { model: string }).model);
    reply.writeHead(503).end();
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models:
  m: { targets: [{ to: up:a, weight: 3 }, { to: up:b, weight: 1 }], fallback: [spare] }
  spare: { targets: [up:c] }
retry: { attempts: 2, least: 100 }
health: { failures: 1000, requests: 1000 }
`,
  );
  const firsts: string[] = [];
  for (let i = 0; i < 60; i++) {
    seen.length = 0;
    await (
      await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: '{"model":"m"}' })
    ).text();
    t.same([...seen].sort(), ["a", "b", "c"]);
    t.equal(seen.at(-1), "c");
    firsts.push(seen[0] as string);
  }
  t.ok(firsts.includes("a") && firsts.includes("b"), "both are first now and then");
});

t.test("a model whose providers are all off is a 503 with that reason", async (t) => {
  const { url } = await startGateway(
    t,
    'providers: { demo: { url: "demo:" }, v: { url: "https://vendor.test/v1", credential: $UNSET_KEY, speaks: [openai-chat] } }\nmodels: { echo: { targets: [demo:echo] }, m: { targets: [v:m] } }\n',
  );
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"m"}',
  });
  t.equal(response.status, 503);
  t.equal(response.headers.get("x-should-retry"), "false", "it will not be on again in a moment");
  t.match(await response.json(), { error: { message: /switched on/ } });
});
