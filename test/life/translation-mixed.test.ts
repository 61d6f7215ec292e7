import { request } from "node:http";
import t, { type Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { CLIENTS, type Client, eventsOf } from "../support/four-clients.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream, rawUpstream, type SeenRequest } from "../support/upstream.ts";

const messages = CLIENTS["anthropic-messages"] as Client;
const chat = CLIENTS["openai-chat"] as Client;

const chunk = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "v", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`;
const STREAM = `${chunk({ role: "assistant", content: "" }) + chunk({ content: "Hel" }) + chunk({ content: "lo" }) + chunk({}, { finish_reason: "stop" })}data: [DONE]\n\n`;
const WHOLE = JSON.stringify({
  id: "c1",
  object: "chat.completion",
  created: 1,
  model: "v",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});

/** A gateway before an upstream that answers with the same thing whatever it is asked. */
async function before(t: Test, speaks: string, type: string, body: string, status = 200, more = "") {
  const upstream = await httpUpstream((_: SeenRequest, reply) =>
    reply.writeHead(status, { "content-type": type }).end(body),
  );
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${speaks}] } }\nmodels: { m: { targets: [up:vendor]${more} } }\n`,
  );
  const ask = async (path: string, json: object) => {
    const response = await fetch(running.url + path, {
      method: "POST",
      headers: asking(),
      body: JSON.stringify(json),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  const row = async () => {
    await running.gateway.stores.ledger.flush();
    return (await running.gateway.stores.ledger.recent(1))[0];
  };
  const sent = () => JSON.parse(upstream.seen.at(-1)?.body.toString() ?? "null") as JsonObject;
  return { ask, row, sent, upstream, running };
}

t.test(
  "a provider that streams unasked is read to its end, and the client gets the complete answer it requested",
  async (t) => {
    const { ask, row } = await before(t, "openai-chat", "text/event-stream", STREAM);
    const { status, headers, text } = await ask("/v1/messages", messages.with(messages.ask("Hi", "f"), "m", false));
    t.equal(status, 200, text);
    t.equal(headers.get("content-type"), "application/json");
    t.equal(headers.get("content-length"), String(Buffer.byteLength(text)));
    t.equal(messages.read(JSON.parse(text) as JsonObject).text, "Hello");
    t.match(await row(), { streaming: false, outcome: "completed" });
  },
);

t.test("a provider that does not stream although a stream was requested gives a stream all the same", async (t) => {
  const { ask, row } = await before(t, "openai-chat", "application/json", WHOLE);
  const { status, headers, text } = await ask("/v1/messages", messages.with(messages.ask("Hi", "f"), "m", true));
  t.equal(status, 200, text);
  t.match(headers.get("content-type"), /^text\/event-stream/);
  t.equal(messages.streamed(eventsOf(text)), "Hello");
  t.match(text, /event: message_stop/);
  t.match(await row(), { streaming: true, outcome: "completed", usage: { in: { total: 3 }, out: { total: 2 } } });
});

t.test("an answer that cannot be read is a 502 before its head, and its cost is counted", async (t) => {
  const broken = JSON.stringify({ ...(JSON.parse(WHOLE) as object), choices: "none" });
  const { ask, row } = await before(t, "openai-chat", "application/json", broken);
  const { status, text } = await ask("/v1/messages", messages.with(messages.ask("Hi", "f"), "m", false));
  t.equal(status, 502);
  t.match(JSON.parse(text), { type: "error", error: { type: "api_error" } });
  t.match(await row(), { outcome: "upstream_error", usage: { in: { total: 3 }, out: { total: 2 } } });
});

t.test("a page instead of an answer is a 502 in the client's protocol", async (t) => {
  const { ask } = await before(t, "openai-chat", "text/html", "<html>Welcome</html>");
  for (const stream of [false, true]) {
    const { status, text } = await ask("/v1/messages", messages.with(messages.ask("Hi", "f"), "m", stream));
    t.equal(status, 502);
    t.match(JSON.parse(text), { type: "error" });
  }
});

t.test("a prompt that is too long is reported with the error that the client looks for", async (t) => {
  const said = {
    error: {
      message: "This model's maximum context length is 8 tokens.",
      type: "invalid_request_error",
      code: "context_length_exceeded",
    },
  };
  const { ask } = await before(t, "openai-chat", "application/json", JSON.stringify(said), 400);
  const { status, text } = await ask("/v1/messages", messages.with(messages.ask("Hi", "f"), "m", false));
  t.equal(status, 400);
  t.match(JSON.parse(text), { error: { type: "invalid_request_error", message: /^prompt is too long: / } });
});

t.test("where a provider cannot count tokens the gateway estimates", async (t) => {
  const { ask, upstream } = await before(t, "openai-responses", "application/json", "{}", 404);
  const asked = { model: "m", messages: [{ role: "user", content: "word ".repeat(300) }] };
  const { status, headers, text } = await ask("/v1/messages/count_tokens", asked);
  t.equal(upstream.seen.length, 1);
  t.same([status, headers.get("gateway-estimate")], [200, "input_tokens"]);
  t.match(JSON.parse(text), { input_tokens: Number });
});

t.test("a protocol that suits a request better is used, unless it cannot express all of it", async (t) => {
  const { ask, upstream } = await before(t, "openai-chat, openai-responses", "application/json", WHOLE);
  const hard = { ...chat.with(chat.ask("Hi", "f"), "m", false), reasoning_effort: "low" };
  await ask("/v1/chat/completions", hard);
  t.equal(upstream.seen.at(-1)?.url, "/v1/responses");
  const { text } = await ask("/v1/chat/completions", { ...hard, stop: ["x"] });
  t.equal(upstream.seen.at(-1)?.url, "/v1/chat/completions");
  t.equal(text, WHOLE, "its own bytes pass then");
  await ask("/v1/chat/completions", chat.with(chat.ask("Hi", "f"), "m", false));
  t.equal(upstream.seen.at(-1)?.url, "/v1/chat/completions");
});

t.test(
  "function tools with reasoning go to the protocol that has both, whichever protocol the client speaks",
  async (t) => {
    const { ask, upstream } = await before(t, "openai-chat, openai-responses", "application/json", WHOLE);
    const last = () => upstream.seen.at(-1)?.url;
    const tools = messages.with(messages.ask("Hi", "f"), "m", false);
    const thinking = { thinking: { type: "adaptive" }, output_config: { effort: "high" } };
    await ask("/v1/messages", tools);
    t.equal(last(), "/v1/chat/completions");
    await ask("/v1/messages", { ...tools, ...thinking });
    t.equal(last(), "/v1/responses");
    t.match(JSON.parse(String(upstream.seen.at(-1)?.body)), { reasoning: { effort: "high" }, tools: [{}] });
    const padding = { metadata: { user_id: "x".repeat(300_000) } };
    await ask("/v1/messages", { ...tools, ...thinking, ...padding });
    t.equal(last(), "/v1/responses", "also a request that is translated in steps");
    await ask("/v1/messages", { ...tools, ...thinking, stop_sequences: ["x"] });
    t.equal(last(), "/v1/chat/completions", "which can express what the better one cannot");
    const set = await before(t, "openai-chat, openai-responses", "application/json", WHOLE, 200, ", via: openai-chat");
    await set.ask("/v1/messages", { ...tools, ...thinking });
    t.equal(set.upstream.seen.at(-1)?.url, "/v1/chat/completions", "gateway.yaml decides");
  },
);

t.test("gateway.yaml can set the protocol of a target", async (t) => {
  const { ask, upstream, running } = await before(
    t,
    "openai-responses, openai-chat",
    "application/json",
    WHOLE,
    200,
    ", via: openai-chat",
  );
  const { status, text } = await ask("/v1/responses", { model: "m", input: "Hi" });
  t.equal(status, 200, text);
  t.equal(upstream.seen.at(-1)?.url, "/v1/chat/completions");
  t.equal(running.log.lines.at(-1)?.fields["via"], "openai-chat");
});

t.test("the older completions go to providers that do not support them", async (t) => {
  const { ask, upstream } = await before(t, "openai-chat", "application/json", WHOLE);
  const { status, text } = await ask("/v1/completions", { model: "m", prompt: "Say Hello" });
  t.equal(status, 200, text);
  t.match(JSON.parse(text), { object: "text_completion", choices: [{ text: "Hello", finish_reason: "stop" }] });
  t.equal(upstream.seen.at(-1)?.url, "/v1/chat/completions");
});

t.test("a client that disconnects while a complete answer is read ends the provider's request", async (t) => {
  let closed = false;
  const upstream = await rawUpstream((socket) => {
    socket.on("close", () => {
      closed = true;
    });
    socket.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{");
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { m: { targets: [up:vendor] } }\n`,
  );
  const client = request({ port: running.port, method: "POST", path: "/v1/messages", headers: asking() });
  client.on("error", () => {});
  client.end(JSON.stringify(messages.with(messages.ask("Hi", "f"), "m", false)));
  await until(() => upstream.open === 1, "the request to arrive");
  await new Promise((later) => setTimeout(later, 20));
  client.destroy();
  await until(() => closed, "the connection to the provider to close");
  await until(() => running.log.lines.some(({ message }) => message === "exchange"), "the exchange to end");
  t.match(running.log.lines.findLast(({ message }) => message === "exchange")?.fields, { outcome: "aborted" });
});

t.test(
  "a conversation begun with another provider reaches one of the client's own protocol without foreign state",
  async (t) => {
    for (const [name, client] of Object.entries(CLIENTS)) {
      const other = name === "gemini" ? "anthropic-messages" : "gemini";
      const upstream = await httpUpstream();
      t.teardown(() => upstream.close());
      const running = await startGateway(
        t,
        `providers:
  up: { url: "${upstream.origin.origin}/v1", speaks: [${name}] }
  far: { url: "demo:", speaks: [${other}] }
models:
  own: { targets: [up:vendor-model] }
  far: { targets: [far:reasoning] }
`,
      );
      const post = (model: string, body: JsonObject) =>
        fetch(running.url + client.path(model, false), {
          method: "POST",
          headers: asking(),
          body: JSON.stringify(client.with(body, model, false)),
        });
      const body = { ...client.ask("Think.", "f"), ...client.thinking };
      const answer = (await (await post("far", body)).json()) as JsonObject;
      const next = client.next(body, answer, "Again.");
      t.match(JSON.stringify(next), /"gw1state/, name);
      const { headers } = await post("own", next);
      const sent = upstream.seen.at(-1)?.body.toString() ?? "";
      t.notMatch(sent, /gw1state|I am made to repeat it/, name);
      t.match(sent, /Think\..*Again\./s, name);
      if (name !== "gemini") t.match(JSON.parse(sent), { model: "vendor-model" });
      t.match(headers.get("gateway-notice"), /Reasoning that another provider made/, name);
    }
  },
);

t.test("free-text tools and tools in namespaces are the same in the answer, whole and streamed", async (t) => {
  const DEMOS = ["openai-chat", "anthropic-messages", "gemini"];
  const running = await startGateway(
    t,
    `providers:\n${DEMOS.map((name) => `  ${name}: { url: "demo:", speaks: [${name}] }\n`).join("")}models:\n${DEMOS.map((name) => `  ${name}: { targets: ["${name}:tool"] }\n`).join("")}`,
  );
  const tools = [
    {
      type: "namespace",
      name: "functions",
      description: "",
      tools: [{ type: "custom", name: "exec", description: "Runs it" }],
    },
  ];
  for (const model of DEMOS) {
    const ask = async (more: object) =>
      (
        await fetch(`${running.url}/v1/responses`, {
          method: "POST",
          headers: asking(),
          body: JSON.stringify({ model, tools, store: false, ...more }),
        })
      ).text();
    const input = [{ role: "user", content: "Go." }];
    const whole = JSON.parse(await ask({ input })) as { output: JsonObject[] };
    const call = whole.output.find((item) => item["type"] === "custom_tool_call");
    t.match(call, { name: "exec", namespace: "functions", input: "demo" }, model);
    const streamed = eventsOf(await ask({ input, stream: true }));
    const deltas = streamed.filter((event) => event["type"] === "response.custom_tool_call_input.delta");
    t.equal(deltas.map((event) => event["delta"]).join(""), "demo", model);
    const output = { type: "custom_tool_call_output", call_id: call?.["call_id"], output: "done" };
    t.match(await ask({ input: [...input, ...whole.output, output] }), /The tool answered: .*done/, model);
  }
});
