import t from "tap";
import { asking } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { httpUpstream } from "../support/upstream.ts";

t.test("with workers the admin API answers for all of them", async (t) => {
  const yaml = `workers: 2
linger: off
providers: { demo: { url: "demo:" } }
models: { slow: { targets: [demo:slow] }, echo: { targets: [demo:echo] } }
limits: { models: { echo: { rpm: 5 } } }
`;
  const gateway = await startProcess(t, yaml);
  const admin = /admin +(\S+)/.exec(gateway.text)?.[1] ?? "";
  const api = async (path: string, method = "GET") => {
    const response = await fetch(`${admin}/api/${path}`, { method });
    // biome-ignore lint/suspicious/noExplicitAny: answers of any shape.
    const body: any = response.status === 204 ? undefined : await response.json();
    return { status: response.status, body };
  };
  const body = '{"model":"slow","stream":true,"messages":[{"role":"user","content":"hi"}]}';
  const call = () =>
    fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: asking({ connection: "close" }), body });
  const streams = await Promise.all([call(), call(), call(), call()]);
  const { requests } = (await api("live")).body;
  t.equal(requests.length, 4);
  t.equal(new Set(requests.map(({ worker }: { worker: number }) => worker)).size, 2);
  const ids = streams.map((each) => each.headers.get("x-request-id")).sort();
  t.same(requests.map(({ id }: { id: string }) => id).sort(), ids);
  t.equal((await api(`live/${ids[0]}/cancel`, "POST")).status, 204);
  await Promise.allSettled(streams.map((each) => each.text()));
  t.match((await api(`requests/${ids[0]}`)).body, { request: { outcome: "interrupted" } });
  t.match((await api("providers")).body.providers, [{ name: "demo", targets: [{ model: "slow", in_flight: 0 }, {}] }]);
  t.match((await api("budgets")).body.limits, [{ kind: "model", name: "echo", requests: { limit: 5, remaining: 5 } }]);
  t.match((await api("generations")).body.generations.length, 2);
  t.match((await api("now")).body, { running: 0, ready: true, parts: { workers: "2 of 2" } });
  t.same((await api("config/diff")).body.changes, []);
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  const counted = [...metrics.matchAll(/^gateway_requests_total\{.*model="slow".*\} (\d+)$/gm)];
  t.equal(
    counted.reduce((sum, [, count]) => sum + Number(count), 0),
    4,
  );
  t.equal(await gateway.end("SIGINT"), 0);
});

t.test("a running stream shows the tokens so far, not those that the provider reports at its start", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "text/event-stream");
    const send = (event: { type: string; [member: string]: unknown }) =>
      reply.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "x",
      content: [],
      usage: { input_tokens: 9, output_tokens: 1 },
    };
    send({ type: "message_start", message });
    send({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
    send({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "word ".repeat(100) } });
  });
  t.teardown(() => upstream.close());
  const yaml = `linger: off
providers: { p: { url: "${upstream.origin.origin}/v1", protocol: anthropic-messages } }
models: { m: { targets: [p:x] } }
`;
  const gateway = await startProcess(t, yaml);
  const admin = /admin +(\S+)/.exec(gateway.text)?.[1] ?? "";
  const body = '{"model":"m","max_tokens":999,"stream":true,"messages":[{"role":"user","content":"hi"}]}';
  const ending = new AbortController();
  const answer = await fetch(`${gateway.url}/v1/messages`, {
    method: "POST",
    headers: asking(),
    body,
    signal: ending.signal,
  });
  const reader = answer.body?.getReader();
  for (let text = ""; !text.includes("word word"); )
    text += Buffer.from((await reader?.read())?.value ?? []).toString();
  const { requests } = (await (await fetch(`${admin}/api/live`)).json()) as { requests: { tokens: number }[] };
  t.ok((requests[0]?.tokens ?? 0) >= 90, JSON.stringify(requests));
  ending.abort();
});
