// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is the notation of gateway.yaml
import t from "tap";
import { type Document, parseDocument } from "yaml";
import { mask } from "../../src/config/masking.ts";
import type { EnumeratedValues } from "../../src/config/secrets.ts";

const parsed = (yaml: string): Document => parseDocument(yaml, { merge: true, logLevel: "error" });
const masked = (yaml: string, enumeratedAt: EnumeratedValues = () => []): string =>
  mask(parsed(yaml), yaml, enumeratedAt).text;

t.test("a secret is masked as written in the file, in any YAML syntax", async (t) => {
  for (const [yaml, shown] of [
    ["providers: { p: { credential: ['first''second', $NAME] } }", "['*************', $NAME]"],
    ['x-c: &c "fi\\u002dst"\nproviders: { p: { credential: *c } }', '"**********"\n'],
    ['x-c: &c ["first", second]\nproviders: { p: { credential: *c } }', '["*****", ******]\n'],
    ["x-p: &p { credential: first }\nproviders: { p: { <<: *p } }", "credential: *****"],
    ['admin: { token: "fir\\\n    st" }', 'token: "****\n    **" }'],
    ["admin:\n  token: fir\n    st\n", "token: ***\n    **\n"],
    ["admin:\n  token: |-\n    fir\n    st\n", "    ***\n    **\n"],
    ["admin: { token: !t &a 'fi' }", "&a '**'"],
    ["admin: { ? { first: second } : third, token: { fourth } }", "token: { ****** }"],
    ["plugins: { p: { a: '${GONE:-first}' } }", "'${GONE:-******'"],
  ] as const)
    t.match(masked(yaml), shown, yaml);
});

t.test("every string in the options of plugins is masked, at any depth", async (t) => {
  const yaml = `plugins:
  otel: { headers: { authorization: "Basic first", x-team: second }, endpoint: "https://third.test/v1" }
  own:
    nested: { pepper: "pw", list: [fourth, "fif,th", { deep: sixth }] }
    dsn: "seventh***"
  bare: eighth
`;
  const stars = (text: string) => "*".repeat(text.length);
  t.equal(
    masked(yaml),
    `plugins:
  otel: { headers: { authorization: "***** *****", x-team: ****** }, endpoint: "${stars("https://third.test/v1")}" }
  own:
    nested: { pepper: "**", list: [******, "******", { deep: ***** }] }
    dsn: "**********"
  bare: ******
`,
  );
  t.match(masked("plugin: { p: { a: first } }"), "a: *****", "misspelt");
  t.match(masked("x-o: &o { a: first }\nplugins: { p: *o }"), "a: *****", "by an alias");
  t.match(masked("plugins: { p: { <<: { from: ./p.ts, a: first } } }"), "from: ./p.ts, a: *****");
});

t.test(
  "references, numbers with units, booleans and words of the schema are not masked, nor are from and deadline",
  async (t) => {
    const yaml = `plugins:
  # what is told, and to whom
  p: { from: ./p.ts, deadline: five, a: $NAME, b: "\${NAME}", c: $file:/run/x, d: 15s, e: 64KiB, f: 10%, g: on, h: "off" }
  q: { a: true, b: 0.5, c: 400_000, d: $5/day, e: 1e-6, f: -3, g: , h: null }
  r: { mode: report }
  s: { mode: reprot }
`;
    t.equal(
      masked(yaml, ([, , name]) => (name === "mode" ? ["strip", "report"] : [])),
      yaml,
    );
    t.match(masked(yaml), "mode: ******");
  },
);

t.test("what is not secret stays readable, even if an option has the same text", async (t) => {
  const yaml = `providers:
  one: { url: https://api.one.test/v1, credential: $ONE, speaks: [openai-chat], vendor: some-long-vendor, shared: [pmpt_greeting] }
models: # what may be named
  a-long-model: { targets: [one:its-own-long-name], price: { input: 1, output: 2 } }
limits: { default: { budget: $10/month } }
keys: { ci: { key: $CI, tags: { team: platform-engineering } } }
admin: { oidc: { roles: { viewer: [engineering] } } }
plugins: { p: { model: a-long-model, to: https://api.one.test/v1 } }
`;
  t.equal(
    masked(yaml),
    yaml.replace("model: a-long-model, to: https://api.one.test/v1", `model: ${"*".repeat(12)}, to: ${"*".repeat(23)}`),
  );
});

t.test("an option's text is masked in comments and messages too", async (t) => {
  const yaml = "# was: first-second\nplugins: { p: { a: 'first-second' } }\n";
  const { text, secrets } = mask(parsed(yaml), yaml, () => []);
  t.notMatch(text, "first");
  t.same([...secrets], ["first-second"]);
});

t.test("if the syntax is invalid, options are recognised by line", async (t) => {
  for (const options of [
    "dsn: first: second",
    'headers: { authorization: "Basic first } }',
    "\tdsn: first",
    "- first",
    "dsn: @first",
    "list: [first, 'sec",
    "{ from: ./p.ts, pepper: @first }",
    "dsn: |\n      first\n  @: first",
  ]) {
    const yaml = `models: { m: { targets: [p:first-model] } }\nplugins:\n  # of options\n  p:\n    from: ./p.ts\n    wait: 15s\n    ${options}\nlimits: {\n`;
    const shown = masked(yaml);
    t.notMatch(shown.replace("first-model", ""), /first|sec/, options);
    t.equal(shown.length, yaml.length);
    for (const part of ["[p:first-model]", "# of options", "from: ./p.ts", "wait: 15s"]) t.match(shown, part, options);
  }
});

t.test("of a file with infinite aliases only names are shown", async (t) => {
  const many = Array.from({ length: 30 }, (_, i) => `a${i}: &a${i} { x: *a${i - 1}, y: *a${i - 1} }`).slice(1);
  const shown = masked(`a0: &a0 [first, 2]\n${many.join("\n")}\n`);
  t.match(shown, "a0: &a0 [*****, *]");
  t.match(masked("a: &a { b: *a, c: first }"), "c: *****");
});

t.test("a commented-out option of a plugin is masked, and prose about options is not", async (t) => {
  const yaml = `# pepper: zero
plugins:
  # note the pepper: it is long, and ours
  p: { from: ./p.ts } # pepper: first
  #   pepper: second
  # q: { pepper: "third", size: 5 }
  #   - fourth
  #   size: 5k
chains: {}
# pepper: fifth
`;
  t.equal(
    masked(yaml),
    yaml
      .replace("first", "*****")
      .replace("second", "******")
      .replace('{ pepper: "third", size: 5 }', '{ ******: "*****", ****: * }')
      .replace("fourth", "******"),
  );
});

t.test("comments are masked with Windows line ends too", async (t) => {
  t.equal(
    masked("plugins:\r\n  # pepper: first\r\n  p: { a: 1 }\r\n"),
    "plugins:\r\n  # pepper: *****\r\n  p: { a: 1 }\r\n",
  );
});

t.test("secrets under the plural of their name, and the address of misspelt alerts, are masked", async (t) => {
  const secret = "zq8Lw93kTtR55vNx";
  for (const yaml of [
    `admin: { tokens: [${secret}] }`,
    `admin: { tokens: ${secret} }`,
    `admin: { viewers: [${secret}] }`,
    `alert: { url: "https://hooks.test/${secret}" }`,
    `alert: "https://hooks.test/${secret}"`,
  ])
    t.notMatch(masked(yaml), secret, yaml);
  const prices = "models: { m: { price: { above: [{ tokens: 200_000_000_000 }] } } }";
  t.equal(masked(prices), prices);
});

t.test("a password is masked after any mistake in the address, and so is a secret used as a name", async (t) => {
  const secret = "zq8Lw93kTtR55vNx7";
  for (const yaml of [
    `store: { ledger: "postgres//u:${secret}@h/db" }`,
    `store: { ledger: "postgres:/u:${secret}@h/db" }`,
    `store: { ledger: postgres:u:${secret}@h/db }`,
    `store: { limits: 'redis:/:${secret}@h:1' }`,
    `store: { limits: redis:${secret} }`,
    `providers: { p: { url: "http:/u:${secret}@127.0.0.1/v1" } }`,
    `providers: { p: { credential: { ${secret}: x } } }`,
    `keys: { ci: { key: { ${secret}: 1 } } }`,
    `admin: { token: { ${secret}: 1 } }`,
    `envelopes: { key: { ${secret}: 1 } }`,
    `# ledger: postgres:/u:${secret}@h/db`,
  ])
    t.notMatch(masked(yaml), secret, yaml);
  const harmless = `store: { ledger: sqlite:./data/gateway.db, limits: memory, journal: /var/lib/gateway }
providers: { p: { url: "https://host.test/v1" } }
keys: { ci: { owner: "Joe: joe@host.test" }, key: { group: eng } }
models: { secret: { targets: [p:m] } }
`;
  t.equal(masked(harmless), harmless);
});

t.test("a key in the place of its name is masked, and a name is not", async (t) => {
  const secret = "team-s3cret-Zq81xWv90Pl";
  for (const entry of ["alice", "{ key: alice }", "{ key: bob, group: eng }", "{ group: eng }", "{}", "", "[alice]"])
    t.notMatch(masked(`keys:\n  ${secret}: ${entry}\n  other: { key: $K }\n`), secret, entry);
  t.notMatch(masked(`keys: { ${secret} }`), secret);
  t.notMatch(masked(`x: &e alice\nkeys: { ? "${secret}" : *e }`), secret);
  t.notMatch(masked('keys: { "Zx/81+Qw90==pl7Tvbnm": { key: $K } }'), "Zx/81");
  const named = `x-e: &e { key: $E }
keys:
  production-batch-worker-2: { key: $A }
  staging-batch-worker-long: { hash: ${"0123456789abcdef".repeat(4)} }
  engineering-department-3: { <<: *e }
  data-science-team-2027: $CI
  team-of-alice: alice
  "the keys of our second team": { key: $B }
`;
  t.equal(masked(named), named);
});

t.test("a file with lines of any length is masked in one pass", async (t) => {
  for (const unit of ["https://a/", "://a?", "http://a@", " ", "a/", "credentials: ["])
    t.equal(
      masked(`x: ${unit.repeat(100_000 / unit.length)}`).length,
      3 + unit.length * Math.floor(100_000 / unit.length),
    );
});
