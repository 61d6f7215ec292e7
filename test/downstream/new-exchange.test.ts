import t from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';

t.test("a query parameter that occurs twice, or cannot be decoded, is refused", async (t) => {
  const { url } = await startGateway(t, MODELS);
  for (const [query, reason] of [
    ["alt=sse&alt=json", /"alt" occurs twice\. Send it once/],
    ["a=%zz", /broken escape/],
  ] as const) {
    const refused = await fetch(`${url}/v1/chat/completions?${query}`, {
      method: "POST",
      headers: asking(),
      body: BODY,
    });
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { code: "bad_target", message: reason } });
  }
});

t.test("a key in a part of the path that is not served is refused too, as notices quote the path", async (t) => {
  const { url } = await startGateway(t, MODELS);
  for (const path of [`/${KEY}/v1/chat/completions`, `/a/deployments/${KEY}/chat/completions?api-version=1`]) {
    const refused = await fetch(url + path, { method: "POST", headers: asking(), body: BODY });
    t.equal(refused.headers.get("gateway-notice"), null);
    t.match(await refused.json(), { error: { code: "misplaced_key" } }, path);
  }
});

t.test("a notice does not quote a path where no key was sent, as the key may be in the path", async (t) => {
  const { url } = await startGateway(t, MODELS);
  const headers = { "content-type": "application/json" };
  const refused = await fetch(`${url}/${KEY}/v1/chat/completions`, { method: "POST", headers, body: BODY });
  t.equal(refused.status, 401);
  const notice = "The path is read as /v1/chat/completions; correct the base address";
  t.equal(refused.headers.get("gateway-notice"), notice);
});

t.test("a key in a parameter for something else is refused, as providers get such parameters", async (t) => {
  const { url } = await startGateway(t, MODELS);
  for (const query of [`alt=${KEY}`, `x=Bearer%20${KEY}`, `${KEY}=1`]) {
    const refused = await fetch(`${url}/v1/chat/completions?${query}`, {
      method: "POST",
      headers: asking(),
      body: BODY,
    });
    t.match(await refused.json(), { error: { code: "misplaced_key" } }, query);
  }
});
