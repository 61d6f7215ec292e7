import { relative } from "node:path";
import t from "tap";
import { complaints, load, MINIMAL_CONFIG } from "./fixture.ts";

t.test("every plugin that is named anywhere gets options, with defaults", async (t) => {
  const config = await load(t, `${MINIMAL_CONFIG}plugins: { scrub: { mode: report }, sse: }\n`);
  const file = relative(process.cwd(), config.file);
  t.same(Object.fromEntries(config.plugins), {
    scrub: { options: { mode: "report" }, place: `${file}:3:12` },
    sse: { options: { ping: 15 }, place: `${file}:3:37` },
    auth: { options: { anonymous: false } },
    models: { options: {} },
    limits: { options: {} },
    rewrite: { options: {} },
    usage: { options: {} },
  });
});

t.test("every plugin may have a deadline, which is not one of its own options", async (t) => {
  const config = await load(t, `${MINIMAL_CONFIG}plugins: { usage: { deadline: 5s } }\n`);
  t.match(config.plugins.get("usage"), { deadline: 5000, options: {} });
  const never = await load(t, `${MINIMAL_CONFIG}plugins: { usage: { deadline: off } }\n`);
  t.equal(never.plugins.get("usage")?.deadline, 0);
  t.match(await complaints(t, `${MINIMAL_CONFIG}plugins: { usage: { deadline: soon } }\n`), [/deadline|duration/]);
});

t.test("a plugin may come from a file of its own", async (t) => {
  const config = await load(
    t,
    `${MINIMAL_CONFIG}plugins: { eu-only: { from: ./plugins/region.ts, region: eu } }\nchains: { eu: [eu-only] }\n`,
  );
  t.match(config.plugins.get("eu-only"), { from: "./plugins/region.ts", options: { region: "eu" } });
});

t.test("wrong options are reported at their position", async (t) => {
  t.same(
    await complaints(
      t,
      `${MINIMAL_CONFIG}plugins:\n  sse: { pong: 1 }\n  scrub: { mode: stirp }\n  auth: { anonymous: yes }\n  usage: { all: true }\n`,
    ),
    [
      '4:10 unknown key "pong", did you mean "ping"?',
      '5:18 unknown value "stirp", did you mean "strip"?',
      '6:22 expected true or false, found the text "yes"; write true',
      '7:12 plugin "usage" takes no options',
    ],
  );
});

t.test("a wrong option's message does not repeat its text, which may be a secret", async (t) => {
  t.same(
    await complaints(
      t,
      `${MINIMAL_CONFIG}plugins:\n  sse: { ping: sesame }\n  scrub: { mode: sesame }\n  auth: { anonymous: [] }\n`,
    ),
    [
      "4:16 expected a number, found text; write digits, like 2",
      "5:18 expected one of strip, reject, report, found text",
      "6:11 expected true or false, found a list",
    ],
  );
});

t.test("missing options of a plugin are reported where its options are, or where it is named", async (t) => {
  t.same(await complaints(t, `${MINIMAL_CONFIG}plugins:\n  region: {}\n`), ['4:3 "region" is missing']);
  t.same(await complaints(t, `${MINIMAL_CONFIG}chains:\n  llm: [auth, region]\n`), [
    '4:15 plugin "region" needs options: "region" is missing',
  ]);
});

t.test("an unknown plugin is reported wherever it is named", async (t) => {
  t.same(
    await complaints(
      t,
      `${MINIMAL_CONFIG}plugins: { sce: {} }\nchains: { a: [auht] }\npaths: { /x: { serve: modles } }\n`,
    ),
    [
      '3:12 unknown plugin "sce", did you mean "sse"?',
      '4:15 unknown plugin "auht", did you mean "auth"?',
      '5:23 unknown plugin "modles", did you mean "models"?',
    ],
  );
});

t.test("known plugins are listed once, including those with a file of their own", async (t) => {
  const own = "plugins: { region: { from: ./plugins/region.ts, region: eu } }\nchains: { read: [something] }\n";
  t.match(await complaints(t, MINIMAL_CONFIG + own), [
    /unknown plugin "something"; known: (?!.*region.*region).*region/,
  ]);
});

t.test("a plugin's missing file, and a plugin that cannot be loaded, are reported once", async (t) => {
  t.same(
    await complaints(
      t,
      `${MINIMAL_CONFIG}plugins:\n  mine: { from: ./gone.ts }\nchains:\n  a: [mine, broken]\n  b: [broken]\n`,
    ),
    [
      '4:17 plugin "mine" cannot be loaded; fix from or the file, or take it out of chains: there is no file /x/gone.ts',
      '6:13 plugin "broken" cannot be loaded; fix it, or take it out of chains: line 3: unexpected token',
    ],
  );
});

/** What is told of a file that can be used: `line:column message` each. */
const warnings = async (...[t, yaml]: Parameters<typeof load>) =>
  (await load(t, yaml)).warnings.map(({ line, column, message }) => `${line}:${column} ${message}`);

t.test("options of a plugin that is in no chain are reported: it would never run", async (t) => {
  const idle = '3:12 plugin "region" is in no chain, so it never runs; add it to one under chains:';
  t.same(await warnings(t, `${MINIMAL_CONFIG}plugins: { region: { region: eu } }\n`), [idle]);
  for (const use of [
    "chains: { eu: [region] }",
    "paths: { /v1/messages: { use: [region] } }",
    "paths: { /x: { serve: region } }",
  ])
    t.notOk((await warnings(t, `${MINIMAL_CONFIG}plugins: { region: { region: eu } }\n${use}\n`)).includes(idle), use);
});

t.test("a plugin that must follow an unknown one, and mistakes in its class, are reported", async (t) => {
  t.same(await warnings(t, `${MINIMAL_CONFIG}plugins: { doubtful: {} }\nchains: { read: [auth, doubtful] }\n`), [
    '3:12 plugin "doubtful" must be after an unknown plugin "modles", did you mean "models"?',
    '3:12 plugin "doubtful" must be before an unknown plugin "rewrit", did you mean "rewrite"?',
    '3:12 plugin "doubtful": respone is no phase, did you mean response?',
  ]);
});

t.test("a plugin occurs once in a chain, after those it needs and before those that need it", async (t) => {
  t.same(await complaints(t, `${MINIMAL_CONFIG}chains:\n  a: [models, auth, sse, sse]\n  b: [models]\n`), [
    '4:7 plugin "models" must be after "auth" in a chain',
    '4:26 "sse" is listed twice in this chain',
  ]);
  t.same(await complaints(t, `${MINIMAL_CONFIG}chains:\n  a: [auth, rewrite, models]\n  b: [auth, models]\n`), [
    '4:22 plugin "models" must be before "rewrite" in a chain',
  ]);
  t.same(await complaints(t, `${MINIMAL_CONFIG}chains:\n  a: [auth, models, rewrite]\n`), []);
});

t.test("a plugin that must be at both ends of a chain is reported where it is at neither", async (t) => {
  const at = (chain: string) => warnings(t, `${MINIMAL_CONFIG}chains:\n  llm: [${chain}]\n`);
  t.same(await at("ends, auth, models, ends"), []);
  t.same(await at("sse, ends, auth, models, ends"), [
    '4:14 "ends" is not first in this chain: it cannot observe plugins before it',
  ]);
  t.same(await at("ends, auth, ends, models"), [
    '4:21 "ends" is not last in this chain: it cannot observe plugins behind it',
  ]);
});
