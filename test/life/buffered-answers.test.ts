import { connect, type Socket } from "node:net";
import t, { type Test } from "tap";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

const KIB = 1024;
/** More than the buffers of two sockets take. */
const LARGE = 12 * 1024 * KIB;
const KEYS = ["one", "two", "three"].map((name) => `key-${name}-0123456789abcdef`);

const HEAD = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type:";
const event = (content: string, reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta: { content }, finish_reason: reason }] })}\n\n`;
const whole = (content: string) =>
  JSON.stringify({
    ...{ id: "x", object: "chat.completion", model: "m" },
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
  });

/** The beginning of each answer, by the model that is asked, and the rest of it. */
const ANSWERS: Record<string, [start: string, rest: string]> = {
  event: [
    `${HEAD} text/event-stream\r\n\r\n${event("Hi")}${event("a".repeat(400 * KIB)).slice(0, -1)}`,
    `\n${event("", "stop")}data: [DONE]\n\n`,
  ],
  events: [
    `${HEAD} text/event-stream\r\n\r\n${event("a".repeat(10 * KIB)).repeat(40)}`,
    `${event("", "stop")}data: [DONE]\n\n`,
  ],
  whole: [`${HEAD} application/json\r\n\r\n${whole("a".repeat(400 * KIB)).slice(0, -1)}`, "}"],
  large: [`${HEAD} application/json\r\n\r\n${whole("a".repeat(LARGE)).slice(0, -1)}`, "}"],
  small: [`${HEAD} application/json\r\n\r\n${whole("Hi")}`, ""],
};

/** A plugin that reads whole answers. */
const SWAP = `export default class Swap {
  response(exchange) {
    return exchange.replaceResponseText({ pattern: /b/, maxLength: 1 }, () => "c");
  }
}`;
const WITH_SWAP = `plugins: { swap: { from: ./swap.ts } }
chains: { llm: [sse, auth, scrub, models, limits, rewrite, swap, usage] }
`;
const WITH_SCRUB = "plugins: { scrub: { aggregators: [up] } }\n";

/** A gateway with room for the large answers of two keys, one each, and a provider that waits before the end of answers. */
async function setUp(t: Test, more = "", memory = "800KiB") {
  const waiting: { socket: Socket; rest: string }[] = [];
  const upstream = await rawUpstream(async (socket, request) => {
    const { model } = JSON.parse(String(await request.body));
    const [start, rest] = ANSWERS[model] as [string, string];
    socket.write(start);
    if (rest === "") socket.end();
    else waiting.push({ socket, rest });
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `answers: { memory: ${memory} }
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { ${Object.keys(ANSWERS)
      .map((model) => `${model}: { targets: [up:${model}] }`)
      .join(", ")} }
keys: { ${KEYS.map((key, i) => `k${i}: { key: ${key} }`).join(", ")} }
${more}`,
    { "swap.ts": SWAP },
  );
  const ask = async (key: number, model: string, path: string, stream: boolean) => {
    const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
    const prompt =
      path === "/v1/responses" ? { input: "x" } : { max_tokens: 9, messages: [{ role: "user", content: "x" }] };
    const body = { model, stream, ...prompt };
    const answer = await fetch(`${running.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    let text = "";
    try {
      for await (const piece of answer.body as ReadableStream<Uint8Array>) text += Buffer.from(piece);
    } catch {
      text += "(cut)";
    }
    return { status: answer.status, headers: answer.headers, text };
  };
  const ended = () => running.log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields);
  const finish = () => {
    for (const { socket, rest } of waiting.splice(0)) socket.end(rest);
  };
  const counted = (): number => Reflect.get(running.gateway.generation.upstreams, "options").answers.memory.size;
  return { ask, counted, ended, finish, url: running.url, waiting };
}

for (const { way, model, path, stream, more } of [
  { way: "incomplete events", model: "event", path: "/v1/chat/completions", stream: true },
  { way: "incomplete events that are translated", model: "event", path: "/v1/messages", stream: true },
  { way: "texts that translated streams repeat at the end", model: "events", path: "/v1/responses", stream: true },
  { way: "whole answers that are translated", model: "whole", path: "/v1/messages", stream: false },
  {
    ...{ way: "whole answers in which a plugin replaces texts", more: WITH_SWAP },
    ...{ model: "whole", path: "/v1/chat/completions", stream: false },
  },
  {
    ...{ way: "whole answers of which marks are removed", more: WITH_SCRUB },
    ...{ model: "whole", path: "/v1/chat/completions", stream: false },
  },
])
  t.test(`${way} have a bound, for a key and in all; those within it go on`, async (t) => {
    const { ask, counted, ended, finish, waiting } = await setUp(t, more);
    const first = [ask(0, model, path, stream), ask(1, model, path, stream)];
    await until(() => counted() >= 2 * 336 * KIB, "two to be buffered");
    const refused = [ask(0, model, path, stream), ask(2, model, path, stream)];
    await until(() => ended().length === 2, "two to be refused");
    t.match(ended(), [{ error: { code: "overloaded" } }, { error: { code: "overloaded" } }]);
    t.match(
      ended().map(({ estimated }) => estimated),
      [true, true],
      "the provider has done the work",
    );
    for (const each of refused) {
      const { status, headers, text } = await each;
      t.equal(status, stream ? 200 : 503);
      if (stream) t.match(text, /overloaded.*\(cut\)$/s);
      else t.match(headers.get("retry-after"), /\d/);
      t.match(text, /too large together/);
    }
    t.equal((await ask(2, "small", path, false)).status, 200, "a small answer");
    finish();
    for (const each of first) {
      const { status, text } = await each;
      t.equal(status, 200);
      t.ok(text.length > 400 * KIB);
      t.notMatch(text, /overloaded/);
    }
    const again = ask(2, model, path, stream);
    await until(() => waiting.length > 0);
    finish();
    t.equal((await again).status, 200, "and there is room again");
    await until(() => counted() === 0);
  });

t.test("texts that a translated stream has passed on have no bound", async (t) => {
  const { ask, counted, finish, waiting } = await setUp(t);
  const streams = [0, 0, 0, 1].map((key) => ask(key, "events", "/v1/messages", true));
  await until(() => waiting.length === 4);
  finish();
  for (const { text } of await Promise.all(streams)) {
    t.ok(text.length > 400 * KIB);
    t.notMatch(text, /overloaded/);
  }
  t.equal(counted(), 0);
});

t.test("a whole answer that was translated counts until its client has read it, or has left", async (t) => {
  const { ask, counted, ended, finish, url, waiting } = await setUp(t, "", "30MiB");
  const askSlowly = (key: number): Socket => {
    const { hostname, port } = new URL(url);
    const body = JSON.stringify({ model: "large", max_tokens: 9, messages: [{ role: "user", content: "x" }] });
    const head = [`POST /v1/messages HTTP/1.1`, `host: ${hostname}`, `authorization: Bearer ${KEYS[key]}`];
    const client = connect(Number(port), hostname).pause();
    client.write(`${[...head, `content-length: ${body.length}`].join("\r\n")}\r\n\r\n${body}`);
    return client;
  };
  const clients = [askSlowly(0), askSlowly(1)];
  await until(() => waiting.length === 2);
  finish();
  await until(() => ended().length === 2, "both to be written");
  t.ok(counted() >= 2 * (LARGE - 64 * KIB), "their clients have read nothing");
  const refused = ask(2, "large", "/v1/messages", false);
  await until(() => waiting.length === 1);
  finish();
  t.equal((await refused).status, 503);
  const [reader, leaver] = clients as [Socket, Socket];
  leaver.destroy();
  await until(() => counted() < LARGE, "the one that has left");
  reader.resume();
  await until(() => counted() === 0, "the one that reads");
  reader.destroy();
});
