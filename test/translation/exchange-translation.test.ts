import t, { type Test } from "tap";
import messages from "../../plugins/protocols/anthropic-messages/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import { drive } from "../../src/testing.ts";
import { asking, startGateway, startGatewayTo } from "../support/gateway.ts";
import { turnCounter } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";
import { json, startVendor } from "../support/vendor.ts";

const WHOLE =
  '{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}';

t.test("a request may lose any number of things", async (t) => {
  const { url } = await startGatewayTo(t, "openai-chat", (_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE),
  );
  const include = Array.from({ length: 200_000 }, () => "more");
  const body = JSON.stringify({ model: "m", input: "Hi", include });
  const { status, headers } = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking(), body });
  t.equal(status, 200);
  t.match(headers.get("gateway-dropped"), /^include\.0, include\.1, .*, \+\d{6}$/);
});

t.test("names that a client or a provider makes up are shortened in refusals, notices and the log", async (t) => {
  const long = "\\".repeat(400_000);
  const { url, log } = await startGatewayTo(t, "openai-responses", (_, reply) =>
    reply
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(`data: {"type":"response.${long}"}\n\n`.replaceAll("\\", "\\\\")),
  );
  const messages = [{ role: "user", content: [{ type: long }] }];
  const send = (more: object) =>
    fetch(`${url}/v1/messages`, {
      method: "POST",
      headers: asking(),
      body: JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }], ...more }),
    });
  const refused = await send({ messages });
  t.equal(refused.status, 400);
  t.ok((await refused.text()).length < 3000);
  const dropped = await send({ [`odd.${long.slice(0, 8000)}`]: 1, stream: true });
  t.equal(dropped.status, 200);
  t.equal(dropped.headers.get("gateway-dropped"), "odd.?");
  await t.rejects(dropped.text(), "the stream has no end");
  t.match(log.lines.at(-1)?.fields, { dropped_from_response: ["response.…"] });
  for (const line of log.lines) t.ok(JSON.stringify(line).length < 10_000, JSON.stringify(line).slice(0, 300));
});

t.test("what is lost of an answer is in the log once for each name, up to twenty names", async (t) => {
  const events = Array.from({ length: 60 }, (_, i) => `data: {"type":"response.new_${i >> 1}"}\n\n`);
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(events.join("")),
  );
  t.teardown(() => upstream.close());
  const { url, log } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const body = '{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hi"}]}';
  await (await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body })).text().catch(() => {});
  await until(() => log.lines.some(({ message }) => message === "exchange"));
  const names = Array.from({ length: 20 }, (_, i) => `response.new_${i}`);
  t.same(log.lines.find(({ message }) => message === "exchange")?.fields["dropped_from_response"], names);
});

t.test("tokens are counted at Vertex in the form that it has", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end('{"totalTokens":7}'),
  );
  t.teardown(() => upstream.close());
  const { origin } = upstream.origin;
  const { url } = await startGateway(
    t,
    `providers:\n  vertex: { url: "${origin}/v1/publishers/google", speaks: [gemini] }\n  studio: { url: "${origin}/v1beta", speaks: [gemini] }\nmodels: { v: { targets: [vertex:x] }, s: { targets: [studio:x] } }\n`,
  );
  for (const [model, members] of [
    ["v", ["contents", "systemInstruction"]],
    ["s", ["generateContentRequest"]],
  ] as const) {
    const body = JSON.stringify({ model, system: "Be terse.", messages: [{ role: "user", content: "Hi" }] });
    const response = await fetch(`${url}/v1/messages/count_tokens`, { method: "POST", headers: asking(), body });
    t.same(await response.json(), { input_tokens: 7 });
    const { body: sent, url: path } = upstream.seen.at(-1) as { body: Buffer; url: string };
    t.same(Object.keys(JSON.parse(sent.toString()) as object), members, path);
  }
});

t.test("an error of the provider's becomes one of the client's protocol, and its usage is not estimated", async (t) => {
  const { url } = await startGatewayTo(t, "openai-chat", (_, reply) =>
    reply
      .writeHead(429, { "content-type": "application/json" })
      .end('{"error":{"message":"Slow down.","type":"requests"}}'),
  );
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
  const response = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
  t.equal(response.status, 429);
  t.match(await response.json(), { type: "error", error: { type: "rate_limit_error", message: "Slow down." } });
});

t.test("an error with usage costs that, and one without, or with zeros, nothing", async (t) => {
  let usage = {};
  const upstream = await httpUpstream((_, reply) =>
    reply
      .writeHead(400, { "content-type": "application/json" })
      .end(JSON.stringify({ error: { message: "No." }, usage })),
  );
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { price: { input: 3, output: 15 }, targets: [up:x] } }\n`,
  );
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
  for (const [told, source, cost] of [
    [{ prompt_tokens: 5, completion_tokens: 2 }, "reported", 45_000],
    [{ prompt_tokens: 0, completion_tokens: 0 }, "free", 0],
    [{}, "free", 0],
  ] as const) {
    usage = told;
    t.equal((await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body })).status, 400);
    await gateway.stores.ledger.flush();
    t.match(await gateway.stores.ledger.recent(1), [{ source, cost, status: 400 }]);
  }
});

t.test("an unreadable error has one code, translated or not", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(502, { "content-type": "text/html" }).end("<html>Bad gateway</html>"),
  );
  t.teardown(() => upstream.close());
  const speaks = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"];
  const up = speaks.map((name) => `  ${name}: { url: "${upstream.origin.origin}/v1", speaks: [${name}] }\n`);
  const models = speaks.map((name) => `  of-${name}: { targets: ["${name}:x"] }\n`);
  const { url } = await startGateway(
    t,
    `providers:\n${up.join("")}models:\n${models.join("")}retry: { attempts: 0 }\n`,
  );
  for (const name of speaks)
    for (const [path, asked] of [
      ["chat/completions", { messages: [{ role: "user", content: "Hi" }] }],
      ["responses", { input: "Hi" }],
    ] as const) {
      const body = JSON.stringify({ model: `of-${name}`, ...asked });
      const response = await fetch(`${url}/v1/${path}`, { method: "POST", headers: asking(), body });
      t.equal(response.status, 502);
      t.match(await response.json(), { error: { code: "upstream_failed" } }, `${path} to ${name}`);
    }
});

t.test("a stream is written as a stream, and a whole answer as a whole one, whatever the provider sends", async (t) => {
  const { url } = await startGatewayTo(t, "openai-chat", (_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE),
  );
  const ask = async (stream: boolean) => {
    const body = JSON.stringify({ model: "m", max_tokens: 9, stream, messages: [{ role: "user", content: "Hi" }] });
    const response = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
    return { type: response.headers.get("content-type"), text: await response.text() };
  };
  const whole = await ask(false);
  t.match(JSON.parse(whole.text), { type: "message", content: [{ type: "text", text: "Hi" }] });
  const streamed = await ask(true);
  t.match(streamed.type, /^text\/event-stream/);
  t.match(streamed.text, /event: message_stop/);
});

t.test("a stream that comes unasked and has an event that is too long is the provider's fault", async (t) => {
  const event = `data: {"choices":[{"index":0,"delta":{"content":"${"x".repeat(17 << 20)}"}}]}\n\n`;
  const { url } = await startGatewayTo(t, "openai-chat", (_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end(`${event}data: [DONE]\n\n`),
  );
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
  const response = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
  t.equal(response.status, 502);
  t.match(await response.text(), "The provider's answer is not valid");
});

t.test("a stored object is not counted by its name: a count that no target can compute is refused", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { chat: { url: "demo:", speaks: [openai-chat] } }\nmodels: { m: { targets: [chat:echo] } }\n`,
  );
  const count = async (path: string, body: object) => {
    const response = await fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify(body) });
    return { status: response.status, text: await response.text() };
  };
  const contents = [{ role: "user", parts: [{ text: "Hi" }] }];
  const cached = { generateContentRequest: { model: "models/m", contents, cachedContent: "cachedContents/1" } };
  const refused = await count("/v1beta/models/m:countTokens", cached);
  t.equal(refused.status, 400);
  t.match(refused.text, /cachedContent: a cached prompt by a vendor's id can be counted by that vendor only\. Remove/);
  t.equal((await count("/v1beta/models/m:countTokens", { contents })).status, 200);
  t.equal((await count("/v1/responses/input_tokens", { model: "m", input: "Hi" })).status, 200);
});

t.test("a large request, which is read in a turn of its own, is encoded and refused as a small one is", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE),
  );
  t.teardown(() => upstream.close());
  const up = `url: "${upstream.origin.origin}/v1"`;
  const { url } = await startGateway(
    t,
    `providers: { other: { ${up}, speaks: [openai-chat] }, both: { ${up}, speaks: [openai-chat, anthropic-messages] } }
models: { m: { targets: [other:x] }, own: { targets: [{ to: "both:x", weight: 1 }] } }\n`,
  );
  const ask = (count: number, last: object, model = "m") => {
    const messages = Array.from({ length: count }, (_, i) => ({
      role: i % 2 ? "assistant" : "user",
      content: "Is it cold?",
    }));
    const body = JSON.stringify({ model, max_tokens: 9, messages: [...messages, last] });
    return fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
  };
  for (const count of [10, 10_000]) {
    const response = await ask(count, { role: "user", content: "Hi" });
    t.match([response.status, await response.json()], [200, { content: [{ type: "text", text: "Hi" }] }]);
    const sent = JSON.parse(upstream.seen.at(-1)?.body.toString() ?? "") as { messages: object[] };
    t.equal(sent.messages.length, count + 1);
    t.same(sent.messages.at(-1), { role: "user", content: "Hi" });
    const wrong = await ask(count, { role: "nobody", content: "Hi" });
    t.match(
      [wrong.status, await wrong.json()],
      [400, { error: { message: new RegExp(`messages\\.${count}\\.role`) } }],
    );
    const before = upstream.seen.length;
    t.equal((await ask(count, { role: "nobody", content: "Hi" }, "own")).status, 200, "its own protocol's bytes pass");
    t.equal(upstream.seen.length, before + 1);
  }
});

/** Lets a function tell that it is called. */
function listen<Of extends object, Name extends keyof Of>(t: Test, of: Of, name: Name, heard: () => void): void {
  const own = of[name] as (...given: unknown[]) => unknown;
  of[name] = function (this: unknown, ...given: unknown[]) {
    heard();
    return own.apply(this, given);
  } as Of[Name];
  t.teardown(() => {
    of[name] = own as Of[Name];
  });
}

t.test("a large request is decoded and encoded in many turns of the event loop, a small one in the same", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE),
  );
  t.teardown(() => upstream.close());
  const turns = turnCounter(t);
  const [read, written]: [number[], number[]] = [[], []];
  const [reader, writer] = [messages.translation.request, chat.translation.request];
  listen(t, reader, "decode", () => read.push(turns()));
  listen(t, writer, "encode", () => written.push(turns()));
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const ask = async (content: string, count = 1) => {
    read.length = written.length = 0;
    const asked = Array.from({ length: count }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content }));
    const body = JSON.stringify({ model: "m", max_tokens: 9, messages: asked });
    const response = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
    t.equal(response.status, 200);
    await response.text();
    t.match([read.length, written.length], [1, 1]);
    return (written[0] as number) - (read[0] as number);
  };
  t.equal(await ask("Hi"), 0);
  let longest = 0;
  const decode = Buffer.prototype.toString;
  const restore = t.intercept(Buffer.prototype, "toString", {
    value(this: Buffer, ...args: Parameters<typeof decode>) {
      const text = decode.apply(this, args);
      longest = Math.max(longest, text.length);
      return text;
    },
  });
  t.ok((await ask("Hi".repeat(500_000))) > 0);
  restore.restore();
  t.ok(longest < 500_000, `it is not copied into one text: ${longest}`);
  // Reading alone; writing begins behind it.
  t.ok((await ask("Is it cold outside?", 10_001)) > 10_000 / 512);
});

t.test("a large request whose client leaves is not translated to its end, and no provider is asked", async (t) => {
  let requests = 0;
  const upstream = await httpUpstream((_, reply) => {
    requests++;
    reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE);
  });
  t.teardown(() => upstream.close());
  let steps = 0;
  const { decode } = messages.translation.request;
  t.intercept(messages.translation.request, "decode", {
    *value(...args: Parameters<typeof decode>) {
      const decoding = decode(...args);
      for (let step = decoding.next(); ; step = decoding.next()) {
        if (step.done) return step.value;
        steps++;
        yield;
      }
    },
  });
  const { url, log } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const content = "Is it cold outside? ".repeat(20);
  const asked = Array.from({ length: 20_001 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content }));
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: asked });
  const ask = (signal?: AbortSignal) =>
    fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body, ...(signal && { signal }) });
  t.equal((await ask()).status, 200);
  const all = steps;
  steps = requests = 0;
  const leaving = new AbortController();
  const left = ask(leaving.signal);
  await until(() => steps > 0, "it has begun");
  leaving.abort();
  await t.rejects(left);
  await until(() => log.lines.some(({ fields }) => fields["outcome"] === "aborted"), "it is logged");
  t.ok(steps < all, `${steps} of ${all} steps`);
  t.equal(requests, 0);
});

t.test("a large whole answer is translated in many turns of the event loop, a small one in one", async (t) => {
  let content = "Hi";
  const upstream = await httpUpstream((_, reply) => {
    const whole = { ...JSON.parse(WHOLE), choices: [{ index: 0, message: { content }, finish_reason: "stop" }] };
    reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole));
  });
  t.teardown(() => upstream.close());
  const turns = turnCounter(t);
  const [read, written]: [number[], number[]] = [[], []];
  const [reader, writer] = [chat.translation.response, messages.translation.response];
  listen(t, reader, "decode", () => read.push(turns()));
  listen(t, writer, "encode", () => written.push(turns()));
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const ask = async (text: string) => {
    content = text;
    read.length = written.length = 0;
    const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
    const response = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
    t.match(await response.json(), { content: [{ type: "text", text }] });
    t.match([read.length, written.length], [1, 1]);
    return (written[0] as number) - (read[0] as number);
  };
  t.equal(await ask("Hi"), 0);
  t.ok((await ask("Is it cold outside?\n".repeat(200_000))) > 10);
});

t.test(
  "large whole answers are translated one at a time, beyond a plugin's deadline, until their client leaves",
  async (t) => {
    const answer = Buffer.from(WHOLE.replace('"content":"', `"content":"${"Is it cold? ".repeat(300_000)}`));
    const upstream = await httpUpstream((_, reply) =>
      reply.writeHead(200, { "content-type": "application/json" }).end(answer),
    );
    t.teardown(() => upstream.close());
    const running = { now: 0, most: 0, begun: 0, steps: 0 };
    const reader = chat.translation.response;
    const { decode } = reader;
    t.intercept(reader, "decode", {
      *value(...args: Parameters<typeof decode>) {
        running.begun++;
        running.most = Math.max(running.most, ++running.now);
        try {
          const steps = decode.apply(reader, args);
          for (let step = steps.next(); ; step = steps.next()) {
            if (step.done) return step.value;
            running.steps++;
            yield;
          }
        } finally {
          running.now--;
        }
      },
    });
    const { url, log } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
plugins: { rewrite: { deadline: 1ms } }
`,
    );
    const { parse } = JSON;
    let longest = 0;
    t.intercept(JSON, "parse", {
      value(text: string, reviver?: Parameters<typeof parse>[1]) {
        longest = Math.max(longest, text.length);
        return parse(text, reviver);
      },
    });
    const ask = (signal?: AbortSignal) => {
      const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
      return fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body, ...(signal && { signal }) });
    };
    const statuses = await Promise.all([ask(), ask(), ask()].map(async (response) => (await response).status));
    t.same([statuses, running.most, running.now], [[200, 200, 200], 1, 0]);
    const leaving = new AbortController();
    running.begun = running.steps = 0;
    const left = ask(leaving.signal);
    await until(() => running.steps > 0, "it has begun");
    leaving.abort();
    await t.rejects(left);
    await until(() => log.lines.some(({ fields }) => fields["outcome"] === "aborted"), "it is logged");
    t.ok(longest < 1_000_000, "its usage is not searched in one turn either");
    const { steps } = running;
    t.equal((await ask()).status, 200, "the next one is translated");
    t.ok(steps < running.steps - steps, `${steps} of ${running.steps - steps} steps`);
  },
);

t.test(
  "a provider's answer that is deeper or longer than the client's protocol allows is not the gateway's fault",
  async (t) => {
    const vendor = await startVendor(
      t,
      json({
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "m",
        content: [{ type: "text", text: "ok" }],
        stop_reason: "end_turn",
        usage: { input_tokens: 1, output_tokens: 1 },
      }),
    );
    const { url } = await startGateway(
      t,
      `providers: { up: { url: "${vendor.url}", speaks: [anthropic-messages] } }
models: { m: { targets: ["up:m"] } }
`,
    );
    const ask = async (messages: unknown) => {
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: asking(),
        body: JSON.stringify({ model: "m", max_tokens: 9, messages }),
      });
      const { error } = (await answer.json()) as { error?: { code: string; message: string } };
      return { status: answer.status, retry: answer.headers.get("x-should-retry"), ...error };
    };
    const called = (args: string) => [
      { role: "user", content: "x" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "t1", type: "function", function: { name: "f", arguments: args } }],
      },
      { role: "tool", tool_call_id: "t1", content: "ok" },
    ];
    const deep = (levels: number) => `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    t.match(await ask(called(deep(130))), { status: 200 });
    t.match(
      await ask(Array.from({ length: 24_000 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: "x" }))),
      { status: 200 },
      "two names each in the one, more in the other",
    );
    const param = "messages.1.tool_calls.0";
    const large = {
      status: 400,
      code: "not_translatable",
      retry: "false",
      param,
      message: /names or values, or are nested/,
    };
    for (const levels of [300, 20_000]) t.match(await ask(called(deep(levels))), large);
    const many = JSON.stringify(Object.fromEntries(Array.from({ length: 51_000 }, (_, i) => [`n${i}`, 0])));
    t.match(await ask(called(many)), large);
    t.match(await ask(called(`{"a":[${"{},".repeat(410_000)}0]}`)), large);
  },
);

t.test("a request is decoded once, also where a ping comes before the answer's first event", async (t) => {
  const chunk =
    '{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}';
  const upstream = await httpUpstream((_, reply) =>
    reply
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(`: WAITING\n\ndata: ${chunk}\n\ndata: [DONE]\n\n`),
  );
  t.teardown(() => upstream.close());
  let reads = 0;
  listen(t, messages.translation.request, "decode", () => reads++);
  // A ping is sent when the client has got none for some time.
  const { now } = performance;
  let shift = 0;
  performance.now = () => now.call(performance) + shift;
  t.teardown(() => {
    performance.now = now;
  });
  listen(t, chat.translation.response, "decoder", () => {
    shift = 10_000;
  });
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:x] } }\n`,
  );
  const body = JSON.stringify({ model: "m", max_tokens: 9, stream: true, messages: [{ role: "user", content: "Hi" }] });
  const answer = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(), body });
  t.match(await answer.text(), /^event: ping\n.*\n\nevent: message_start\n/);
  t.equal(reads, 1);
});

t.test("an answer to a large request parses only what it needs of it", async (t) => {
  const parsed: unknown[] = [];
  class Look {
    done({ body }: { body: object }) {
      parsed.push(Reflect.get(body, "parsed"));
    }
  }
  await using driven = await drive(Look);
  const messages = Array.from({ length: 10_000 }, () => ({ role: "user", content: "What shall I wear?" }));
  for (const stream of [false, true]) {
    const body = { messages, stream_options: stream ? { include_usage: true } : undefined };
    const answer = await driven.ask({ protocol: "openai-chat", model: "gemini", stream, body }, "A coat.");
    t.equal(answer.text, "A coat.");
    if (stream) t.ok(answer.events.at(-1)?.usage ?? answer.events.at(-2)?.usage, "what it needs is read");
  }
  t.same(parsed, [undefined, undefined]);
});

t.test("state that a client of the provider's own protocol lost is repaired, and no other byte changes", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"No."}}'),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: [gemini, anthropic-messages] } }\nmodels: { g: { targets: ["up:gemini-3-pro-preview"] }, c: { targets: ["up:claude-sonnet-4-5"] } }\n`,
  );
  const call = (more = "") => `{ "functionCall": {"name":"f" ,"args":{"n":1.0}}${more}}`;
  const gemini = (parts: string) =>
    `{"contents": [ {"role":"user","parts":[{"text":"Hi"}]}, {"role":"model","parts":[${parts}]}, {"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]} ]}`;
  const claude = (thinking = "") =>
    `{"model":"claude-sonnet-4-5", "messages":[{"role":"user","content":"Hi"}, {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"n": 1.0}}]}, {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}],"max_tokens":9000${thinking}}`;
  const enabled = ', "thinking":{"type":"enabled","budget_tokens":1024}';
  const bypass = ',"thoughtSignature":"skip_thought_signature_validator"';
  for (const [path, sent, received, notice] of [
    ["/v1beta/models/g:generateContent", gemini(call()), gemini(call(bypass)), /thoughtSignature: the call has no/],
    [
      "/v1/messages",
      claude(enabled).replace("claude-sonnet-4-5", "c"),
      claude(),
      /thinking: no thinking: the thoughts/,
    ],
  ] as const)
    for (const strict of [false, true]) {
      const headers = { ...asking(), ...(strict ? { "gateway-strict": "1" } : {}) };
      const response = await fetch(`${url}${path}`, { method: "POST", headers, body: sent });
      const body = upstream.seen.at(-1)?.body.toString();
      if (strict) t.not(body, received, "nothing is changed");
      else t.equal(body, received);
      if (strict) t.notMatch(response.headers.get("gateway-notice") ?? "", notice);
      else t.match(response.headers.get("gateway-notice"), notice);
    }
});
