import t from "tap";
import { HeaderList } from "../../src/wire/headers.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const OTHER = "another-key-0123456789ab";

t.test(
  "an idempotency key is specific to its gateway key and each target; the same request has the same one",
  async (t) => {
    const upstream = await httpUpstream(({ body }, reply) =>
      body.includes("vendor-down") ? reply.writeHead(503).end("{}") : reply.end("{}"),
    );
    t.teardown(() => upstream.close());
    const { url } = await startGateway(
      t,
      `providers:
  up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, anthropic-messages] }
  own: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], idempotency: X-Once }
models: { m: { targets: [up:vendor-m] }, two: { targets: [up:vendor-down], fallback: [m] }, o: { targets: [own:x] } }
keys: { one: { key: ${KEY} }, other: { key: ${OTHER} } }
paths: { /v1/files: { pass: up, open: true } }
`,
    );
    const ask = async (
      key: string,
      once: string,
      path = "/v1/chat/completions",
      model = "m",
      name = "idempotency-key",
    ) => {
      const before = upstream.seen.length;
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", [name]: once };
      const body = JSON.stringify({ model, max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });
      await (await fetch(url + path, { method: "POST", headers, body })).text();
      return upstream.seen.slice(before).map(({ rawHeaders }) => {
        const at = rawHeaders.findIndex((each) => each.toLowerCase() === name);
        return at < 0 ? undefined : rawHeaders[at + 1];
      });
    };
    const [first] = await ask(KEY, "order-1");
    t.match(first, /^[\w-]{43}$/);
    t.same(await ask(KEY, "order-1"), [first]);
    const values = [
      first,
      ...(await ask(KEY, "order-2")),
      ...(await ask(OTHER, "order-1")),
      ...(await ask(KEY, "order-1", "/v1/files")),
      ...(await ask(OTHER, "order-1", "/v1/files")),
      ...(await ask(KEY, "order-3", "/v1/messages", "two")).slice(-2),
      ...(await ask(KEY, "order-1", "/v1/chat/completions", "o", "x-once")),
      ...(await ask(OTHER, "order-1", "/v1/chat/completions", "o", "x-once")),
    ];
    t.equal(values.length, 9);
    t.equal(new Set(values).size, 9, "no two are the same");
    t.notOk(values.includes(undefined));
  },
);

t.test("a request that is repeated without state which its provider refused is another one", async (t) => {
  const upstream = await httpUpstream(({ body }, reply) => {
    const isRefused = body.includes("encrypted_content");
    reply.setHeader("content-type", "application/json").statusCode = isRefused ? 400 : 200;
    reply.end(isRefused ? '{"error":{"code":"invalid_encrypted_content","message":"Not verified."}}' : "{}");
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses], idempotency: X-Once } }
models: { m: { targets: [up:m] } }
`,
  );
  const input = [
    { role: "user", content: "Hi" },
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "abc" },
    { role: "user", content: "Go on" },
  ];
  for (const once of [{}, { "x-once": "order-1" }]) {
    const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json", ...once };
    const body = JSON.stringify({ model: "m", store: false, input });
    t.equal((await fetch(`${url}/v1/responses`, { method: "POST", headers, body })).status, 200);
    const asked = upstream.seen.splice(0);
    t.equal(asked.length, 2);
    t.equal(new Set(asked.map(({ rawHeaders }) => new HeaderList(rawHeaders).get("x-once"))).size, 2);
  }
});
