// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is the notation of gateway.yaml
import { createHash } from "node:crypto";
import t from "tap";
import type { Finding } from "../../src/config/problems.ts";
import { parseListenAddress, parseProviderUrl, parseWebhookUrl, ValueReader } from "../../src/config/values.ts";

function read(file: unknown, env: NodeJS.ProcessEnv = {}) {
  const findings: Finding[] = [];
  const { values } = new ValueReader(file, env, "/etc/gateway", (finding) => findings.push(finding));
  return {
    values,
    said: findings.map(({ path, message, severity = "error" }) => `${severity} ${path.join(".")} ${message}`),
  };
}

t.test("a listen address may leave out its host, or be a port alone", async (t) => {
  for (const [text, host, port] of [
    ["127.0.0.1:8080", "127.0.0.1", 8080],
    [":8080", "::", 8080],
    ["8080", "127.0.0.1", 8080],
    ["[::1]:8080", "::1", 8080],
    ["[::]:80", "::", 80],
    ["gateway.internal:0", "gateway.internal", 0],
  ] as const)
    t.same(parseListenAddress(text), { host, port }, text);
});

t.test("other texts are not accepted as listen addresses", async (t) => {
  for (const text of ["127.0.0.1", "::1:8080", "host:65536", "host:", "a b:80", "http://x:80", "", "unix:/run/x"])
    t.equal(
      parseListenAddress(text),
      'not an address to listen on; write it like 127.0.0.1:8080, :8080 or "[::1]:8080"',
      text,
    );
});

t.test("a provider's address loses its trailing slash and nothing else", async (t) => {
  for (const [text, href] of [
    ["https://host/v1", "https://host/v1"],
    ["https://host/v1/", "https://host/v1"],
    ["https://host", "https://host/"],
    ["http://127.0.0.1:9/a/b//", "http://127.0.0.1:9/a/b"],
  ] as const)
    t.equal(String(parseProviderUrl(text)), href);
  t.equal(parseProviderUrl("demo:"), "demo:");
});

t.test("an invalid provider's address is refused", async (t) => {
  for (const text of ["host/v1", "ftp://host", "", "demo:x", "file:///etc/passwd"])
    t.equal(parseProviderUrl(text), 'not an http address; write it like https://host/v1, or "demo:"', text);
  t.match(parseProviderUrl("https://user:pw@host/v1"), /must not contain a user or password/);
  for (const text of ["https://host/v1?x=1", "https://host/v1#x", "https://host/v1?", "https://host/#"])
    t.equal(parseProviderUrl(text), "an address has no ? or # part");
});

t.test("omitted settings have defaults", async (t) => {
  const { values, said } = read({});
  t.same(values.listen, { host: "127.0.0.1", port: 8080 });
  t.same(values.admin, { host: "127.0.0.1", port: 9090, isDefault: true });
  t.equal(values.store?.ledger, "/etc/gateway/data/gateway.db");
  t.same(said, []);
});

t.test("a port may be a number, and an address may come from the environment", async (t) => {
  const { values, said } = read({ listen: 8081, admin: "$ADMIN" }, { ADMIN: "[::1]:9091" });
  t.same(values.listen, { host: "127.0.0.1", port: 8081 });
  t.same(values.admin, { host: "::1", port: 9091 });
  t.same(said, []);
});

t.test("an address whose variable is not set is a mistake, with the fix", async (t) => {
  t.same(read({ listen: "$LISTEN", providers: { a: { url: "https://${HOST}/v1" } } }).said, [
    'error listen LISTEN is not set; set it, or write "${LISTEN:-default}"',
    'error providers.a.url HOST is not set; set it, or write "${HOST:-default}"',
  ]);
});

t.test("the two listeners cannot share an address", async (t) => {
  t.same(read({ listen: "8080", admin: "127.0.0.1:8080" }).said, [
    "error admin listen and admin have the same address; write another port, like admin: 127.0.0.1:9090",
  ]);
  t.same(read({ listen: "127.0.0.1:0", admin: "127.0.0.1:0" }).said, []);
  const shared = (listen: string, admin: string) =>
    read({ listen, admin }).said.some((message) => message.includes("listen and admin have the same address"));
  for (const [listen, admin] of [
    [":8080", "127.0.0.1:8080"],
    ["0.0.0.0:8080", "localhost:8080"],
    ["10.0.0.1:8080", ":8080"],
    ["localhost:8080", "127.0.0.1:8080"],
  ] as const)
    t.ok(shared(listen, admin), `${listen} and ${admin}`);
  for (const [listen, admin] of [
    [":8080", "127.0.0.1:9090"],
    ["[::1]:8080", "127.0.0.1:8080"],
    ["0.0.0.0:8080", "[::1]:8080"],
    ["10.0.0.1:8080", "127.0.0.1:8080"],
  ] as const)
    t.notOk(shared(listen, admin), `${listen} and ${admin}`);
});

t.test("the admin side may be a socket file or off, and should not be reachable by others", async (t) => {
  t.same(read({ admin: "unix:run/admin.sock" }).values.admin, { path: "/etc/gateway/run/admin.sock" });
  const off = read({ admin: "off" });
  t.same([off.values.admin, off.said], [undefined, []]);
  t.match(read({ admin: ":9090" }).said, [
    /^warning admin others can reach this address, so only \/livez and \/readyz/,
  ]);
  t.match(read({ admin: "unix:" }).said, [
    /^error admin not an address .*unix:\/run\/model-gateway\/admin\.sock or off$/,
  ]);
});

t.test("workers cannot share a ledger in memory", async (t) => {
  const store = { ledger: "sqlite::memory:" };
  t.match(read({ store, workers: 2 }).said, [
    "error store.ledger workers share a ledger in a file; write sqlite:FILE, or workers: 1",
  ]);
  t.same(read({ store, workers: 1 }).said, []);
  t.same(read({ store: { ...store, durability: "power", keep: "400d" } }).said, [
    "error store.durability a ledger in memory does not survive a power cut; write ledger: sqlite:FILE, or durability: process",
    "error store.keep a ledger in memory ends with its gateway; write ledger: sqlite:FILE, or leave keep out",
  ]);
  t.same(read({ store: { ...store, durability: "process", keep: "off" } }).said, []);
  t.same(read({ store: { ledger: "sqlite:a.db" }, workers: "auto" }).said, []);
});

t.test("the ledger's file is an absolute path, or in memory", async (t) => {
  t.equal(read({ store: { ledger: "sqlite:/var/x.db" } }).values.store?.ledger, "/var/x.db");
  t.equal(read({ store: { ledger: "sqlite:x.db" } }).values.store?.ledger, "/etc/gateway/x.db");
  t.equal(read({ store: { ledger: "sqlite::memory:" } }).values.store?.ledger, ":memory:");
});

t.test("a ledger in PostgreSQL has its journals in a folder, and its password is not stored elsewhere", async (t) => {
  const { store } = read({ store: { ledger: "postgres://u:pw@h/db" } }).values;
  t.equal(store?.ledger, "postgres://u@h:5432/db");
  t.match(store?.postgres, { host: "h", user: "u", password: "pw", journal: "/etc/gateway/data/journal" });
  const other = read({ store: { ledger: "postgres://u@h/db", journal: "/var/journal" } });
  t.equal(other.values.store?.postgres?.journal, "/var/journal");
  const wrong = "postgres://u:top-secret-word@h/db?sslmode=sometimes";
  t.same(read({ store: { ledger: wrong } }).said, [
    "error store.ledger sslmode=… is not done here; write disable, prefer, require, verify-ca or verify-full",
  ]);
  t.same(read({ store: { ledger: "sqlite:x.db", journal: "x" } }).said, [
    "error store.journal the journal of a SQLite file is stored next to it; remove this setting",
  ]);
});

t.test("other kinds of stores are refused", async (t) => {
  t.same(read({ store: { ledger: "postgres://u:pw@h/db", limits: "redis://h" } }).said, []);
  t.same(read({ store: { ledger: "mysql://x", limits: "disk" } }).said, [
    "error store.limits not a store for limits; write memory, or redis://HOST:6379 (rediss:// with TLS)",
    "error store.ledger not a store for the ledger; write sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE",
  ]);
});

t.test("limits are counted in memory, or at an address that may be a secret", async (t) => {
  t.equal(read({}).values.limits, "memory");
  t.equal(read({ store: { limits: "rediss://u:pw@h/2" } }).values.limits, "rediss://u:pw@h/2");
  t.same(read({ store: { limits: "redis://u:pw@h?x=1" } }).said, [
    "error store.limits addresses of Redis take no options but cacert, cert, key; others would change nothing",
  ]);
});

t.test("a provider whose credential is not set is disabled, with a warning", async (t) => {
  const { values, said } = read({
    providers: { a: { url: "https://x", credential: "$A_KEY" }, b: { url: "https://x", credential: "${B:-}" } },
  });
  t.equal(values.providers.get("a")?.off, "A_KEY is not set");
  t.equal(values.providers.get("b")?.off, "its credential is empty");
  t.same(said, [
    'warning providers.a.credential provider "a" is off: A_KEY is not set',
    'warning providers.b.credential provider "b" is off: its credential is empty',
  ]);
});

t.test("a credential that cannot be in a header is a mistake", async (t) => {
  for (const value of ["abc\n", " abc", "abc ", "a\0b", "kéy"]) {
    const { said } = read({ providers: { a: { url: "https://x", credential: "$A" } } }, { A: value });
    t.same(
      said,
      ["error providers.a.credential the credential holds a line break, an outer space or a character outside ASCII"],
      JSON.stringify(value),
    );
  }
  t.same(
    read({ providers: { a: { url: "https://x", credential: "Basic abc" } } }).values.providers.get("a")?.credentials,
    [{ label: "#1", id: "#4c91", secret: "Basic abc", account: "a/0/4c9122f274f9" }],
  );
});

t.test("what another program would take for a reference is a mistake, as it would be the secret itself", async (t) => {
  for (const text of [
    ...["os.environ/OPENAI_API_KEY", "process.env.OPENAI_API_KEY", "env.OPENAI_API_KEY", "env:OPENAI_API_KEY"],
    ...["{{ OPENAI_API_KEY_OF_US }}", "${{ secrets.OPENAI_API_KEY }}", "%OPENAI_API_KEY%", "Bearer $OPENAI_API_KEY"],
  ]) {
    const { said } = read({ providers: { a: { url: "https://x", credential: text } }, keys: { a: { key: text } } });
    for (const path of ["providers.a.credential", "keys.a.key"])
      t.match(
        said.find((line) => line.includes(path)),
        /^error .* (?:this text itself|not a reference).*write \$NAME/,
        text,
      );
  }
  const written = "x$ABC_9f$-env.-{{4}}-%q%-8d2";
  t.same(read({ keys: { a: { key: written } } }).said, [], "only whole texts");
});

t.test("a credential with the word Bearer needs a header of its own, as it is added otherwise", async (t) => {
  const provider = { url: "https://x", credential: "Bearer sk-0123456789" };
  t.match(read({ providers: { a: provider } }).said, [/^error providers.a.credential .*write the key alone/]);
  t.same(read({ providers: { a: { ...provider, header: "authorization" } } }).said, []);
});

t.test("a guessable credential of a variable is to be changed there", async (t) => {
  const { said } = read({ providers: { a: { url: "https://x", credential: "$A_KEY" } } }, { A_KEY: "short" });
  t.match(said, [/the credential is shorter than 8 characters; set A_KEY to the vendor's credential/]);
});

t.test("a guessable credential is a mistake, and is not repeated", async (t) => {
  for (const value of ["test", "changeme", "sk-...", "<YOUR_API_KEY>", "your-api-key-here", "xxxxxxxxxxxx"]) {
    const { said } = read({ providers: { a: { url: "https://x", credential: "$A" } } }, { A: value });
    t.equal(said.length, 1, value);
    t.match(
      said[0],
      /^error providers.a.credential the credential is .*remove the field if the provider needs none/,
      value,
    );
    t.notOk(said[0]?.includes(value), "without its text");
  }
});

t.test("credentials in a list are labelled by their origin; those that are not set are left out", async (t) => {
  const credential = ["$ONE", "$TWO", "literal-of-the-operator", "$THREE"];
  const providers = { a: { url: "https://x", credential } };
  const { values, said } = read({ providers }, { ONE: "a1-first-of-all", THREE: "a3-third-of-all" });
  t.same(values.providers.get("a")?.credentials, [
    { label: "ONE", id: "ONE", secret: "a1-first-of-all", account: "a/0/c46d83149f74" },
    { label: "#3", id: "#b3d9", secret: "literal-of-the-operator", account: "a/2/b3d9c9178bff" },
    { label: "THREE", id: "THREE", secret: "a3-third-of-all", account: "a/3/962394f4516e" },
  ]);
  t.same(said, ['warning providers.a.credential.1 provider "a" has one credential less: TWO is not set']);
  const none = read({ providers: { a: { url: "https://x", credential: ["$ONE", "$TWO"] } } }, { ONE: "" });
  t.equal(none.values.providers.get("a")?.off, "ONE is empty, TWO is not set");
  t.same(none.said, ['warning providers.a.credential provider "a" is off: ONE is empty, TWO is not set']);
});

t.test("only the SHA-256 of a key is kept", async (t) => {
  const key = "twenty-characters-or-more";
  const hash = createHash("sha256").update(key).digest("hex");
  const { values, said } = read({ keys: { a: { key: "$K" }, b: { hash: "AB".repeat(32) } } }, { K: key });
  t.same(values.keys.get("a"), { hash });
  t.same(values.keys.get("b"), { hash: "ab".repeat(32) });
  t.same(said, []);
});

const MAKE_ONE = "; a key has 20 characters or more that nobody can guess: openssl rand -hex 32";

t.test("a key that is not set is disabled; a guessable or duplicate one is a mistake", async (t) => {
  const twenty = "abcdefghij0123456789";
  const { values, said } = read({
    keys: {
      a: { key: "$GONE" },
      b: { key: twenty.slice(1) },
      c: { key: twenty },
      d: { key: twenty },
      e: { key: `${twenty} x` },
    },
  });
  t.same(values.keys.get("a"), { off: "GONE is not set" });
  t.same(said, [
    'warning keys.a.key key "a" is off: GONE is not set',
    `error keys.b.key the key is shorter than 20 characters${MAKE_ONE}`,
    'error keys.d the same key as "c"; give each its own, or remove one',
    `error keys.e.key the key is one with spaces or line breaks${MAKE_ONE}`,
  ]);
});

t.test("values of any other type are ignored", async (t) => {
  for (const odd of [null, 5, "x", [], { a: null }, { a: 5 }, { a: { url: 5, credential: [], key: 5, hash: null } }])
    t.same(read({ listen: [], store: odd, providers: odd, keys: odd }).said, []);
});

t.test("the secret of envelopes is resolved, and must not be guessable", async (t) => {
  t.equal(
    read({ envelopes: { key: "$SEAL" } }, { SEAL: "0123456789abcdefghij" }).values.envelopes,
    "0123456789abcdefghij",
  );
  t.equal(read({}).values.envelopes, undefined);
  t.same(read({ envelopes: { key: "$SEAL" } }, { SEAL: "short" }).said, [
    `error envelopes.key the key is shorter than 20 characters${MAKE_ONE}`,
  ]);
  t.match(read({ envelopes: { key: "$SEAL" } }).said, [/^error envelopes.key SEAL is not set/]);
});

t.test("an invalid webhook address is explained without repeating it", async (t) => {
  const { values, said } = read({ alerts: { webhook: "$HOOK" } }, { HOOK: "https://hooks.test/services/canary" });
  t.equal(values.webhook?.href, "https://hooks.test/services/canary");
  t.same(said, []);
  t.same(read({ alerts: { webhook: "$HOOK" } }).said, [
    "error alerts.webhook HOOK is not set: set it, or leave the field out",
  ]);
  for (const [text, wrong] of [
    ["hooks.test/services/canary", /^not an http address/],
    ["ftp://hooks.test/canary", /^not an http address/],
    ["https://user:canary@hooks.test/x", /must not contain a user or password/],
    ["https://hooks.test/canary#x", /no # part/],
    ["https://hooks.test", /only a host/],
  ] as const) {
    t.match(parseWebhookUrl(text), wrong);
    t.notMatch(String(parseWebhookUrl(text)), /canary/);
  }
});
