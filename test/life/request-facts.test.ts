import t from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const OTHER = "other-key-0123456789abcdef";

t.test(
  "an answer names its model and the number of attempts, and its row is for the key that sent the request",
  async (t) => {
    let failing = true;
    const upstream = await httpUpstream((_, reply) => {
      reply.setHeader("content-type", "application/json");
      if (failing) reply.writeHead(500).end('{"error":{"message":"no"}}');
      else reply.end('{"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}');
      failing = false;
    });
    t.teardown(() => upstream.close());
    const yaml = `providers:
  p: { url: "${upstream.origin.origin}/v1", protocol: openai-chat }
  off: { url: "http://127.0.0.1:9/v1", protocol: openai-chat, credential: $NOT_SET_ANYWHERE }
models:
  m: { targets: [p:v], price: { input: 1, output: 2 } }
  dead: { targets: [off:v] }
  spare: { targets: [off:v], fallback: [m] }
  deader: { targets: [off:v], fallback: [dead] }
keys: { test: { key: ${KEY} }, other: { key: ${OTHER} } }
`;
    const { url } = await startGateway(t, yaml);
    const body = '{"model":"m","messages":[{"role":"user","content":"hi"}]}';
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await response.text();
    t.equal(response.status, 200);
    const header = (name: string) => response.headers.get(name);
    t.same(["gateway-model", "gateway-target", "gateway-attempts"].map(header), ["m", "p:v", "2"]);
    const id = header("x-request-id") ?? "";
    const row = async (which: string, key = KEY) => {
      const answer = await fetch(`${url}/v1/requests/${which}`, { headers: { authorization: `Bearer ${key}` } });
      return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
    };
    const own = await row(id);
    t.match(own.body, {
      ...{ object: "request", id, model: "m", target: "p:v", status: 200, outcome: "completed", cost: 11_000 },
      ...{ attempts: [{ status: 500 }, { status: 200 }], usage: { in: { total: 7 }, out: { total: 2 } } },
    });
    t.equal(own.body["key"], undefined);
    t.notMatch(JSON.stringify(own.body), /"credential"/, "by which of its credentials is the operator's");
    t.equal((await row(id, OTHER)).status, 404, "not another key's");
    t.equal((await row("none")).status, 404);
    t.equal((await fetch(`${url}/v1/requests/${id}`)).status, 401);
    t.equal((await fetch(`${url}/v1/requests`, { headers: asking() })).status, 404);
    const listed = (await (await fetch(`${url}/v1/models`, { headers: asking() })).json()) as {
      data: { id: string }[];
    };
    t.same(
      listed.data.map((model) => model.id),
      ["m", "spare"],
      "the models that can be used now",
    );
  },
);

t.test("a target that cannot serve the request was not called, and is not counted", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "application/json").end('{"id":"c","choices":[]}');
  });
  t.teardown(() => upstream.close());
  const { url, log } = await startGateway(
    t,
    `providers:
  other: { url: "${upstream.origin.origin}/v1", protocol: anthropic-messages }
  same: { url: "${upstream.origin.origin}/v1", protocol: openai-chat }
models:
  m: { targets: [other:a, other:b] }
  both: { targets: [other:a], fallback: [rest] }
  rest: { targets: [same:c] }
`,
  );
  const asked = async (model: string) => {
    const body = JSON.stringify({ model, n: 2, messages: [{ role: "user", content: "hi" }] });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await response.text();
    const line = log.lines.findLast(({ message }) => message === "exchange")?.fields as { attempts: number };
    return [response.status, response.headers.get("gateway-attempts"), line.attempts];
  };
  t.same(await asked("m"), [400, "0", 0]);
  t.equal(upstream.seen.length, 0);
  t.same(await asked("both"), [200, "1", 1]);
});
