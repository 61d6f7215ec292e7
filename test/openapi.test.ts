import t from "tap";
import Limits from "../plugins/limits.ts";
import { MODEL_ENTRY, MODEL_LIST } from "../plugins/models.ts";
import { asking, KEY, startGateway } from "./support/gateway.ts";

interface Described {
  openapi: string;
  paths: Record<
    string,
    Record<
      string,
      { operationId?: string; parameters?: { name: string; in: string }[]; responses: object; security?: object[] }
    >
  >;
  components: {
    securitySchemes: Record<string, object>;
    headers: Record<string, object>;
    schemas: { ErrorCode: { oneOf: { const: string }[] } };
  };
}

t.test("a gateway describes every path that it serves, without a key", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" }, own: { url: "http://127.0.0.1:1/v1", protocol: openai-chat } }
models: { echo: { targets: [demo:echo] } }
paths: { /v1/messages: { strict: true }, /acme/v1/*: { pass: own }, /v1beta/models: off }
`,
  );
  const answer = await fetch(`${url}/openapi.json`);
  t.equal(answer.status, 200);
  t.match(answer.headers.get("content-type"), /^application\/json/);
  const described = (await answer.json()) as Described;
  t.equal(described.openapi, "3.1.0");
  const { paths } = (await (await fetch(url)).json()) as { paths: string[] };
  for (const path of paths)
    t.ok(described.paths[path.replace(/\*$/, "{rest}")] ?? described.paths[`${path}/{id}`], path);
  t.match(described.paths["/v1/messages"]?.["post"], { tags: ["anthropic-messages"], summary: /nothing is dropped/ });
  t.match(described.paths["/v1/models"]?.["get"], { summary: /models/ });
  const templates = Object.keys(described.paths).map((path) => path.replaceAll(/\{\w+\}/g, "{}"));
  t.equal(new Set(templates).size, templates.length, "no path occurs twice under two names");
  t.match(described.paths["/v1/models/{rest}"], { get: { summary: /One model/ }, post: { tags: ["gemini"] } });
  t.match(described.paths["/v1/requests/{id}"]?.["get"], { summary: /the key that made it/ });
  t.notOk(described.paths["/v1/requests"], "no path without an id");
  for (const path of ["/acme/v1/{rest}", "/acme/v1"])
    t.same(Object.keys(described.paths[path] ?? {}), ["get", "post", "put", "patch", "delete"], path);
  t.match(described.paths["/acme/v1/{rest}"]?.["post"], { summary: /unread/, requestBody: {} });
  t.notOk("requestBody" in (described.paths["/acme/v1/{rest}"]?.["delete"] ?? {}));
  t.match(described.paths["/v1/images/edits"]?.["post"], { requestBody: { content: { "multipart/form-data": {} } } });
  t.match(described.paths["/v1/images/generations"]?.["post"], {
    requestBody: { content: { "application/json": {} } },
  });
  t.match(described.paths["/v1/realtime"], { get: { parameters: [{ name: "model", in: "query" }] } });
  t.notOk(described.paths["/v1/realtime"]?.["post"], "a WebSocket begins as a GET");
  t.same(Object.keys(described.paths["/v1/responses/{id}"] ?? {}), ["get", "delete"]);
  t.same(Object.keys(described.paths["/v1/responses/{id}/cancel"] ?? {}), ["post"]);
  t.same(Object.keys(described.paths["/v1/responses/{id}/input_items"] ?? {}), ["get"]);
  t.same(
    described.paths["/v1/models"]?.["get"]?.parameters?.map(({ name }) => name),
    ["limit", "after_id", "before_id", "pageSize", "pageToken"],
  );
  t.notOk(described.paths["/v1beta/models"]);
  const operations = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.values(methods).map((each) => ({ path, ...each })),
  );
  for (const { path, parameters = [], responses } of operations) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    t.same(
      parameters.flatMap(({ name, in: place }) => (place === "path" ? name : [])),
      named,
      `parameters of ${path}`,
    );
    t.ok(Object.keys(responses).length > 0);
  }
  const ids = operations.flatMap(({ operationId }) => operationId ?? []);
  t.equal(new Set(ids).size, ids.length, "no two operations of one id");
  t.ok(described.components.schemas.ErrorCode.oneOf.some(({ const: code }) => code === "model_not_found"));
  for (const [, ref = ""] of JSON.stringify(described).matchAll(/"\$ref":"#\/components\/headers\/([^"]+)"/g))
    t.ok(described.components.headers[ref], ref);
});

t.test("the gateway's own responses are described in full, and match their description", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models:
  echo: { targets: [demo:echo], can: [tools, vision], context: 8k, output: 1k, price: { input: 1, output: 2 } }
  plain: { targets: [demo:echo] }
limits: { default: { rpm: 100, tpm: 1M, concurrency: 5 }, all: { budget: $9/day } }
keys: { test: { key: ${KEY}, group: acme/one, models: ["*"], budget: [$1/day, { amount: $2, soft: true }], expires: 2099-01-01 } }
`,
  );
  const get = async (path: string) => (await (await fetch(url + path, { headers: asking() })).json()) as unknown;
  const { paths } = (await get("/openapi.json")) as Described;
  const described = (path: string) => JSON.stringify(paths[path]?.["get"]?.responses);
  t.match(described("/v1/key"), /"limit_remaining"/);
  t.match(described("/v1/models"), /"first_id"/);
  t.match(described("/v1/models/{rest}"), /"context_length"/);
  t.match(described("/v1/requests/{id}"), /"firstByte"/);
  t.notMatch(described("/v1/key"), /"additionalProperties":false/, "members may be added later");
  Limits.answers.all.parse(await get("/v1/key"));
  MODEL_LIST.parse(await get("/v1/models"));
  MODEL_ENTRY.parse(await get("/v1/models/echo"));
});

t.test("what JSON Schema cannot say of a plugin's answers may be anything", async (t) => {
  const { url } = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { own: { from: ./own.ts } }
paths: { /v1/own: { serve: own, use: read } }
`,
    {
      "own.ts": `import { z } from "zod";
export default class Own {
  static answers = { all: z.object({ at: z.date(), length: z.string().transform((text) => text.length) }) };
  serve() { return { body: "{}" }; }
}`,
    },
  );
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Described;
  t.match(JSON.stringify(paths["/v1/own"]), /"properties":{"at":{},"length":{}}/);
});

t.test("the marketplace's own endpoints are described, where it is enabled", async (t) => {
  const YAML = `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n`;
  const describedAt = async (url: string) => (await (await fetch(`${url}/openapi.json`)).json()) as Described;
  const { url } = await startGateway(t, YAML);
  const operation = (await describedAt(url)).paths["/pages/models.json"]?.["get"];
  t.same(operation?.security, [], "without a key");
  const answered = (await (await fetch(`${url}/pages/models.json`)).json()) as object;
  const { 200: found } = operation?.responses as Record<
    number,
    { content: { "application/json": { schema: { properties: object; required: string[] } } } }
  >;
  const { properties, required } = found?.content["application/json"].schema ?? { properties: {}, required: [] };
  t.same(Object.keys(answered).toSorted(), Object.keys(properties).toSorted());
  t.same(Object.keys(answered).toSorted(), required.toSorted());
  const without = await startGateway(t, `${YAML}pages: off\n`);
  t.notOk((await describedAt(without.url)).paths["/pages/models.json"]);
});
