import t from "tap";
import { checkLimitSharing } from "../../src/config/limits.ts";
import { complaints, load, MINIMAL_CONFIG } from "./fixture.ts";

t.test("limits of unknown models and providers, and invalid ones, are reported", async (t) => {
  for (const [limits, said] of [
    ["models: { ecko: { rpm: 1 } }", ['3:21 unknown model "ecko", did you mean "echo"?']],
    ["providers: { dem: { rpm: 1 } }", ['3:24 unknown provider "dem", did you mean "demo"?']],
    ["groups: { acme/: { rpm: 1 } }", [/not a name for a group/]],
    ["default: { rpm: 0 }", [/0 would refuse every request; write 1 or more, or off/]],
    ["all: { budget: [$1/day, $1/year] }", [/not a sum of money/]],
    ["all: { budget: { amount: $1/day, sofd: true } }", [/sofd/]],
  ] as const)
    t.match(await complaints(t, `${MINIMAL_CONFIG}limits: { ${limits} }\n`), said, limits);
  t.match(await complaints(t, `${MINIMAL_CONFIG}timezone: Europe/Bonn\n`), [
    /"Europe\/Bonn" is not a time zone; write one like/,
  ]);
});

t.test("of two budgets for the same period and level one has no effect", async (t) => {
  const all = (budgets: string) => complaints(t, `${MINIMAL_CONFIG}limits: { all: { budget: [${budgets}] } }\n`);
  t.same(await all("$5/day, $10/day"), ["3:35 has no effect beside $5/day; keep one of them"]);
  t.same(await all("$10.50/month, $10/day, $1/month"), ["3:27 has no effect beside $1/month; keep one of them"]);
  t.same(await all("$5/day, $5/day"), ["3:35 $5/day is listed twice here; keep one"]);
  const soft = (sum: string) => `{ amount: ${sum}, soft: true }`;
  t.match(await all(`${soft("$5/day")}, ${soft("$5/day")}`), [/^3:\d+ \$5\/day is listed twice here; keep one$/]);
  t.same(await all(`$5/day, ${soft("$4/day")}, ${soft("$3/day")}, $10/week, $100`), [], "each has an effect");
  const key = `keys: { ci: { hash: ${"ab".repeat(32)}, budget: [$1/hour, $2/hour] } }\n`;
  t.match(await complaints(t, `${MINIMAL_CONFIG}${key}limits: { groups: { a: { budget: $3/hour } } }\n`), [
    /\$1\/hour/,
  ]);
});

t.test("limits that no plugin on a path would enforce are mistakes, wherever they are set", async (t) => {
  const chain = (names: string) => `chains: { llm: [${names}] }\n`;
  const limits = "limits: { all: { rpm: 5 } }\n";
  t.same(await complaints(t, `${MINIMAL_CONFIG}${limits}${chain("sse, auth, models, rewrite, usage")}`), [
    '4:11 limits are set, and nothing enforces them on /v1/chat/completions: add "limits" to its chain, after "auth" and "models"',
  ]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}${limits}${chain("sse, auth, models, limits, rewrite")}`), [
    /add "usage" to its chain, at its end/,
  ]);
  const key = `keys: { ci: { hash: ${"ab".repeat(32)}, concurrency: 2 } }\n`;
  t.match(await complaints(t, `${MINIMAL_CONFIG}${key}${chain("sse, auth, models, rewrite, usage")}`), [
    /nothing enforces them/,
  ]);
  await load(t, `${MINIMAL_CONFIG}${chain("sse, auth, models, rewrite, usage")}limits: { default: { rpm: off } }\n`);
  await load(t, `${MINIMAL_CONFIG}${limits}`);
});

t.test("a pass path needs the plugin too", async (t) => {
  const passing = MINIMAL_CONFIG.replace("demo:", "vendor: { url: https://a/v1, protocol: gemini }, demo:");
  const paths = (use: string) => `paths: { /x/*: { pass: vendor${use} } }\n`;
  const limits = "limits: { all: { rpm: 5 } }\n";
  await load(t, `${passing}${limits}${paths("")}`);
  t.match(await complaints(t, `${passing}${limits}${paths(", use: [auth, usage]")}`), [/on \/x\/\*: add "limits"/]);
});

t.test("whether money is limited is known, and for whom", async (t) => {
  const { budgets } = await load(
    t,
    `${MINIMAL_CONFIG}limits:
  all: { budget: $5/day }
  providers: { demo: { budget: { amount: $1, soft: true } } }
  models: { echo: { budget: [$1/week] } }
  groups: { acme: { rpm: 1 } }
keys:
  ci: { hash: ${"ab".repeat(32)}, models: [echo], budget: $1 }
`,
  );
  t.match(budgets, [
    { hard: true },
    { hard: true, models: ["echo"] },
    { hard: false, provider: "demo" },
    { hard: true, models: ["echo"] },
  ]);
  t.equal(budgets.length, 4);
});

t.test("limits that each of several gateways would count on its own are mistakes", async (t) => {
  const limits = "limits: { all: { rpm: 5 } }\n";
  const store = (text: string) => `${MINIMAL_CONFIG}${limits}store: { ${text} }\n`;
  t.same(await complaints(t, `${MINIMAL_CONFIG}${limits}instances: 3\n`), [
    "4:12 there are 3 gateways, and each counts limits in its own memory, so a client gets each limit once per gateway: set store: limits: redis://HOST, or instances: 1 if there is only one gateway",
  ]);
  t.match(await complaints(t, `${store("limits: memory")}instances: 2\n`), [/^5:12 there are 2 gateways/]);
  await load(t, `${MINIMAL_CONFIG}instances: 3\n`);
  await load(t, `${MINIMAL_CONFIG}${limits}instances: 1\n`);
  const shared = await load(t, store("limits: redis://h:1/2"));
  t.same([shared.store.limits, shared.instances, shared.warnings.length], ["redis://h:1/2", undefined, 0]);
  const three = await load(t, `${store("limits: redis://h")}instances: 3\n`);
  t.equal(three.instances, 3);
  t.match(three.warnings, [{ message: /all 3 gateways need the same ledger, and a file cannot be shared/ }]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}instances: 0\n`), [/3:12 must be 1 or more/]);
});

t.test("a ledger in PostgreSQL implies several gateways, unless the file says otherwise", async (t) => {
  const told: string[] = [];
  const check = (more: object, ledger = "postgres://h/d", where = "memory", limited: object = {}) => {
    told.length = 0;
    const limits = { groups: {}, models: {}, providers: {}, all: { rpm: 5 }, ...limited };
    const file = { limits, keys: {}, ...more } as unknown as Parameters<typeof checkLimitSharing>[0];
    checkLimitSharing(file, { ledger, limits: where }, ({ path, message }) =>
      told.push(`${path.join(".")}: ${message}`),
    );
    return [...told];
  };
  t.match(check({}), [/^store\.ledger: a ledger in PostgreSQL is for several gateways.*instances: 1/]);
  t.same(check({ instances: 1 }), []);
  t.same(check({}, "postgres://h/d", "redis://h"), []);
  t.same(check({}, undefined, undefined, { all: {} }), [], "nothing is limited");
});
