import t, { type Test } from "tap";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

/** A plugin of one idea; `body` is that of its class. */
const plugin = (body: string): string => `
import { injectable } from "tsyringe";
import { type Attempt, type RequestExchange, type SendExchange, setMember } from "model-gateway";
const set = (on: { body: RequestExchange["body"]; edit: RequestExchange["edit"] }, name: string, value: unknown) =>
  on.body.scan && on.edit([setMember(on.body.scan, name, JSON.stringify(value))]);
@injectable()
export default class Own { ${body} }`;

const MASK = plugin(`request(exchange: RequestExchange) {
  set(exchange, "messages", JSON.parse(JSON.stringify(exchange.body.value("messages")).replace("me@home", "<address>")));
}`);
const BRIEF = plugin(`async request(exchange: RequestExchange) {
  set(exchange, "messages", [{ role: "system", content: "Be brief." }, ...exchange.body.value("messages") as []]);
}`);
const FIRST = plugin(`send(exchange: SendExchange, attempt: Attempt) {
  attempt.headers.set("x-seen", "first");
  set(attempt, "user", "first");
}`);
const SECOND = plugin(`send(exchange: SendExchange, attempt: Attempt) {
  attempt.headers.set("x-seen", attempt.headers.get("x-seen") + ", second");
  set(attempt, "user", attempt.body.value("user") + ", second");
}`);
const RENAME = plugin(`request(exchange: RequestExchange) {
  const { modelField } = exchange.body;
  if (modelField) exchange.edit([{ ...modelField, bytes: Buffer.from("painter") }]);
}`);

async function composed(t: Test, speaks: string, chain: string, files: Record<string, string>) {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const plugins = Object.keys(files).map((name) => `${name}: { from: ./${name}.ts }`);
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${speaks}] } }
models: { m: { targets: [up:x] }, painter: { targets: [up:vendors-painter] } }
plugins: { ${plugins.join(", ")} }
chains: { llm: ${chain}, read: [auth] }
`,
    Object.fromEntries(Object.entries(files).map(([name, text]) => [`${name}.ts`, text])),
  );
  const ask = async (path: string, body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${running.url}${path}`, { method: "POST", headers: asking(headers), body });
    await response.text();
    const { rawHeaders = [], body: sent = Buffer.alloc(0) } = upstream.seen.at(-1) ?? {};
    return { status: response.status, sent: sent.toString(), headers: rawHeaders };
  };
  return { ask };
}

const ASKED =
  '{ "messages": [{"role":"user","content":"Write to me@home."}] ,"model":"m", "seed":12345678901234567890}';

t.test("two plugins that replace the same member build on each other, and all other bytes stay", async (t) => {
  const { ask } = await composed(t, "openai-chat", "[auth, mask, brief, models, rewrite]", {
    mask: MASK,
    brief: BRIEF,
  });
  const { sent } = await ask("/v1/chat/completions", ASKED);
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Write to <address>." },
  ];
  t.equal(sent, `{ "messages": ${JSON.stringify(messages)} ,"model":"x", "seed":12345678901234567890}`);
});

t.test("their combined result is also what is translated", async (t) => {
  const files = { mask: MASK, brief: BRIEF };
  const { ask } = await composed(t, "anthropic-messages", "[auth, mask, brief, models, rewrite]", files);
  const { sent } = await ask("/v1/chat/completions", ASKED);
  t.match(JSON.parse(sent), {
    system: [{ text: "Be brief." }],
    messages: [{ content: [{ text: "Write to <address>." }] }],
  });
  t.notMatch(sent, "me@home");
});

t.test("in an attempt too, whether it is translated between them or not", async (t) => {
  for (const speaks of ["openai-chat", "anthropic-messages"]) {
    const files = { first: FIRST, second: SECOND };
    const { ask } = await composed(t, speaks, "[auth, models, first, rewrite, second]", files);
    const { sent, headers } = await ask("/v1/chat/completions", ASKED);
    t.equal(headers[headers.indexOf("x-seen") + 1], "first, second", speaks);
    t.match(JSON.parse(sent), { model: "x", user: /second$/ }, speaks);
    const both = speaks === "openai-chat" ? { user: "first, second" } : { metadata: { user_id: "first" } };
    t.match(JSON.parse(sent), both, speaks);
  }
});

t.test("a form whose model a plugin has changed is routed by the new one", async (t) => {
  const { ask } = await composed(t, "openai-images", "[auth, rename, models, rewrite]", { rename: RENAME });
  const form = (model: string) => `--xx\r\ncontent-disposition: form-data; name="model"\r\n\r\n${model}\r\n--xx--\r\n`;
  const type = { "content-type": "multipart/form-data; boundary=xx" };
  const { sent, status } = await ask("/v1/images/edits", form("nobody"), type);
  t.equal(status, 200);
  t.equal(sent, form("vendors-painter"));
});

t.test("a body that nobody changes is sent as the very bytes that arrived", async (t) => {
  const { ask } = await composed(t, "openai-chat", "[auth, models, rewrite]", {});
  const body = ASKED.replace('"m"', '"painter"');
  t.equal((await ask("/v1/chat/completions", body)).sent, body.replace('"painter"', '"vendors-painter"'));
});

t.test("a stage after rewrite changes what is translated, whole and streamed", async (t) => {
  const message = { id: "msg_1", type: "message", role: "assistant", model: "x", stop_reason: "end_turn" };
  const usage = { input_tokens: 1, output_tokens: 1 };
  const events = [
    { type: "message_start", message: { ...message, stop_reason: null, content: [], usage } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Write to me@" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "home." } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
    { type: "message_stop" },
  ];
  const stream = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  const whole = JSON.stringify({ ...message, content: [{ type: "text", text: "Write to me@home." }], usage });
  const upstream = await httpUpstream(({ body }, reply) =>
    JSON.parse(body.toString()).stream
      ? reply.setHeader("content-type", "text/event-stream").end(stream)
      : reply.setHeader("content-type", "application/json").end(whole),
  );
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [anthropic-messages] } }
models: { m: { targets: [up:x] } }
plugins: { mask: { from: ./mask.ts } }
chains: { llm: [sse, auth, models, rewrite, mask, usage], read: [auth] }
`,
    {
      "mask.ts": `import { type ResponseExchange } from "model-gateway";
export default class Mask {
  response(exchange: ResponseExchange) { return exchange.replaceResponseText({ pattern: /me@home/, maxLength: 7 }, () => "<address>"); }
}`,
    },
  );
  for (const streamed of [false, true]) {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], stream: streamed });
    const asked = { method: "POST", headers: asking(), body };
    const text = await (await fetch(`${url}/v1/chat/completions`, asked)).text();
    t.match(
      text,
      streamed ? /chat\.completion\.chunk[\s\S]*<address>/ : /"chat\.completion"[\s\S]*Write to <address>\./,
    );
    t.notMatch(text, /me@/);
  }
});
