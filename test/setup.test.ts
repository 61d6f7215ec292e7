import t from "tap";
import { parse } from "yaml";
import { findExtensions } from "../src/loaded-config.ts";
import { loadVendors, type Vendor } from "../src/loader/vendors.ts";
import { Catalogue } from "../src/prices/catalogue.ts";
import { fileFromOffers, formatGatewayFile, priceAndContext } from "../src/setup/gateway-file.ts";
import { listModels } from "../src/setup/listing.ts";
import { queryOffers } from "../src/setup/offers.ts";
import { connectProxy } from "./support/connect-proxy.ts";
import { freePort } from "./support/free-port.ts";
import { json, startVendor } from "./support/vendor.ts";

const { protocolList, protocols } = await findExtensions(".");
const [chat, messages, gemini] = ["openai-chat", "anthropic-messages", "gemini"].map((name) => {
  const protocol = protocolList.find((each) => each.name === name);
  if (!protocol) throw new Error(name);
  return protocol;
}) as [(typeof protocolList)[0], (typeof protocolList)[0], (typeof protocolList)[0]];
t.ok(protocols.size > 0);

/** Knows no price. */
const EMPTY = await Catalogue.for([]);

const OPENAI = {
  object: "list",
  data: [{ id: "gpt-5.6", created: 1_780_000_000 }, { id: "gpt-5.4-mini", created: 1 }, {}],
};
const ANTHROPIC = {
  data: [{ id: "claude-opus-5", display_name: "Claude Opus 5", created_at: "2026-05-01T00:00:00Z" }],
  has_more: false,
};
const GEMINI = {
  models: [{ name: "models/gemini-3.6-flash", displayName: "Gemini 3.6 Flash", inputTokenLimit: 1_048_576 }],
};

t.test("a provider's models are listed in its protocol, and each form of list is read", async (t) => {
  const openai = await startVendor(t, json(OPENAI));
  const listed = await listModels({ url: `${openai.url}/v1/`, protocol: chat, secret: "sk-1" });
  t.match(listed, {
    status: 200,
    models: [{ id: "gpt-5.6", created: 1_780_000_000 }, { id: "gpt-5.4-mini" }],
    problem: undefined,
  });
  t.match(openai.requests, [{ method: "GET", url: "/v1/models", headers: { authorization: "Bearer sk-1" } }]);
  t.type(listed.date, "number");
  const anthropic = await startVendor(t, json(ANTHROPIC));
  t.match(await listModels({ url: `${anthropic.url}/v1`, protocol: messages, secret: "sk-2" }), {
    models: [{ id: "claude-opus-5", name: "Claude Opus 5", created: Date.UTC(2026, 4, 1) / 1000 }],
  });
  t.match(anthropic.requests[0]?.headers, { "x-api-key": "sk-2", "anthropic-version": /^\d{4}-/ });
  const google = await startVendor(t, json(GEMINI));
  t.match(await listModels({ url: `${google.url}/v1beta`, protocol: gemini, secret: "AIza" }), {
    models: [{ id: "gemini-3.6-flash", context: 1_048_576 }],
  });
  t.match(google.requests[0]?.headers, { "x-goog-api-key": "AIza" });
  const own = await startVendor(t, json(OPENAI));
  await listModels({ url: `${own.url}/v1`, protocol: chat, secret: "s", header: "api-key" });
  t.match(own.requests[0]?.headers, { "api-key": "s", authorization: undefined });
});

t.test("a provider behind the proxy of the environment is asked through it, and one in NO_PROXY is not", async (t) => {
  const proxy = await connectProxy(t, {
    answer: (socket) => socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${JSON.stringify(OPENAI)}`),
  });
  const env = { http_proxy: proxy.address.replace("//", "//me:secret@"), no_proxy: "127.0.0.1" };
  const at = { url: "http://vendor.example/v1", protocol: chat, secret: "sk-1" };
  t.match(await listModels(at, undefined, env), { status: 200, models: [{ id: "gpt-5.6" }, {}] });
  t.match(proxy.heads, [/^GET http:\/\/vendor\.example\/v1\/models /]);
  const own = await startVendor(t, json(OPENAI));
  t.match(await listModels({ ...at, url: `${own.url}/v1` }, undefined, env), { status: 200 });
  t.equal(own.requests.length, 1);
  t.equal(proxy.heads.length, 1);
});

t.test("a proxy that refuses is told without its password", async (t) => {
  const proxy = await connectProxy(t, { answer: (socket) => socket.end("HTTP/1.1 403 Forbidden\r\n\r\n") });
  const env = { https_proxy: proxy.address.replace("//", "//me:secret@") };
  const listed = await listModels({ url: "https://vendor.example/v1", protocol: chat }, undefined, env);
  t.match(proxy.heads, [/^CONNECT vendor\.example:443 /]);
  t.match(listed, { models: undefined, problem: /\S/ });
  t.notMatch(listed.problem, /secret/);
  const wrong = await listModels({ url: "https://vendor.example/v1", protocol: chat }, undefined, {
    https_proxy: "nonsense:secret",
  });
  t.match(wrong, { problem: /HTTPS_PROXY/ });
  t.notMatch(wrong.problem, /secret/);
});

t.test("a list of several pages is read to its end", async (t) => {
  const pages: Record<string, object> = {
    "/v1beta/models": { models: [{ name: "models/a" }], nextPageToken: "x y" },
    "/v1beta/models?pageToken=x+y": { models: [{ name: "models/b" }], nextPageToken: "z" },
    "/v1beta/models?pageToken=z": { models: [{ name: "models/c" }] },
    "/v1/models": { data: [{ id: "a" }], has_more: true, last_id: "a" },
    "/v1/models?after_id=a": { data: [{ id: "b" }], has_more: false, last_id: "b" },
  };
  const vendor = await startVendor(t, ({ url = "" }, response) => response.end(JSON.stringify(pages[url])));
  const listed = async (url: string, protocol: typeof chat) =>
    (await listModels({ url, protocol, secret: "s" })).models?.map(({ id }) => id);
  t.same(await listed(`${vendor.url}/v1beta`, gemini), ["a", "b", "c"]);
  t.same(await listed(`${vendor.url}/v1`, messages), ["a", "b"]);
});

t.test("a provider that cannot list its models is explained, never with the secret", async (t) => {
  for (const [status, says] of [
    [401, /does not accept the credential/],
    [403, /does not accept the credential/],
    [302, /redirect/],
    [404, /version segment/],
    [429, /limiting requests/],
    [500, /answers 500/],
  ] as const) {
    const vendor = await startVendor(t, json({ error: "sk-secret" }, status));
    const { problem = "", models } = await listModels({ url: `${vendor.url}/v1`, protocol: chat, secret: "sk-secret" });
    t.match(problem, says);
    t.notMatch(problem, "sk-secret");
    t.equal(models, undefined);
  }
  const page = await startVendor(t, (_request, response) => void response.end("<html>"));
  t.match(await listModels({ url: page.url, protocol: chat }), { problem: /list of models/ });
  const silent = await startVendor(t, () => {});
  t.match(await listModels({ url: silent.url, protocol: chat }, 50), { problem: /within 0.05 s/, status: undefined });
  const dead = await startVendor(t, (request) => void request.socket.destroy());
  t.match(await listModels({ url: dead.url, protocol: chat }), { problem: /cut|could not be reached/ });
  t.match(await listModels({ url: `http://127.0.0.1:${await freePort()}/v1`, protocol: chat }), {
    problem: /no server listens/,
  });
});

const vendorsAt = (urls: Record<string, string>): Vendor[] =>
  loadVendors()
    .filter(({ id }) => urls[id] !== undefined)
    .map((vendor) => ({ ...vendor, base: [], provider: { ...vendor.provider, url: urls[vendor.id] as string } }));

t.test("vendors with an existing key offer their models, with the suggested ones marked", async (t) => {
  const openai = await startVendor(t, json(OPENAI));
  const anthropic = await startVendor(t, json({}, 401));
  const vendors = vendorsAt({
    openai: `${openai.url}/v1`,
    anthropic: `${anthropic.url}/v1`,
    gemini: "http://127.0.0.1:1/v1beta",
  });
  const env = { OPENAI_API_KEY: "sk-1", ANTHROPIC_API_KEY: "sk-2" };
  const offers = await queryOffers(vendors, protocolList, env, async () => EMPTY);
  t.match(offers, [
    {
      vendor: { id: "openai" },
      variable: "OPENAI_API_KEY",
      models: [
        { id: "gpt-5.6", preselected: true },
        { id: "gpt-5.4-mini", preselected: true },
      ],
    },
    { vendor: { id: "anthropic" }, listing: { problem: /401/ }, models: { length: 0 } },
  ]);
  t.equal(offers.length, 2, "none is called without its key");
  const all = new Set(offers.flatMap(({ models }) => models));
  const text = formatGatewayFile(fileFromOffers(offers, all, "gw"));
  t.match(parse(text), {
    providers: {
      openai: { url: `${openai.url}/v1`, credential: "$OPENAI_API_KEY" },
      anthropic: {},
      demo: { url: "demo:" },
    },
    models: {
      "gpt-5.6": { targets: ["openai:gpt-5.6"] },
      "gpt-5.4-mini": { aliases: ["gpt-*-mini*", "gpt-*-nano*"] },
      echo: {},
    },
  });
  t.match(text, /anthropic: .*# it does not accept the credential/);
});

t.test(
  "the newest of several models that match a suggestion is marked; without suggestions the newest with a price",
  async (t) => {
    const many = {
      data: ["claude-opus-4", "claude-opus-5", "claude-haiku-4-5"].map((id, i) => ({ id, created: i === 1 ? 9 : 1 })),
    };
    const anthropic = await startVendor(t, json(many));
    const groq = await startVendor(
      t,
      json({ data: ["a", "b", "c", "d", "e"].map((id, created) => ({ id, created })) }),
    );
    const vendors = vendorsAt({ anthropic: `${anthropic.url}/v1`, groq: `${groq.url}/v1` });
    const price = { input: 1, output: 2 };
    const priced = Object.assign(Object.create(EMPTY) as Catalogue, {
      find: (_seller: unknown, model: string) =>
        model === "e" ? {} : { prices: { versionAt: () => ({ price }) }, context: { value: 8000 } },
    });
    const offers = await queryOffers(
      vendors,
      protocolList,
      { ANTHROPIC_API_KEY: "a", GROQ_API_KEY: "b" },
      async () => priced,
    );
    const marked = offers.map(({ models }) => models.filter((model) => model.preselected).map(({ id }) => id));
    t.same(marked, [
      ["claude-opus-5", "claude-haiku-4-5"],
      ["d", "c", "b"],
    ]);
    t.equal(priceAndContext(offers[1]?.models.find(({ id }) => id === "d") as never), "$1 / $2, 8,000 tokens");
  },
);

t.test("an address in a variable is used, and gets its version where that is left out", async (t) => {
  const openai = await startVendor(t, json(OPENAI));
  const [vendor] = loadVendors().filter(({ id }) => id === "openai");
  const env = { OPENAI_API_KEY: "sk-1", OPENAI_BASE_URL: openai.url };
  const [offer] = await queryOffers([vendor as Vendor], protocolList, env, async () => EMPTY);
  t.equal(offer?.url, `${openai.url}/v1`);
});

t.test("texts are one line of YAML each, whatever their content", async (t) => {
  const entry = { url: "demo:", names: ["a, b", "# c", "d: e", "gpt-*", "- f"], yes: true, deep: { n: 1 } };
  const text = formatGatewayFile({
    about: ["x"],
    sections: { listen: "1", keys: { k: entry } },
    providers: [{ name: "p: q", entry }],
    models: [],
  });
  t.match(parse(text), { listen: "1", providers: { "p: q": entry }, keys: { k: entry } });
});
