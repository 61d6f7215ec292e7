import t, { type Test } from "tap";
import { asking, startGatewayTo } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";

interface Refusal {
  status: number;
  text: string;
  headers: Record<string, string>;
}

/** A gateway whose provider refuses as it is told to, in the protocol it is asked in. */
async function refusing(t: Test, path = "/v1/chat/completions") {
  let refusal: Refusal = { status: 400, text: "", headers: {} };
  const { url } = await startGatewayTo(t, "openai-chat, anthropic-messages, openai-embeddings", (_, reply) =>
    reply.writeHead(refusal.status, refusal.headers).end(refusal.text),
  );
  return async (status: number, text: string, headers: Record<string, string> = {}) => {
    refusal = { status, text, headers };
    const body = '{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}';
    const response = await fetch(url + path, { method: "POST", headers: asking(), body });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
}

const JSON_TYPE = { "content-type": "application/json; charset=utf-8" };

t.test("a provider's own error passes byte for byte, whatever its content type", async (t) => {
  const refuse = await refusing(t);
  const words = '{ "error" : {"message":"No such thing","code":"gone"} }';
  for (const status of [400, 403, 404, 413, 429, 500, 503])
    for (const headers of [JSON_TYPE, { "content-type": "text/plain" }, {}]) {
      const told = await refuse(status, words, headers);
      t.same([told.status, told.text], [status, words]);
      t.equal(told.headers.get("content-type"), Object.values(headers)[0] ?? null);
    }
});

gathered(t, "what no client reads is an error of the client's protocol, with the status it came with", async (t) => {
  const refuse = await refusing(t);
  for (const status of [400, 403, 404, 413, 429, 502])
    for (const [text, type] of [
      ["<html>No</html>", "text/html"],
      ["", "application/json"],
      ["", "text/html"],
      ['{"error":', "application/json"],
      ["3", "text/plain"],
    ] as const) {
      const told = await refuse(status, text, { "content-type": type, "retry-after": "9" });
      t.equal(told.status, status);
      t.match(JSON.parse(told.text), { error: { message: /./, type: String, code: String } }, `${status} ${type}`);
      t.equal(told.headers.get("retry-after"), "9");
      t.equal(told.headers.get("x-should-retry"), status === 429 || status === 502 ? null : "false");
    }
  const { text } = await refuse(404, "  404 page not found\n", { "content-type": "text/plain; charset=utf-8" });
  t.match(JSON.parse(text), { error: { message: "404 page not found" } }, "a plain text is the message");
  const long = await refuse(400, "prompt is too long ".repeat(100), { "content-type": "text/plain" });
  t.match(JSON.parse(long.text), { error: { code: "context_length_exceeded", message: /.{400}/ } });
  t.ok(long.text.length < 800);
});

t.test("exhausted credit: clients are told not to retry, and read the provider's message", async (t) => {
  const spent = '{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","code":null}}';
  const busy = '{"error":{"message":"Slow down.","type":"requests","code":"rate_limit_exceeded"}}';
  const refuse = await refusing(t);
  const told = await refuse(429, spent, JSON_TYPE);
  t.same([told.status, told.text, told.headers.get("x-should-retry")], [429, spent, "false"]);
  t.equal((await refuse(429, busy, JSON_TYPE)).headers.get("x-should-retry"), null);
  const said = await refuse(429, spent, { ...JSON_TYPE, "x-should-retry": "true" });
  t.equal(said.headers.get("x-should-retry"), "true", "the provider's own header counts");
  const embed = await refusing(t, "/v1/embeddings");
  t.equal((await embed(429, busy, JSON_TYPE)).text, busy, "a protocol without error translation");
});
