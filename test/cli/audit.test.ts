import t, { type Test } from "tap";
import { type Advice, runAudit } from "../../src/cli/audit.ts";
import { help, USAGE } from "../../src/cli/help/audit.ts";
import { loadConfig } from "../../src/config/load.ts";
import { findExtensions } from "../../src/loaded-config.ts";
import { captured } from "../support/terminal.ts";

async function audit(
  t: Test,
  yaml: string,
  ...rest: (string | { env?: object; more?: Record<string, string>; keys?: readonly object[] })[]
) {
  const args = rest.filter((each) => typeof each === "string");
  const { env = {}, more = {}, keys } = Object.assign({}, ...rest.filter((each) => typeof each === "object"));
  const folder = t.testdir({ "gateway.yaml": yaml, ...more });
  const config = await loadConfig(`${folder}/gateway.yaml`, await findExtensions(folder), env, folder);
  return captured((io) => runAudit(args, io, config, yaml, async () => keys), { folder });
}

const WISE = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
limits: { default: { budget: $10/month } }
`;

t.test("a secure file has no findings", async (t) => {
  t.hasStrict(await audit(t, WISE, "--level", "low"), { code: 0, text: "no advice" });
});

t.test("each risky setting is listed with its severity and the fix", async (t) => {
  const yaml = `listen: 0.0.0.0:8080
admin: off
share: all
log: { level: debug }
providers:
  demo: { url: "demo:" }
  far: { url: "http://llm.example.com/v1", credential: sk-0123456789abcdefgh, protocol: openai-chat }
models: { a: { targets: [far:a] } }
plugins: { auth: { anonymous: true } }
paths:
  /open: { protocol: openai-chat, use: [sse, models, rewrite] }
  /far/v1/*: { pass: far, open: true }
keys: { ci: { key: ci-key-0123456789abcdef }, old: { key: $OLD, expires: 2020-01-31 }, new: { key: $NEW, expires: 2999-01-31 } }
`;
  const { code, text } = await audit(t, yaml, "--json");
  t.equal(code, 1);
  const found = (JSON.parse(text) as Advice[]).map(({ id, level, about }) => `${level} ${id} ${about}`);
  for (const each of [
    ...["high no-auth paths /open", "high anonymous plugins auth", "high plain-http providers far"],
    ...[
      "high written-secret providers far credential",
      "high written-secret keys ci key",
      "high open-pass paths /far/v1/*",
    ],
    ...["medium no-limits limits", "medium no-limits-plugin paths /open", "medium no-usage paths /open"],
    ...["medium public-listener listen", "medium shared-objects share", "low no-fallback models a"],
    ...[
      "low lasting-key keys ci",
      "low expired-key keys old",
      "low no-scrub paths /open",
      "low no-probes admin",
      "low debug-log log",
    ],
  ])
    t.ok(found.includes(each), `${each} of ${found.join("; ")}`);
  const places = new Map(
    (JSON.parse(text) as Advice[]).map(({ id, about, at = "" }) => [
      `${id} ${about}`,
      at.replace(/^.*gateway/, "gateway"),
    ]),
  );
  for (const [what, at] of [
    ...[["no-auth paths /open", "gateway.yaml:11"] as const, ["anonymous plugins auth", "gateway.yaml:9"] as const],
    ...[
      ["plain-http providers far", "gateway.yaml:7"] as const,
      ["written-secret providers far credential", "gateway.yaml:7"] as const,
    ],
    ...[["no-limits limits", ""] as const, ["debug-log log", "gateway.yaml:4"] as const],
    ...[["expired-key keys old", "gateway.yaml:13"] as const, ["no-probes admin", "gateway.yaml:2"] as const],
  ])
    t.equal(places.get(what), at, what);
  t.match(
    (await audit(t, yaml)).text,
    /^high +no-auth +anyone .*\n +paths \/open \(\S*gateway\.yaml:11\)\n +fix: put "auth"/m,
  );
  t.notMatch(found.join("; "), "expired-key keys new");
  t.notMatch(found.join("; "), "cut-streams", "no budget has to hold");
  const budget = `${WISE.replace(/^.*\n/, `providers: { far: { url: "https://llm.example.com/v1", protocol: openai-chat } }\n`).replace("demo:echo", "far:echo")}plugins: { usage: {} }\n`;
  t.match((await audit(t, budget)).text, /^low +cut-streams +when .*\n +plugins usage \(\S+:4\)\n/m);
  const drained = budget.replace("usage: {}", "usage: { cut: drain }");
  t.notMatch((await audit(t, drained)).text, "cut-streams");
});

t.test("secrets are found at their positions, and nothing else is reported as one", async (t) => {
  const yaml = `admin: { listen: 127.0.0.1:9090, token: adm-9c1f7a2be4d0586713aa, viewer: "\${VIEWER:-vw-4b7d91c0e2f35a68de77}",
  oidc: { issuer: "https://id.example.com", url: "https://admin.example.com", client_id: gateway, client_secret: oidc-3e9a6b7c1d205f48, roles: { admin: [platform-engineers-all] } } }
providers:
  # credential: sk-0123456789abcdefghij
  far:
    { url: "https://llm.example.com/v1", protocol: openai-chat, credential: [$FAR_KEY,
      live-8d2f60b1c97e43a5 ] }
  near: { url: "http://127.0.0.1:8000/v1", protocol: openai-chat, credential: "$file:key.txt", header: x-api-key }
  named: { url: "https://other.example.com/v1", protocol: openai-chat, credential: "\${OTHER:-}" }
models: { token: { targets: [far:a-model-with-a-long-name] } }
limits: { default: { budget: $10/month } }
store:
  ledger: "postgres://gateway:pw-7c2e@db.example.com/gateway"
  limits: "redis://:\${REDIS_PASSWORD}@redis.example.com"
alerts: { webhook: "https://hooks.slack.com/services/T0AAAAAAA/B0AAAAAAA/abcdefghijklmnopqrstuvwx" }
keys: { k: { key: "literal.key-5e81c0d2a94f7b36" }, h: { hash: ${"0123456789abcdef".repeat(4)} }, r: { key: $R, owner: alice@example.com } }
`;
  const env = { REDIS_PASSWORD: "p-2f8c1d7e", R: "gw-r-5d0c7e91a2b3f468", FAR_KEY: "f-91c7d3e0b24a5f68", OTHER: "" };
  const { text } = await audit(t, yaml, { env, more: { "key.txt": "n-4f81a6c2d9e07b35" } }, "--json");
  const found = (JSON.parse(text) as Advice[]).filter(({ id }) => id === "written-secret");
  t.same(
    found.map(({ about, at }) => `${about} ${at?.replace(/^.*:/, "")}`),
    [
      ...["admin token 1", "admin viewer 1", "admin oidc client_secret 2", "providers far credential 7"],
      ...["store ledger 13", "alerts webhook 15", "keys k key 16"],
    ],
  );
});

t.test(
  "a missing protection of a chain is reported at the chain, and an open admin side like a listener",
  async (t) => {
    const yaml = `${WISE.replace(/^limits.*\n/m, "")}admin: { listen: "0.0.0.0:9090", token: $ADMIN_TOKEN }
paths:
  /own: { protocol: openai-chat, use: small }
  /list: { protocol: openai-chat, use: [sse, models] }
chains:
  small: [sse, models]
`;
    const { text } = await audit(t, yaml, { env: { ADMIN_TOKEN: "adm-9c1f7a2be4d0586713aa" } }, "--json");
    const places = (JSON.parse(text) as Advice[]).map(
      ({ id, about, at }) => `${id} ${about} ${at?.replace(/^.*:/, "")}`,
    );
    for (const id of ["no-auth", "no-limits-plugin", "no-usage", "no-rewrite", "no-scrub"]) {
      t.ok(places.includes(`${id} paths /own 8`), `${id} of ${places}`);
      t.ok(places.includes(`${id} paths /list 6`), `${id} of ${places}`);
    }
    t.ok(places.includes("public-admin admin 3"), String(places));
    const unix = await audit(t, `${WISE}admin: unix:/run/gw.sock\n`, "--json");
    t.notMatch(unix.text, "public-admin");
  },
);

t.test(
  "a provider whose silence may last longer than clients wait is reported, unless something detects it",
  async (t) => {
    const far = (more: string) =>
      WISE.replace(
        /^.*\n/,
        `providers: { far: { url: "https://llm.example.com/v1", protocol: openai-chat${more} } }\n`,
      ).replace("demo:echo", "far:echo");
    t.match(
      (await audit(t, far(""))).text,
      /^low +long-wait +its first byte may take longer.*\n +providers far \(\S+:1\)\n/m,
    );
    t.match((await audit(t, far(", timeouts: { first_byte: off }"))).text, "long-wait");
    for (const more of [", timeouts: { first_byte: 2m }", ", health: { slow: 20s }"])
      t.notMatch((await audit(t, far(more))).text, "long-wait", more);
  },
);

t.test("the level decides the exit code, and advice can be left out by its id", async (t) => {
  const yaml = WISE.replace("limits:", "x-limits:");
  t.match(await audit(t, yaml), { code: 0, text: /^medium +no-limits +a key may spend without limit\n +limits\n/m });
  t.match(await audit(t, yaml, "--level", "medium"), { code: 1 });
  t.match(await audit(t, yaml, "--level", "medium", "--ignore", "no-limits"), { code: 0, text: "no advice" });
  await t.rejects(audit(t, yaml, "--level", "loud"), { message: /choose from high, medium, low/ });
  await t.rejects(audit(t, yaml, "--ignore", "nothing"), { message: /known are no-auth/ });
  t.match(USAGE, /--ignore/);
  t.match(help, /^audit /);
});

t.test("a webhook is a secret however short its path is, unless a reference stands for that", async (t) => {
  const found = async (webhook: string) => {
    const env = { TOKEN: "t-2f8c1d7e" };
    const { text } = await audit(t, `${WISE}alerts: { webhook: "${webhook}" }\n`, { env }, "--json");
    return (JSON.parse(text) as Advice[]).filter(({ id }) => id === "written-secret").map(({ about }) => about);
  };
  for (const webhook of ["https://hooks.slack.com/services/T0/B0/x1", "https://chat.example.com?token=a1"])
    t.same(await found(webhook), ["alerts webhook"], webhook);
  t.same(await found(`https://hooks.slack.com/services/T0/B0/\${TOKEN}`), []);
});

t.test("clients that are trusted like proxies are found, in whatever pieces they are listed", async (t) => {
  const found = async (trust: string) => (await audit(t, `${WISE}trust: ${trust}\n`, "--level", "high")).text;
  for (const trust of [
    "[0.0.0.0/0]",
    '["::/0"]',
    "[0.0.0.0/1, 128.0.0.0/1]",
    '["::/1", "8000::/1"]',
    '["2000::/3"]',
    "[127.0.0.1, 64.0.0.0/2]",
  ])
    t.match(await found(trust), /^high +trusted-clients +clients name .*\n +trust \(\S+:4\)\n/m, trust);
  for (const trust of [
    "[127.0.0.1, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 'fc00::/7']",
    "[104.16.0.0/13, 162.158.0.0/15, 172.64.0.0/13, '2400:cb00::/32', '2606:4700::/32', '2a06:98c0::/29']",
  ])
    t.equal(await found(trust), "no advice", trust);
});

t.test("limits of a group in which no key is are told, once the keys are known", async (t) => {
  const yaml = `${WISE.replace("limits: {", "limits: { groups: { acme: { rpm: 1 }, acme/lab: { rpm: 1 }, amce: { rpm: 1 } },")}`;
  const keys = [{ group: "acme/lab/night" }, { group: "amce", revoked: 1 }, {}];
  const { text } = await audit(t, yaml, { keys }, "--json");
  t.same(
    (JSON.parse(text) as Advice[]).map(({ id, about, at }) => `${id} ${about} ${at?.replace(/^.*:/, "")}`),
    ["unused-group limits groups amce 3"],
  );
  t.equal((await audit(t, yaml)).text, "no advice");
  t.equal((await audit(t, yaml, { keys: [] })).text, "no advice", "as before the first key");
});

t.test(
  "unencrypted requests are advised against where others can read them, not to a container or a cluster's service",
  async (t) => {
    const found = async (host: string) =>
      (await audit(t, WISE.replace("} }", `}, up: { url: "http://${host}/v1", protocol: openai-chat } }`))).text;
    for (const host of ["vllm:8000", "vllm.models.svc", "gpu.local", "localhost:1", "10.0.0.5"])
      t.notMatch(await found(host), /^high +plain-http/m, host);
    for (const host of ["llm.example.com", "8.8.8.8", "[2a00::1]"])
      t.match(await found(host), /^high +plain-http/m, host);
  },
);
