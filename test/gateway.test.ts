import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import t from "tap";
import { openStores } from "../src/store/open.ts";
import { asking, startGateway } from "./support/gateway.ts";
import { listen } from "./support/listen.ts";
import { httpUpstream } from "./support/upstream.ts";

const DEMO =
  'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] }, slow: { targets: [demo:slow] } }\n';
const BODY = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}';

t.test("every path of the specification answers from the demo provider, streamed and whole", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const text = "hello gateway";
  const asks: [string, object, RegExp][] = [
    ["/v1/chat/completions", { model: "echo", messages: [{ role: "user", content: text }] }, /hello gateway/],
    [
      "/v1/chat/completions",
      { model: "echo", stream: true, messages: [{ role: "user", content: text }] },
      /data: \[DONE\]\n\n$/,
    ],
    ["/v1/completions", { model: "echo", prompt: text }, /hello gateway/],
    ["/v1/completions", { model: "echo", prompt: text, stream: true }, /data: \[DONE\]\n\n$/],
    ["/v1/responses", { model: "echo", input: text }, /hello gateway/],
    ["/v1/responses", { model: "echo", input: text, stream: true }, /event: response\.completed/],
    ["/v1/responses/input_tokens", { model: "echo", input: text }, /input_tokens/],
    ["/v1/responses/compact", { model: "echo", input: text }, /output|compaction/],
    ["/v1/messages", { model: "echo", max_tokens: 50, messages: [{ role: "user", content: text }] }, /hello gateway/],
    [
      "/v1/messages",
      { model: "echo", max_tokens: 50, stream: true, messages: [{ role: "user", content: text }] },
      /event: message_stop/,
    ],
    ["/v1/messages/count_tokens", { model: "echo", messages: [{ role: "user", content: text }] }, /input_tokens/],
    ["/v1/images/generations", { model: "echo", prompt: text }, /b64_json|url/],
    ["/v1/embeddings", { model: "echo", input: text }, /embedding/],
    ...["/v1beta/models/", "/v1/models/", "/v1alpha/models/", "/v1beta1/publishers/google/models/"].flatMap(
      (prefix): [string, object, RegExp][] => [
        [`${prefix}echo:generateContent`, { contents: [{ parts: [{ text }] }] }, /hello gateway/],
        [`${prefix}echo:streamGenerateContent?alt=sse`, { contents: [{ parts: [{ text }] }] }, /^data: /],
        [`${prefix}echo:streamGenerateContent`, { contents: [{ parts: [{ text }] }] }, /^\[/],
        [`${prefix}echo:countTokens`, { contents: [{ parts: [{ text }] }] }, /totalTokens/],
      ],
    ),
    ["/v1beta/models/echo:embedContent", { content: { parts: [{ text }] } }, /values/],
  ];
  for (const [path, body, expected] of asks) {
    const response = await fetch(url + path, { method: "POST", headers: asking(), body: JSON.stringify(body) });
    t.equal(response.status, 200, path);
    t.match(await response.text(), expected, path);
  }
});

t.test("forms are answered too, and refused where they name no model", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const { authorization } = asking() as { authorization: string };
  for (const path of ["/v1/images/edits", "/v1/images/variations"]) {
    const form = new FormData();
    form.append("image", new Blob([Buffer.alloc(1000)]), "a.png");
    form.append("prompt", "a cat");
    const nameless = await fetch(url + path, { method: "POST", headers: { authorization }, body: form });
    t.match(await nameless.json(), { error: { param: "model" } }, path);
    form.append("model", "echo");
    const response = await fetch(url + path, { method: "POST", headers: { authorization }, body: form });
    t.equal(response.status, 200, path);
    t.match(await response.text(), /b64_json|url/, path);
  }
});

t.test("a start that fails leaves nothing open, and reports why", async (t) => {
  const port = await listen(t, createServer());
  await t.rejects(startGateway(t, `listen: 127.0.0.1:${port}\n${DEMO}`), { code: "EADDRINUSE" });
  await t.rejects(startGateway(t, DEMO.replace("demo:echo", "dmo:echo")), { message: /did you mean "demo"/ });
});

t.test("a stop lets a running exchange end, and accepts no new ones", async (t) => {
  let answer = () => {};
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": "application/json" });
    answer = () => void reply.end('{"done":true}');
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { echo: { targets: [up:x] } }\n`,
  );
  const running = fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: BODY });
  while (upstream.seen.length === 0) await new Promise(setImmediate);
  const stopped = gateway.stop({ drain: 60_000 });
  const asks = () => fetch(`${url}/v1/models`, { headers: asking() }).then((answer) => answer.text());
  // Who comes while what waits is being taken is answered too.
  while (
    await asks().then(
      () => true,
      () => false,
    )
  );
  answer();
  t.same(await (await running).json(), { done: true });
  await stopped;
});

t.test("what waits for a restart is known without a load of gateway.yaml, unless that has changed", async (t) => {
  const env: Record<string, string> = { ADMIN_TOKEN: "admin-token-0123456789abcdef" };
  const yaml = `${DEMO}admin: { listen: "127.0.0.1:0", token: $ADMIN_TOKEN }\n`;
  const { gateway, folder } = await startGateway(t, yaml, {}, env);
  const { text } = gateway.config;
  const file = join(folder, "gateway.yaml");
  t.same(await gateway.awaitingRestart(), []);
  writeFileSync(file, `${text}workers: 2\n`);
  t.same(await gateway.awaitingRestart(), ["workers"], "of the file that is not loaded yet");
  await gateway.reload();
  t.same(await gateway.awaitingRestart(), ["workers"], "of the loaded file");
  delete env["ADMIN_TOKEN"];
  await t.rejects(gateway.compare(), { message: /ADMIN_TOKEN is not set/ });
  t.same(await gateway.awaitingRestart(), ["workers"]);
  writeFileSync(file, text);
  await t.rejects(gateway.awaitingRestart(), { message: /ADMIN_TOKEN is not set/ });
});

t.test("keys of the store whose limits gateway.yaml does not enforce are logged by a start and a reload", async (t) => {
  const ledger = join(t.testdir(), "gateway.db");
  const stores = openStores(ledger, [], () => {});
  const limits = { rpm: 5 };
  for (const name of ["limited", "revoked"]) await stores.keys.create({ name, limits });
  await stores.keys.create({ name: "free" });
  const { id } = (await stores.keys.list()).find(({ name }) => name === "revoked") ?? { id: "" };
  await stores.keys.revoke(id);
  await stores.close();
  const store = `store: { ledger: "sqlite:${ledger}" }\n`;
  const unlimited = `${DEMO + store}chains: { llm: [sse, auth, models, rewrite, usage] }\n`;
  const { gateway, folder, log } = await startGateway(t, unlimited);
  const logged = () =>
    log.lines.filter(({ message }) => message.startsWith("keys have limits")).map(({ fields }) => fields["keys"]);
  t.match(
    log.lines.find(({ message }) => message.startsWith("keys have limits")),
    {
      level: "error",
      message:
        'keys have limits, and nothing enforces them on /v1/messages: add "limits" to its chain, after "auth" and "models". Until then their requests there are refused.',
    },
  );
  t.same(logged(), [["limited"]]);
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, gateway.config.text.replace("models, rewrite", "models, limits, rewrite"));
  await gateway.reload();
  t.equal(logged().length, 1);
  writeFileSync(file, gateway.config.text.replace("models, limits, rewrite", "models, rewrite"));
  await gateway.reload();
  t.same(logged(), [["limited"], ["limited"]]);
});
