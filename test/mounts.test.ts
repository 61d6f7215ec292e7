import t from "tap";
import { asking, startGateway } from "./support/gateway.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;
const BODY = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}';
const ask = (url: string) => fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: BODY });

t.test("a path of the operator's own is served like the protocol's default one", async (t) => {
  const { url } = await startGateway(
    t,
    `${YAML}paths:\n  /acme/talk: { protocol: openai-chat, use: llm }\n  /v1/chat/completions: off\n`,
  );
  t.equal((await fetch(`${url}/acme/talk`, { method: "POST", headers: asking(), body: BODY })).status, 200);
  t.equal((await ask(url)).status, 404, "a default path that is off is not served");
  const counted = await fetch(`${url}/v1/messages/count_tokens`, { method: "POST", headers: asking(), body: BODY });
  t.equal(counted.status, 200, "the other default paths are");
});

t.test("clients that add a folder of their vendor's before the version are served, with a notice", async (t) => {
  const { url } = await startGateway(t, `${YAML}paths:\n  /v1/responses: off\n`);
  const at = (path: string, body?: string) =>
    fetch(`${url}${path}`, { headers: asking(), ...(body ? { method: "POST", body } : {}) });
  // As groq-sdk does, whatever its base address.
  const chat = await at("/openai/v1/chat/completions", BODY);
  t.equal(chat.status, 200);
  t.match(chat.headers.get("gateway-notice"), "/openai/v1/chat/completions read as /v1/chat/completions;");
  t.equal((await at("/openai/v1/models")).status, 200);
  t.equal((await at("/openai/v1/responses", BODY)).status, 404, "a path that is off is off there too");
  t.equal((await at("/openai/v1/nothing", BODY)).status, 404);
});

t.test(
  "a folder of the operator's own has the paths that are written, with their chains, and no default ones",
  async (t) => {
    const { url } = await startGateway(
      t,
      `${YAML}paths:
  /eu/v1/chat/completions: { protocol: openai-chat, use: [auth, models] }
  /acme/talk: { protocol: openai-chat }
  /v1/inner/chat/completions: { protocol: openai-chat }
`,
    );
    const status = async (path: string) =>
      (await fetch(`${url}${path}`, { method: "POST", headers: asking(), body: BODY })).status;
    t.equal(await status("/eu/v1/chat/completions"), 200);
    const notServed = ["/eu/v1/messages", "/eu/openai/v1/messages", "/EU/v1/messages", "/%65u/v1/messages"];
    for (const path of [...notServed, "/acme/v1/messages", "/v1/inner/v1/messages"])
      t.equal(await status(path), 404, path);
    for (const path of ["/openai/v1/chat/completions", "/v1/chat/v1/chat/completions"])
      t.equal(await status(path), 200, path);
  },
);
