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
