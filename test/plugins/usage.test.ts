import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { afterHearing } from "../support/patience.ts";
import { until } from "../support/until.ts";
import { httpUpstream, rawUpstream } from "../support/upstream.ts";

const USAGE = {
  prompt_tokens: 1000,
  completion_tokens: 200,
  total_tokens: 1200,
  prompt_tokens_details: { cached_tokens: 600 },
};
const YAML = (origin: string) =>
  `providers: { up: { url: "${origin}/v1", speaks: [openai-chat, openai-embeddings] } }
models: { m: { price: { input: 3, cached: 0.3, output: 15 }, targets: [up:x] } }
`;

/** The ledger's row of one request that the provider answers so. */
async function row(t: Test, answer: string | Buffer, type = "application/json", status = 200) {
  const upstream = await httpUpstream((_, reply) => reply.writeHead(status, { "content-type": type }).end(answer));
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(t, YAML(upstream.origin.origin));
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: '{"model":"m"}',
  });
  t.equal(await response.text(), answer.toString());
  await gateway.stores.ledger.flush();
  return (await gateway.stores.ledger.recent(1))[0];
}

t.test("tokens, cost, times and target of an answer are one row", async (t) => {
  const entry = await row(t, JSON.stringify({ id: "c", choices: [], usage: USAGE }));
  t.match(entry, {
    key: "test",
    model: "m",
    target: "up:x",
    protocol: "openai-chat",
    status: 200,
    outcome: "completed",
    streaming: false,
    source: "reported",
    cost: Math.round((400 * 3 + 600 * 0.3 + 200 * 15) * 1000),
    attempts: [{ target: "up:x", status: 200 }],
    usage: { in: { total: 1000, cached: 600 }, out: { total: 200 } },
  });
  t.ok((entry?.duration ?? -1) >= 0 && (entry?.firstByte ?? -1) >= 0);
});

t.test("usage is found wherever it is in a large answer, and a nested one is not taken for it", async (t) => {
  const filler = "x".repeat(300_000);
  const places = [
    { usage: USAGE, choices: [{ text: filler }] },
    { a: filler, usage: USAGE, b: filler },
    { choices: [{ usage: { prompt_tokens: 7 } }, filler], usage: USAGE },
  ];
  for (const place of places)
    t.match(await row(t, JSON.stringify(place)), { usage: { in: { total: 1000 }, out: { total: 200 } } });
  const without = await row(t, JSON.stringify({ choices: [{ usage: USAGE }, filler] }));
  t.match(without, { source: "estimated", outcome: "completed" });
  const text = without?.usage?.out.total ?? 0;
  t.ok(text > filler.length / 4 - 100 && text < filler.length / 4 + 100, `${text} tokens, by its bytes`);
});

t.test("an output that a whole answer's usage does not count is estimated, as in a stream", async (t) => {
  const choices = [{ index: 0, message: { role: "assistant", content: "word ".repeat(500) }, finish_reason: "stop" }];
  for (const more of [{}, { completion_tokens: null }, { completion_tokens: -5 }, { completion_tokens: 1e30 }]) {
    const entry = await row(t, JSON.stringify({ id: "c", choices, usage: { prompt_tokens: 1000, ...more } }));
    t.match(entry, { outcome: "completed", usage: { in: { total: /\d/ } } }, JSON.stringify(more));
    t.not(entry?.source, "reported", JSON.stringify(more));
    const out = entry?.usage?.out.total ?? 0;
    t.ok(out > 400 && out < 800, `${JSON.stringify(more)}: ${out} tokens`);
  }
  const details = { completion_tokens_details: { reasoning_tokens: 5000 } };
  const thought = await row(t, JSON.stringify({ id: "c", choices, usage: { prompt_tokens: 1000, ...details } }));
  t.match(thought, { source: "partial", usage: { in: { total: 1000 }, out: { total: 5000, reasoning: 5000 } } });
});

t.test("usage without tokens is unknown, and costs the price per request where there is one", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.setHeader("content-type", "application/json").end('{"data":[],"usage":{"cost_in_usd_ticks":200000000}}'),
  );
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-images] } }
models: { tokens: { price: { input: 3 }, targets: [up:x] }, requests: { price: { request: 0.02 }, targets: [up:x] } }
`,
  );
  for (const [model, cost] of [
    ["tokens", undefined],
    ["requests", 20_000_000],
  ] as const) {
    const body = JSON.stringify({ model, prompt: "x" });
    await (await fetch(`${url}/v1/images/generations`, { method: "POST", headers: asking(), body })).text();
    await gateway.stores.ledger.flush();
    const [entry] = await gateway.stores.ledger.recent(1);
    t.equal(entry?.source, "none");
    t.equal(entry?.cost, cost);
  }
});

t.test("an answer that is not JSON is estimated, an error costs what it reports, and each has a row", async (t) => {
  t.match(await row(t, '{"usage":{"prompt_tokens":5', "text/plain"), { source: "estimated", status: 200 });
  const told = await row(t, '{"error":{"message":"no"},"usage":{"prompt_tokens":5}}', "application/json", 400);
  t.match(told, { source: "reported", status: 400, cost: 15_000, usage: { in: { total: 5 } } });
  const failed = await row(t, `{"error":{},"usage":${JSON.stringify(USAGE)}}`, "application/json", 500);
  t.match(failed, { source: "reported", status: 500, usage: { out: { total: 200 } } });
  for (const more of ["", ',"usage":{"prompt_tokens":0,"completion_tokens":0}', ',"usage":{}']) {
    const refused = await row(t, `{"error":{"message":"no"}${more}}`, "application/json", 400);
    t.match(refused, { source: "free", status: 400, cost: 0, usage: undefined, unread: undefined });
  }
});

t.test(
  "a request that its provider refused is free and settled; one that it failed or timed out on is not",
  async (t) => {
    const statuses = [400, 404, 422, 429, 408, 499, 500, 529];
    const told = [...statuses];
    const upstream = await httpUpstream((_, reply) => reply.writeHead(told.shift() ?? 0).end('{"error":{}}'));
    t.teardown(() => upstream.close());
    const yaml = `${YAML(upstream.origin.origin)}retry: { attempts: 0 }\n`;
    const { url, gateway } = await startGateway(t, yaml);
    const { ledger } = gateway.stores;
    for (const status of statuses) {
      const asked = { method: "POST", headers: asking(), body: '{"model":"m"}' };
      t.equal((await fetch(`${url}/v1/chat/completions`, asked)).status, status);
    }
    await ledger.flush();
    const rows = await ledger.recent(statuses.length);
    const free = rows.filter(({ source, cost }) => source === "free" && cost === 0).map(({ status }) => status);
    t.same(free.sort(), [400, 404, 422, 429]);
    t.match(await ledger.sums({ by: [] }), [{ requests: 8, failed: 8, unsettled: 4, cost: 0 }]);
  },
);

t.test("an attempt that one provider failed is not free because another one refused it", async (t) => {
  const statuses = [500, 400];
  const upstream = await httpUpstream((_, reply) => reply.writeHead(statuses.shift() ?? 0).end('{"error":{}}'));
  t.teardown(() => upstream.close());
  const yaml = YAML(upstream.origin.origin).replace("[up:x]", "[up:x, up:y]");
  const { url, gateway } = await startGateway(t, yaml);
  const asked = { method: "POST", headers: asking(), body: '{"model":"m"}' };
  t.equal((await fetch(`${url}/v1/chat/completions`, asked)).status, 400);
  await gateway.stores.ledger.flush();
  t.match(await gateway.stores.ledger.recent(1), [{ source: "none", attempts: [{ status: 500 }, { status: 400 }] }]);
});

t.test(
  "a request refused before any provider was called is free and settled; it has a row without a target",
  async (t) => {
    const { url, gateway } = await startGateway(t, YAML("http://127.0.0.1:9"));
    const { ledger } = gateway.stores;
    const ask = async (model: string, headers = asking()) => {
      await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: `{"model":"${model}"}` });
      await ledger.flush();
      return (await ledger.recent(1))[0];
    };
    const free = { source: "free", cost: 0 };
    t.match(await ask("none"), {
      ...free,
      outcome: "rejected",
      status: 404,
      target: "",
      model: "",
      attempts: { length: 0 },
    });
    t.match(await ask("m", { "content-type": "application/json" }), { ...free, status: 401, key: "" });
    t.match(await ask("m"), { ...free, status: 502, target: "up:x" }, "nor did an unreachable one receive it");
    t.match(await ledger.sums({ by: [] }), [{ requests: 3, unsettled: 0, cost: 0 }]);
  },
);

t.test(
  "of requests without a right key a hundred a minute have a row, so that nobody fills the disk with them",
  async (t) => {
    const { url, gateway, log } = await startGateway(t, YAML("http://127.0.0.1:9"));
    const { ledger } = gateway.stores;
    const ask = async (headers: Record<string, string>) =>
      (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: '{"model":"m"}' })).status;
    const seen = new Set<number>();
    for (let n = 0; n < 130; n++) seen.add(await ask(n % 2 === 0 ? {} : { authorization: `Bearer gw_wrong_${n}` }));
    t.same(seen, new Set([401, 429]));
    await ledger.flush();
    t.match(await ledger.sums({ by: [] }), [{ requests: 100 }]);
    t.equal(log.lines.filter(({ message }) => message === "exchange").length, 130, "each has its line in the log");
    t.equal(await ask(asking()), 502);
    await ledger.flush();
    t.match(await ledger.recent(1), [{ key: "test", status: 502 }], "requests with a key have theirs");
  },
);

t.test("the limit that refused a request is in its row", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models:
  often: { targets: [demo:echo], price: { input: 1, output: 1 }, output: 10 }
  much: { targets: [demo:echo], price: { input: 1, output: 1 }, output: 10 }
  dear: { targets: [demo:echo], price: { input: 1000, output: 1000 }, output: 10 }
limits: { models: { often: { rpm: 1 }, much: { tpm: 1 }, dear: { budget: $0.001 } } }
`;
  const { url, gateway } = await startGateway(t, yaml);
  const refused = async (model: string) => {
    const body = JSON.stringify({ model, max_tokens: 10, messages: [{ role: "user", content: "hi ".repeat(50) }] });
    const asked = { method: "POST", headers: asking(), body };
    let answer = await fetch(`${url}/v1/chat/completions`, asked);
    for (let n = 0; n < 3 && answer.status === 200; n++) {
      await answer.text();
      answer = await fetch(`${url}/v1/chat/completions`, asked);
    }
    const { error } = (await answer.json()) as { error: { message: string } };
    await gateway.stores.ledger.flush();
    const [row] = await gateway.stores.ledger.recent(1);
    t.match(row, { outcome: "rejected", error: { message: error.message } }, model);
    return row?.error;
  };
  t.match(await refused("often"), { code: "rate_limit_exceeded", message: /requests? / });
  t.match(await refused("much"), { code: "rate_limit_exceeded", message: /tokens/ });
  t.match(await refused("dear"), { code: "insufficient_quota", message: /may spend/ });
});

t.test("a failed attempt that another one replaced has its reason, without what the provider was sent", async (t) => {
  const secret = "sk-upstream-0123456789abcdefghij";
  const answers = [
    `event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy, ${secret}"}}\n\n`,
    'event: message_start\ndata: {"type":"message_start","message":{}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
  ];
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(answers.shift()),
  );
  t.teardown(() => upstream.close());
  const { origin } = upstream.origin;
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${origin}/v1", protocol: anthropic-messages, credential: ${secret} } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const body = '{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}';
  await (await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body })).text();
  await gateway.stores.ledger.flush();
  const [row] = await gateway.stores.ledger.recent(1);
  t.match(row?.attempts, [{ error: /^upstream_/, message: /busy, \*\*\*/ }, { status: 200 }]);
  t.notOk(row?.error);
  t.notOk(row?.attempts[1]?.message);
});

t.test("an interrupted stream is its attempt's fault", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end('data: {"choices":[]}\n\n'),
  );
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(t, YAML(upstream.origin.origin));
  const asked = { method: "POST", headers: asking(), body: '{"model":"m","stream":true}' };
  await (await fetch(`${url}/v1/chat/completions`, asked)).text().catch(() => {});
  await gateway.stores.ledger.flush();
  const fault = { code: "upstream_truncated", message: /broke off/ };
  t.match(await gateway.stores.ledger.recent(1), [
    { status: 200, error: fault, attempts: [{ status: 200, error: fault.code, message: fault.message }] },
  ]);
});

t.test(
  "a whole answer that breaks off costs an estimate, like a stream, and a failed attempt before it nothing",
  async (t) => {
    let failures = 0;
    const upstream = await rawUpstream((socket) => {
      if (failures-- > 0) socket.end("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n");
      else
        socket.write(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{"id":"c","choices":[{"message":{"content`,
          () => afterHearing(20, () => socket.resetAndDestroy()),
        );
    });
    t.teardown(() => upstream.close());
    const outcome = async (path: string, more = "") => {
      const { url, gateway } = await startGateway(t, YAML(upstream.origin.origin) + more);
      const body = JSON.stringify({
        model: "m",
        max_tokens: 9,
        messages: [{ role: "user", content: "word ".repeat(100) }],
      });
      const { status } = await fetch(url + path, { method: "POST", headers: asking(), body });
      await gateway.stores.ledger.flush();
      return { status, row: (await gateway.stores.ledger.recent(1))[0] };
    };
    for (const path of ["/v1/chat/completions", "/v1/messages"]) {
      const { status, row: broken } = await outcome(path);
      t.equal(status, 502, path);
      t.match(broken, { source: "estimated", outcome: "upstream_error", usage: { out: { total: 0 } } }, path);
      t.ok((broken?.usage?.in.total ?? 0) > 90, path);
      t.equal(broken?.cost, (broken?.usage?.in.total ?? 0) * 3000, path);
      t.match(
        (await outcome(path, "plugins: { usage: { cut: absorb } }\n")).row,
        { source: "absorbed", cost: 0 },
        path,
      );
    }
    failures = 9;
    t.match((await outcome("/v1/chat/completions", "retry: { attempts: 1 }\n")).row, {
      source: "none",
      cost: undefined,
    });
  },
);

t.test("what a translation dropped is in the row, which its own key can read", async (t) => {
  const answer = { type: "message", role: "assistant", content: [], stop_reason: "end_turn", usage: {} };
  const upstream = await httpUpstream((_, reply) =>
    reply.setHeader("content-type", "application/json").end(JSON.stringify({ id: "m", model: "x", ...answer })),
  );
  t.teardown(() => upstream.close());
  const { origin } = upstream.origin;
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${origin}/v1", protocol: anthropic-messages } }\nmodels: { m: { targets: [up:x], output: 10 } }\n`,
  );
  const body = '{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":5}';
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  await response.text();
  const id = response.headers.get("x-request-id");
  const dropped = response.headers.get("gateway-dropped");
  t.ok(dropped);
  const row = await (await fetch(`${url}/v1/requests/${id}`, { headers: asking() })).json();
  t.match(row, { status: 200, outcome: "completed", dropped: dropped?.split(", ") });
});

const ANSWERING = `
import { injectable } from "tsyringe";
import { type RouteExchange } from "model-gateway";
@injectable()
export default class Answering {
  route(exchange: RouteExchange) { exchange.answer = { body: '{"usage":{"prompt_tokens":9}}' }; }
}`;

/** What comes of an answer until it ends or its connection is cut, as it is behind an error. */
async function textOf({ body }: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  try {
    for await (const piece of body ?? []) pieces.push(piece);
  } catch {}
  return Buffer.concat(pieces).toString();
}

t.test(
  "a translated answer that its provider interrupts after a text is an error, and costs what was reported",
  async (t) => {
    const usageMetadata = { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 };
    const content = { role: "model", parts: [{ text: "Let me call the tool." }] };
    const last = { candidates: [{ content, finishReason: "MALFORMED_FUNCTION_CALL", index: 0 }], usageMetadata };
    const upstream = await httpUpstream(({ url }, reply) =>
      url.includes(":stream")
        ? reply.writeHead(200, { "content-type": "text/event-stream" }).end(`data: ${JSON.stringify(last)}\r\n\r\n`)
        : reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(last)),
    );
    t.teardown(() => upstream.close());
    const up = `{ url: "${upstream.origin.origin}/v1beta", speaks: [gemini] }`;
    const { url, gateway } = await startGateway(
      t,
      `providers: { up: ${up} }\nmodels: { m: { price: { input: 1, output: 10 }, targets: [up:x] } }\nretry: { attempts: 0 }\n`,
    );
    const messages = [{ role: "user", content: "Hi" }];
    for (const [path, said, error] of [
      ["chat/completions", /let me call/i, /"error":\{"message":"The model failed in the middle/],
      ["responses", /let me call/i, /"type":"response.failed"|"type":"error"/],
      ["messages", /let me call/i, /event: error/],
    ] as const)
      for (const stream of [false, true]) {
        const asked = path === "responses" ? { input: "Hi" } : { messages, max_tokens: 99 };
        const body = JSON.stringify({ model: "m", stream, ...asked });
        const response = await fetch(`${url}/v1/${path}`, { method: "POST", headers: asking(), body });
        const text = await textOf(response);
        t.equal(response.status, stream ? 200 : 502, path);
        t.match(text, stream ? error : /"message":"The model failed in the middle/, path);
        if (stream) t.match(text, said);
        t.notMatch(text, /"finish_reason":"stop"|response\.completed|end_turn/, path);
        await gateway.stores.ledger.flush();
        const [row] = await gateway.stores.ledger.recent(1);
        t.match(row, { usage: { in: { total: 11 }, out: { total: 7 } }, source: "partial" }, path);
        t.equal(row?.cost, 81_000, path);
      }
  },
);

t.test("an answer of a plugin is in the ledger under its name, without cost", async (t) => {
  const yaml = `${YAML("http://127.0.0.1:9")}plugins: { hello: { from: ./hello.ts } }
chains: { llm: [auth, models, hello, rewrite, usage], read: [auth] }\n`;
  const { url, gateway, log } = await startGateway(t, yaml, { "hello.ts": ANSWERING });
  const asked = { method: "POST", headers: asking(), body: '{"model":"m"}' };
  t.equal(await (await fetch(`${url}/v1/chat/completions`, asked)).text(), '{"usage":{"prompt_tokens":9}}');
  await gateway.stores.ledger.flush();
  const row = (await gateway.stores.ledger.recent(1))[0];
  const told = { target: "answered by hello", outcome: "completed", source: "free", cost: 0, model: "m", status: 200 };
  t.match(row, told);
  t.notOk(row?.usage);
  t.match(log.lines.find(({ message }) => message === "exchange")?.fields, { answered_by: "hello", attempts: 0 });
});

const LOGPROBS = {
  content: Array.from({ length: 6000 }, (_, i) => ({
    token: `t${i}`,
    logprob: -1,
    bytes: [1],
    top_logprobs: [
      { token: "a", logprob: -1, bytes: null },
      { token: "b", logprob: -2, bytes: null },
    ],
  })),
};

t.test("an answer with any number of member names yields its usage", async (t) => {
  const entry = await row(
    t,
    JSON.stringify({ choices: [{ logprobs: LOGPROBS, message: { content: "x" } }], usage: USAGE }),
  );
  t.match(entry, { source: "reported", usage: { in: { total: 1000 }, out: { total: 200 } } });
});

/** A gateway before a provider that answers as told. */
async function behind(t: Test, speaks: string, answer: Parameters<typeof httpUpstream>[0]) {
  const upstream = await httpUpstream(answer);
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${speaks}] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }\n`;
  const running = await startGateway(t, yaml);
  const { ledger } = running.gateway.stores;
  const rows = async (count: number) => {
    await until(() => running.log.lines.filter(({ message }) => message === "exchange").length >= count, "the end");
    await ledger.flush();
    return (await ledger.recent(count)).reverse();
  };
  const ask = (path: string, body?: object) =>
    fetch(running.url + path, {
      method: body ? "POST" : "GET",
      headers: asking(),
      ...(body ? { body: JSON.stringify({ model: "m", ...body }) } : {}),
    });
  return { running, rows, ask, ledger };
}

t.test("usage that cannot be read is logged and counted, and the answer passes", async (t) => {
  const bodies = ['{"usage":{"prompt_tokens":1', `${" ".repeat(5000)}{"a":[1,}`];
  let at = 0;
  const { running, ask, rows } = await behind(t, "openai-chat", (_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(bodies[at++]),
  );
  for (const body of bodies) t.equal(await (await ask("/v1/chat/completions", { messages: [] })).text(), body);
  t.match(await rows(2), [{ source: "estimated" }, { source: "estimated" }]);
  const told = running.log.lines.filter(({ message }) => message === "the usage of an answer could not be read");
  t.equal(told.length, 2);
  t.equal(Number(told[1]?.fields["count"]) - Number(told[0]?.fields["count"]), 1);
  t.notMatch(JSON.stringify(told), /prompt_tokens/, "without its content");
});

t.test("missing or excessive usage is estimated, and so is that of an answer whose client disconnected", async (t) => {
  const text = "word ".repeat(40_000);
  const answer = (usage: unknown) => JSON.stringify({ id: "c", choices: [{ message: { content: text } }], usage });
  const usages = [null, {}, [], "x", { prompt_tokens: -1, completion_tokens: "9" }, { prompt_tokens: 9e15 }];
  let at = 0;
  const { ask, rows } = await behind(t, "openai-chat", (_, reply) => {
    reply.writeHead(200, { "content-type": "application/json" });
    if (at < usages.length) reply.end(answer(usages[at++]));
    else for (let i = 0; i < 20; i++) reply.write(i === 0 ? `{"choices":[{"message":{"content":"${text}` : text);
  });
  for (const usage of usages) {
    await (await ask("/v1/chat/completions", { messages: [] })).text();
    t.match((await rows(at)).at(-1), { source: "estimated", outcome: "completed" }, JSON.stringify(usage));
  }
  const left = await ask("/v1/chat/completions", { messages: [] });
  const reader = left.body?.getReader();
  for (let seen = 0; seen < text.length; ) seen += (await reader?.read())?.value?.length ?? text.length;
  await reader?.cancel();
  for (const { usage, outcome, source } of await rows(usages.length + 1)) {
    const tokens = usage?.out.total ?? 0;
    const near = outcome === "aborted" ? tokens > 40_000 : tokens > 49_000 && tokens < 51_000;
    t.ok(near && source === "estimated", `${outcome}: ${tokens} tokens for ${text.length} letters`);
  }
});

t.test(
  "images that came before a client disconnected are charged: complete, partial, and drawn by a tool",
  async (t) => {
    const data = "iVBORw0KGgo".repeat(100_000);
    const partial = `event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image","b64_json":"${data}","partial_image_index":0}\n\n`;
    const item = `event: response.output_item.done\ndata: {"type":"response.output_item.done","output_index":0,"item":{"type":"image_generation_call","id":"ig_1","status":"completed","result":"${data}"}}\n\n`;
    for (const [protocol, path, more, head, body, tokens] of [
      [
        "openai-images",
        "/v1/images/generations",
        { prompt: "a cat" },
        "application/json",
        `{"created":1,"data":[{"b64_json":"${data}"`,
        7024,
      ],
      [
        "openai-images",
        "/v1/images/generations",
        { prompt: "a cat", stream: true, quality: "low", size: "1024x1024", partial_images: 2 },
        "text/event-stream",
        partial,
        472,
      ],
      ["openai-responses", "/v1/responses", { stream: true, input: "a cat" }, "text/event-stream", item, 4160],
    ] as const) {
      const { ask, rows } = await behind(t, protocol, (_, reply) => {
        reply.writeHead(200, { "content-type": head });
        reply.write(body);
      });
      const left = await ask(path, more);
      const reader = left.body?.getReader();
      for (let seen = 0; seen < data.length / 2; ) seen += (await reader?.read())?.value?.length ?? data.length;
      await reader?.cancel();
      const [row] = await rows(1);
      const { out } = row?.usage?.drawn ?? row?.usage ?? {};
      t.match(out, { total: tokens, image: tokens }, `${path} ${JSON.stringify(more)}`);
      t.equal(row?.source, "estimated");
    }
  },
);

const PIECES = Array.from({ length: 200 }, (_, i) => ` word${i % 10}`);
const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "v", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;

t.test("audio and images that came before a client disconnected are charged as such", async (t) => {
  const data = "A".repeat(64_000);
  const url = `data:image/png;base64,${data}`;
  const { ask, rows } = await behind(t, "openai-chat", (_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.write(chunk({ audio: { id: "a", data } }) + chunk({ images: [{ type: "image_url", image_url: { url } }] }));
  });
  const reader = (await ask("/v1/chat/completions", { messages: [], stream: true })).body?.getReader();
  for (let seen = 0; seen < 2 * data.length; ) seen += (await reader?.read())?.value?.length ?? 2 * data.length;
  await reader?.cancel();
  const [row] = await rows(1);
  t.match(row, { outcome: "aborted", source: "estimated", usage: { out: { total: 1140, audio: 20, image: 1120 } } });
});

t.test("a client that disconnects before the usage is charged an estimate of what came until then", async (t) => {
  const { ask, rows } = await behind(t, "openai-chat", (_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of PIECES) reply.write(chunk({ content: piece }));
  });
  const question = "Tell me everything that you know about it. ".repeat(40);
  const response = await ask("/v1/chat/completions", { stream: true, messages: [{ role: "user", content: question }] });
  let seen = "";
  for await (const piece of response.body ?? []) {
    seen += Buffer.from(piece).toString();
    if (!seen.includes(PIECES.at(-1) as string) || seen.split("data:").length <= PIECES.length) continue;
    break;
  }
  const [entry] = await rows(1);
  t.match(entry, { source: "estimated", outcome: "aborted" });
  const { in: input, out } = entry?.usage ?? { in: {}, out: {} };
  const bytes = PIECES.join("").length;
  t.ok((out.total ?? 0) > bytes / 6 && (out.total ?? 0) < bytes / 2, `${out.total} tokens out of ${bytes} bytes`);
  t.ok((input.total ?? 0) > question.length / 6 && (input.total ?? 0) < question.length / 2, `${input.total} in`);
  t.ok((entry?.cost ?? 0) > 0);
});

t.test("an estimate of an interrupted response is at most what the request allows", async (t) => {
  const text = "word and number ".repeat(40);
  const { ask, rows } = await behind(t, "openai-chat", ({ body }, reply) => {
    if (!body.includes('"stream":true')) {
      reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ id: "c", choices: [], text }));
      return;
    }
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of [text, text]) reply.write(chunk({ content: piece }));
    setTimeout(() => reply.destroy(), 100);
  });
  const limits = [{ max_tokens: 30 }, { max_tokens: 30, n: 2 }, { max_tokens: 30, stream: true }, { stream: true }];
  for (const limit of limits) {
    const response = await ask("/v1/chat/completions", { ...limit, messages: [{ role: "user", content: "Go" }] });
    await response.text().catch(() => {});
  }
  const estimates = (await rows(limits.length)).map((entry) => entry?.usage?.out.total ?? 0);
  t.same(estimates.slice(0, 3), [30, 60, 30]);
  t.ok((estimates[3] ?? 0) > 200, "without a limit, all that came");
});

t.test("a client that disconnects before there is an answer is charged an estimate of its input", async (t) => {
  let asked = Promise.withResolvers<void>();
  const { running, rows } = await behind(t, "openai-chat, openai-embeddings", () => asked.resolve());
  const question = "Tell me everything that you know about it. ".repeat(40);
  const requests = [
    ["/v1/chat/completions", { messages: [{ role: "user", content: question }] }],
    ["/v1/chat/completions", { stream: true, messages: [{ role: "user", content: question }] }],
    ["/v1/embeddings", { input: question }],
  ] as const;
  for (const [i, [path, body]] of requests.entries()) {
    const leaving = new AbortController();
    asked = Promise.withResolvers();
    const sent = JSON.stringify({ model: "m", ...body });
    const answer = fetch(running.url + path, {
      method: "POST",
      headers: asking(),
      body: sent,
      signal: leaving.signal,
    });
    await asked.promise;
    leaving.abort();
    await answer.then((response) => response.text()).catch(() => {});
    const entry = (await rows(i + 1)).at(-1);
    t.match(entry, { outcome: "aborted", source: "estimated" }, path);
    const { in: input, out } = entry?.usage ?? { in: {}, out: {} };
    // 360 tokens as a usual tokenizer has them.
    t.ok((input.total ?? 0) >= 350 && (input.total ?? 0) <= 400, `${input.total} in`);
    t.equal(out.total, 0);
    t.equal(entry?.cost, (input.total ?? 0) * 3000);
  }
});

t.test("the provider's reported usage stays, and what came after is added; error texts are no output", async (t) => {
  const start = {
    type: "message_start",
    message: {
      id: "m",
      type: "message",
      role: "assistant",
      content: [],
      usage: { input_tokens: 77, output_tokens: 1 },
    },
  };
  const delta = (text: string) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  const error = { type: "error", error: { type: "overloaded_error", message: "x".repeat(4000) } };
  const event = (json: { type: string }) => `event: ${json.type}\ndata: ${JSON.stringify(json)}\n\n`;
  const { ask, rows } = await behind(t, "anthropic-messages", (_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.end([start, ...PIECES.map(delta), error].map(event).join(""));
  });
  await (await ask("/v1/messages", { stream: true, max_tokens: 999, messages: [] })).text().catch(() => {});
  const [entry] = await rows(1);
  t.match(entry, { source: "partial", outcome: "upstream_error", usage: { in: { total: 77 } } });
  const total = entry?.usage?.out.total ?? 0;
  t.ok(total > 200 && total < 600, `${total} tokens`);
});

t.test("a background answer is counted once, however often it is fetched, after a restart too", async (t) => {
  const usage = { input_tokens: 50, output_tokens: 20, total_tokens: 70 };
  const made = (status: string) => ({
    id: "resp_1",
    object: "response",
    background: true,
    status,
    output: [],
    usage: status === "completed" ? usage : null,
  });
  let status = "queued";
  const upstream = await httpUpstream(({ url }, reply) => {
    const streams = url.includes("stream=true");
    reply.writeHead(200, { "content-type": streams ? "text/event-stream" : "application/json" });
    const event = { type: "response.completed", sequence_number: 1, response: made(status) };
    reply.end(streams ? `event: response.completed\ndata: ${JSON.stringify(event)}\n\n` : JSON.stringify(made(status)));
  });
  t.teardown(() => upstream.close());
  const folder = t.testdir();
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
store: { ledger: "sqlite:${folder}/kept.db" }\n`;
  const cost = (50 * 3 + 20 * 15) * 1000;
  const fetched = async (url: string, query = "") =>
    (await fetch(`${url}/v1/responses/resp_1${query}`, { headers: asking() })).text();
  const first = await startGateway(t, yaml);
  const created = { method: "POST", headers: asking(), body: '{"model":"m","input":"x","background":true}' };
  await (await fetch(`${first.url}/v1/responses`, created)).text();
  for (let i = 0; i < 3; i++) await fetched(first.url);
  t.match(
    await first.gateway.stores.ledger.sums({ by: [] }),
    [{ requests: 4, unsettled: 1, tokensIn: 0, cost: 0 }],
    "nothing reported yet; polls are free",
  );
  status = "completed";
  await Promise.all(Array.from({ length: 5 }, (_, i) => fetched(first.url, i % 2 ? "?stream=true" : "")));
  const counted = [{ requests: 9, tokensIn: 50, tokensOut: 20, cost }];
  t.match(await first.gateway.stores.ledger.sums({ by: [] }), counted);
  t.match(await first.gateway.stores.ledger.sums({ by: ["key"] }), [{ group: ["test"], cost }]);
  await first.gateway.stop({ drain: 0 });
  const second = await startGateway(t, yaml);
  for (let i = 0; i < 3; i++) t.match(await fetched(second.url), "completed");
  t.match(await second.gateway.stores.ledger.sums({ by: [] }), [{ requests: 12, tokensIn: 50, tokensOut: 20, cost }]);
});

t.test("usage of an unfinished background answer is counted, unless it is reported again", async (t) => {
  for (const size of [0, 9000]) {
    let told = {};
    const { ask, rows } = await behind(t, "openai-responses", (_, reply) => {
      const usage = { input_tokens: 50, output_tokens: 0, total_tokens: 50 };
      const body = { id: "resp_3", object: "response", output: [], instructions: "x".repeat(size), usage, ...told };
      reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
    for (told of [
      { status: "queued" },
      { status: "in_progress", background: false },
      { status: "in_progress", background: true },
      { status: "completed" },
    ])
      await (await ask("/v1/responses", { input: "x" })).text();
    t.same(
      (await rows(4)).map(({ source }) => source),
      ["partial", "partial", "reported", "reported"],
    );
  }
});

t.test("an answer that was not made in the background was counted when it was made", async (t) => {
  const body = JSON.stringify({
    id: "resp_2",
    object: "response",
    background: false,
    status: "completed",
    output: [],
    usage: { input_tokens: 5, output_tokens: 2 },
  });
  const { ask, rows, ledger } = await behind(t, "openai-responses", (_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(body),
  );
  await (await ask("/v1/responses", { input: "x" })).text();
  await (await ask("/v1/responses/resp_2")).text();
  t.match(await rows(2), [{ source: "reported" }, { source: "free", cost: 0, operation: "retrieve" }]);
  t.match(await ledger.sums({ by: [] }), [{ tokensIn: 5, tokensOut: 2 }]);
});

/** What the plugin below sees. */
const watched = globalThis as { exchange?: { aborted: boolean } };
const WATCHING = `
import { injectable } from "tsyringe";
import { type RouteExchange } from "model-gateway";
@injectable()
export default class Watching {
  route(exchange: RouteExchange) { (globalThis as { exchange?: RouteExchange }).exchange = exchange; }
}`;

/** A stream of which the client takes the first half, by policy; then the provider goes on, or not. */
async function leftHalfway(t: Test, cut: string, rest: "goes on" | "stops") {
  const told = `data: ${JSON.stringify({ id: "c1", choices: [], usage: { prompt_tokens: 40, completion_tokens: 555 } })}\n\n`;
  const left = Promise.withResolvers<void>();
  let closed = false;
  const upstream = await httpUpstream(async (_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of PIECES) reply.write(chunk({ content: piece }));
    reply.on("close", () => {
      closed = !reply.writableEnded;
    });
    await left.promise;
    if (rest === "stops") return void reply.destroy();
    for (const piece of PIECES) reply.write(chunk({ content: piece }));
    reply.end(`${chunk({}, { finish_reason: "stop" })}${told}data: [DONE]\n\n`);
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
plugins: { usage: { cut: ${cut} }, watch: { from: ./watch.ts } }
chains: { llm: [sse, auth, scrub, models, watch, rewrite, usage] }\n`;
  const { url, gateway, log } = await startGateway(t, yaml, { "watch.ts": WATCHING });
  const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "x" }] });
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  let seen = "";
  for await (const piece of response.body ?? []) {
    seen += Buffer.from(piece).toString();
    if (seen.split("data:").length > PIECES.length) break;
  }
  const over = () => log.lines.some(({ message }) => message === "exchange");
  // With `drain` the exchange ends with its provider's answer; otherwise the provider is left at once.
  if (cut === "drain") await until(() => watched.exchange?.aborted === true, "the client has left");
  else await until(() => over() && closed, "the provider is left");
  const closedBefore = closed;
  left.resolve();
  await until(over, "the end");
  await gateway.stores.ledger.flush();
  const [entry] = await gateway.stores.ledger.recent(1);
  return { entry, closedBefore };
}

t.test("with `drain` a stream is read on to the provider's own usage once its client has disconnected", async (t) => {
  const { entry, closedBefore } = await leftHalfway(t, "drain", "goes on");
  t.notOk(closedBefore);
  const cost = (40 * 3 + 555 * 15) * 1000;
  t.match(entry, { outcome: "aborted", source: "reported", cost, usage: { in: { total: 40 }, out: { total: 555 } } });
});

/** A stream whose client leaves once it has its last frame but that with usage, which comes later, so or not at all. */
async function leftAtEnd(t: Test, cut: string, after: number, usage = true) {
  const told = `data: ${JSON.stringify({ id: "c1", choices: [], usage: { prompt_tokens: 40, completion_tokens: 555 } })}\n\n`;
  let left = 0;
  let closed = 0;
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of PIECES) reply.write(chunk({ content: piece }));
    reply.write(chunk({}, { finish_reason: "stop" }));
    reply.on("close", () => {
      closed = performance.now();
    });
    void until(() => left > 0, "the client has left").then(() =>
      setTimeout(() => {
        if (usage) reply.end(`${told}data: [DONE]\n\n`);
      }, after),
    );
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
plugins: { usage: { cut: ${cut} } }\n`;
  const { url, gateway, log } = await startGateway(t, yaml);
  const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "x" }] });
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
  let seen = "";
  for await (const piece of response.body ?? []) {
    seen += Buffer.from(piece).toString();
    if (seen.includes('"stop"')) break;
  }
  left = performance.now();
  await until(() => closed > 0 && log.lines.some(({ message }) => message === "exchange"), "the end");
  await gateway.stores.ledger.flush();
  const [entry] = await gateway.stores.ledger.recent(1);
  return { entry, took: closed - left };
}

t.test("a client that disconnects at the end, just before the usage, is charged the reported usage", async (t) => {
  for (const cut of ["estimate", "observed"])
    t.match((await leftAtEnd(t, cut, 30)).entry, {
      outcome: "aborted",
      source: "reported",
      usage: { in: { total: 40 }, out: { total: 555 } },
    });
  t.match((await leftAtEnd(t, "absorb", 30)).entry, { source: "absorbed", cost: 0 });
});

/** Streams up to their terminal event. */
const ENDED = {
  "openai-chat": {
    path: "/v1/chat/completions",
    frames: [
      chunk({ content: "a" }),
      chunk({}, { finish_reason: "stop" }),
      `data: ${JSON.stringify({ id: "c1", choices: [], usage: { prompt_tokens: 40, completion_tokens: 555 } })}\n\n`,
      "data: [DONE]\n\n",
    ],
  },
  "openai-responses": {
    path: "/v1/responses",
    frames: [
      'event: response.created\ndata: {"type":"response.created","response":{"id":"r1","status":"in_progress","output":[]}}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r1","status":"completed","output":[],"usage":{"input_tokens":40,"output_tokens":555}}}\n\n',
    ],
  },
  "anthropic-messages": {
    path: "/v1/messages",
    frames: [
      'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","usage":{"input_tokens":40,"output_tokens":1}}}\n\n',
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":555}}\n\n',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
  },
};

/** A stream whose provider never ends it behind its frames, and whose client leaves with the last of them. */
async function leftWithLast(t: Test, speaks: string, path: string, frames: readonly string[], cut: string) {
  let closed = false;
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (const frame of frames) reply.write(frame);
    reply.on("close", () => {
      closed = true;
    });
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${speaks}] } }
models: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }
plugins: { usage: { cut: ${cut} } }\n`;
  const { url, gateway, log } = await startGateway(t, yaml);
  const messages = [{ role: "user", content: "x" }];
  const body = JSON.stringify({
    model: "m",
    stream: true,
    max_tokens: 9,
    messages,
    input: "x",
    stream_options: { include_usage: true },
  });
  const response = await fetch(`${url}${path}`, { method: "POST", headers: asking(), body });
  let seen = "";
  for await (const piece of response.body ?? []) {
    seen += Buffer.from(piece).toString();
    if (seen.endsWith(frames.at(-1) ?? "")) break;
  }
  await until(() => closed && log.lines.some(({ message }) => message === "exchange"), "the end");
  await gateway.stores.ledger.flush();
  const [entry] = await gateway.stores.ledger.recent(1);
  return entry;
}

t.test("a client that disconnects with the terminal event has the whole answer, whatever `cut` says", async (t) => {
  const cost = (40 * 3 + 555 * 15) * 1000;
  for (const [speaks, { path, frames }] of Object.entries(ENDED))
    for (const cut of ["estimate", "drain", "absorb"])
      t.match(
        await leftWithLast(t, speaks, path, frames, cut),
        { outcome: "completed", status: 200, source: "reported", cost, error: undefined },
        `${speaks} ${cut}`,
      );
});

t.test("a client that disconnects just before the terminal event has left", async (t) => {
  for (const [speaks, { path, frames }] of Object.entries(ENDED))
    t.match(await leftWithLast(t, speaks, path, frames.slice(0, -1), "estimate"), { outcome: "aborted" }, speaks);
});

t.test("usage that does not come at once is not waited for", async (t) => {
  const { entry, took } = await leftAtEnd(t, "estimate", 1, false);
  t.match(entry, { outcome: "aborted", source: "estimated" });
  t.ok(took > 200 && took < 2000, String(took));
});

t.test("with `drain` an answer interrupted while it is read on is estimated", async (t) => {
  const { entry } = await leftHalfway(t, "drain", "stops");
  t.match(entry, { outcome: "aborted", source: "estimated" });
  t.ok((entry?.cost ?? 0) > 0);
});

t.test(
  "with `observed` the reported usage counts, with `absorb` nothing; both are labelled and never null",
  async (t) => {
    t.match((await leftHalfway(t, "observed", "goes on")).entry, { outcome: "aborted", source: "observed", cost: 0 });
    t.match((await leftHalfway(t, "absorb", "goes on")).entry, { outcome: "aborted", source: "absorbed", cost: 0 });
    t.match((await leftHalfway(t, "estimate", "goes on")).entry, { outcome: "aborted", source: "estimated" });
  },
);

t.test("images have the vendor's price per image; those without a known price are unpriced, never 0", async (t) => {
  const answers = new Map([
    ["generations", JSON.stringify({ data: [{ url: "a" }, { url: "b" }], usage: { cost_in_usd_ticks: 400_000_000 } })],
    ["edits", JSON.stringify({ data: [{ url: "c" }], usage: { cost_in_usd_ticks: 700_000_000 } })],
  ]);
  const upstream = await httpUpstream((request, reply) => {
    const answer = answers.get(request.url.split("/").at(-1) ?? "");
    reply.writeHead(200, { "content-type": "application/json" }).end(answer);
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", protocol: openai-images, vendor: x-ai } }
models:
  listed: { targets: [up:grok-imagine-image] }
  own: { price: { image: { "": 0.04, "hd 1024x1792": 0.12 }, image_edit: 0.07 }, targets: [up:x] }
  sizes: { price: { image: 0.01, image_edit: { "": 0.05, "hd 1024x1792": 0.15 } }, targets: [up:x] }
`,
  );
  const cost = async (path: string, body: object) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(body)) form.set(name, String(value));
    const { authorization = "" } = asking();
    const request =
      path === "edits"
        ? { headers: { authorization }, body: form }
        : { headers: asking(), body: JSON.stringify({ prompt: "a cat", ...body }) };
    const response = await fetch(`${url}/v1/images/${path}`, { method: "POST", ...request });
    t.equal(await response.text(), answers.get(path));
    await gateway.stores.ledger.flush();
    return (await gateway.stores.ledger.recent(1))[0];
  };
  const told = { usage: { images: { count: 2 }, providerCost: 40_000_000 }, source: "reported" } as const;
  t.match(await cost("generations", { model: "listed", n: 2 }), { cost: 40_000_000, ...told });
  const edited = await cost("edits", { model: "listed" });
  t.match(edited, { usage: { images: { count: 1, edited: true }, providerCost: 70_000_000 } });
  t.equal(edited?.cost, undefined, "the list has no price for an edited image");
  t.match(await cost("edits", { model: "own" }), { cost: 70_000_000 });
  t.match(await cost("edits", { model: "sizes" }), { cost: 50_000_000 });
  t.match(await cost("edits", { model: "sizes", size: "1024x1792", quality: "hd" }), { cost: 150_000_000 });
  for (const size of ["256x256", "", "x".repeat(5000)])
    t.equal((await cost("edits", { model: "sizes", size }))?.cost, undefined, `no price for ${size.slice(0, 9)}`);
  t.match(await cost("generations", { model: "own" }), { cost: 80_000_000 });
  t.match(await cost("generations", { model: "own", size: "1024x1792", quality: "hd" }), { cost: 240_000_000 });
  t.equal((await cost("generations", { model: "own", size: "256x256" }))?.cost, undefined);
});

t.test("while the ledger is unavailable, a request to it is a 503 that says so", async (t) => {
  const { url, gateway } = await startGateway(t, YAML("http://127.0.0.1:1"));
  const away = async () => Promise.reject(new Error("connect ECONNREFUSED"));
  Object.assign(gateway.stores.ledger, { search: away, sums: away });
  for (const path of ["/v1/requests/some", "/v1/key"]) {
    const answer = await fetch(url + path, { headers: asking() });
    t.equal(answer.status, 503, path);
    t.equal(answer.headers.get("retry-after"), "5");
    t.match(await answer.json(), {
      error: {
        message: /^The gateway's ledger cannot answer at the moment\. This is temporary/,
        code: "store_unavailable",
      },
    });
  }
});

t.test("an answer that a plugin's fault keeps from the client is estimated, as its provider bills it", async (t) => {
  const body = JSON.stringify({ id: "c", choices: [], usage: USAGE });
  const upstream = await httpUpstream((request, reply) => {
    const streams = request.body.includes('"stream":true');
    reply.writeHead(200, { "content-type": streams ? "text/event-stream" : "application/json" });
    reply.write(streams ? 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n' : body.slice(0, 9));
  });
  t.teardown(() => upstream.close());
  const faulty = "export default class { response() { throw new Error('broken') } }";
  for (const chain of ["sse, auth, faulty, models, rewrite, usage", "sse, auth, models, rewrite, usage, faulty"])
    for (const cut of ["estimate", "absorb"]) {
      const plugins = `plugins: { faulty: { from: ./faulty.ts }, usage: { cut: ${cut} } }\nchains: { llm: [${chain}] }\n`;
      const yaml = `${YAML(upstream.origin.origin)}${plugins}`;
      const { url, gateway } = await startGateway(t, yaml, { "faulty.ts": faulty });
      for (const stream of [false, true]) {
        const messages = [{ role: "user", content: "word ".repeat(1000) }];
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          headers: asking(),
          body: JSON.stringify({ model: "m", stream, messages }),
        });
        t.match(await response.text(), "plugin_failed");
        await gateway.stores.ledger.flush();
        const [entry] = await gateway.stores.ledger.recent(1);
        const name = `${chain}, ${cut}, ${stream}`;
        if (cut === "absorb") t.match(entry, { outcome: "failed", source: "absorbed", cost: 0 }, name);
        else t.match(entry, { outcome: "failed", source: "estimated" }, name);
        const tokens = entry?.usage?.in.total ?? 0;
        if (cut === "estimate") t.ok(tokens > 900 && tokens < 1300, `${tokens} tokens`);
      }
    }
});
