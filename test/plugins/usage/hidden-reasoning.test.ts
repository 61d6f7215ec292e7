import t, { type Test } from "tap";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

const event = (json: object) => `data: ${JSON.stringify(json)}\n\n`;
const STATE = "gAAAAAB".padEnd(1000 + 6200, "x");
const REASONING = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: STATE };
const MESSAGE = { type: "message", id: "msg_1", role: "assistant", content: [] };
const created = event({ type: "response.created", response: { id: "resp_1", reasoning: { effort: "medium" } } });
const added = (item: object) => event({ type: "response.output_item.added", output_index: 0, item });
const done = (item: object) => event({ type: "response.output_item.done", output_index: 0, item });
const text = Array.from({ length: 40 }, () =>
  event({ type: "response.output_text.delta", item_id: "msg_1", output_index: 1, content_index: 0, delta: " word" }),
).join("");
const cut = created + added({ ...REASONING, encrypted_content: "" }) + done(REASONING) + added(MESSAGE) + text;

const RESPONSES = ["/v1/responses", { input: "x" }] as const;
const CHAT = ["/v1/chat/completions", { messages: [{ role: "user", content: "x" }] }] as const;
const MESSAGES = ["/v1/messages", { messages: [{ role: "user", content: "x" }], max_tokens: 9000 }] as const;

/** Returns the ledger's row of a request whose provider sends this, and breaks off if it is a stream. */
async function row(t: Test, protocol: string, answer: string, path: string, request: object) {
  const stream = !answer.startsWith("{");
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": stream ? "text/event-stream" : "application/json" });
    if (!stream) reply.end(answer);
    else reply.write(answer, () => setTimeout(() => reply.destroy(), 50));
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/${protocol === "gemini" ? "v1beta" : "v1"}", speaks: [${protocol}] } }
models: { m: { price: { input: 0, output: 1, reasoning: 2 }, targets: [up:x] } }
`,
  );
  const body = JSON.stringify({ model: "m", stream, ...request });
  const response = await fetch(url + path, { method: "POST", headers: asking(), body });
  await response.text().catch(() => {});
  await gateway.stores.ledger.flush();
  return (await gateway.stores.ledger.recent(1))[0];
}

t.test("the hidden reasoning of a stream that breaks off is charged, to clients of every protocol", async (t) => {
  for (const [path, request] of [RESPONSES, CHAT, MESSAGES]) {
    const found = await row(t, "openai-responses", cut, path, request);
    t.match(found, { source: "estimated", usage: { out: { reasoning: 1000, total: 1040 } } }, path);
    t.equal(found?.cost, 1000 * 2000 + 40 * 1000, path);
  }
});

t.test("a stream that breaks off in its first reasoning is charged for what had come of it", async (t) => {
  const begun = created + added({ ...REASONING, encrypted_content: "" });
  const found = await row(t, "openai-responses", begun, ...RESPONSES);
  t.match(found, { source: "estimated", usage: { out: { total: 0, reasoning: undefined } } });
});

t.test("hidden reasoning is at most what the request allows", async (t) => {
  const [path, request] = RESPONSES;
  const found = await row(t, "openai-responses", cut, path, { ...request, max_output_tokens: 200 });
  t.match(found, { usage: { out: { total: 200, reasoning: 200 } }, cost: 200 * 2000 });
});

t.test("where a provider has counted its reasoning so far, that is charged", async (t) => {
  const part = { text: "One two three.", thoughtSignature: "x".repeat(6200) };
  const frame = (usageMetadata: object) => event({ candidates: [{ content: { parts: [part] } }], usageMetadata });
  const path = "/v1beta/models/m:streamGenerateContent?alt=sse";
  const request = { contents: [{ parts: [{ text: "x" }] }] };
  const counted = { promptTokenCount: 9, candidatesTokenCount: 5, thoughtsTokenCount: 800, totalTokenCount: 814 };
  const exact = await row(t, "gemini", frame(counted), path, request);
  t.match(exact, { source: "partial", usage: { out: { total: 805, reasoning: 800 } }, cost: 800 * 2000 + 5 * 1000 });
  const uncounted = await row(t, "gemini", frame({ trafficType: "ON_DEMAND" }), path, request);
  t.match(uncounted, { source: "estimated", usage: { out: { total: 1004, reasoning: 1000 } } });
});

t.test("hidden reasoning of a short whole answer without usage counts in its output", async (t) => {
  const reasoning = { ...REASONING, encrypted_content: STATE.slice(0, 1000 + 620) };
  const content = [{ type: "output_text", text: "One two three." }];
  for (const [output, total] of [
    [[reasoning, { ...MESSAGE, content }], 104],
    [[reasoning], 100],
  ] as const) {
    const found = await row(t, "openai-responses", JSON.stringify({ id: "resp_1", output }), ...RESPONSES);
    t.match(found, { source: "estimated", usage: { out: { total } } });
  }
});
