/**
 * What real clients demand of a gateway: routing and keys. One test for each line of the list, in its order, against a
 * gateway between clients of every protocol and providers of every protocol; the list goes on in `2-requests`,
 * `3-answers` and `4-endings`.
 */

import { readFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import t, { type Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { PAIRS, pathFor, speaking } from "../support/checklist.ts";
import { asking, KEY, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { collect } from "../support/openai-sdks.ts";
import { send } from "../support/raw.ts";
import { TEXT } from "../support/scripted.ts";
import { httpUpstream } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** One body that all four protocols can read a question in. */
const QUESTION = {
  max_tokens: 100,
  messages: [{ role: "user", content: "Hi" }],
  input: "Hi",
};
const CONTENTS = { contents: [{ role: "user", parts: [{ text: "Hi" }] }] };
const bodyFor = (client: ProtocolName, model: string): JsonObject => {
  const { messages, input, max_tokens } = QUESTION;
  if (client === "gemini") return CONTENTS;
  return client === "openai-responses" ? { model, input } : { model, messages, max_tokens };
};

/** A gateway whose providers, one for each protocol, have a credential; its models have an alias with a slash. */
async function guarded(t: Test) {
  const upstream = await httpUpstream((request, reply) => speaking("text")(reply, request));
  t.teardown(() => upstream.close());
  const { origin } = upstream.origin;
  const yaml = `providers:
${PROTOCOLS.map((name) => `  ${name}: { url: "${origin}/v1", credential: the-providers-own, speaks: [${name}] }\n`).join("")}models:
${PROTOCOLS.map((name) => `  of-${name}: { aliases: [acme/of-${name}], targets: [${name}:any] }\n`).join("")}`;
  return { ...(await startGateway(t, yaml)), upstream };
}

gathered(
  t,
  "take the key from Bearer, x-api-key, x-goog-api-key, ?key=; of two the one that is ours counts",
  async (t) => {
    const { url, upstream } = await guarded(t);
    const places: Record<string, [headers: Record<string, string>, query: string]> = {
      bearer: [{ authorization: `Bearer ${KEY}` }, ""],
      "x-api-key": [{ "x-api-key": KEY }, ""],
      "x-goog-api-key": [{ "x-goog-api-key": KEY }, ""],
      "?key=": [{}, `?key=${KEY}`],
      "ours as a key, a vendor's as a token": [{ authorization: "Bearer sk-ant-vendor", "x-api-key": KEY }, ""],
      "ours as a token, a vendor's as a key": [{ authorization: `Bearer ${KEY}`, "x-goog-api-key": "AIza-vendor" }, ""],
    };
    for (const [client, vendor] of PAIRS)
      for (const [place, [headers, query]] of Object.entries(places)) {
        const response = await fetch(url + pathFor(client, `of-${vendor}`) + query, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: JSON.stringify(bodyFor(client, `of-${vendor}`)),
        });
        t.equal(response.status, 200, `${client} → ${vendor}, ${place}: ${await response.text()}`);
        const { rawHeaders, url: asked } = upstream.seen.at(-1) as (typeof upstream.seen)[number];
        t.notMatch(`${rawHeaders} ${asked}`, /test-key|vendor/, "the client's key is not passed on");
        t.match(rawHeaders.join(" "), /the-providers-own/);
      }
    const ask = { model: "of-gemini", max_tokens: 9, messages: [{ role: "user" as const, content: "Hi" }] };
    for (const keys of [
      { apiKey: KEY, authToken: null },
      { apiKey: null, authToken: KEY },
    ])
      t.match(await new Anthropic({ baseURL: url, ...keys }).messages.create(ask), { content: [{ text: TEXT }] });
    t.match(await new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).chat.completions.create(ask), {
      model: "of-gemini",
    });
    const google = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
    t.equal((await google.models.generateContent({ model: "of-openai-chat", contents: "Hi" })).text, TEXT);
  },
);

t.test("GET /v1/models in the client's own shape; limit, pageSize and client_version are accepted", async (t) => {
  const { url } = await guarded(t);
  const ids = PROTOCOLS.map((name) => `of-${name}`);
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY });
  t.same(
    (await collect(openai.models.list())).items.map(({ id }) => id),
    ids,
  );
  const codex = openai.models.list({ query: { client_version: "0.169.0" } });
  t.match((await collect(codex)).items[0], { object: "model" });
  const anthropic = new Anthropic({ baseURL: url, apiKey: KEY, authToken: null });
  const { items } = await collect(anthropic.models.list({ limit: 1000 }));
  t.same(
    items.map(({ id }) => id),
    ids,
  );
  t.match(items[0], { type: "model", display_name: String, created_at: String });
  const google = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
  const listed = await collect(await google.models.list({ config: { pageSize: 50 } }));
  t.same(
    listed.items.map(({ name }) => name),
    ids.map((id) => `models/${id}`),
    "on the OpenAI path, in Gemini's shape",
  );
  t.match(await google.models.get({ model: "acme/of-gemini" }), { name: "models/of-gemini" });
  for (const headers of [{ "x-goog-api-key": KEY }, asking({ "x-goog-api-client": "google-genai-sdk/3.1.0" })])
    t.match(await (await fetch(`${url}/v1/models`, { headers })).json(), { models: [{ name: `models/${ids[0]}` }] });
});

gathered(t, "Gemini methods under /v1beta, /v1, /v1alpha and Vertex's; ids with slashes, %3A, %2F", async (t) => {
  const { url, upstream } = await guarded(t);
  const google = (path: string, body: object = CONTENTS) =>
    fetch(url + path, { method: "POST", headers: { "x-goog-api-key": KEY }, body: JSON.stringify(body) });
  const vertex = ["/v1beta1/publishers/google/models", "/v1beta1/projects/p/locations/l/publishers/google/models"];
  for (const vendor of PROTOCOLS)
    for (const base of ["/v1beta/models", "/v1/models", "/v1alpha/models", ...vertex])
      for (const id of [`of-${vendor}`, `acme/of-${vendor}`, `acme%2Fof-${vendor}`])
        for (const rest of [":generateContent", "%3AgenerateContent", ":streamGenerateContent?alt=sse"]) {
          const response = await google(`${base}/${id}${rest}`);
          const text = await response.text();
          t.equal(response.status, 200, `${base}/${id}${rest} ${text}`);
          t.notOk(response.headers.has("gateway-notice"));
        }
  const other = await google("/v1beta1/publishers/acme/models/of-openai-chat:generateContent");
  t.equal(other.status, 200, "a publisher that is not Google is a part of the name");
  const content = { parts: [{ text: "Hi" }] };
  for (const [method, body] of [
    ["countTokens", CONTENTS],
    ["embedContent", { content }],
    ["batchEmbedContents", { requests: [{ model: "models/of-gemini", content }] }],
  ] as const) {
    t.equal((await google(`/v1/models/of-gemini:${method}`, body)).status, 200, method);
    t.equal(upstream.seen.at(-1)?.url, `/v1/models/any:${method}`);
  }
});

gathered(t, "fold doubled versions, serve the root forms; ignore ?beta=true and a slash at the end", async (t) => {
  const { url } = await guarded(t);
  const folded: Record<ProtocolName, string[]> = {
    "openai-chat": ["/v1/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"],
    "openai-responses": ["/v1/v1/responses", "/responses", "/v1/responses/"],
    "anthropic-messages": ["/v1/v1/messages?beta=true", "/messages", "/v1/messages/", "/v1/v1/messages/count_tokens"],
    gemini: ["/v1beta/v1beta", "/v1beta/v1", "/v1/v1beta", ""].map((base) => `${base}/models/MODEL:generateContent`),
  };
  const plain = ["/v1/messages?beta=true", "/v1/messages/count_tokens?beta=true"];
  for (const [client, vendor] of PAIRS)
    for (const path of [...folded[client], ...(client === "anthropic-messages" ? plain : [])]) {
      const model = `of-${vendor}`;
      const response = await fetch(url + path.replace("MODEL", model), {
        method: "POST",
        headers: asking(),
        body: JSON.stringify(bodyFor(client, model)),
        redirect: "error",
      });
      t.equal(response.status, 200, `${path} → ${vendor} ${await response.text()}`);
      t.equal(
        response.headers.has("gateway-notice"),
        !plain.includes(path),
        `${path}: a wrong base address is reported`,
      );
    }
});

t.test("HEAD / and HEAD /api/hello: quick, no key, no body; an unknown path is a JSON 404", async (t) => {
  const { url, port } = await guarded(t);
  for (const path of ["/", "/api/hello"]) {
    const { statuses, text } = await send(
      port,
      `HEAD ${path} HTTP/1.1\r\nHost: gateway\r\nUser-Agent: Bun/1.4.4\r\n\r\n`,
    );
    t.same(statuses, [200]);
    t.match(text, /\r\n\r\n$/, "nothing after the head");
  }
  for (const path of ["/v1/interactions", "/backend-api/plugins", "/nowhere"])
    for (const method of ["GET", "POST"]) {
      const response = await fetch(url + path, { method, headers: asking() });
      t.equal(response.status, 404, `${method} ${path}`);
      t.match(await response.json(), { error: { message: /is not served here/ } });
    }
});

t.test(
  "unknown claude-haiku-*, gemini-*-flash*, gpt-* side-request models resolve to a configured model",
  async (t) => {
    const upstream = await httpUpstream((request, reply) => speaking("text")(reply, request));
    t.teardown(() => upstream.close());
    const shipped = readFileSync(new URL("../../gateway.yaml", import.meta.url), "utf8")
      .replace(/^(?:listen|store|admin):.*$/gm, "")
      .replaceAll(/https:\/\/[a-z.]+(?=\/v1)/g, upstream.origin.origin)
      .replaceAll(/\$[A-Z]+_API_KEY/g, "a-secret");
    const { url } = await startGateway(t, shipped);
    const names: Record<ProtocolName, string[]> = {
      "anthropic-messages": ["claude-haiku-5-5", "claude-haiku-4-5-20251001", "claude-opus-5-5", "claude-sonnet-4-5"],
      gemini: ["gemini-3.5-flash-lite", "gemini-3.8-flash", "gemini-3-flash-preview"],
      "openai-chat": ["gpt-5-nano", "gpt-4o-mini"],
      "openai-responses": ["gpt-5.1-codex-mini"],
    };
    for (const [client, models] of Object.entries(names))
      for (const model of models) {
        const path = pathFor(client as ProtocolName, model);
        const body = JSON.stringify(bodyFor(client as ProtocolName, model));
        const response = await fetch(url + path, { method: "POST", headers: asking(), body });
        t.equal(response.status, 200, `${model} ${await response.text()}`);
        const { url: asked, body: sent } = upstream.seen.at(-1) as (typeof upstream.seen)[number];
        t.notMatch(`${asked} ${sent}`, model, "the provider gets a model that it has");
      }
  },
);

t.test("GET /v1/responses with an upgrade: 426, nothing else", async (t) => {
  const { port } = await guarded(t);
  for (const path of ["/v1/responses", "/responses", "/v1/v1/responses"])
    for (const key of [KEY, "wrong-key-0123456789"]) {
      const lines = [
        `GET ${path} HTTP/1.1`,
        "Host: gateway",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Extensions: permessage-deflate",
        "OpenAI-Beta: responses_websockets=2026-02-06",
        `Authorization: Bearer ${key}`,
      ];
      t.same((await send(port, `${lines.join("\r\n")}\r\n\r\n`)).statuses, [426], path);
    }
});
