import t, { type Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { CLIENTS, type Client, eventsOf } from "../support/four-clients.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const NAMES = Object.keys(CLIENTS);
const MODELS = ["echo", "tool", "reasoning", "error-429", "error-401", "error-529", "error-stream", "cut"];
const PAIRS = NAMES.flatMap((client) =>
  NAMES.filter((name) => name !== client).map((provider) => [client, provider] as const),
);

/** The demo provider four times, each time speaking one protocol only; models are named like `gemini-echo`. */
const DEMOS = `providers:
${NAMES.map((name) => `  ${name}: { url: "demo:", speaks: [${name}] }\n`).join("")}models:
${NAMES.flatMap((name) => MODELS.map((model) => `  ${name}-${model}: { targets: ["${name}:${model}"] }\n`)).join("")}`;

async function post(running: Running, client: Client, body: JsonObject, model: string, stream: boolean, headers = {}) {
  const response = await fetch(running.url + client.path(model, stream), {
    method: "POST",
    headers: asking(headers),
    body: JSON.stringify(client.with(body, model, stream)),
  });
  let text = "";
  let cut = false;
  try {
    const decoder = new TextDecoder();
    for await (const piece of response.body ?? []) text += decoder.decode(piece, { stream: true });
  } catch {
    cut = true;
  }
  return { status: response.status, headers: response.headers, text, cut };
}

const whole = async (...asked: [Running, Client, JsonObject, string]): Promise<JsonObject> => {
  const { status, text } = await post(...asked, false);
  if (status !== 200) throw new Error(`${status} ${text}`);
  return JSON.parse(text) as JsonObject;
};

const lastRow = async ({ gateway }: Running) => {
  await gateway.stores.ledger.flush();
  return (await gateway.stores.ledger.recent(1))[0];
};

async function each(t: Test, act: (t: Test, client: Client, provider: string, running: Running) => Promise<unknown>) {
  const running = await startGateway(t, DEMOS);
  for (const [name, provider] of PAIRS)
    await t.test(`${name} → ${provider}`, (t) => act(t, CLIENTS[name] as Client, provider, running));
}

t.test("a text is answered, whole and streamed, with its tokens counted", async (t) => {
  await each(t, async (t, client, provider, running) => {
    const body = client.ask("Hello to the other side 🙂", "get_weather");
    const told = client.read(await whole(running, client, body, `${provider}-echo`));
    t.match(told, { text: "Hello to the other side 🙂", calls: { length: 0 } });
    t.match(await lastRow(running), {
      usage: { in: { total: told.tokens[0] }, out: { total: told.tokens[1] } },
      source: "reported",
      outcome: "completed",
    });
    const streamed = await post(running, client, body, `${provider}-echo`, true);
    t.equal(client.streamed(eventsOf(streamed.text)), told.text);
    t.equal(streamed.cut, false);
    t.match(streamed.headers.get("content-type"), /^text\/event-stream/);
    t.match(await lastRow(running), {
      usage: { in: { total: told.tokens[0] }, out: { total: told.tokens[1] } },
      streaming: true,
    });
  });
});

t.test("a tool is called, its result sent, and the model continues", async (t) => {
  await each(t, async (t, client, provider, running) => {
    const body = client.ask("How warm is it?", "get_weather");
    const answer = await whole(running, client, body, `${provider}-tool`);
    t.match(client.read(answer).calls, [{ name: "get_weather", args: { city: "demo" } }]);
    const next = client.next(body, answer, "21 degrees");
    t.match(
      client.read(await whole(running, client, next, `${provider}-tool`)).text,
      /^The tool answered: .*21 degrees/,
    );
  });
});

t.test("a tool whose name the provider does not accept keeps its own name for the client", async (t) => {
  await each(t, async (t, client, provider, running) => {
    const name = `mcp__a_server_with_a_long_name__${"and_a_tool_".repeat(5)}`;
    const answer = await whole(running, client, client.ask("Go.", name), `${provider}-tool`);
    t.equal(client.read(answer).calls[0]?.name, name);
  });
});

t.test(
  "reasoning is returned with the state that the provider needs to continue, and the provider gets that back",
  async (t) => {
    await each(t, async (t, client, provider, running) => {
      const body = { ...client.ask("Think.", "get_weather"), ...client.thinking };
      const answer = await whole(running, client, body, `${provider}-reasoning`);
      t.match(client.read(answer).text, "Think.");
      if (provider !== "openai-chat") t.match(JSON.stringify(answer), /"gw1state[\w+/]{40,}={0,2}"/);
      const next = client.next(body, answer, "Again.");
      const again = await post(running, client, next, `${provider}-reasoning`, false);
      t.equal(again.status, 200, again.text);
      t.equal(again.headers.get("gateway-notice"), null, "nothing was omitted");
    });
  },
);

t.test("a provider of another protocol gets the conversation without reasoning that it cannot read", async (t) => {
  await each(t, async (t, client, provider, running) => {
    if (provider === "openai-chat") return;
    const body = { ...client.ask("Think.", "get_weather"), ...client.thinking };
    const answer = await whole(running, client, body, `${provider}-reasoning`);
    const next = client.next(body, answer, "Again.");
    for (const other of NAMES.filter((name) => name !== provider)) {
      const again = await post(running, client, next, `${other}-echo`, false);
      t.equal(again.status, 200, `${other}: ${again.text}`);
      t.equal(client.read(JSON.parse(again.text) as JsonObject).text, "Again.");
      t.match(again.headers.get("gateway-notice"), /Reasoning that another provider made/, other);
    }
  });
});

t.test("errors before the first byte keep their status, also those about the gateway's own credential", async (t) => {
  await each(t, async (t, client, provider, running) => {
    const body = client.ask("Hi", "f");
    for (const stream of [false, true]) {
      const limited = await post(running, client, body, `${provider}-error-429`, stream);
      t.equal(limited.status, 429);
      t.equal(limited.headers.get("retry-after"), "1");
      t.match(limited.headers.get("content-type"), /^application\/json/);
      t.match(limited.text, /429 that the demo model/);
      const refused = await post(running, client, body, `${provider}-error-401`, stream);
      t.equal(refused.status, 401);
      t.equal(refused.headers.get("x-should-retry"), "false");
      t.match(JSON.parse(refused.text), { error: { message: /gateway's credential/ } });
    }
    const { status } = await post(running, client, body, `${provider}-error-529`, false);
    t.equal(status, client === CLIENTS["anthropic-messages"] ? 529 : 503);
  });
});

t.test(
  "a stream that fails or is interrupted ends with an error in the client's protocol, a whole answer is a 502",
  async (t) => {
    await each(t, async (t, client, provider, running) => {
      const body = client.ask("Hi", "f");
      for (const [model, said] of [
        ["error-stream", /demo model/],
        ["cut", /broke off/],
      ] as const) {
        const { status, text, cut } = await post(running, client, body, `${provider}-${model}`, true);
        t.equal(status, 200);
        t.ok(cut, "never a clean end");
        t.match(client.streamed(eventsOf(text)), /^This answer/, "the content before it is there");
        t.match(text, said);
        t.notMatch(text, /\[DONE\]|message_stop|response\.completed|finishReason/);
      }
      t.equal((await post(running, client, body, `${provider}-cut`, false)).status, 502);
    });
  },
);

t.test("a stream framed as a JSON array is valid JSON at its end, also when it fails", async (t) => {
  const running = await startGateway(t, DEMOS);
  const client = CLIENTS["gemini"] as Client;
  const body = client.ask("One two three", "f");
  for (const provider of NAMES.filter((name) => name !== "gemini"))
    for (const model of ["echo", "error-stream", "cut"]) {
      const array = { ...client, path: (name: string) => `/v1beta/models/${name}:streamGenerateContent` };
      const { text, headers, cut } = await post(running, array, body, `${provider}-${model}`, true);
      t.match(headers.get("content-type"), /^application\/json/);
      t.notOk(cut, model);
      const elements = JSON.parse(text) as JsonObject[];
      if (model === "echo") t.equal(client.streamed(elements), "One two three");
      else t.match(elements.at(-1), { error: { code: Number } });
    }
});

t.test("what the provider's protocol cannot express is named in a header, and refused in strict mode", async (t) => {
  const running = await startGateway(
    t,
    `${DEMOS}paths:
  /v1/chat/completions: { protocol: openai-chat }
  /strict/chat/completions: { protocol: openai-chat, strict: true }
`,
  );
  const client = CLIENTS["openai-chat"] as Client;
  const body = { ...client.ask("Hi", "f"), seed: 7 };
  const loose = await post(running, client, body, "anthropic-messages-echo", false);
  t.equal(loose.status, 200, loose.text);
  t.equal(loose.headers.get("gateway-dropped"), "seed");
  t.same(running.log.lines.at(-1)?.fields["dropped"], ["seed"]);
  const strict = await post(running, client, body, "anthropic-messages-echo", false, { "gateway-strict": "1" });
  t.equal(strict.status, 400);
  t.match(JSON.parse(strict.text), { error: { param: "seed", message: /^seed: / } });
  const path = await post(
    running,
    { ...client, path: () => "/strict/chat/completions" },
    body,
    "anthropic-messages-echo",
    false,
  );
  t.equal(path.status, 400);
  const several = await post(running, client, { ...body, n: 2 }, "anthropic-messages-echo", false);
  t.match([several.status, JSON.parse(several.text)], [400, { error: { param: "n" } }]);
});

t.test(
  "tokens are counted by the provider where it can, and estimated elsewhere, and an estimate is marked",
  async (t) => {
    const running = await startGateway(t, DEMOS);
    const count = async (model: string) => {
      const body = JSON.stringify({ model, messages: [{ role: "user", content: "word ".repeat(300) }] });
      const response = await fetch(`${running.url}/v1/messages/count_tokens`, {
        method: "POST",
        headers: asking(),
        body,
      });
      return {
        status: response.status,
        estimate: response.headers.get("gateway-estimate"),
        json: (await response.json()) as { input_tokens: number },
      };
    };
    for (const provider of ["gemini", "openai-responses"])
      t.match(await count(`${provider}-echo`), { status: 200, estimate: null, json: { input_tokens: Number } });
    const { status, estimate, json } = await count("openai-chat-echo");
    t.same([status, estimate], [200, "input_tokens"]);
    t.ok(json.input_tokens > 400 && json.input_tokens < 700, `${json.input_tokens}`);
  },
);

t.test("a target that cannot serve the request is skipped, and a fallback is translated", async (t) => {
  const running = await startGateway(
    t,
    `providers:
  native: { url: "demo:", speaks: [openai-chat] }
  other: { url: "demo:", speaks: [anthropic-messages] }
models:
  busy: { targets: ["native:error-429"], fallback: [far] }
  far: { targets: ["other:echo"] }
  mixed: { targets: ["other:echo"], fallback: [near] }
  near: { targets: ["native:echo"] }
`,
  );
  const client = CLIENTS["openai-chat"] as Client;
  const body = client.ask("Hi", "f");
  t.equal(client.read(await whole(running, client, body, "busy")).text, "Hi");
  t.match(await lastRow(running), { target: "other:echo", attempts: [{ status: 429 }, { status: 200 }] });
  t.equal(client.read(await whole(running, client, { ...body, logit_bias: { 1: 1 } }, "mixed")).text, "Hi");
  t.match(await lastRow(running), {
    target: "native:echo",
    attempts: [{ error: "not_translatable" }, { status: 200 }],
  });
  const neither = await post(running, client, { ...body, logit_bias: { 1: 1 } }, "busy", false);
  t.equal(neither.status, 429, "the reason for the fallback");
  t.match(neither.text, /429.*logit_bias/);
});

t.test("only headers of the target's protocol reach it", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(500, { "content-type": "text/html" }).end("<html>no</html>"),
  );
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/base", speaks: [anthropic-messages], credential: "\${NOPE:-s3cret-0123456789}", forward: [x-mine-*] } }\nmodels: { m: { targets: [up:vendor-model] } }\n`,
  );
  const client = CLIENTS["openai-chat"] as Client;
  const sent = {
    "openai-organization": "org",
    "x-mine-a": "1",
    "user-agent": "test/1",
    "gateway-strict": "0",
    "x-stainless-os": "Linux",
  };
  const { status, text } = await post(running, client, client.ask("Hi", "f"), "m", false, sent);
  t.equal(status, 500);
  t.match(JSON.parse(text), { error: { type: "server_error" } }, "a proxy's page is an error in the client's protocol");
  const { rawHeaders, url, body } = upstream.seen[0] as (typeof upstream.seen)[number];
  const headers = Object.fromEntries(
    Array.from({ length: rawHeaders.length / 2 }, (_, i) => [rawHeaders[2 * i]?.toLowerCase(), rawHeaders[2 * i + 1]]),
  );
  t.equal(url, "/base/messages");
  t.match(headers, {
    "x-api-key": "s3cret-0123456789",
    "x-mine-a": "1",
    "user-agent": "test/1",
    "anthropic-version": /^20/,
    "content-type": "application/json",
  });
  for (const name of ["openai-organization", "gateway-strict", "x-stainless-os", "authorization"])
    t.notOk(name in headers, name);
  t.match(JSON.parse(body.toString()), { model: "vendor-model" });
});

t.test("a translated answer may not be stored by caches", async (t) => {
  const running = await startGateway(t, DEMOS);
  const client = CLIENTS["openai-responses"] as Client;
  const answer = await whole(running, client, client.ask("Hi", "f"), "gemini-echo");
  t.equal(answer["store"], false);
  const again = await fetch(`${running.url}/v1/responses/${String(answer["id"])}`, { headers: asking() });
  t.equal(again.status, 404);
});
