import { mock } from "node:test";
import t from "tap";
import { Days } from "../../src/core/calendar.ts";
import { KEY } from "../support/key.ts";
import { ask, provider } from "../support/limited.ts";
import { until } from "../support/until.ts";
import { startAdmin, YAML } from "./support.ts";

t.test("a budget's period begins in the file's timezone; a total budget begins when the key was created", async (t) => {
  const { ask } = await startAdmin(
    t,
    `${YAML}timezone: Pacific/Auckland\nlimits: { groups: { acme: { budget: [$5/day, $100] } } }\n`,
  );
  // The clock stands, or the hour might end before the answers.
  const before = Date.now();
  mock.timers.enable({ apis: ["Date"], now: before });
  t.teardown(() => mock.timers.reset());
  const made = await ask("POST", "/api/keys", { body: { name: "ci", group: "acme", budget: ["$7", "$3/hour"] } });
  const { limits } = (await ask("GET", "/api/budgets")).body;
  const of = (name: string) => limits.find((each: { name: string }) => each.name === name).budgets;
  t.match(of("acme"), [
    { per: "day", began: new Days("Pacific/Auckland").today(before) },
    { per: "total", began: undefined },
  ]);
  t.match(of(made.body.key.id), [
    { per: "total", began: made.body.key.created },
    { per: "hour", began: before - (before % 3_600_000) },
  ]);
});

t.test("a total budget of a group or model begins on the day of its first spending", async (t) => {
  const { origin } = await provider(t);
  const { ask: asked, url } = await startAdmin(
    t,
    `providers: { p: { url: "${origin.origin}/v1", speaks: [openai-chat] } }
models:
  m: { targets: [p:x], price: { input: 0, output: 1000 }, output: 100 }
  idle: { targets: [p:x], price: { input: 0, output: 1000 }, output: 100 }
limits: { groups: { acme: { budget: $9 } }, models: { m: { budget: [$9, $8/day] }, idle: { budget: $9 } } }
keys: { test: { key: ${KEY}, group: acme/research, budget: $7 } }
`,
  );
  const began = async () => {
    const { limits } = (await asked("GET", "/api/budgets")).body;
    return Object.fromEntries(
      limits.map((each: { kind: string; name: string; budgets: { began?: number }[] }) => [
        `${each.kind} ${each.name}`,
        each.budgets.map(({ began }) => began),
      ]),
    );
  };
  // The clock stands, or the day might end before the answers.
  const day = Date.now() - (Date.now() % 86_400_000);
  mock.timers.enable({ apis: ["Date"], now: Date.now() });
  t.teardown(() => mock.timers.reset());
  const none = {
    "group acme": [undefined],
    "model m": [undefined, day],
    "model idle": [undefined],
    "key test": [undefined],
  };
  t.same(await began(), none, "unknown");
  t.equal(await ask(url), 200);
  const known = { "group acme": [day], "model m": [day, day], "model idle": [undefined], "key test": [day] };
  // The row is on its way to the store.
  await until(async () => (await began())["group acme"]?.[0] !== undefined, "the first spending");
  t.same(await began(), known);
});
