import t, { type Test } from "tap";
import { asking, startGateway, startGatewayTo } from "../support/gateway.ts";
import { SCRIPTS, TOKENS } from "../support/scripted.ts";
import { httpUpstream, rawUpstream } from "../support/upstream.ts";

const DELTA =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n';
const USAGE =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n';
const DONE = "data: [DONE]\n\n";

async function streaming(t: Test) {
  const running = await startGatewayTo(t, "openai-chat", (_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(DELTA + USAGE + DONE),
  );
  const { upstream } = running;
  const ask = async (body: string) =>
    (await fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body })).text();
  const sent = () => upstream.seen.at(-1)?.body.toString();
  const row = async () => {
    await running.gateway.stores.ledger.flush();
    return (await running.gateway.stores.ledger.recent(1))[0];
  };
  return { ask, sent, row };
}

t.test("usage is requested where the client did not, and the additional chunk is hidden from it", async (t) => {
  const { ask, sent, row } = await streaming(t);
  t.equal(await ask('{"model":"m","stream":true}'), DELTA + DONE);
  t.equal(sent(), '{"stream_options":{"include_usage":true},"model":"x","stream":true}');
  t.match(await row(), { usage: { in: { total: 3 }, out: { total: 2 } }, source: "reported" });
});

t.test("a client's other stream options are kept", async (t) => {
  const { ask, sent } = await streaming(t);
  t.equal(await ask('{"model":"m","stream":true,"stream_options":{"include_obfuscation":false}}'), DELTA + DONE);
  t.same(JSON.parse(sent() as string).stream_options, { include_obfuscation: false, include_usage: true });
});

t.test("a client that requested usage gets it, and its body is unchanged except for the model", async (t) => {
  const { ask, sent } = await streaming(t);
  const body = '{ "stream" : true, "model":"m", "stream_options": { "include_usage": true } }';
  t.equal(await ask(body), DELTA + USAGE + DONE);
  t.equal(sent(), body.replace('"m"', '"x"'));
});

t.test(
  "a client that requested usage as OpenRouter's do gets it, and every provider is asked in its own words",
  async (t) => {
    const { ask, sent } = await streaming(t);
    t.equal(await ask('{"model":"m","stream":true,"usage":{"include":true}}'), DELTA + USAGE + DONE);
    t.same(JSON.parse(sent() as string).stream_options, { include_usage: true });
    t.equal(await ask('{"model":"m","stream":true,"usage":{"include":false}}'), DELTA + DONE);
  },
);

t.test("a client that requested usage as OpenRouter's do gets it from providers of other protocols too", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(SCRIPTS["anthropic-messages"].frames("text").join("")),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", protocol: anthropic-messages } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const ask = (body: object) =>
    fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: JSON.stringify(body) });
  const request = { model: "m", stream: true, messages: [{ role: "user", content: "hi" }] };
  const response = await ask({ ...request, usage: { include: true } });
  t.equal(response.headers.get("gateway-dropped"), null);
  t.equal(response.headers.get("gateway-notice"), null);
  t.match(await response.text(), `"usage":{"prompt_tokens":${TOKENS.in}`);
  t.notMatch(await (await ask(request)).text(), "usage");
});

t.test("a model that no provider serves in this protocol is a 400 that names the protocols it has", async (t) => {
  const { url } = await startGateway(
    t,
    'providers: { up: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n',
  );
  const response = await fetch(`${url}/v1/embeddings`, { method: "POST", headers: asking(), body: '{"model":"m"}' });
  t.equal(response.status, 400);
  t.match(await response.json(), {
    error: { type: "invalid_request_error", message: /openai-embeddings.*speak openai-chat/s, code: "not_served" },
  });
});

t.test(
  "embeddings requested as Gemini's are a 400 that names the right path, as they are not translated",
  async (t) => {
    const { url } = await startGateway(
      t,
      `providers: { up: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat, openai-embeddings] } }
models:
  known: { can: [embeddings], targets: [up:x] }
  m: { targets: [up:y] }
`,
    );
    for (const [model, hint] of [
      ["known", "Its providers speak openai-embeddings; use a path of that."],
      ["m", "Its providers speak openai-chat, openai-embeddings; use a path of one of these."],
    ])
      for (const name of ["embedContent", "batchEmbedContents"]) {
        const response = await fetch(`${url}/v1beta/models/${model}:${name}`, {
          ...{ method: "POST", headers: asking(), body: '{"content":{"parts":[{"text":"Hi"}]}}' },
        });
        t.equal(response.status, 400);
        const why = `"${name}" is not translated into other protocols, and no provider of the model "${model}" speaks gemini.`;
        t.match(await response.json(), { error: { status: "INVALID_ARGUMENT", message: `${why} ${hint}` } });
      }
  },
);

t.test("a page of a proxy in between becomes an error of the client's protocol, with its status", async (t) => {
  let status = 502;
  const { url } = await startGatewayTo(t, "anthropic-messages", (_, reply) =>
    reply.writeHead(status, { "content-type": "text/html", "retry-after": "9" }).end("<html>Sorry</html>"),
  );
  const ask = () => fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body: '{"model":"m"}' });
  for (const [told, type] of [
    [403, "permission_error"],
    [404, "not_found_error"],
    [429, "rate_limit_error"],
    [502, "api_error"],
    [529, "overloaded_error"],
  ] as const) {
    status = told;
    const response = await ask();
    t.equal(response.status, told);
    t.equal(response.headers.get("retry-after"), "9");
    t.match(await response.json(), { type: "error", error: { type } });
  }
  status = 200;
  const page = await ask();
  t.equal(page.status, 502);
  t.match(await page.json(), { error: { type: "api_error", message: /web page.*url in gateway\.yaml/ } });
});

t.test("a response with two types, of which browsers use the last, is not a page of this host", async (t) => {
  const body = '{"choices":[{"message":{"content":"<script>1</script>"}}]}';
  const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Type: text/html\r\ncontent-length: ${body.length}`;
  const upstream = await rawUpstream((socket) => socket.write(`${head}\r\n\r\n${body}`));
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const options = { method: "POST", headers: asking(), body: '{"model":"m","messages":[]}' };
  const answer = await fetch(`${url}/v1/chat/completions`, options);
  t.equal(answer.headers.get("content-security-policy"), "sandbox");
  t.equal(answer.headers.get("x-content-type-options"), "nosniff");
  t.equal(await answer.text(), body);
});

t.test("a form streams through with only its model changed", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end('{"created":1,"data":[]}'),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-images] } }\nmodels: { m: { targets: [up:vendor-image-model] } }\n`,
  );
  const picture = Buffer.alloc(300_000, 7);
  for (const order of [
    ["model", "image"],
    ["image", "model"],
  ]) {
    const form = new FormData();
    for (const name of order)
      name === "model" ? form.append("model", "m") : form.append("image", new Blob([picture]), "a.png");
    const { authorization } = asking() as { authorization: string };
    const response = await fetch(`${url}/v1/images/edits`, { method: "POST", headers: { authorization }, body: form });
    t.equal(response.status, 200);
    const { rawHeaders, body } = upstream.seen.at(-1) as (typeof upstream.seen)[number];
    const type = rawHeaders[rawHeaders.findIndex((name) => /^content-type$/i.test(name)) + 1] as string;
    const received = await new Response(body, { headers: { "content-type": type } }).formData();
    t.equal(received.get("model"), "vendor-image-model");
    t.ok(picture.equals(Buffer.from(await (received.get("image") as File).arrayBuffer())));
  }
});

t.test("a chain without it still sends the provider our credential and never the client's key", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end('{"object":"list","data":[]}'),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", credential: "ours-and-long-enough", speaks: [openai-embeddings] } }
models: { m: { targets: [up:theirs] } }
chains: { bare: [auth, models] }
paths: { /v1/embeddings: { protocol: openai-embeddings, use: bare } }
`,
  );
  const body = '{"model":"m","input":"Hi"}';
  const { status } = await fetch(`${url}/v1/embeddings`, { method: "POST", headers: asking(), body });
  t.equal(status, 200);
  const [seen] = upstream.seen;
  const lines = seen?.rawHeaders.join("\n") ?? "";
  t.match(lines, /authorization\nBearer ours-and-long-enough/i);
  t.notMatch(lines, asking()["authorization"] as string);
  t.equal(seen?.body.toString(), body);
});

t.test(
  "another spelling of a checked member, which some servers read as that, does not reach a provider, and is reported",
  async (t) => {
    const { url, upstream } = await startGatewayTo(t, "openai-chat");
    const body =
      '{"Model":"dear", "model":"m","n":1,"MODEL":"dear","models_":1,"N":9,"Max_Tokens":9,"max_to\u212aens":9,"Temperature":1}';
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    t.equal(response.headers.get("gateway-dropped"), "Model, MODEL, N, Max_Tokens, max_to?ens");
    t.equal(upstream.seen[0]?.body.toString(), '{"model":"x","n":1,"models_":1,"Temperature":1}');
  },
);

t.test("nor do other spellings of members that name objects", async (t) => {
  const { url, upstream } = await startGatewayTo(t, "openai-responses");
  const body =
    '{"model":"m","Previous_Response_Id":"resp_1","CONVERSATION":"conv_1","Prompt":{"id":"p"},"previou\\u017f_response_id":"resp_2","input":"y"}';
  const response = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body });
  t.equal(response.headers.get("gateway-dropped"), "Previous_Response_Id, CONVERSATION, Prompt, previou?_response_id");
  t.equal(upstream.seen[0]?.body.toString(), '{"model":"x","input":"y"}');
});

t.test("a name of several words is distinguished from one that is only written in lower case", async (t) => {
  const { url, upstream } = await startGatewayTo(t, "gemini", undefined, "");
  const body =
    '{"CachedContent":"cachedContents/a","cachedcontent":"cachedContents/b","GenerationConfig":{},"contents":[]}';
  const options = { method: "POST", headers: asking(), body };
  const response = await fetch(`${url}/v1beta/models/m:generateContent`, options);
  t.equal(response.headers.get("gateway-dropped"), "CachedContent, cachedcontent, GenerationConfig");
  t.equal(upstream.seen[0]?.body.toString(), '{"contents":[]}');
});

t.test("nor do other spellings within a setting reach a provider: the output limit is checked there", async (t) => {
  const { url, upstream } = await startGatewayTo(t, "gemini", undefined, "");
  const body =
    '{"generationConfig":{"maxOutputTokens":9,"MaxOutputTokens":1, "temperature":1,"maxOutputTo\u212aens":2,"\\u004dax_output_tokens":3,"candidatecount":4},"contents":[]}';
  const response = await fetch(`${url}/v1beta/models/m:generateContent`, { method: "POST", headers: asking(), body });
  t.equal(
    response.headers.get("gateway-dropped"),
    ["MaxOutputTokens", "maxOutputTo?ens", "Max_output_tokens", "candidatecount"]
      .map((name) => `generationConfig.${name}`)
      .join(", "),
  );
  t.equal(
    upstream.seen[0]?.body.toString(),
    '{"generationConfig":{"maxOutputTokens":9,"temperature":1},"contents":[]}',
  );
});

const FEW = "a-key-of-two-models-01234";
/** Tools and the like that name a model, by the path they are asked on. */
const OTHERS: [path: string, where: (model: string) => object][] = [
  ["responses", (model) => ({ input: "Hi", tools: [{ type: "image_generation", model }] })],
  ["responses", (model) => ({ input: "Hi", tools: [{ type: "image_generation", model, svg: { model } }] })],
  ["responses", (model) => ({ input: [{ type: "additional_tools", tools: [{ type: "image_generation", model }] }] })],
  ["responses", (model) => ({ input: "Hi", moderation: { model } })],
  ["chat/completions", (model) => ({ messages: [], moderation: { model } })],
  ["messages", (model) => ({ max_tokens: 1, messages: [], fallbacks: [{ model }] })],
  ["messages", (model) => ({ max_tokens: 1, messages: [], tools: [{ type: "advisor_1", name: "advisor", model }] })],
];

/** The vendor's image tool, in Responses, where it names no image model. */
const DRAWING = [{}, { svg: { model: "m" } }, { Model: "m" }, { model: null }].flatMap((more) => {
  const tools = [{ type: "image_generation", ...more }];
  return [
    { tools },
    {
      input: [
        { role: "user", content: "Hi" },
        { type: "additional_tools", role: "developer", tools },
      ],
    },
  ];
});

t.test(
  "models in other vendors' lists, and those that their tools choose, are checked without scrub too",
  async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const { url } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-responses, openai-images] } }
models: { m: { targets: [up:vendor-m] }, dear: { targets: [up:vendor-dear] } }
chains: { llm: [sse, auth, models, limits, rewrite, usage] }
keys: { all: { key: test-key-0123456789abcdef }, few: { key: ${FEW}, models: [m] } }
`,
    );
    const ask = async (path: string, body: object, key: string) => {
      const before = upstream.seen.length;
      const headers = asking({ authorization: `Bearer ${key}` });
      const response = await fetch(`${url}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      await response.text();
      return [response.status, upstream.seen.length - before];
    };
    for (const [path, text] of [
      ["chat/completions", { messages: [] }],
      ["responses", { input: "Hi" }],
      ["images/generations", { prompt: "Hi" }],
    ] as const)
      for (const more of [
        { models: ["dear"] },
        { models: ["m", "x/opus"] },
        { fallbacks: ["dear"] },
        { fallbacks: [{ model: "dear" }] },
        { extra_body: { models: ["dear"] } },
        ...(path === "images/generations"
          ? []
          : [
              { tools: [{ type: "openrouter:fusion" }] },
              { tools: [{ type: "openrouter:fusion", parameters: { preset: "quality" } }] },
              { tools: [{ type: "openrouter:advisor" }] },
              // In Responses the id of a plugin is refused as that of an object.
              ...(path === "responses" ? DRAWING : [{ plugins: [{ id: "fusion" }] }]),
            ]),
      ]) {
        const what = `${path} ${JSON.stringify(more)}`;
        t.same(await ask(path, { model: "m", ...text, ...more }, FEW), [403, 0], what);
        t.equal((await ask(path, { model: "m", ...text, ...more }, "test-key-0123456789abcdef"))[1], 1, what);
      }
    const own = { model: "m", messages: [], models: ["m"], tools: [{ type: "openrouter:fusion", model: "m" }] };
    t.equal((await ask("chat/completions", own, FEW))[1], 1);
    const drawn = { model: "m", input: "Hi", tools: [{ type: "image_generation", model: "m" }] };
    t.equal((await ask("responses", drawn, FEW))[1], 1, "an image model that the key may use");
  },
);

t.test("a second model in a request is checked as the first one is, and renamed", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers:
  up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-responses, anthropic-messages, gemini] }
  off: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat, gemini] }
models: { m: { targets: [up:vendor-m] }, draw: { targets: [up:vendor-draw] }, dear: { targets: [up:vendor-dear] }, far: { targets: [off:far] } }
keys: { all: { key: test-key-0123456789abcdef }, few: { key: ${FEW}, models: [m, draw, far] } }
`,
  );
  const ask = async (path: string, body: object, key?: string) => {
    const before = upstream.seen.length;
    const headers = asking(key === undefined ? {} : { authorization: `Bearer ${key}` });
    const response = await fetch(`${url}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    const told = (await response.json()) as { error?: { type?: string; code?: string; message?: string } };
    return { status: response.status, told, sent: upstream.seen[before]?.body.toString() };
  };
  const batch = (model: string) => ({ requests: [{ model, content: { parts: [{ text: "Hi" }] } }] });
  const path = "models/draw:batchEmbedContents";
  t.equal((await ask(path, batch("models/draw"), FEW)).sent, JSON.stringify(batch("models/vendor-draw")));
  t.equal((await ask(path, batch("models/m"), FEW)).sent, JSON.stringify(batch("models/vendor-m")));
  t.equal((await ask(path, batch("models/dear"), FEW)).status, 403);
  for (const [path, where] of OTHERS) {
    const request = (model: string) => ({ model: "m", ...where(model) });
    const name = JSON.stringify(where("…"));
    const sent = (model: string) => JSON.stringify({ ...request(model), model: "vendor-m" });
    for (const key of name.includes("additional_tools") ? [FEW] : [FEW, undefined])
      t.equal((await ask(path, request("draw"), key)).sent, sent("vendor-draw"), `${name} is renamed`);
    t.equal((await ask(path, request("far"), FEW)).status, 400, `${name}: one that the provider does not have`);
    for (const other of ["dear", "vendor-dear", "vendor-draw", "none of ours"]) {
      const { status, told, sent } = await ask(path, request(other), FEW);
      t.same([status, sent], [403, undefined], `${name} ${other} is refused`);
      t.match(told.error?.message, other);
    }
    t.equal((await ask(path, request("vendor-x"))).sent, sent("vendor-x"), `${name}: a vendor's own name passes`);
  }
});

t.test("a second model that only some targets have sends the request to those", async (t) => {
  const [first, second] = [await httpUpstream(), await httpUpstream()];
  t.teardown(() => Promise.all([first.close(), second.close()]));
  const { url } = await startGateway(
    t,
    `providers:
  one: { url: "${first.origin.origin}/v1", speaks: [anthropic-messages] }
  two: { url: "${second.origin.origin}/v1", speaks: [anthropic-messages] }
models: { m: { targets: [{ to: "one:m1", weight: 1000000 }, { to: "two:m2", weight: 1 }] }, help: { targets: [two:help2] } }
keys: { few: { key: ${FEW}, models: [m, help] } }
`,
  );
  const body = { model: "m", max_tokens: 1, messages: [], fallbacks: [{ model: "help" }] };
  const response = await fetch(`${url}/v1/messages`, {
    method: "POST",
    headers: asking({ authorization: `Bearer ${FEW}` }),
    body: JSON.stringify(body),
  });
  t.equal(response.status, 200);
  t.equal(first.seen.length, 0);
  t.equal(second.seen[0]?.body.toString(), JSON.stringify({ ...body, model: "m2", fallbacks: [{ model: "help2" }] }));
});

t.test("a choice of model that is left to the vendor is for keys of all models", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [anthropic-messages, openai-responses] } }
models: { m: { targets: [up:m] }, default: { targets: [up:other] } }
keys: { all: { key: test-key-0123456789abcdef }, few: { key: ${FEW}, models: [m, default] } }
`,
  );
  for (const [path, name, request] of [
    ["messages", "fallbacks", { model: "m", max_tokens: 1, messages: [], fallbacks: "default" }],
    ["responses", "preset", { model: "m", input: "x", preset: "default" }],
  ] as const) {
    upstream.seen.length = 0;
    const body = JSON.stringify(request);
    const ask = (headers: Record<string, string>) => fetch(`${url}/v1/${path}`, { method: "POST", headers, body });
    const refused = await ask(asking({ authorization: `Bearer ${FEW}` }));
    t.equal(refused.status, 403, name);
    t.match(await refused.json(), {
      error: { message: new RegExp(`^${name} lets the vendor choose models.*m, default`) },
    });
    t.equal(upstream.seen.length, 0, name);
    t.equal((await ask(asking())).status, 200, name);
    t.equal(upstream.seen[0]?.body.toString(), body, "and stays unchanged");
  }
});
