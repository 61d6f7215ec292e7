import { createHmac } from "node:crypto";
import t from "tap";
import { asking } from "../support/key.ts";
import { startExamples } from "./example.ts";

const SECRET = "a-secret-of-the-company-that-is-long";
const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, other: { targets: [demo:echo] } }
`;
const CHAIN = "[sse, company-token, auth, scrub, models, limits, rewrite, usage]";

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");

function token(claims: object, { secret = SECRET, alg = "HS256" } = {}): string {
  const signed = `${part({ alg, typ: "JWT" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

t.test("tokens of the company are accepted beside the gateway's keys", async (t) => {
  const { url, gateway } = await startExamples(t, YAML, CHAIN, {
    "company-token": { secret: SECRET, models: ["echo"] },
  });
  const ask = async (credential: string, model = "echo") => {
    const headers = { ...asking(), authorization: `Bearer ${credential}` };
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    return { status: response.status, text: await response.text() };
  };
  const now = Math.floor(Date.now() / 1000);
  const claims = { sub: "alice", exp: now + 600, group: "acme/research" };
  t.match(await ask(token(claims)), { status: 200, text: /"hi"/ });
  t.match(await ask(asking().authorization?.replace("Bearer ", "") ?? ""), { status: 200 }, "a key");
  t.match(await ask(token(claims), "other"), { status: 403, text: /\\"alice\\" may not use the model/ });
  t.match(await ask(token({ ...claims, exp: now - 1 })), { status: 401, text: /has expired/ });
  for (const wrong of [
    token(claims, { secret: `${SECRET}?` }),
    token(claims, { alg: "none" }),
    token({ sub: 7, exp: now + 600 }),
    token(claims).slice(0, -4),
    "a.b.c",
  ])
    t.match(await ask(wrong), { status: 401, text: /invalid_token/ }, wrong);
  await gateway.stores.keys.disableGroup("acme");
  t.match(await ask(token(claims)), { status: 401, text: /The group \\"acme\\"/ }, "its group may be disabled");
  t.match(await ask("gw_no_such_key"), { status: 401, text: /invalid_api_key/ });
});
