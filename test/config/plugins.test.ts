import t from "tap";
import { complaints, LEAST, load } from "./fixture.ts";

t.test("every plugin that is named anywhere gets options, defaults filled in", async (t) => {
  const config = await load(t, `${LEAST}plugins: { scrub: { mode: report }, sse: }\n`);
  t.same(Object.fromEntries(config.plugins), {
    scrub: { options: { mode: "report" } },
    sse: { options: { ping: 15 } },
    auth: { options: { anonymous: false } },
    models: { options: {} },
    rewrite: { options: {} },
    usage: { options: {} },
  });
});

t.test("every plugin may have a deadline, which is none of its own options", async (t) => {
  const config = await load(t, `${LEAST}plugins: { usage: { deadline: 5s } }\n`);
  t.match(config.plugins.get("usage"), { deadline: 5000, options: {} });
  const never = await load(t, `${LEAST}plugins: { usage: { deadline: off } }\n`);
  t.equal(never.plugins.get("usage")?.deadline, 0);
  t.match(await complaints(t, `${LEAST}plugins: { usage: { deadline: soon } }\n`), [/deadline|duration/]);
});

t.test("a plugin may come from a file of its own", async (t) => {
  const config = await load(
    t,
    `${LEAST}plugins: { eu-only: { from: ./plugins/region.ts, region: eu } }\nchains: { eu: [eu-only] }\n`,
  );
  t.same(config.plugins.get("eu-only"), { from: "./plugins/region.ts", options: { region: "eu" } });
});

t.test("wrong options are told at their place", async (t) => {
  t.same(
    await complaints(
      t,
      `${LEAST}plugins:\n  sse: { pong: 1 }\n  scrub: { mode: stirp }\n  auth: { anonymous: yes }\n  usage: { all: true }\n`,
    ),
    [
      '4:10 unknown key "pong", did you mean "ping"?',
      '5:18 unknown value "stirp", did you mean "strip"?',
      '6:22 expected true or false, found the text "yes"; write true',
      '7:12 plugin "usage" takes no options',
    ],
  );
});

t.test("options that a plugin needs are told where they are given, else where it is named", async (t) => {
  t.same(await complaints(t, `${LEAST}plugins:\n  region: {}\n`), ['4:3 "region" is missing']);
  t.same(await complaints(t, `${LEAST}chains:\n  llm: [auth, region]\n`), [
    '4:15 plugin "region" needs options: "region" is missing',
  ]);
});

t.test("an unknown plugin is told wherever it is named", async (t) => {
  t.same(
    await complaints(t, `${LEAST}plugins: { sce: {} }\nchains: { a: [auht] }\npaths: { /x: { serve: modles } }\n`),
    [
      '3:12 unknown plugin "sce", did you mean "sse"?',
      '4:15 unknown plugin "auht", did you mean "auth"?',
      '5:23 unknown plugin "modles", did you mean "models"?',
    ],
  );
});

t.test("the file of a plugin that is not there, and a plugin that cannot be loaded, are told once", async (t) => {
  t.same(
    await complaints(t, `${LEAST}plugins:\n  mine: { from: ./gone.ts }\nchains:\n  a: [mine, broken]\n  b: [broken]\n`),
    ["4:17 there is no plugin ./gone.ts", '6:13 plugin "broken" cannot be loaded: line 3: unexpected token'],
  );
});

t.test("a plugin stands once in a chain, after those it needs", async (t) => {
  t.same(await complaints(t, `${LEAST}chains:\n  a: [models, auth, sse, sse]\n  b: [models]\n`), [
    '4:7 plugin "models" must stand after "auth" in a chain',
    '4:26 "sse" stands twice in this chain',
  ]);
});
