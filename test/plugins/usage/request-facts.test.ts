import t from "tap";
import { REQUEST_RECORD } from "../../../plugins/usage/request-facts.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

t.test("the request facts in the ledger match their description, however the request ended", async (t) => {
  const upstream = await httpUpstream(({ body }, reply) => {
    reply.setHeader("content-type", "application/json");
    if (body.toString().includes("fails")) reply.writeHead(500).end('{"error":{"message":"no"}}');
    else
      reply.end(
        '{"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":1}}}',
      );
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", protocol: openai-chat } }
models: { m: { targets: [p:v], price: { input: 1, output: 2 } }, free: { targets: [p:v] } }
paths: { /acme/v1/*: { pass: p, open: true } }
`,
  );
  const told = async (path: string, body: object) => {
    const answer = await fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify(body) });
    await answer.arrayBuffer();
    const found = await fetch(`${url}/v1/requests/${answer.headers.get("x-request-id")}`, { headers: asking() });
    t.equal(found.status, 200, path);
    return REQUEST_RECORD.parse(await found.json());
  };
  const chat = (content: string, more = {}) => ({ model: "m", messages: [{ role: "user", content }], ...more });
  t.match(await told("/v1/chat/completions", chat("hi")), { outcome: "completed", cost: 11_000 });
  t.match(await told("/v1/chat/completions", chat("fails")), { status: 500, error: {} });
  t.match(await told("/v1/chat/completions", chat("hi", { model: "none" })), { outcome: "rejected" });
  t.match(await told("/v1/messages", { ...chat("hi", { model: "free", max_tokens: 9 }), top_k: 5 }), {
    dropped: ["top_k"],
  });
  t.match(await told("/acme/v1/things", {}), { bytes: { up: 2 } });
});
