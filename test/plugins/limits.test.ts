import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import LimitsPlugin from "../../plugins/limits.ts";
import { Body } from "../../src/core/body.ts";
import { Calendar } from "../../src/core/calendar.ts";
import { Levels } from "../../src/core/limits.ts";
import type { Limiter, Reservation } from "../../src/store/limiter.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { open, socketUpstream } from "../support/sockets.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const ALL = "[openai-chat, openai-completions, openai-responses, openai-embeddings, anthropic-messages, gemini]";
/** A thousandth of a dollar for a token that comes out, a hundredth for a thousand that go in. */
const MODEL = `m: { targets: [p:x], price: { input: 10, cache_write: 20, output: 1000 }, output: 100 }`;

/** A provider that answers when it is let. */
async function holding(t: Test) {
  const waiting: (() => void)[] = [];
  const upstream = await httpUpstream((_, reply) => {
    waiting.push(() => reply.setHeader("content-type", "application/json").end("{}"));
  });
  t.teardown(() => upstream.close());
  return { upstream, waiting, address: `${upstream.origin.origin}` };
}

const gateway = (t: Test, address: string, more: string) =>
  startGateway(
    t,
    `providers: { p: { url: "${address}/v1", speaks: ${ALL} } }\nmodels: { ${MODEL} }\nkeys: { test: { key: ${KEY}, group: acme/research } }\n${more}`,
  );

interface KeyPage {
  data: {
    [name: string]: unknown;
    limits: { of: string; name?: string; budgets?: { [name: string]: unknown; reserved: number }[] }[];
  };
}

const page = async (url: string): Promise<KeyPage["data"]> =>
  ((await (await fetch(`${url}/v1/key`, { headers: asking() })).json()) as KeyPage).data;

const ask = (url: string, path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(`${url}${path}`, { method: "POST", headers: asking(headers), body: JSON.stringify(body) });

t.test(
  "the maximum cost of an answer is reserved as its protocol limits it, and settled when it has ended",
  async (t) => {
    const { waiting, address } = await holding(t);
    const { url } = await gateway(t, address, "limits: { default: { budget: $1000 } }\n");
    const reserved = async () => (await page(url)).limits[0]?.budgets?.[0]?.reserved ?? -1;
    const chat = { model: "m", messages: [] };
    for (const [path, body, tokens] of [
      ["/v1/chat/completions", { ...chat, max_tokens: 7 }, 7],
      ["/v1/chat/completions", { ...chat, max_tokens: 3, max_completion_tokens: 9, n: 2 }, 18],
      ["/v1/chat/completions", { ...chat, max_tokens: "3", n: " 20 " }, 60],
      ["/v1/chat/completions", { ...chat, max_tokens: 3, n: "2_0" }, 60],
      ["/v1/chat/completions", { ...chat, max_tokens: 3, n: "\uff12\uff10" }, 60],
      ["/v1/chat/completions", { ...chat, max_tokens: 3, n: "\u0662" }, 27],
      ["/v1/chat/completions", { ...chat, max_tokens: 3, n: "20".padStart(4000, "0") }, 60],
      ["/v1/chat/completions", { ...chat, max_tokens: 7, n: -5 }, 7],
      ["/v1/chat/completions", { ...chat, max_tokens: -1, n: 1000 }, 100_000],
      ["/v1/chat/completions", { ...chat, max_tokens: "", n: "many" }, 100],
      ["/v1/chat/completions", chat, 100],
      ["/v1/chat/completions", { ...chat, max_tokens: 5000 }, 100],
      ["/v1/completions", { model: "m", prompt: ["a", "b"], max_tokens: 5, best_of: 3 }, 30],
      ["/v1/completions", { model: "m", prompt: null, prompt_embeds: ["QQ==", "QQ=="], max_tokens: 5 }, 10], // vLLM takes a list
      ["/v1/completions", { model: "m", prompt: [1, 2, 3], max_tokens: 5 }, 5],
      ["/v1/responses", { model: "m", input: "a", max_output_tokens: 8 }, 8],
      ["/v1/messages", { ...chat, max_tokens: 6 }, 6],
      [
        "/v1beta/models/m:generateContent",
        { contents: [], generationConfig: { maxOutputTokens: 4, candidateCount: 2 } },
        8,
      ],
      ["/v1beta/models/m:generateContent", { contents: [], generation_config: { max_output_tokens: 4 } }, 4],
      ["/v1/embeddings", { model: "m", input: "a" }, 0],
      ["/v1/messages/count_tokens", chat, 0],
    ] as const) {
      const answer = ask(url, path, body);
      await until(() => waiting.length > 0, "the provider");
      // Token ids count by their number, and everything else by its bytes.
      const [json, ids] = [JSON.stringify(body), "[1,2,3]"];
      const input = Math.ceil(Buffer.byteLength(json.replace(ids, "")) / 3) + (json.includes(ids) ? 3 : 0);
      const counted = path.endsWith("count_tokens") ? 0 : input * 20e-6;
      t.ok(Math.abs((await reserved()) - tokens * 1e-3 - counted) < 1e-9, `${path} ${JSON.stringify(body)}`);
      waiting.shift()?.();
      await (await answer).text();
      await until(async () => (await reserved()) === 0, "the settlement");
    }
  },
);

t.test("a budget that a reload adds counts what requests without a limit cost, also those that run then", async (t) => {
  const answers: (() => void)[] = [];
  const choices = [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" }];
  const usage = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 };
  const upstream = await httpUpstream((_, reply) => {
    const body = JSON.stringify({ object: "chat.completion", model: "x", choices, usage });
    answers.push(() => reply.setHeader("content-type", "application/json").end(body));
  });
  t.teardown(() => upstream.close());
  const before = "{ groups: { other: { budget: $1/day } } }";
  const { url, folder, gateway: running } = await gateway(t, upstream.origin.origin, `limits: ${before}\n`);
  /** Sends a request, and returns a function that lets it end. */
  const send = async () => {
    const calls = answers.length;
    const reply = ask(url, "/v1/chat/completions", { model: "m", messages: [] });
    await until(() => answers.length > calls, "the provider");
    return async () => {
      answers[calls]?.();
      const { headers, status } = await reply;
      t.equal(status, 200);
      return headers.get("gateway-notice") ?? "";
    };
  };
  const [ended, runs] = [await send(), await send()];
  await ended();
  const file = join(folder, "gateway.yaml");
  const [hard, soft] = ["{ budget: $1000/day }", "{ budget: { amount: $0.05/day, soft: true } }"];
  const after = `{ default: ${hard}, all: ${hard}, groups: { acme: ${hard} }, models: { m: ${soft} }, providers: { p: ${soft} } }`;
  writeFileSync(file, readFileSync(file, "utf8").replace(before, after));
  await running.reload();
  const spent = async () => (await page(url)).limits.map(({ budgets }) => budgets?.[0]?.["spent"]);
  t.same(await spent(), [0.02, 0.02, 0.02], "of the key, the group and all");
  const loaded = await send();
  await runs();
  await until(async () => (await spent())[0] === 0.04, "the end of what ran");
  t.same(await spent(), [0.04, 0.04, 0.04]);
  const next = await send();
  t.equal(await loaded(), "", "of the model and the provider $0.02 was known");
  const notice = await next();
  for (const level of [/model "m" has spent \$0\.04 of/, /provider "p" has spent \$0\.04 of/]) t.match(notice, level);
  await until(async () => (await spent())[0] === 0.08, "the settlement");
});

t.test("the highest price of the tokens is reserved: one-hour cache, images, priority tier", async (t) => {
  const { waiting, address } = await holding(t);
  const price =
    "{ input: 10, cache_write: 20, cache_write_1h: 40, output: 1000, output_image: 3000, priority: { input: 10, output_image: 6000 } }";
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "${address}/v1", speaks: ${ALL} } }
models: { m: { targets: [p:x], price: ${price}, output: 100 } }
limits: { default: { budget: $1000 } }\n`,
  );
  for (const [more, each] of [
    [{}, 3e-3],
    [{ service_tier: "flex" }, 3e-3],
    [{ service_tier: "priority" }, 6e-3],
  ] as const) {
    const body = { model: "m", messages: [], max_tokens: 10, ...more };
    const answer = ask(url, "/v1/chat/completions", body);
    await until(() => waiting.length > 0, "the provider");
    const expected = 10 * each + Math.ceil(JSON.stringify(body).length / 3) * 40e-6;
    const reserved = (await page(url)).limits[0]?.budgets?.[0]?.reserved ?? -1;
    t.ok(Math.abs(reserved - expected) < 1e-9, `${reserved} for ${expected}`);
    waiting.shift()?.();
    await (await answer).text();
  }
});

t.test("what looks like an image in a tool counts as the text that it is", async (t) => {
  const { waiting, address } = await holding(t);
  const { url } = await gateway(t, address, "limits: { default: { budget: $1000 } }\n");
  const reserved = async () => (await page(url)).limits[0]?.budgets?.[0]?.reserved ?? -1;
  const letters = Buffer.alloc(60_000, "tool").toString("base64");
  const schema = { type: "object", properties: { a: { default: { url: `data:image/png;base64,${letters}` } } } };
  const tool = { type: "function", function: { name: "f", parameters: schema } };
  const chat = { model: "m", max_tokens: 1, messages: [{ role: "user", content: "hi" }], tools: [tool] };
  const responses = {
    model: "m",
    max_output_tokens: 1,
    input: [
      { type: "additional_tools", role: "developer", tools: [{ type: "function", name: "f", parameters: schema }] },
      { role: "user", content: "hi" },
    ],
  };
  for (const [path, body] of [
    ["/v1/chat/completions", chat],
    ["/v1/responses", responses],
  ] as const) {
    const answer = ask(url, path, body);
    await until(() => waiting.length > 0, "the provider");
    t.ok((await reserved()) >= (letters.length / 3) * 20e-6, `${path}: ${await reserved()}`);
    waiting.shift()?.();
    await (await answer).text();
    await until(async () => (await reserved()) === 0, "the settlement");
  }
});

t.test("the tier that a Gemini client requests in its own words is reserved for", async (t) => {
  const { waiting, address } = await holding(t);
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "${address}/v1", speaks: ${ALL} } }
models: { m: { targets: [p:x], price: { input: 1, output: 1000, priority: { input: 1, output: 2000 } }, output: 100 } }
limits: { default: { budget: $1000 } }\n`,
  );
  const reserved = async () => (await page(url)).limits[0]?.budgets?.[0]?.reserved ?? -1;
  for (const [more, most] of [
    [{}, 0.11],
    [{ serviceTier: "PRIORITY" }, 0.21],
    [{ service_tier: "priority" }, 0.21],
  ] as const) {
    const answer = ask(url, "/v1beta/models/m:generateContent", { contents: [], ...more });
    await until(() => waiting.length > 0, "the provider");
    const held = await reserved();
    t.ok(held < most && held > most - 0.02, `${JSON.stringify(more)}: ${held}`);
    waiting.shift()?.();
    await (await answer).text();
    await until(async () => (await reserved()) === 0, "the settlement");
  }
});

t.test(
  "a member that limits the request may occur once, at any depth, and part of a token counts as one",
  async (t) => {
    const { waiting, address } = await holding(t);
    const { url } = await gateway(t, address, "limits: { default: { budget: $1000 } }\n");
    const send = (path: string, body: string) => fetch(`${url}${path}`, { method: "POST", headers: asking(), body });
    for (const config of [
      '{"maxOutputTokens":4096,"maxOutputTokens":1}',
      '{"candidateCount":2000,"candidateCount":1}',
    ]) {
      const refused = await send("/v1beta/models/m:generateContent", `{"contents":[],"generationConfig":${config}}`);
      t.equal(refused.status, 400, config);
      t.match(await refused.text(), /twice/);
    }
    const answer = send("/v1/chat/completions", '{"model":"m","messages":[],"max_tokens":0.3333333}');
    await until(() => waiting.length > 0, "the provider");
    waiting.shift()?.();
    t.equal((await answer).status, 200);
  },
);

t.test("images in a request count as images, not by their characters", async (t) => {
  const { waiting, address } = await holding(t);
  const { url } = await gateway(t, address, "limits: { default: { budget: $1000 } }\n");
  const png = "iVBORw0KGgoA";
  for (const letters of [png + "A".repeat(300_000), png + "Zz9/".repeat(1100)]) {
    const content = [{ type: "image_url", image_url: { url: `data:image/png;base64,${letters}` } }];
    const answer = ask(url, "/v1/chat/completions", {
      model: "m",
      max_tokens: 1,
      messages: [{ role: "user", content }],
    });
    await until(() => waiting.length > 0, "the provider");
    const [level] = (await page(url)).limits;
    const reserved = level?.budgets?.[0]?.reserved ?? 0;
    t.ok(reserved > 1e-3 + 1600 * 20e-6 && reserved < 1e-3 + 2000 * 20e-6, `${letters.length}: ${reserved}`);
    waiting.shift()?.();
    await (await answer).text();
  }
});

t.test("the tightest limits are in the headers of each protocol, refusals included", async (t) => {
  const { waiting, address } = await holding(t);
  const { url } = await gateway(
    t,
    address,
    "limits: { default: { rpm: 5, tpm: 100k }, groups: { acme: { rpm: 3 } }, all: { tpm: 1k } }\n",
  );
  const chat = { model: "m", max_tokens: 10, messages: [] };
  const answered = async (path: string) => {
    const answer = ask(url, path, chat);
    await until(() => waiting.length > 0, "the provider");
    waiting.shift()?.();
    const { headers, status } = await answer;
    return { headers: Object.fromEntries(headers), status };
  };
  t.match(await answered("/v1/chat/completions"), {
    status: 200,
    headers: {
      "x-ratelimit-limit-requests": "3",
      "x-ratelimit-remaining-requests": "2",
      "x-ratelimit-reset-requests": /^1m[01]s$/,
      "x-ratelimit-limit-tokens": "1000",
      "x-ratelimit-remaining-tokens": /^97\d$/,
    },
  });
  t.match(await answered("/v1/messages"), {
    headers: {
      "anthropic-ratelimit-requests-limit": "3",
      "anthropic-ratelimit-requests-remaining": "1",
      "anthropic-ratelimit-requests-reset": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
      "anthropic-ratelimit-tokens-limit": "1000",
    },
  });
  t.equal((await answered("/v1/chat/completions")).status, 200);
  const refused = await ask(url, "/v1/messages", chat);
  t.equal(refused.status, 429);
  t.equal(refused.headers.get("anthropic-ratelimit-requests-remaining"), "0");
  t.ok(Number(refused.headers.get("retry-after")) > 50);
  t.match(await refused.json(), {
    type: "error",
    error: {
      type: "rate_limit_error",
      message: /^The group "acme" may make 3 requests a minute: none is left\. Try again in \d+ s\.$/,
    },
  });
});

t.test(
  "an exhausted budget is reported in each dialect: whose, how much, what remains, and when it is renewed",
  async (t) => {
    const { address } = await holding(t);
    const { url } = await gateway(t, address, "limits: { groups: { acme/research: { budget: $0.05/month } } }\n");
    const chat = { model: "m", messages: [] };
    const openai = await ask(url, "/v1/chat/completions", chat);
    t.equal(openai.status, 429);
    t.equal(openai.headers.get("x-should-retry"), "false", "a client's wait alone does not help");
    t.same(
      ["gateway-model", "gateway-attempts"].map((name) => openai.headers.get(name)),
      ["m", "0"],
    );
    t.match(await openai.json(), {
      error: {
        type: "insufficient_quota",
        code: "insufficient_quota",
        message:
          /^The group "acme\/research" may spend \$0\.05 a month: \$0\.05 is left, and this request may cost up to \$0\.1.*shorter answer/,
      },
    });
    t.match(await (await ask(url, "/v1/messages", chat)).json(), { error: { type: "billing_error" } });
    const gemini = await ask(url, "/v1beta/models/m:generateContent", { contents: [] });
    t.match(await gemini.json(), {
      error: { code: 429, status: "RESOURCE_EXHAUSTED", details: [{ reason: "INSUFFICIENT_QUOTA" }] },
    });
    t.equal((await ask(url, "/v1/responses", { model: "m", input: "a" })).status, 429);
  },
);

t.test("a key can read about itself: its groups, its limits, and what remains of them", async (t) => {
  const { address } = await holding(t);
  const { url } = await gateway(
    t,
    address,
    `timezone: Asia/Tokyo
limits:
  default: { rpm: 5, tpm: 1k, concurrency: 2, budget: [$5/day, { amount: $1, soft: true }] }
  groups: { acme: { budget: $9/week } }
`,
  );
  t.match(await page(url), {
    id: "test",
    label: "test",
    group: "acme/research",
    models: null,
    usage: 0,
    usage_daily: 0,
    usage_weekly: 0,
    usage_monthly: 0,
    timezone: "Asia/Tokyo",
    limit: 5,
    limit_remaining: 5,
    limit_reset: /^\d{4}-\d\d-\d\dT15:00:00.000Z$/,
    limits: [
      {
        of: "key",
        name: "test",
        requests_per_minute: { limit: 5, remaining: 5, reset_seconds: 0 },
        tokens_per_minute: { limit: 1000, remaining: 1000 },
        concurrency: { limit: 2, remaining: 2 },
        budgets: [
          { limit: 5, per: "day", soft: false, spent: 0, reserved: 0, remaining: 5, resets_at: String },
          { limit: 1, per: "total", soft: true, remaining: 1, resets_at: null },
        ],
      },
      { of: "group", name: "acme", budgets: [{ limit: 9, per: "week" }] },
    ],
  });
  const without = await fetch(`${url}/v1/key`);
  t.equal(without.status, 401);
  await without.text();
});

t.test("on a pass-through path, rates count, and limits of tokens and money close it unless it is open", async (t) => {
  const { upstream, waiting, address } = await holding(t);
  const paths = (open: boolean) => `paths: { /v1/audio/*: { pass: p, open: ${open} } }\n`;
  const limited = await gateway(t, address, `${paths(false)}limits: { default: { concurrency: 1, rpm: 2 } }\n`);
  const get = (url: string) => fetch(`${url}/v1/audio/speech`, { method: "POST", headers: asking(), body: "{}" });
  const first = get(limited.url);
  await until(() => waiting.length > 0, "the provider");
  t.match(await (await get(limited.url)).json(), {
    error: { code: "rate_limit_exceeded", message: /at the same time/ },
  });
  waiting.shift()?.();
  t.equal((await first).status, 200);
  const second = get(limited.url);
  await until(() => waiting.length > 0, "the provider");
  waiting.shift()?.();
  t.equal((await second).status, 200);
  t.match(await (await get(limited.url)).json(), { error: { message: /2 requests a minute/ } });
  t.equal(upstream.seen.length, 2);
  const shut = await gateway(t, address, `${paths(false)}limits: { providers: { p: { tpm: 5 } } }\n`);
  const refused = await get(shut.url);
  t.equal(refused.status, 403);
  t.match(await refused.json(), { error: { message: /The provider "p" has a limit of tokens.*open: true/ } });
  const opened = await gateway(t, address, `${paths(true)}limits: { all: { budget: $1 } }\n`);
  const budgets = [{ nano: 1e9, per: "month", soft: false }] as const;
  const guest = await opened.gateway.stores.keys.create({ name: "guest", limits: { budgets } });
  for (const key of [KEY, guest.key]) {
    const passed = fetch(`${opened.url}/v1/audio/speech`, {
      method: "POST",
      headers: asking({ authorization: `Bearer ${key}` }),
      body: "{}",
    });
    await until(() => waiting.length > 0, "the provider");
    waiting.shift()?.();
    t.equal((await passed).status, 200);
  }
});

t.test("WebSockets count among concurrent requests; their tokens and money are unknown", async (t) => {
  const upstream = await socketUpstream(t);
  const running = (limits: string) =>
    startGateway(
      t,
      `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:x], price: { input: 1, output: 2 }, output: 1k } }
limits: { ${limits} }
`,
    );
  const ask = ({ port }: { port: number }) =>
    open(`ws://127.0.0.1:${port}/v1/realtime?model=m`, [], { "x-api-key": KEY });
  const rates = await running("default: { concurrency: 1 }");
  const { socket, closed } = await ask(rates);
  await t.rejects(ask(rates), /^429 .*at the same time/s);
  socket.close();
  await closed;
  await until(
    () =>
      ask(rates).then(
        (again) => {
          again.socket.close();
          return true;
        },
        () => false,
      ),
    "room",
  );
  await t.rejects(ask(await running("models: { m: { tpm: 5 } }")), /^403 .*The model \\?"m\\?".*WebSocket/s);
  await t.rejects(ask(await running("providers: { a: { budget: $5 } }")), /^403 .*The provider/s);
});

t.test("a WebSocket ends when its key gets a limit that it cannot be held to, and not by other changes", async (t) => {
  const upstream = await socketUpstream(t);
  const { port, gateway } = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:x], price: { input: 1, output: 2 }, output: 1k } }
`,
  );
  const { keys } = gateway.stores;
  const { key, record } = await keys.create({ name: "open" });
  const talking = await open(`ws://127.0.0.1:${port}/v1/realtime?model=m`, [], { authorization: `Bearer ${key}` });
  await keys.edit(record.id, { owner: "someone" });
  await keys.edit(record.id, { limits: { rpm: 5 } });
  const other = await keys.create({ name: "other" });
  await keys.edit(other.record.id, { limits: { budgets: [{ nano: 1e6, per: "day", soft: false }] } });
  talking.socket.send('{"type":"hello"}');
  await until(() => talking.messages.length === 1, "an answer");
  await keys.edit(record.id, { limits: { budgets: [{ nano: 1e6, per: "day", soft: false }] } });
  t.equal(await talking.closed, 1008);
  t.match(JSON.parse(talking.messages.at(-1) ?? ""), { type: "error", error: { code: "key_not_allowed" } });
});

t.test("a WebSocket ends when its key may no longer use its model, by a command or by gateway.yaml", async (t) => {
  const upstream = await socketUpstream(t);
  const inFile = "the-key-of-the-file-0123456789";
  const { port, gateway, folder } = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-chat], websocket: true } }
models: { m: { targets: [a:x] }, o: { targets: [a:y] } }
keys: { file: { key: ${inFile} } }
`,
  );
  const talk = (key: string) =>
    open(`ws://127.0.0.1:${port}/v1/realtime?model=m`, [], { authorization: `Bearer ${key}` });
  const { keys } = gateway.stores;
  const { key, record } = await keys.create({ name: "open" });
  const ended = async ({ closed, messages }: Awaited<ReturnType<typeof talk>>) => {
    t.equal(await closed, 1008);
    t.match(JSON.parse(messages.at(-1) ?? ""), { type: "error", error: { code: "key_not_allowed" } });
  };
  const [byCommand, byFile] = [await talk(key), await talk(inFile)];
  await keys.edit(record.id, { models: ["o"] });
  await ended(byCommand);
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace(inFile, `${inFile}, models: [o]`));
  await gateway.reload();
  await ended(byFile);
});

t.test("a background answer is refused where tokens or money count: it may never be fetched", async (t) => {
  let asked = 0;
  const upstream = await httpUpstream((_, reply) => {
    asked++;
    reply
      .setHeader("content-type", "application/json")
      .end('{"id":"r","background":true,"status":"queued","usage":null}');
  });
  t.teardown(() => upstream.close());
  const post = async (limits: string, body: object) => {
    const { url } = await gateway(t, upstream.origin.origin, `limits: { ${limits} }\n`);
    const answer = await ask(url, "/v1/responses", { model: "m", input: "a", ...body });
    return [answer.status, await answer.text()] as const;
  };
  for (const limits of [
    "default: { budget: $5/month }",
    "groups: { acme: { tpm: 1000 } }",
    "providers: { p: { budget: $5 } }",
  ]) {
    const [status, text] = await post(limits, { background: true });
    t.equal(status, 403, limits);
    t.match(text, /background/);
  }
  const fallback = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: ${ALL} } }
models: { ${MODEL}, f: { targets: [p:y], fallback: [m] } }
limits: { models: { m: { tpm: 1000 } } }
`,
  );
  const throughFallback = await ask(fallback.url, "/v1/responses", { model: "f", input: "a", background: true });
  t.same([throughFallback.status, /model \\"m\\"/.test(await throughFallback.text())], [403, true], "of a fallback");
  const deferred = await gateway(t, upstream.origin.origin, "limits: { default: { budget: $5/month } }\n");
  const messages = [{ role: "user", content: "a" }];
  const answer = await ask(deferred.url, "/v1/chat/completions", { model: "m", messages, deferred: true });
  t.same([answer.status, /deferred/.test(await answer.text())], [403, true], "xAI's deferred");
  for (const background of [1, "yes", {}])
    t.equal((await post("default: { budget: $5/month }", { background }))[0], 403, `${JSON.stringify(background)}`);
  t.equal(asked, 0);
  t.equal((await post("default: { budget: $5/month }", { Background: true }))[0], 200, "another spelling is dropped");
  t.notMatch(upstream.seen.at(-1)?.body, /background/i);
  t.equal((await post("default: { budget: $5/month }", { background: false }))[0], 200, "one that is awaited");
  t.equal(
    (await post("default: { budget: { amount: $5/month, soft: true }, rpm: 5 }", { background: true }))[0],
    200,
    "a soft budget",
  );
});

t.test("limits of a key created at run time are enforced, shown, and changed while it is used", async (t) => {
  const { upstream, waiting, address } = await holding(t);
  const { url, gateway: running } = await gateway(t, address, "limits: { default: { tpm: 1M } }\n");
  const { keys } = running.stores;
  const { key } = await keys.create({ name: "guest", limits: { rpm: 2, concurrency: 1 } });
  const headers = { authorization: `Bearer ${key}` };
  const chat = { model: "m", max_tokens: 10, messages: [] };
  const guest = () => ask(url, "/v1/chat/completions", chat, headers);
  const limits = async () =>
    ((await (await fetch(`${url}/v1/key`, { headers })).json()) as KeyPage).data.limits[0] as unknown as object;
  const first = guest();
  await until(() => waiting.length > 0, "the provider");
  t.match(await limits(), {
    of: "key",
    requests_per_minute: { limit: 2, remaining: 1 },
    tokens_per_minute: { limit: 1_000_000 },
    concurrency: { limit: 1, remaining: 0 },
  });
  t.match(await (await guest()).json(), { error: { message: /may run 1 request at the same time/ } });
  waiting.shift()?.();
  t.equal((await first).status, 200);
  await keys.edit("guest", { limits: { rpm: 1, budgets: [{ nano: 1e9, per: "month", soft: false }] } });
  await until(async () => !("concurrency" in (await limits())), "the change");
  t.match(await limits(), { requests_per_minute: { limit: 1 }, budgets: [{ limit: 1, per: "month" }] });
  const refused = await guest();
  t.equal(refused.status, 429);
  t.match(await refused.json(), { error: { message: /may make 1 request a minute/ } });
  t.equal(upstream.seen.length, 1);
  await keys.edit("guest", { limits: { rpm: 0, budgets: [{ nano: 1e6, per: "month", soft: false }] } });
  await until(async () => !("requests_per_minute" in (await limits())), "the change");
  t.match(await (await guest()).json(), {
    error: { code: "insufficient_quota", message: /may spend \$0\.001 a month/ },
  });
});

t.test("a key with a budget of its own cannot use a model without a known price", async (t) => {
  const { waiting, address } = await holding(t);
  const { url, gateway: running } = await startGateway(
    t,
    `providers: { p: { url: "${address}/v1", speaks: ${ALL} } }\nmodels: { free: { targets: [p:zzz] } }\n`,
  );
  const budgets = [{ nano: 1e9, per: "month", soft: false }] as const;
  const { key } = await running.stores.keys.create({ name: "guest", limits: { budgets } });
  const answer = await ask(
    url,
    "/v1/chat/completions",
    { model: "free", messages: [] },
    { authorization: `Bearer ${key}` },
  );
  t.equal(answer.status, 403);
  t.match(await answer.json(), { error: { message: /the price of the model "free" is unknown/ } });
  const soft = [{ nano: 1e9, per: "month", soft: true }] as const;
  const warned = await running.stores.keys.create({ name: "warned", limits: { budgets: soft } });
  const passed = ask(
    url,
    "/v1/chat/completions",
    { model: "free", messages: [] },
    { authorization: `Bearer ${warned.key}` },
  );
  await until(() => waiting.length > 0, "the provider");
  waiting.shift()?.();
  t.equal((await passed).status, 200, "a soft budget refuses nothing");
});

t.test("targets that a plugin sets after limits need a price too, and count for their own model", async (t) => {
  const { waiting, address } = await holding(t);
  const { url, gateway: running } = await startGateway(
    t,
    `providers: { p: { url: "${address}/v1", speaks: ${ALL} } }
models: { ${MODEL}, other: { targets: [p:y], price: { input: 10, output: 1000 }, output: 100 }, free: { targets: [p:zzz] } }
keys: { test: { key: ${KEY} } }
plugins: { own: { from: ./own.ts } }
chains: { llm: [auth, models, limits, own, usage] }
limits: { models: { m: { budget: $1000 }, other: { budget: $1000 } } }
`,
    {
      "own.ts": `import { Marketplace, type RouteExchange } from "model-gateway";
import { injectable } from "tsyringe";
@injectable()
export default class Own {
  constructor(private readonly marketplace: Marketplace) {}
  route(exchange: RouteExchange) {
    exchange.targets = this.marketplace.require(exchange.query.get("to") ?? "").targets;
  }
}`,
    },
  );
  const budgets = [{ nano: 1e9, per: "month", soft: false }] as const;
  const { key } = await running.stores.keys.create({ name: "guest", limits: { budgets } });
  const chat = { model: "m", messages: [] };
  const refused = await ask(url, "/v1/chat/completions?to=free", chat, { authorization: `Bearer ${key}` });
  t.equal(refused.status, 403);
  t.match(await refused.json(), { error: { message: /the price of the model "free" is unknown/ } });
  const answer = ask(url, "/v1/chat/completions?to=other", chat);
  await until(() => waiting.length > 0, "the provider");
  waiting.shift()?.();
  t.equal((await answer).status, 200);
  const level = (name: string) => ({
    ...{ kind: "model" as const, name, scope: `model:${name}` },
    limits: { budgets: [{ nano: 1e12, per: "total" as const, soft: false }] },
  });
  await until(async () => {
    const spent = (await running.limiter.statuses([level("m"), level("other")])).map(
      ({ budgets: [one] }) => one?.spent,
    );
    return spent[0] === 0 && (spent[1] ?? 0) > 0;
  }, "only the model that served has spent");
});

t.test(
  "a token limit is reported as one; a request that exceeds it alone is too large, and not to be retried",
  async (t) => {
    const { waiting, address } = await holding(t);
    const { url } = await gateway(t, address, "limits: { default: { tpm: 100 }, models: { m: { tpm: 90 } } }\n");
    const chat = { model: "m", messages: [] };
    const first = ask(url, "/v1/chat/completions", chat);
    await until(() => waiting.length > 0, "the provider");
    const next = await ask(url, "/v1/chat/completions", { ...chat, max_tokens: 20 });
    t.match([next.status, next.headers.get("x-should-retry")], [429, null]);
    t.match(await next.json(), {
      error: { type: "tokens", code: "rate_limit_exceeded", message: /are left, and this/ },
    });
    for (const [path, body, answer] of [
      ["/v1/chat/completions", { ...chat, max_tokens: 95 }, { error: { type: "tokens", code: "rate_limit_exceeded" } }],
      ["/v1/responses", { model: "m", input: "a".repeat(500) }, { error: { type: "tokens", message: /too large/ } }],
      ["/v1/messages", { ...chat, max_tokens: 95 }, { type: "error", error: { type: "rate_limit_error" } }],
      [
        "/v1beta/models/m:generateContent",
        { contents: [], generationConfig: { maxOutputTokens: 99 } },
        { error: { status: "RESOURCE_EXHAUSTED", code: 429 } },
      ],
    ] as const) {
      const refused = await ask(url, path, body);
      t.match([refused.status, refused.headers.get("x-should-retry")], [429, "false"], path);
      t.match(await refused.json(), answer, path);
    }
    waiting.shift()?.();
    t.equal((await first).status, 200, "one without a length waits for room");
  },
);

t.test(
  "models that the vendor may fall back to, and its fast mode, are reserved for; unpriced ones are refused",
  async (t) => {
    const { waiting, address } = await holding(t);
    const price = "{ input: 0, output: 1000, fast: { output: 6000 } }";
    const models = `m: { targets: [p:x], price: ${price}, output: 100 }, dear: { targets: [p:dear], price: { input: 0, output: 2000 } }, free: { targets: [p:free] }`;
    const { url, gateway: running } = await startGateway(
      t,
      `providers: { p: { url: "${address}/v1", speaks: ${ALL} } }\nmodels: { ${models} }\n`,
    );
    const budgets = [{ nano: 1e12, per: "month", soft: false }] as const;
    const { key } = await running.stores.keys.create({ name: "guest", limits: { budgets } });
    const guest = { authorization: `Bearer ${key}` };
    const reservedNow = async () => {
      const told = (await (await fetch(`${url}/v1/key`, { headers: guest })).json()) as KeyPage;
      return told.data.limits[0]?.budgets?.[0]?.reserved ?? -1;
    };
    const messages = { model: "m", messages: [], max_tokens: 10 };
    for (const [more, expected] of [
      [{}, 10],
      [{ speed: "standard" }, 10],
      [{ speed: "fast" }, 60],
      [{ fallbacks: [] }, 10],
      [{ fallbacks: [{ model: "dear" }] }, 30],
      [
        {
          fallbacks: [
            { model: "dear", max_tokens: 20 },
            { model: "x", max_tokens: null },
          ],
        },
        60,
      ],
      [{ fallbacks: [{ model: "m", speed: "fast" }] }, 70],
      [{ fallbacks: [{ model: "m", speed: null }], speed: "fast" }, 70],
      [{ fallbacks: [{ model: "m" }], speed: "fast" }, 120],
    ] as const) {
      const answer = ask(url, "/v1/messages", { ...messages, ...more }, guest);
      await until(() => waiting.length > 0, "the provider");
      const reserved = await reservedNow();
      t.ok(Math.abs(reserved - expected * 1e-3) < 1e-9, `${JSON.stringify(more)}: ${reserved}`);
      waiting.shift()?.();
      await (await answer).text();
    }
    const many = { fallbacks: Array.from({ length: 101 }, () => ({ model: "m" })) };
    const tooMany = await ask(url, "/v1/messages", { ...messages, ...many }, guest);
    t.match(
      [tooMany.status, await tooMany.json()],
      [400, { error: { message: /fallbacks names more than 100 models/ } }],
    );
    for (const [more, word] of [
      [{ fallbacks: [{ model: "free" }] }, "the model free"],
      [{ fallbacks: [{ model: "nobodys" }] }, "the model nobodys"],
      [{ fallbacks: "default" }, "a model of the vendor's choice"],
      [{ fallbacks: [{ model: { toString: 1 } }] }, "a model of the vendor's choice"],
      [{ fallbacks: [{ model: "dear" }], speed: "fast" }, "the fast mode"],
    ] as const) {
      const refused = await ask(url, "/v1/messages", { ...messages, ...more }, guest);
      t.equal(refused.status, 403);
      t.match(await refused.json(), { error: { message: new RegExp(`the price of ${word} is unknown`) } });
      const rich = ask(url, "/v1/messages", { ...messages, ...more });
      await until(() => waiting.length > 0, "the provider");
      waiting.shift()?.();
      t.equal((await rich).status, 200, "a key without a budget");
    }
  },
);

t.test(
  "images that a form requests are reserved for, as many as vendors create by default where their number is not known yet",
  async (t) => {
    const { waiting, address } = await holding(t);
    const { url } = await startGateway(
      t,
      `providers: { p: { url: "${address}/v1", speaks: [openai-images] } }
models: { m: { targets: [p:x], price: { input: 0, output: 1000 }, output: 100 } }
limits: { default: { budget: $1000 } }\n`,
    );
    const reserved = async () => (await page(url)).limits[0]?.budgets?.[0]?.reserved ?? -1;
    const file = new Blob([Buffer.alloc(2 ** 20)]);
    const forms: [pictures: number, fields: [name: string, value: string | Blob][]][] = [
      [
        10,
        [
          ["n", `${"0".repeat(200)}2`],
          ["model", "m"],
        ],
      ],
      [1, [["model", "m"]]],
      [
        3,
        [
          ["model", "m"],
          ["n", "3"],
        ],
      ],
      [
        3,
        [
          ["n", "3"],
          ["model", "m"],
          ["image", file],
        ],
      ],
      [
        20,
        [
          ["n", "20"],
          ["image", file],
          ["model", "m"],
        ],
      ],
      [
        10,
        [
          ["model", "m"],
          ["image", file],
          ["n", "2"],
        ],
      ],
    ];
    for (const [pictures, fields] of forms) {
      const body = new FormData();
      for (const [name, value] of fields) body.append(name, value);
      const answer = fetch(`${url}/v1/images/edits`, {
        method: "POST",
        headers: { authorization: asking()["authorization"] as string },
        body,
      });
      await until(async () => (await reserved()) > 0, "the reservation");
      t.equal(await reserved(), pictures / 10, fields.map(([name]) => name).join(" "));
      await until(() => waiting.length > 0, "the provider");
      waiting.shift()?.();
      t.equal((await answer).status, 200);
      await (await answer).text();
      await until(async () => (await reserved()) === 0, "the settlement");
    }
  },
);

t.test("an exchange that ends while its worst case or its reservation is awaited reserves nothing", async (t) => {
  for (const awaited of ["worst case", "reservation"]) {
    const limiter = new MemoryLimiter(
      async () => new Map(),
      new Calendar(),
      () => {},
    );
    const { promise, resolve } = Promise.withResolvers<void>();
    const late: Limiter = Object.assign(Object.create(limiter), {
      reserve: (asked: Reservation) =>
        awaited === "reservation" ? promise.then(() => limiter.reserve(asked)) : limiter.reserve(asked),
    });
    const translations = {
      tokensIn: () => (awaited === "reservation" ? undefined : promise.then(() => ({ likely: 1, maximum: 1 }))),
    };
    const levels = new Levels({ all: { concurrency: 1 } });
    const keys = { watch: () => () => {} };
    const plugin = new LimitsPlugin(late, levels, translations as never, {} as never, {} as never, keys as never);
    t.teardown(() => plugin.close());
    const body = new Body([Buffer.from(JSON.stringify({ input: "a".repeat(5000) }))], "json");
    const exchange = {
      ...{ id: "one", body, protocol: { name: "p" }, operation: { generates: true }, targets: [], time: 0 },
      ...{ attempts: [], notices: [], replyHeaders: [], slots: new Map() },
    };
    const routed = plugin.route(exchange as never);
    plugin.done(exchange as never);
    resolve();
    await routed;
    t.equal(limiter.pending, 0, awaited);
  }
});

t.test("a request for more than numbers can represent is refused like any other", async (t) => {
  const { address } = await holding(t);
  const { url } = await gateway(t, address, "limits: { default: { tpm: 1000, budget: $1 } }\n");
  for (const more of ['"max_tokens":1e300,"n":1e300', '"n":1e400']) {
    const body = `{"model":"m","messages":[{"role":"user","content":"x"}],${more}}`;
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    t.equal(answer.status, 429, `${more}: ${await answer.text()}`);
  }
});
