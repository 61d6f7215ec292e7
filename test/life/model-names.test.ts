import t from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { send } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

t.test("a long model name is truncated wherever it occurs", async (t) => {
  const { url, port } = await startGateway(
    t,
    `providers: { up: { url: "http://127.0.0.1:1/v1", websocket: true, speaks: [openai-chat, openai-images, openai-realtime, gemini] } }\nmodels: { any: { targets: [up:any] } }\n`,
  );
  const form = (name: string) => `--b\r\ncontent-disposition: form-data; name="model"\r\n\r\n${name}\r\n--b--\r\n`;
  const multipart = { "content-type": "multipart/form-data; boundary=b" };
  const post = async (path: string, body: string, more: Record<string, string> = {}) => {
    const answer = await fetch(url + path, { method: "POST", headers: asking(more), body });
    return `${answer.status} ${await answer.text()}`;
  };
  const get = async (path: string) => {
    const answer = await fetch(url + path, { headers: asking() });
    return `${answer.status} ${await answer.text()}`;
  };
  const socket = async (name: string) => {
    const lines = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
    const secret = `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer ${KEY}`;
    const { text } = await send(port, `GET /v1/realtime?model=${name} HTTP/1.1\r\n${lines}\r\n${secret}\r\n\r\n`);
    return text.slice("HTTP/1.1 ".length);
  };
  const places: Record<string, (name: string) => Promise<string>> = {
    body: (name) => post("/v1/chat/completions", JSON.stringify({ model: name, messages: [] })),
    form: (name) => post("/v1/images/edits", form(name), multipart),
    path: (name) => post(`/v1beta/models/${name}:generateContent`, '{"contents":[]}'),
    query: socket,
    list: (name) => get(`/v1/models/${name}`),
  };
  for (const [place, ask] of Object.entries(places)) {
    t.match(await ask("x".repeat(256)), /^404 .*No model/s, `${place}: 256 bytes`);
    t.match(await ask("x".repeat(257)), /^400 .*model is longer than 256 bytes/s, `${place}: 257 bytes`);
  }
  for (const [place, name] of [
    ["body", "a\u0007"],
    ["form", "a\u0007"],
    ["path", "a%07"],
    ["query", "a%07"],
    ["list", "a%07"],
  ] as const)
    t.match(await places[place]?.(name), /^400 /, `${place}: a control character`);
});

t.test(
  "a model with colons is served on Gemini's paths, whatever its provider's protocol, by its full name",
  async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const { url } = await startGateway(
      t,
      `providers:
  ollama: { url: "demo:", speaks: [openai-chat] }
  google: { url: "${upstream.origin.origin}/v1beta", speaks: [gemini] }
models:
  "llama3:8b": { targets: ["ollama:echo"] }
  "tuned:a:b": { targets: ["google:x:y"] }
`,
    );
    const ask = async (path: string) => {
      const body = '{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}';
      const answer = await fetch(url + path, { method: "POST", headers: asking(), body });
      return { status: answer.status, text: await answer.text() };
    };
    for (const name of ["llama3:8b", "llama3%3A8b"])
      for (const path of [`/v1beta/models/${name}`, `/v1/models/${name}`]) {
        t.match(await ask(`${path}:generateContent`), { status: 200, text: /"text":"Hi"/ }, path);
        t.match(await ask(`${path}:streamGenerateContent?alt=sse`), {
          status: 200,
          text: /^data: .*"finishReason":"STOP"/s,
        });
        t.match(await ask(`${path}:countTokens`), { status: 200, text: /"totalTokens":\d+/ });
      }
    t.match(await ask("/v1beta/models/llama3:generateContent"), { status: 404, text: /llama3/ });
    t.equal((await ask("/v1beta/models/tuned:a:b:generateContent")).status, 200);
    t.equal(decodeURIComponent(upstream.seen.at(-1)?.url ?? ""), "/v1beta/models/x:y:generateContent");
  },
);

t.test(
  "azure's clients are served: the deployment in their path is the model, before and without the body's",
  async (t) => {
    const upstream = await httpUpstream();
    t.teardown(() => upstream.close());
    const { url } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [openai-chat, openai-images] } }
models: { any: { targets: [up:vendor] } }
`,
    );
    const ask = async (name: string, body: object) => {
      const path = `/openai/deployments/${name}/chat/completions?api-version=2024-10-21`;
      const headers = { "content-type": "application/json", "api-key": KEY };
      const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: answer.status, text: await answer.text() };
    };
    const messages = [{ role: "user", content: "Hi" }];
    for (const body of [{ messages }, { model: "gpt-4o", messages }, { messages, model: 7 }]) {
      t.match(await ask("any", body), { status: 200 });
      t.strictSame(JSON.parse(String(upstream.seen.at(-1)?.body)), { ...body, model: "vendor" });
    }
    const form = new FormData();
    for (const [name, value] of [
      ["prompt", "A cat"],
      ["model", "gpt-image-1"],
    ] as const)
      form.append(name, value);
    const edits = `${url}/openai/deployments/any/images/edits?api-version=2025-04-01-preview`;
    t.equal((await fetch(edits, { method: "POST", headers: { "api-key": KEY }, body: form })).status, 200);
    t.match(String(upstream.seen.at(-1)?.body), /name="prompt"\r\n\r\nA cat\r\n.*name="model"\r\n\r\nvendor\r\n/s);
    form.delete("model");
    t.equal((await fetch(edits, { method: "POST", headers: { "api-key": KEY }, body: form })).status, 200);
    t.match(String(upstream.seen.at(-1)?.body), /name="prompt"\r\n\r\nA cat\r\n.*name="model"\r\n\r\nvendor\r\n--/s);
    t.match(await ask("a%22%7D", { messages }), { status: 404, text: /No model/ });
    t.match(await ask("a%07", { messages }), { status: 400, text: /control character/ });
    t.match(await ask("any", []), { status: 400 });
  },
);
