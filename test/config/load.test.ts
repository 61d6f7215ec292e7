import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { loadConfig, readError } from "../../src/config/load.ts";
import { ConfigError } from "../../src/config/problems.ts";
import { countTurns } from "../support/turns.ts";
import { complaint, complaints, extensions, load, MINIMAL_CONFIG } from "./fixture.ts";

t.test("the repository's own file is valid, and its demo models need no account", async (t) => {
  const file = fileURLToPath(new URL("../../gateway.yaml", import.meta.url));
  const protocols = new Map(
    "openai-chat openai-responses openai-completions openai-images openai-embeddings anthropic-messages gemini"
      .split(" ")
      .map((name) => [name, { paths: [`/${name}`] }]),
  );
  const config = await loadConfig(file, { ...extensions, protocols }, {});
  t.same(
    config.providers.filter((provider) => provider.off === undefined).map(({ name }) => name),
    ["demo"],
  );
  t.match(config.notices, ['provider "openai" is off: OPENAI_API_KEY is not set', /anthropic/, /gemini/]);
  t.ok(
    config.models.some((model) => model.id === "echo" && model.targets.every((target) => target.provider === "demo")),
  );
  const on = await loadConfig(
    file,
    { ...extensions, protocols },
    { OPENAI_API_KEY: "one-0123456789", ANTHROPIC_API_KEY: "two-0123456789", GEMINI_API_KEY: "three-0123456789" },
  );
  t.same(on.notices, []);
});

t.test("all mistakes are reported at once, in the order of the file", async (t) => {
  const yaml = `listen: 127.0.0.1:99999
providers:
  openai: { base_ulr: https://api.openai.com/v1, credential: $OPENAI_API_KEY, speaks: [openai-chta] }
  anthropic:
    url: ftp://api.anthropic.com/v1
    protocol: anthropic-messages
models:
  claude:
    targets: [antropic:claude-sonnet]
    context: 5x
    can: [tool]
chains:
  llm: [sse, auht]
drain: 5
bodi: {}
`;
  t.equal(
    await complaint(t, yaml),
    `gateway.yaml:1:9 error: not an address to listen on; write it like 127.0.0.1:8080, :8080 or "[::1]:8080"
> 1 | listen: 127.0.0.1:99999
    |         ^^^^^^^^^^^^^^^

gateway.yaml:3:13 error: unknown key "base_ulr", did you mean "url"?
  2 | providers:
> 3 |   openai: { base_ulr: https://api.openai.com/v1, credential: $OPENAI_API_KEY, speaks: [openai-chta] }
    |             ^^^^^^^^

gateway.yaml:3:88 error: unknown protocol "openai-chta", did you mean "openai-chat"?
  2 | providers:
> 3 |   openai: { base_ulr: https://api.openai.com/v1, credential: $OPENAI_API_KEY, speaks: [openai-chta] }
    |                                                                                        ^^^^^^^^^^^

gateway.yaml:5:10 error: not an http address; write it like https://host/v1, or "demo:"
  4 |   anthropic:
> 5 |     url: ftp://api.anthropic.com/v1
    |          ^^^^^^^^^^^^^^^^^^^^^^^^^^

gateway.yaml:9:15 error: unknown provider "antropic", did you mean "anthropic"?
  8 |   claude:
> 9 |     targets: [antropic:claude-sonnet]
    |               ^^^^^^^^

gateway.yaml:10:14 error: "5x" is not a count; write it like 300, 400_000, 128k or 1M
   9 |     targets: [antropic:claude-sonnet]
> 10 |     context: 5x
     |              ^^

gateway.yaml:11:11 error: unknown value "tool", did you mean "tools"?
  10 |     context: 5x
> 11 |     can: [tool]
     |           ^^^^

gateway.yaml:13:14 error: unknown plugin "auht", did you mean "auth"?
  12 | chains:
> 13 |   llm: [sse, auht]
     |              ^^^^

gateway.yaml:14:8 error: 5 is not a duration; write it like 90s, 500ms, 5m, 1h or off
  13 |   llm: [sse, auht]
> 14 | drain: 5
     |        ^

gateway.yaml:15:1 error: unknown key "bodi", did you mean "body"?
  14 | drain: 5
> 15 | bodi: {}
     | ^^^^`,
  );
});

t.test("each mistake in a file is reported at its place, with what is right there", async (t) => {
  const providers = 'providers: { demo: { url: "demo:" } }';
  const models = "models: { echo: { targets: [demo:echo] } }";
  for (const [yaml, ...said] of [
    ["", "1:1 is empty; it needs providers and models"],
    ["# nothing", "1:1 is empty; it needs providers and models"],
    ["just text", '1:1 expected a map, found the text "just text"; write { providers: …, models: … }'],
    ["- a\n- b\n", "1:1 expected a map, found a list; write { providers: …, models: … }"],
    [`${providers}\nmodels:\n`, "2:1 expected a map, found nothing; write { NAME: … }"],
    [`${providers}\nmodles: { echo: { targets: [demo:echo] } }\n`, '2:1 unknown key "modles", did you mean "models"?'],
    [`providers: {}\n${models}`, "1:1 at least one provider is needed"],
    [`${providers}\nmodels: { echo: {} }\n`, '2:11 "targets" is missing'],
    [`${providers}\nmodels: { echo: { targets: [] } }\n`, "2:19 at least one target is needed"],
    [
      `${providers}\nmodels: { echo: { targets: demo:echo } }\n`,
      '2:28 expected a list, found the text "demo:echo"; write [demo:echo]',
    ],
    [`${providers}\nmodels: { echo: { targets: [{ to: demo:echo, weight: 0 }] } }\n`, "2:54 must be more than 0"],
    [
      `${providers}\nmodels: { "a b": { targets: [demo:echo] } }\n`,
      "2:11 not a name for a model; write letters, digits and . _ - / : @ + only",
    ],
    [
      `${providers}\nmodels: { echo: { targets: [demo:echo], price: { input: -1 } } }\n`,
      "2:57 must not be less than 0",
    ],
    [
      `${providers}\nmodels: { echo: { targets: [demo:echo], price: { input: 0.0000005 } } }\n`,
      "2:57 has more than 6 decimals; prices are in USD per million tokens",
    ],
    [
      `${providers}\nmodels: { echo: { targets: [demo:echo], price: { inptu: 1 } } }\n`,
      '2:50 unknown key "inptu", did you mean "input"?',
    ],
    [
      `${providers}\nmodels: { echo: { targets: [demo:echo], created: 2026-02-30 } }\n`,
      '2:50 "2026-02-30" is not a date; write it like 2026-12-31 or 2026-12-31T18:00:00Z',
    ],
    [
      `providers: { demo: { url: "http://a/v1", protocol: gemini, forward: ["*"] } }\n${models}`,
      "1:70 * alone would forward everything; name headers, or a prefix like x-acme-*",
    ],
    [
      `providers: { demo: { url: "http://a/v1", protocol: gemini, credential: $A, header: "a b" } }\n${models}`,
      "1:84 not a header name; write it like x-api-key",
    ],
    [
      `providers: { demo: { url: "demo:", timeouts: { idle: 5 } } }\n${models}`,
      "1:54 5 is not a duration; write it like 90s, 500ms, 5m, 1h or off",
    ],
    [`${MINIMAL_CONFIG}body: { limit: 32 }\n`, "3:16 32 is not a size; write it like 64MiB, 1MB or 512KiB"],
    [`${MINIMAL_CONFIG}log: { level: inof }\n`, '3:15 unknown value "inof", did you mean "info"?'],
    [
      `${MINIMAL_CONFIG}limits: { default: { budget: 50/month } }\n`,
      '3:30 "50/month" is not a sum of money; write it like $50/month, $15/week, $10/day, $1/hour or $100 (in total)',
    ],
    [`${MINIMAL_CONFIG}limits: { defualt: {} }\n`, '3:11 unknown key "defualt", did you mean "default"?'],
    [
      `${MINIMAL_CONFIG}keys: { ci: { hash: abc } }\n`,
      "3:21 not a SHA-256 in hex (64 digits); compute it with: printf %s KEY | sha256sum",
    ],
    [
      `${MINIMAL_CONFIG}keys: { ci: { key: abcdefghij0123456789, expires: soon } }\n`,
      '3:51 "soon" is not a date; write it like 2026-12-31 or 2026-12-31T18:00:00Z',
    ],
    [
      `${MINIMAL_CONFIG}paths: { v1: { protocol: gemini } }\n`,
      "3:10 a path starts with one / and has no ?, #, %, \\ or space",
    ],
    [
      `${MINIMAL_CONFIG}paths: { /v1: { protocol: gemini, strict: 1 } }\n`,
      "3:43 expected true or false, found the number 1",
    ],
    [
      `${MINIMAL_CONFIG}paths: { /v1: { protocol: gemini, use: [auht] } }\n`,
      '3:41 unknown plugin "auht", did you mean "auth"?',
    ],
    [
      `${MINIMAL_CONFIG}paths: { /v1: { protocol: gemini, use: [auth, auth] } }\n`,
      '3:47 "auth" is listed twice in this chain',
    ],
    [`${MINIMAL_CONFIG}paths: { /v1/*: { pass: deom } }\n`, '3:25 unknown provider "deom", did you mean "demo"?'],
    [
      `${MINIMAL_CONFIG}chains: { "/v1": [auth] }\n`,
      "3:11 not a name for a chain; write letters, digits and . _ - only",
    ],
    [`${MINIMAL_CONFIG}chains: { llm: auth }\n`, '3:16 expected a list, found the text "auth"; write [auth]'],
    [`${MINIMAL_CONFIG}listen: [1]\n`, "3:1 expected an address like 127.0.0.1:8080, found a list"],
    [`${MINIMAL_CONFIG}drain: { s: 5 }\n`, "3:1 expected a text like 90s, 500ms, 5m, 1h or off, found a map"],
    [
      `${MINIMAL_CONFIG}store: { ledger: "postgres://h/db" }\n`,
      "3:18 the address of the database names no user; write it like postgres://USER:PASSWORD@HOST:5432/DATABASE",
    ],
    [
      `${MINIMAL_CONFIG}models: {}\n`,
      "3:1 this name is defined twice here; keep one",
      "3:1 at least one model is needed",
    ],
    [
      `${MINIMAL_CONFIG}a: [\n`,
      "4:1 the indentation does not fit the lines around it, or a bracket before it is not closed",
    ],
    [`${MINIMAL_CONFIG}\tx: 1\n`, "3:1 a tab cannot indent; use spaces"],
  ] as const)
    t.same(await complaints(t, yaml), said, yaml);
});

t.test("a mistake in an anchor is reported once, at the anchor", async (t) => {
  const yaml = `x-common: &common { protocol: gemini, timeouts: { idel: 5s } }
providers:
  a: { <<: *common, url: https://a }
  b: { <<: *common, url: https://b }
models: { m: { targets: [a:x, b:x] } }
`;
  t.equal(
    await complaint(t, yaml),
    `gateway.yaml:1:51 error: unknown key "idel", did you mean "idle"?
> 1 | x-common: &common { protocol: gemini, timeouts: { idel: 5s } }
    |                                                   ^^^^`,
  );
});

t.test("sections that start with x- hold anchors and nothing else", async (t) => {
  const config = await load(
    t,
    `x-can: &can [tools]\nproviders: { demo: { url: "demo:" } }\nmodels: { a: { targets: [demo:a], can: *can } }\nkeys:\n`,
  );
  t.same(config.models[0]?.can, ["tools"]);
});

t.test("a missing file is reported without an excerpt", async (t) => {
  const file = join(t.testdir(), "gone.yaml");
  await t.rejects(loadConfig(file, extensions, {}), {
    name: "ConfigError",
    message: /^\S*gone\.yaml:1:1 error: cannot be read: there is no such file$/,
  });
});

t.test("an empty file is none that can be read, as when its gateway's address is looked for in it", async (t) => {
  const folder = t.testdir({ "empty.yaml": "# nothing\n", "some.yaml": "models: {}\n" });
  t.match(readError(join(folder, "empty.yaml"))?.message, /^\S*empty\.yaml:1:1 error: is empty; it needs providers/);
  t.equal(readError(join(folder, "some.yaml")), undefined);
});

t.test("a file in UTF-16 is reported as that", async (t) => {
  const yaml = "providers: {}\n";
  const little = Buffer.from(yaml, "utf16le");
  const marked = Buffer.from(`\uFEFF${yaml}`, "utf16le");
  for (const bytes of [little, Buffer.from(little).swap16(), marked, Buffer.from(marked).swap16()]) {
    const file = join(t.testdir({}), "wide.yaml");
    writeFileSync(file, bytes);
    await t.rejects(loadConfig(file, extensions, {}), {
      name: "ConfigError",
      message: /^\S*wide\.yaml:1:1 error: is UTF-16; save it as UTF-8$/,
    });
  }
});

t.test(
  "a character that is not UTF-8, or was not before an editor saved it, is reported with its position",
  async (t) => {
    const file = join(t.testdir({}), "latin1.yaml");
    const written = Buffer.from(MINIMAL_CONFIG.replace("models:", "# \xe4\nmodels:"), "latin1");
    for (const bytes of [written, written.toString()]) {
      writeFileSync(file, bytes);
      const { warnings } = await loadConfig(file, extensions, {});
      const message = "this character was not UTF-8: write it again, and save the file as UTF-8";
      t.match(warnings, [{ severity: "warning", column: 3, message }]);
    }
  },
);

t.test("warnings list what is disabled with its position, and do not count as mistakes", async (t) => {
  const config = await load(
    t,
    `${MINIMAL_CONFIG.replace("}", ", credential: $GONE }")}keys: { ci: { key: $ALSO_GONE } }\n`,
  );
  t.same(config.notices, ['provider "demo" is off: GONE is not set', 'key "ci" is off: ALSO_GONE is not set']);
  t.same(
    config.warnings.map(({ line, column, severity }) => [line, column, severity]),
    [
      [1, 49, "warning"],
      [3, 20, "warning"],
    ],
  );
});

t.test(
  "no value from the environment, from a file or written as a secret is ever repeated, whatever the mistake",
  async (t) => {
    const secrets = [
      "canary-written-in-the-file",
      "canary-from-environment-1",
      "canary-from-a-file-00001",
      "canary-default-00000001",
    ];
    const yaml = `providers:
  one: { url: https://one/v1, credential: ${secrets[0]}, protocol: gemini }
  two:
    url: https://two/v1
    credential: $TWO
    speaks: [openai-chat]
  three: { url: https://three/v1, credential: "$file:secret", protocol: gemini }
  four: { url: https://four/v1, credential: "$\{GONE:-${secrets[3]}}", protocol: gemini }
models: { m: { targets: [one:x, two:x, three:x, four:x] } }
keys: { ci: { key: ${secrets[0]}, models: [m] } }
`;
    const env = { TWO: `${secrets[1]}\n` };
    let refused = 0;
    for (let at = 0; at < yaml.length; at += 1) {
      for (const slip of [
        yaml.slice(0, at) + yaml.slice(at + 1),
        `${yaml.slice(0, at)}${"x:{'\n"[at % 5]}${yaml.slice(at + 1)}`,
      ]) {
        const message = await complaint(t, slip, env, { secret: `${secrets[2]}\n` });
        if (message) refused++;
        const told = secrets.filter(
          (secret) => message.includes(secret.slice(7)) || message.includes(secret.slice(0, -3)),
        );
        if (told.length > 0) t.fail(`repeats ${told}`, { slip: slip.slice(at - 30, at + 30), message });
      }
    }
    t.ok(refused > 300, `${refused} files refused`);
  },
);

t.test("a ConfigError has its problems in machine-readable form", async (t) => {
  const error = await load(t, "listen: x\n").then(
    () => undefined,
    (thrown) => thrown,
  );
  t.ok(error instanceof ConfigError);
  t.match(error.problems[0], {
    line: 1,
    column: 1,
    message: '"providers" is missing',
    severity: "error",
    frame: /^> 1 \| listen: x/,
  });
});

t.test("a load leaves the event loop to others twice, as it may happen in a gateway that serves", async (t) => {
  const turns = await countTurns(t, () => load(t, MINIMAL_CONFIG));
  t.ok(turns >= 2, String(turns));
});
