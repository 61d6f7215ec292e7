import Anthropic from "@anthropic-ai/sdk";
import t, { type Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { askedIn, SCRIPTS, TEXT } from "../support/scripted.ts";
import { httpUpstream } from "../support/upstream.ts";

const DETAILS = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
const MESSAGE = { id: "msg_1", type: "message", role: "assistant", model: "v", content: [], stop_reason: "end_turn" };

/** An account that speaks Messages and answers whatever it is asked, or says that it is overloaded. */
async function account(t: Test, busy = false) {
  const upstream = await httpUpstream((_, reply) =>
    reply
      .writeHead(busy ? 529 : 200, { "content-type": "application/json" })
      .end(
        JSON.stringify(busy ? { type: "error", error: { type: "overloaded_error", message: "Overloaded" } } : MESSAGE),
      ),
  );
  t.teardown(() => upstream.close());
  return { url: `${upstream.origin.origin}/v1`, seen: upstream.seen };
}

const CREATE = { type: "create" };
const CONTINUE = { type: "continue", previous_message_id: "msg_1" };

async function start(t: Test, yaml: string) {
  const running = await startGateway(t, yaml);
  return async (model: string, thread: unknown, more: JsonObject = {}, path = "/v1/messages") => {
    const response = await fetch(`${running.url}${path}?beta=true`, {
      method: "POST",
      headers: asking({ "anthropic-beta": "message-threads-2026-08-12" }),
      body: JSON.stringify({ model, max_tokens: 100, messages: [{ role: "user", content: "Hi" }], thread, ...more }),
    });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
}

t.test("a thread is refused with the error that its clients recover from, wherever none is stored", async (t) => {
  const third = await account(t);
  const ask = await start(
    t,
    `providers:
  chat: { url: "demo:", speaks: [openai-chat] }
  responses: { url: "demo:", speaks: [openai-responses] }
  gemini: { url: "demo:", speaks: [gemini] }
  demo: { url: "demo:", speaks: [anthropic-messages] }
  third: { url: "${third.url}", speaks: [anthropic-messages] }
models:
${["chat", "responses", "gemini", "demo", "third"].map((name) => `  ${name}: { targets: ["${name}:echo"] }\n`).join("")}`,
  );
  for (const model of ["chat", "responses", "gemini", "demo", "third"])
    for (const thread of [CREATE, CONTINUE])
      for (const [more, path] of [
        [{ stream: false }],
        [{ stream: true }],
        [{}, "/v1/messages/count_tokens"],
      ] as const) {
        const { status, headers, body } = await ask(model, thread, more, path);
        t.equal(status, 400, `${model} ${path}`);
        t.equal(headers.get("x-should-retry"), "false");
        const { error } = JSON.parse(body) as { error: JsonObject };
        t.match(error, { type: "invalid_request_error", message: /^thread: .* Send the whole conversation/ });
        t.same(error["details"], DETAILS, model);
      }
  t.equal(third.seen.length, 0);
  for (const model of ["chat", "demo", "third"])
    for (const thread of [null, undefined]) t.equal((await ask(model, thread)).status, 200, model);
});

t.test("a provider that stores threads gets them unchanged", async (t) => {
  const keeping = await account(t);
  const ask = await start(
    t,
    `providers: { keeping: { url: "${keeping.url}", speaks: [anthropic-messages], threads: true } }\nmodels: { m: { targets: ["keeping:v"] } }\n`,
  );
  const lost = await ask("m", CONTINUE);
  t.equal(lost.status, 400, "a message that this key never had");
  t.same((JSON.parse(lost.body) as { error: JsonObject }).error["details"], DETAILS, "its clients continue without it");
  for (const thread of [CREATE, CONTINUE]) t.equal((await ask("m", thread)).status, 200);
  t.same(
    keeping.seen.map(({ body }) => (JSON.parse(body.toString()) as JsonObject)["thread"]),
    [CREATE, CONTINUE],
  );
});

t.test(
  "no fallback answers a thread without its history, and the client is told what would make both work",
  async (t) => {
    const busy = await account(t, true);
    const third = await account(t);
    const ask = await start(
      t,
      `share: all
providers:
  busy: { url: "${busy.url}", speaks: [anthropic-messages], threads: true }
  third: { url: "${third.url}", speaks: [anthropic-messages] }
  chat: { url: "demo:", speaks: [openai-chat] }
models:
  equal: { targets: ["busy:v"], fallback: [third] }
  other: { targets: ["busy:v"], fallback: [chat] }
  third: { targets: ["third:v"], fallback: [kept] }
  kept: { targets: ["busy:v"] }
  chat: { targets: ["chat:echo"] }
`,
    );
    for (const model of ["equal", "other"]) {
      const { status, body } = await ask(model, CONTINUE);
      t.equal(status, 400);
      t.same((JSON.parse(body) as { error: JsonObject }).error["details"], DETAILS);
      t.equal((await ask(model, undefined)).status, 200);
    }
    const asked = busy.seen.length;
    t.equal((await ask("third", CONTINUE)).status, 529, "a target that stores threads is called in its place");
    t.equal(busy.seen.length, asked + 1);
  },
);

t.test("an agent whose thread's provider fails continues elsewhere with the whole conversation", async (t) => {
  const upstream = await httpUpstream((request, reply) => {
    const { vendor } = askedIn(request);
    const begins = vendor === "anthropic-messages" && upstream.seen.length === 1;
    if (vendor === "anthropic-messages" && !begins) reply.statusCode = 529;
    reply.setHeader("content-type", "application/json");
    if (reply.statusCode === 529)
      return reply.end('{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}');
    return reply.end(JSON.stringify(SCRIPTS[vendor].whole(begins ? "call" : "text")));
  });
  t.teardown(() => upstream.close());
  const url = `${upstream.origin.origin}/v1`;
  const running = await startGateway(
    t,
    `providers:
  keeping: { url: "${url}", speaks: [anthropic-messages], threads: true }
  chat: { url: "${url}", speaks: [openai-chat] }
models:
  m: { targets: ["keeping:v"], fallback: [other] }
  other: { targets: ["chat:v"] }
`,
  );
  const client = new Anthropic({ baseURL: running.url, apiKey: KEY, maxRetries: 0 });
  const tool = {
    ...{ type: "custom" as const, name: "f", description: "F", input_schema: { type: "object" as const } },
    run: () => "snow",
    parse: (input: unknown) => input,
  };
  const messages = [{ role: "user" as const, content: "How is the weather?" }];
  const last = await client.beta.messages.toolRunner({ model: "m", max_tokens: 99, messages, tools: [tool] });
  t.match(last.content, [{ type: "text", text: TEXT }]);
  const bodies = upstream.seen.map((request) => ({
    vendor: askedIn(request).vendor,
    body: JSON.parse(request.body.toString()) as JsonObject,
  }));
  t.same(bodies[0]?.body["thread"], CREATE);
  t.match(bodies[1]?.body, {
    thread: { type: "continue", previous_message_id: "msg_1" },
    messages: [{ role: "user" }],
  });
  const asked = bodies.filter(({ vendor }) => vendor === "openai-chat");
  t.equal(asked.length, 1, "no other target is called with the new turn alone");
  t.match(asked[0]?.body["messages"], [
    { role: "user", content: "How is the weather?" },
    { role: "assistant", tool_calls: [{ id: "toolu_1" }] },
    { role: "tool", tool_call_id: "toolu_1", content: "snow" },
  ]);
  const elsewhere = await fetch(`${running.url}/v1/messages`, {
    method: "POST",
    headers: asking(),
    body: JSON.stringify({ model: "other", max_tokens: 9, messages, thread: CONTINUE }),
  });
  t.equal(elsewhere.status, 400, "a model that the thread's provider does not serve");
  t.same(((await elsewhere.json()) as { error: JsonObject }).error["details"], DETAILS);
});
