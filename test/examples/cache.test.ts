import t from "tap";
import { asking } from "../support/gateway.ts";
import { repeating } from "../support/repeating.ts";
import { httpUpstream } from "../support/upstream.ts";
import { startExamples } from "./example.ts";

t.test("who asks the same again gets the same answer, streamed or whole, and no provider is asked", async (t) => {
  const upstream = await repeating(t);
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x], price: { input: 1 } } }
keys: { one: { key: first-key-0123456789abcdef }, two: { key: second-key-0123456789abcdef } }
`;
  const chain = "[sse, auth, models, cache, rewrite, usage]";
  const { url, gateway } = await startExamples(t, yaml, chain, { cache: { seconds: 60, answers: 3 } });
  const ask = async (content: string, more: object = {}, key = "first-key-0123456789abcdef") => {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content }], ...more });
    const headers = asking({ authorization: `Bearer ${key}` });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    return { text: await response.text(), type: response.headers.get("content-type") };
  };
  for (const more of [{}, { stream: true }]) {
    const before = upstream.seen.length;
    const first = await ask("hi", more);
    t.same(await ask("hi", more), first);
    t.match(first.text, /You wrote: hi|"You"/);
    t.equal(upstream.seen.length, before + 1);
  }
  await gateway.stores.ledger.flush();
  const [last] = await gateway.stores.ledger.recent(1);
  t.match(last, { target: "answered by cache", cost: 0, source: "free", streaming: true, outcome: "completed" });
  const asked = upstream.seen.length;
  await ask("ho");
  await ask("hi", {}, "second-key-0123456789abcdef");
  t.equal(upstream.seen.length, asked + 2, "other words, or another caller");
  await ask("hi");
  t.equal(upstream.seen.length, asked + 3, "the oldest went first");
});

t.test("another framing, or another strictness, is another question", async (t) => {
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

t.test("a provider's error is not given again", async (t) => {
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
