import t from "tap";
import { asking, KEY, startGateway } from "../support/gateway.ts";

const YAML = `
providers: { demo: { url: "demo:" }, away: { url: "http://127.0.0.1:9/v1", credential: $NOWHERE, protocol: openai-chat } }
models:
  acme/echo: { name: Acme Echo, aliases: [sage-*], fallback: [secret, other, off], context: 128k, price: { input: 1, output: 2 }, targets: [demo:echo] }
  other: { targets: [demo:echo] }
  secret: { public: false, targets: [demo:echo] }
  off: { targets: [away:x] }
`;
type Listed = Record<string, { id: string; path: string }[]>;
const HTML = { accept: "text/html,*/*;q=0.8" };

t.test("a browser gets pages, and other clients get the API's responses", async (t) => {
  const { url } = await startGateway(t, YAML);
  for (const path of ["/", "/play", "/models", "/models/acme/echo", "/models/acme%2Fecho"]) {
    const page = await fetch(url + path, { headers: HTML });
    t.match(page.headers.get("content-type"), /^text\/html/, path);
    t.equal(page.status, 200, path);
  }
  const greeting = await fetch(url, { headers: { accept: "*/*" } });
  t.match(await greeting.json(), { service: "model-gateway", paths: Array });
  t.equal(greeting.headers.get("cache-control"), "no-store", "no cache may give it to a browser");
  t.equal(greeting.headers.get("vary"), "accept");
  const head = await fetch(url, { method: "HEAD", headers: HTML });
  t.equal(head.status, 200);
  t.equal(await head.text(), "");
  const models = await fetch(`${url}/v1/models`, { headers: { ...asking(), ...HTML } });
  t.match(models.headers.get("content-type"), /json/, "paths of the API are never pages");
  t.equal(
    (await fetch(`${url}/models/acme/echo`, { headers: asking() })).headers.get("content-type"),
    "application/json",
  );
  t.equal((await fetch(url, { method: "POST", headers: { ...HTML, ...asking() }, body: "{}" })).status, 404);
});

t.test("the page of an unknown model is a 404", async (t) => {
  const { url } = await startGateway(t, YAML);
  for (const id of ["nothing", "secret", "off", "%ff"]) {
    const page = await fetch(`${url}/models/${id}`, { headers: HTML });
    t.ok(page.status === 404 || (id === "%ff" && page.status === 400), `${id}: ${page.status}`);
    await page.text();
  }
});

t.test("the marketplace shows public and enabled models, and nothing about their users", async (t) => {
  const { url } = await startGateway(t, YAML);
  const { models, protocols, clients } = (await (await fetch(`${url}/pages/models.json`)).json()) as Listed;
  t.same(
    models?.map(({ id }) => id),
    ["acme/echo", "other"],
  );
  t.same(models?.[0], { ...models?.[0], fallback: ["other"] }, "of its fallbacks too");
  t.match(models?.[0], {
    ...{
      name: "Acme Echo",
      context: 128_000,
      state: "ok",
      price: { input: 1, output: 2 },
    },
    targets: [
      { provider: "demo", share: 1, state: "closed", priceSources: { input: "gateway.yaml", output: "gateway.yaml" } },
    ],
    protocols: { "openai-chat": "native", gemini: "native" },
  });
  t.ok(protocols?.every(({ path }) => path.startsWith("/")));
  t.ok(clients?.some(({ id }) => id === "claude"));
  t.notOk(JSON.stringify(models).includes(KEY));
  const listed = (await (await fetch(`${url}/v1/models`, { headers: asking() })).json()) as { data: { id: string }[] };
  t.ok(
    listed.data.some(({ id }) => id === "secret"),
    "a key still sees hidden models",
  );
});

t.test("pages: off disables all of them", async (t) => {
  const { url } = await startGateway(t, `pages: off\n${YAML}`);
  t.match(await (await fetch(url, { headers: HTML })).json(), { service: "model-gateway" });
  for (const path of ["/play", "/pages/models.json"])
    t.equal((await fetch(url + path, { headers: HTML })).status, 404, path);
});
