import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import Cache from "../../examples/cache.ts";
import { drive } from "../../src/testing.ts";
import { asking } from "../support/key.ts";
import { repeating } from "../support/repeating.ts";
import { httpUpstream } from "../support/upstream.ts";
import { startExamples } from "./example.ts";

const forms = [false, true].flatMap((stream) => [undefined, 5].map((cut) => ({ stream, ...(cut && { cut }) })));

t.test(
  "the same request gets the same response, in any protocol, streamed or whole, without a call to a provider",
  async (t) => {
    await using driven = await drive(Cache);
    for (const protocol of driven.protocols)
      for (const model of ["any", "gemini", "anthropic-messages"])
        for (const form of forms) {
          const about = JSON.stringify({ protocol, model, ...form });
          const asked = { protocol, model, text: about, ...form };
          const first = await driven.ask(asked, "An answer.");
          const second = await driven.ask(asked, "Another one.");
          t.same([first.text, first.sent.length], ["An answer.", 1], about);
          t.same([second.text, second.sent, second.status], ["An answer.", [], 200], about);
          t.same(second.body, first.body, about);
          t.equal(second.headers["content-type"], first.headers["content-type"], about);
        }
    const [last] = await driven.ledger();
    t.match(last, { target: "answered by cache", cost: 0, source: "free", outcome: "completed" });
  },
);

t.test(
  "nothing is shared between keys unless configured, and expired or failed responses are requested again",
  async (t) => {
    const keys = { test: { key: "test-key-0123456789abcdef" }, two: { key: "other-key-0123456789abcdef" } };
    const asked = async (options: object, ...requests: object[]) => {
      await using driven = await drive(Cache, { options: { ...options }, gateway: { keys } });
      const sent: number[] = [];
      for (const request of requests) {
        sent.push((await driven.ask({ protocol: "openai-chat", stream: true, ...request })).sent.length);
        await sleep(15);
      }
      return sent;
    };
    const other = { key: "other-key-0123456789abcdef" };
    t.same(await asked({}, {}, other, {}, other), [1, 1, 0, 0]);
    t.same(await asked({ shared: true }, {}, other, {}), [1, 0, 0]);
    t.same(await asked({ seconds: 0.01 }, {}, {}), [1, 1]);
    t.same(await asked({ bytes: 100 }, {}, {}), [1, 1], "too large to be cached");
    t.same(await asked({}, { disconnectAfterBytes: 10 }, {}, {}), [1, 1, 0], "a client that disconnected");
    const whole = { stream: false, text: "x" };
    t.same(
      await asked({ bytes: 1200 }, { text: "a" }, { text: "b" }, whole, whole, { text: "a" }),
      [1, 1, 1, 0, 1],
      "the oldest was removed",
    );
  },
);

t.test("an answer about another key's object is not given, though it may be shared", async (t) => {
  const upstream = await httpUpstream((_, response) => {
    const message = '{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[]}';
    const answer = `{"id":"resp_theirs","object":"response","status":"completed","output":[${message}]}`;
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { targets: [up:x] } }
keys: { theirs: { key: the-key-of-others-012345 }, mine: { key: the-key-that-makes-it-01 } }
`;
  const options = { cache: { shared: true } };
  const { url } = await startExamples(t, yaml, "[sse, auth, models, cache, rewrite, usage]", options);
  const ask = async (key: string, more: object) => {
    const body = JSON.stringify({ model: "m", input: "Go on.", ...more });
    const response = await fetch(`${url}/v1/responses`, {
      method: "POST",
      headers: asking({ authorization: `Bearer ${key}` }),
      body,
    });
    return { status: response.status, body: await response.text() };
  };
  const [theirs, mine] = ["the-key-of-others-012345", "the-key-that-makes-it-01"];
  await ask(theirs, {});
  t.match(await ask(mine, {}), { status: 200, body: /resp_theirs/ }, "what names no object");
  const about = { previous_response_id: "resp_theirs" };
  t.match(await ask(theirs, about), { status: 200 });
  t.match(await ask(theirs, about), { status: 200, body: /resp_theirs/ }, "one's own");
  t.match(await ask(mine, about), { status: 404, body: /object_not_found|previous_response_not_found/ });
});

t.test("gateways that share a store share its answers", async (t) => {
  const store = { ledger: `sqlite:${t.testdir()}/gateway.db` };
  await using one = await drive(Cache, { gateway: { store } });
  await using other = await drive(Cache, { gateway: { store } });
  const asked = { protocol: "anthropic-messages", stream: true };
  t.equal((await one.ask(asked, "From one.")).sent.length, 1);
  t.match(await other.ask(asked, "From another."), { text: "From one.", sent: { length: 0 } });
});

t.test("another framing, or another strictness, is another cache entry", async (t) => {
  const upstream = await repeating(t);
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
`;
  const { url } = await startExamples(t, yaml, "[sse, auth, models, cache, rewrite, usage]", { cache: {} });
  const body = JSON.stringify({ contents: [{ role: "user", parts: [{ text: "hi" }] }], generationConfig: { topK: 5 } });
  const ask = async (place: string, headers: Record<string, string> = {}) => {
    const response = await fetch(url + place, { method: "POST", headers: asking(headers), body });
    return `${response.status} ${response.headers.get("content-type")} ${(await response.text()).slice(0, 6)}`;
  };
  const path = "/v1beta/models/m:streamGenerateContent";
  for (const round of ["asked", "kept"]) {
    t.match(await ask(path), /^200 application\/json.* \[\{/, round);
    t.match(await ask(`${path}?alt=sse`), /^200 text\/event-stream.* data: /, round);
    t.match(await ask(path, { "gateway-strict": "1" }), /^400 /, round);
    t.equal(upstream.seen.length, 2, round);
  }
});

t.test(
  "a repeated answer of a translated request reports what was dropped and changed, as the first one did",
  async (t) => {
    const upstream = await repeating(t);
    const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
`;
    const { url } = await startExamples(t, yaml, "[sse, auth, models, cache, rewrite, usage]", { cache: {} });
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const messages = [{ role: "user", content: "hi" }];
    const body = JSON.stringify({ model: "m", max_tokens: 2048, top_k: 5, thinking, messages });
    const ask = async () => {
      const response = await fetch(`${url}/v1/messages?odd=1`, { method: "POST", headers: asking(), body });
      await response.text();
      return { status: response.status, ...reported(response.headers) };
    };
    const reported = (headers: Headers) => ({
      dropped: headers.get("gateway-dropped"),
      notices: headers.get("gateway-notice"),
    });
    const first = await ask();
    t.match(first, { status: 200, dropped: /top_k/, notices: /thinking/ });
    t.same(await ask(), first);
    t.same(await ask(), first);
    t.equal(upstream.seen.length, 1);
  },
);

t.test("a very large answer is not kept", async (t) => {
  await using driven = await drive(Cache);
  const asked = { protocol: "openai-chat", text: "Hi" };
  await driven.ask(asked, "z".repeat(5_000_000));
  t.match(await driven.ask(asked, "Another one."), { text: "Another one.", sent: { length: 1 } });
});

t.test("a provider's error is not served from the cache", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).end('data: {"error":{"message":"overloaded"}}\n\n'),
  );
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
retry: { attempts: 0 }
`;
  const { url } = await startExamples(t, yaml, "[sse, auth, models, cache, rewrite, usage]", { cache: {} });
  for (let i = 0; i < 2; i++) {
    const asked = { method: "POST", headers: asking(), body: '{"model":"m","messages":[],"stream":true}' };
    t.match(await (await fetch(`${url}/v1/chat/completions`, asked)).text(), /overloaded/);
  }
  t.equal(upstream.seen.length, 2);
});

t.test("a header in two lines is another entry than its first line alone", async (t) => {
  const upstream = await repeating(t);
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
`;
  const cache = { headers: ["OpenAI-Beta"] };
  const { url } = await startExamples(t, yaml, "[sse, auth, models, cache, rewrite, usage]", { cache });
  const body = '{"model":"m","messages":[{"role":"user","content":"hi"}]}';
  const calls = async (...lines: string[]) => {
    const headers = { ...asking(), "openai-beta": lines };
    const sent = request(`${url}/v1/chat/completions`, { method: "POST", headers }).end(body);
    const [answer] = (await once(sent, "response")) as [IncomingMessage];
    t.match(await text(answer), /You wrote: hi/);
    return upstream.seen.length;
  };
  t.same([await calls("a", "b"), await calls("a"), await calls("a", "b")], [1, 2, 2]);
});

t.test("a header that is forwarded to the provider is another entry: it may name a tenant", async (t) => {
  const upstream = await repeating(t);
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], forward: [X-Tenant, x-own-*] } }
models: { m: { targets: [up:x] } }
`;
  const cache = { shared: true };
  const { url } = await startExamples(t, yaml, "[sse, auth, models, cache, rewrite, usage]", { cache });
  const body = '{"model":"m","messages":[{"role":"user","content":"hi"}]}';
  const calls = async (headers: Record<string, string>) => {
    await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(headers), body })).text();
    return upstream.seen.length;
  };
  t.same(
    [await calls({ "x-tenant": "a" }), await calls({ "X-Tenant": "b" }), await calls({ "x-tenant": "a" })],
    [1, 2, 2],
  );
  t.same([await calls({ "x-own-user": "a" }), await calls({ "x-other": "a" }), await calls({})], [3, 4, 4]);
});
