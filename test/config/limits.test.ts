import t from "tap";
import { complaints, LEAST, load } from "./fixture.ts";

t.test("limits of models and providers that are not there, and forms that are none, are told", async (t) => {
  for (const [limits, said] of [
    ["models: { ecko: { rpm: 1 } }", ['3:21 unknown model "ecko", did you mean "echo"?']],
    ["providers: { dem: { rpm: 1 } }", ['3:24 unknown provider "dem", did you mean "demo"?']],
    ["groups: { acme/: { rpm: 1 } }", [/not a name for a group/]],
    ["default: { rpm: 0 }", [/0 would let nothing in: 1 or more, or off/]],
    ["all: { budget: [$1/day, $1/year] }", [/not a sum of money/]],
    ["all: { budget: { amount: $1/day, sofd: true } }", [/sofd/]],
  ] as const)
    t.match(await complaints(t, `${LEAST}limits: { ${limits} }\n`), said, limits);
  t.match(await complaints(t, `${LEAST}timezone: Europe/Bonn\n`), [
    /"Europe\/Bonn" is not a time zone; write one like/,
  ]);
});

t.test("limits that no plugin would keep on a path are wrong, wherever they are set", async (t) => {
  const chain = (names: string) => `chains: { llm: [${names}] }\n`;
  const limits = "limits: { all: { rpm: 5 } }\n";
  t.same(await complaints(t, `${LEAST}${limits}${chain("sse, auth, models, rewrite, usage")}`), [
    '4:11 limits are set, and nothing would keep them on /v1/chat/completions: put "limits" into its chain, "limits" behind "auth" and "models"',
  ]);
  t.match(await complaints(t, `${LEAST}${limits}${chain("sse, auth, models, limits, rewrite")}`), [
    /put "usage" into its chain, at its end/,
  ]);
  const key = `keys: { ci: { hash: ${"ab".repeat(32)}, concurrency: 2 } }\n`;
  t.match(await complaints(t, `${LEAST}${key}${chain("sse, auth, models, rewrite, usage")}`), [/nothing would keep/]);
  await load(t, `${LEAST}${chain("sse, auth, models, rewrite, usage")}limits: { default: { rpm: off } }\n`);
  await load(t, `${LEAST}${limits}`);
});

t.test("a path that passes needs the plugin too", async (t) => {
  const passing = LEAST.replace("demo:", "vendor: { url: https://a/v1, protocol: gemini }, demo:");
  const paths = (use: string) => `paths: { /x/*: { pass: vendor${use} } }\n`;
  const limits = "limits: { all: { rpm: 5 } }\n";
  await load(t, `${passing}${limits}${paths("")}`);
  t.match(await complaints(t, `${passing}${limits}${paths(", use: [auth, usage]")}`), [/on \/x\/\*: put "limits"/]);
});

t.test("where money is limited is known with its place, and what that concerns", async (t) => {
  const { budgets } = await load(
    t,
    `${LEAST}limits:
  all: { budget: $5/day }
  providers: { demo: { budget: { amount: $1, soft: true } } }
  models: { echo: { budget: [$1/week] } }
  groups: { acme: { rpm: 1 } }
keys:
  ci: { hash: ${"ab".repeat(32)}, models: [echo], budget: $1 }
`,
  );
  t.match(budgets, [
    { hard: true, place: { line: 4 } },
    { hard: true, models: ["echo"], place: { line: 6 } },
    { hard: false, provider: "demo", place: { line: 5 } },
    { hard: true, models: ["echo"], place: { line: 9 } },
  ]);
  t.equal(budgets.length, 4);
});
