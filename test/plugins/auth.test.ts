import t from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;
const BODY = '{"model":"echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';

const ask = (running: Running, headers: Record<string, string>, path = "/v1/messages", body = BODY) =>
  fetch(running.url + path, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });

t.test("one key opens every protocol, in every place that clients put it", async (t) => {
  const running = await startGateway(t, YAML);
  const places: [Record<string, string>, string?][] = [
    [{ authorization: `Bearer ${KEY}` }],
    [{ "x-api-key": KEY }],
    [{ "x-goog-api-key": KEY }],
    [{}, `/v1/messages?key=${KEY}`],
    [{ authorization: `Bearer ${KEY}`, "x-api-key": KEY }],
    [{ authorization: "Bearer sk-somebody-elses-key", "x-api-key": KEY }],
  ];
  for (const [headers, path] of places)
    t.equal((await ask(running, headers, path)).status, 200, JSON.stringify(headers));
});

t.test("no key and an unknown key are a 401 that says how keys look and that asking again is useless", async (t) => {
  const running = await startGateway(t, YAML);
  const none = await ask(running, {});
  t.equal(none.status, 401);
  t.equal(none.headers.get("x-should-retry"), "false");
  t.match(await none.json(), { type: "error", error: { type: "authentication_error", message: /gw_/ } });
  const vendors = await ask(running, { "x-api-key": "sk-ant-api03-abc" }, "/v1/chat/completions");
  t.equal(vendors.status, 401);
  t.match(await vendors.json(), { error: { code: "invalid_api_key", message: /vendor.*gw_/ } });
  const gemini = await ask(running, { "x-goog-api-key": "gw_wrong" }, "/v1beta/models/echo:generateContent");
  t.match(await gemini.json(), { error: { code: 401, status: "UNAUTHENTICATED" } });
});

t.test("two different keys of ours are refused", async (t) => {
  const running = await startGateway(
    t,
    `${YAML}keys: { a: { key: "key-a-0123456789abcdef" }, b: { key: "key-b-0123456789abcdef" } }\n`,
  );
  const both = await ask(running, {
    authorization: "Bearer key-a-0123456789abcdef",
    "x-api-key": "key-b-0123456789abcdef",
  });
  t.equal(both.status, 400);
});

t.test("a key made at run time opens, until it is revoked or expires", async (t) => {
  const running = await startGateway(t, YAML);
  const { keys } = running.gateway.stores;
  const { key, record } = await keys.create({ name: "ci" });
  t.equal((await ask(running, { "x-api-key": key })).status, 200);
  await keys.revoke(record.id);
  const refused = await ask(running, { "x-api-key": key });
  t.equal(refused.status, 401);
  t.match(await refused.json(), { error: { message: /revoked/ } });
  const old = await keys.create({ name: "old", expires: Date.now() - 1000 });
  t.equal((await ask(running, { "x-api-key": old.key })).status, 401);
});

t.test("a key with models sees and uses only these", async (t) => {
  const running = await startGateway(
    t,
    `${YAML.replace("models: {", "models: { other: { targets: [demo:echo] },")}keys: { ci: { key: ${KEY}, models: [other] } }\n`,
  );
  t.equal((await ask(running, { "x-api-key": KEY })).status, 404);
  t.equal((await ask(running, { "x-api-key": KEY }, undefined, BODY.replace("echo", "other"))).status, 200);
});

t.test("with `anonymous: true` a request without a key passes, one with a wrong key does not", async (t) => {
  const running = await startGateway(t, `${YAML}plugins: { auth: { anonymous: true } }\n`);
  t.equal((await ask(running, {})).status, 200);
  t.equal((await ask(running, { "x-api-key": "gw_wrong" })).status, 401);
});

t.test("a key never reaches a log line or an error", async (t) => {
  const running = await startGateway(t, YAML);
  const canary = "gw_canary_0123456789abcdef";
  for (const path of [
    `/v1/messages?key=${canary}`,
    `/v1/nowhere?key=${canary}`,
    `/v1/messages?key=${canary}&key=${canary}2`,
    `/v1/../x?key=${canary}`,
  ]) {
    const answer = await ask(running, { "x-api-key": canary, authorization: `Bearer ${canary}` }, path);
    t.notMatch(await answer.text(), /canary/, path);
    t.ok(answer.status >= 400);
  }
  t.notMatch(JSON.stringify(running.log.lines), /canary/);
});
