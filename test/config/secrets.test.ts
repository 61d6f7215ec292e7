// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is the notation of gateway.yaml
import t from "tap";
import {
  configSecrets,
  findSecrets,
  isOptionText,
  isSecret,
  literalSecret,
  starKeys,
  starSecrets,
  weakness,
} from "../../src/config/secrets.ts";
import type { Config } from "../../src/config/types.ts";

t.test("fields that hold secrets are recognised, misspelt ones too", async (t) => {
  const long = "abcdefghijklmnop";
  for (const path of [
    ["providers", "x", "credential"],
    ["providers", "x", "credentail"],
    ["keys", "ci", "key"],
    ["keys", "ci", "kye"],
    ["keys", "ci"],
    ["keys", 0],
    ["x-mine", "a"],
    ["plugins", "p", "apiKey"],
    ["plugins", "p", "password"],
    ["provders", "x", "whatever"],
  ])
    t.ok(isSecret(path, long), path.join("."));
});

t.test("a value one level too high, or under another name, is secret as in its right place", async (t) => {
  const hook = "https://hooks.example.com/services/T02/B03/abc";
  t.ok(isSecret(["alerts"], hook));
  t.ok(isSecret(["alerts", "webook"], hook));
  t.ok(isSecret(["alerts", "url"], hook));
  t.notOk(isSecret(["alerts", "repeat"], "12h"));
  t.ok(isSecret(["admin"], "admin-token-abcdefghijkl"));
  t.ok(isSecret(["admin"], "admin:${NAME:-token-abcdefghijkl}"));
  for (const place of [
    "127.0.0.1:9090",
    "[2001:db8::1]:9090",
    "unix:/run/gateway/admin.sock",
    "gateway.example.com:9090",
    "127.0.0.1:${ADMIN_PORT}",
    "127.0.0.1:${ADMIN_PORT:-9090}",
  ])
    t.notOk(isSecret(["admin"], place), place);
});

t.test("a key in the place of its hash, and a password without the host of its database, are secret", async (t) => {
  t.ok(isSecret(["keys", "ci", "hash"], "the-key-itself-by-mistake"));
  t.notOk(isSecret(["keys", "ci", "hash"], "0123456789abcdef".repeat(4)));
  t.ok(isSecret(["store", "ledger"], "postgres://user:password-53"));
  for (const place of [
    "postgres://host:5432/db",
    "postgres://[::1]:5432/db?sslmode=require",
    "redis://host",
    "redis://host/1",
  ])
    t.notOk(isSecret(["store", "ledger"], place), place);
});

t.test("fields that hold no secrets are recognised, misspelt ones too", async (t) => {
  const long = "abcdefghijklmnop";
  for (const path of [
    ["providers", "x", "url"],
    ["providers", "x", "speaks", 0],
    ["providers", "x", "protocl"],
    ["models", "m", "description"],
    ["plugins", "p", "region"],
    ["listen"],
  ])
    t.notOk(isSecret(path, long), path.join("."));
  t.notOk(isSecret(["providers", "x", "adress"], "https://example.org/v1"), "a plain address");
  t.notOk(isSecret(["bodi", "limit"], "5"), "a short value");
});

t.test("the secret in a scalar is its text, or its default, and nothing for a reference", async (t) => {
  t.equal(literalSecret("abc"), "abc");
  t.equal(literalSecret('"abc"'), "abc");
  t.equal(literalSecret('"${NAME:-abc}"'), "abc}");
  for (const reference of ["$NAME", '"${NAME}"', "$file:/run/secrets/x"]) t.equal(literalSecret(reference), "");
});

t.test("secrets are recognised by their form if a file's structure is invalid", async (t) => {
  t.same(findSecrets("https://user:pw@host/v1"), ["user:pw"]);
  t.same(findSecrets("https://host/v1?key=abc"), ["key=abc"]);
  t.same(findSecrets("credential: abc"), ["abc"]);
  t.same(findSecrets("{ key:abc}"), ["abc"]);
  t.same(findSecrets("admin: { token: abcdefgh, viewer: ijklmnop }"), ["abcdefgh", "ijklmnop"]);
  t.ok(findSecrets('token: "a b c"').includes("a b c"), "the complete quoted text");
  t.same(findSecrets("credential abcdefghijklmnopqrst"), ["abcdefghijklmnopqrst"]);
  t.same(findSecrets("credential: $NAME, key: $file:/x"), []);
  for (const named of [
    "credential: $file:/run/secrets/openai_api_key",
    "credential: [$file:secrets/openai-1, $file:/run/secrets/openai-2]",
    "there is no file at $file:/etc/secret/webhook.of.alerts; put the secret there, or write another path",
  ])
    t.same(findSecrets(named), [], "nor what a reference's folders and file are called");
  t.same(findSecrets("credential: [$file:secrets/openai-1, abcd-1234-efgh]"), ["abcd-1234-efgh"]);
  t.same(findSecrets("credential: $AZURE_API_KEY_SWEDENCENTRAL, AZURE_API_KEY_SWEDENCENTRAL is not set"), []);
  t.same(findSecrets("API_KEY_Abcdef-ghijklmnop"), ["_Abcdef-ghijklmnop"], "a variable's name is of capitals");
});

t.test("keys with a known form and addresses of webhooks are secret everywhere", async (t) => {
  const found = {
    "# rotated, was sk-ant-api03-ZQcommentkeyabcdefgh1234": "# rotated, was *************************************",
    "url: http://host/sk-proj-URLSHAPEabcdefgh/v1": "url: http://host/************************/v1",
    'owner: "mine: AIzaSyA1234567890abcdefghijklmnopqrs"': `owner: "mine: ${"*".repeat(36)}"`,
    "# https://hooks.slack.com/services/T0/B0/TOKEN": "# https://hooks.slack.com/********************",
    'x: ["https://chat.test/api/webhooks/12/ab_c"]': `x: ["https://chat.test/${"*".repeat(20)}"]`,
  };
  for (const [text, shown] of Object.entries(found)) {
    t.equal(starKeys(text), shown);
    t.equal(starSecrets(text, []), shown);
  }
  for (const text of [
    "https://host.test/v1/models",
    "# keys: see the wiki",
    "docs/webhooks.md",
    "https://hooks.slack.com",
  ])
    t.equal(starSecrets(text, []), text);
});

t.test("an invalid name among header names may be a credential", async (t) => {
  t.ok(isSecret(["providers", "p", "forward", 1], "x-auth: SECRETSECRET"));
  t.ok(isSecret(["providers", "p", "header"], "x-auth SECRETSECRET"));
  for (const name of ["x-organization-*", "anthropic-beta"]) t.notOk(isSecret(["providers", "p", "forward", 1], name));
});

t.test("masking keeps every character's position", async (t) => {
  t.equal(starSecrets("a: abcdefgh, b: abcdefghij", ["abcdefgh", "abcdefghij"]), "a: ********, b: **********");
  t.equal(starSecrets("a: short", ["short"]), "a: short");
  t.equal(starSecrets("postgres://postgres@h, postgres", ["postgres"]), "postgres://********@h, ********", "no scheme");
  t.equal(starSecrets("credential: x y", []), "credential: * y");
  t.equal(
    starSecrets("credential: [sk-first-one, $NAME, sk-second]", []),
    "credential: [************, $NAME, *********]",
  );
});

t.test("what is sent to providers and proxies, and what seals envelopes, is secret", async (t) => {
  const config = {
    providers: [{ credentials: [{ secret: "one" }, { secret: "two" }] }, { credentials: [] }],
    envelopes: { key: "three" },
    adminAccess: { oidc: { client_secret: "five" } },
    store: { limits: "memory", postgres: { password: "four" } },
  };
  const env = {
    http_proxy: "me:pass%40word@proxy.test:1",
    HTTPS_PROXY: "https://u:p%E0@proxy.test",
    https_proxy: "http://proxy.test",
  };
  const found = configSecrets(config as unknown as Config, env);
  const pair = Buffer.from("me:pass@word").toString("base64");
  t.same(
    found.toSorted(),
    [
      "one",
      "two",
      "three",
      "four",
      "five",
      "pass%40word",
      "pass@word",
      pair,
      "p%E0",
      "p%E0",
      Buffer.from("u:p%E0").toString("base64"),
    ].toSorted(),
  );
  const none = { adminAccess: {}, providers: [], envelopes: {}, store: { limits: "memory" } };
  t.same(configSecrets(none as unknown as Config, {}), []);
  const redis = { ...none, store: { limits: "redis://u:pass%40word@h" } };
  t.same(configSecrets(redis as unknown as Config, {}), ["pass%40word", "pass@word"]);
});

t.test("a guessable secret is reported with its category; a strong one is not", async (t) => {
  const placeholders = [
    "changeme-changeme-changeme",
    "test-test-test-test-test-test",
    "sk-........................",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "<your key goes here, please>",
    "your-api-key-your-api-key",
    "YOUR_OWN_SECRET_GOES_HERE",
    "my-secret-key-my-secret-key",
    "secret_secret_secret_secret_1",
    "12345678901234567890",
    "abcdefghijklmnopqrstuvwxyz",
    "sk-proj-****************abcd",
    "put-the-real-key-in-here_here",
  ];
  for (const secret of placeholders) t.equal(weakness(secret, 20), "a placeholder", secret);
  t.match(weakness("test", 8), "shorter than 8");
  t.match(weakness("aaaaaaaaaaaaaaaaaaaab", 20), "fewer than 5");
  for (const secret of [
    "test-key-0123456789abcdef",
    "provider-secret-0123456789",
    "sk-proj-aB3dE5gH7jK9mN1pQ3sT5vW7",
    "correct horse battery staple",
  ])
    t.equal(weakness(secret, 20), undefined, secret);
});

t.test("the gateway's own placeholder is shown, and what only resembles it is not", async (t) => {
  for (const advice of [
    "not a store for the ledger; write sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE",
    "write it like postgres://USER:PASSWORD@HOST:5432/DATABASE",
    "name who signs its certificate, rediss://HOST?cacert=FILE, and the host as the certificate does",
    "addresses of Redis take no options but cacert, cert, key; others would change nothing",
    'the same as "token", so a viewer could change everything; write another secret',
    'ABC_TOKEN is not set; set it, or write "${ABC_TOKEN:-default}"',
    'PASSWORD is empty; set it, or write "${PASSWORD:-default}"',
    'cannot be used: password authentication failed for user "gate"; the password of gate in store.ledger is wrong',
  ])
    t.equal(starSecrets(advice, []), advice);
  for (const [text, secret] of [
    ["postgres://USER:PASSWORD@HOST/DATABASE-of-mine", "HOST/DATABASE-of-mine"],
    ["postgres://USER:PASSWORD@host/database", "host/database"],
    ["rediss://HOST?cacert=FILE-of-mine", "cacert=FILE-of-mine"],
    ["PASSWORD@HOST/DATABASE", "HOST/DATABASE"],
    ["mysql://u:secretpw@h/d", "secretpw"],
    ["password: HOST/DATABASE", "HOST/DATABASE"],
    ["${ABC_TOKEN:-default-of-mine}", "default-of-mine"],
    ["token:-default}", "-default"],
    ["password authentication", "authentication"],
    ["password: authentication failed for user", "authentication"],
  ] as const)
    t.notMatch(starSecrets(text, []), secret, text);
});

t.test(
  "every text in a plugin's options may be a secret, except references, quantities, booleans and its schema's words",
  async (t) => {
    for (const text of [
      "x",
      "a long text",
      "https://host.test/v1",
      "${NAME:-default}",
      "12 parrots",
      "1234567890123456789",
    ])
      for (const section of ["plugins", "plugin", "x-plugins"])
        t.ok(isOptionText([section, "p", "deep", 0, "option"], text), `${section}: ${text}`);
    for (const text of [
      "$NAME",
      "${NAME}",
      "$file:/x",
      "15s",
      "64KiB",
      "10%",
      "0.5",
      "400_000",
      "$5/day",
      "off",
      "True",
      "",
    ])
      t.notOk(isOptionText(["plugins", "p", "option"], text), text);
    t.notOk(isOptionText(["plugins", "p", "from"], "./p.ts"));
    t.ok(isOptionText(["plugins", "p", "deep", "from"], "./p.ts"));
    t.notOk(isOptionText(["plugins"], "text"));
    t.notOk(isOptionText(["models", "m", "description"], "text"));
    t.notOk(isOptionText(["plugins", "p", "mode"], "stirp", ["strip"]), "a slip");
    t.ok(isOptionText(["plugins", "p", "mode"], "other", ["strip"]));
  },
);

t.test("the value of an authorization header is secret, with its scheme", async (t) => {
  t.ok(isSecret(["x-headers", "authorization"], "short"));
  t.equal(starSecrets("authorization: Basic c2hvcnQ=, x: 1", []), "authorization: ***** ********, x: 1");
  t.equal(starSecrets("{ authorization: $OTLP_AUTHORIZATION }", []), "{ authorization: $OTLP_AUTHORIZATION }");
});
