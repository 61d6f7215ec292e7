import t, { type Test } from "tap";
import { type Advice, help, run, USAGE } from "../../src/cli/audit.ts";
import { loadConfig } from "../../src/config/load.ts";
import { words } from "../../src/vocabulary.ts";

async function audit(t: Test, yaml: string, ...args: string[]) {
  const folder = t.testdir({ "gateway.yaml": yaml });
  const config = await loadConfig(`${folder}/gateway.yaml`, await words(folder), {}, folder);
  const out: string[] = [];
  const io = { out: (line: string) => out.push(line), err: (line: string) => out.push(line), env: {}, folder };
  const code = await run(args, io, config, yaml);
  return { code, text: out.join("\n") };
}

const WISE = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
limits: { default: { budget: $10/month } }
`;

t.test("nothing is said of a file that is wise", async (t) => {
  t.same(await audit(t, WISE, "--level", "low"), { code: 0, text: "nothing to advise" });
});

t.test("each unwise setting is named with its level and the fix", async (t) => {
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
    ...["high written-secret line 7", "high written-secret line 13", "high open-pass paths /far/v1/*"],
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
    ...[["plain-http providers far", "gateway.yaml:7"] as const, ["written-secret line 7", "gateway.yaml:7"] as const],
    ...[["no-limits limits", ""] as const, ["debug-log log", "gateway.yaml:4"] as const],
    ...[["expired-key keys old", "gateway.yaml:13"] as const, ["no-probes admin", "gateway.yaml:2"] as const],
  ])
    t.equal(places.get(what), at, what);
  t.match((await audit(t, yaml)).text, /^high +no-auth +paths \/open \(\S*gateway\.yaml:11\) +anybody/m);
  t.notMatch(found.join("; "), "expired-key keys new");
  t.notMatch(found.join("; "), "cut-streams", "no budget has to hold");
  const budget = `${WISE.replace(/^.*\n/, `providers: { far: { url: "https://llm.example.com/v1", protocol: openai-chat } }\n`).replace("demo:echo", "far:echo")}plugins: { usage: {} }\n`;
  t.match((await audit(t, budget)).text, /^low +cut-streams +plugins usage \(\S+:4\) /m);
  const drained = budget.replace("usage: {}", "usage: { cut: drain }");
  t.notMatch((await audit(t, drained)).text, "cut-streams");
});

t.test("a provider that may be silent for longer than clients wait is named, where nothing notices that", async (t) => {
  const far = (more: string) =>
    WISE.replace(
      /^.*\n/,
      `providers: { far: { url: "https://llm.example.com/v1", protocol: openai-chat${more} } }\n`,
    ).replace("demo:echo", "far:echo");
  t.match((await audit(t, far(""))).text, /^low +long-wait +providers far \(\S+:1\) +it may take longer/m);
  t.match((await audit(t, far(", timeouts: { first_byte: off }"))).text, "long-wait");
  for (const more of [", timeouts: { first_byte: 2m }", ", health: { slow: 20s }"])
    t.notMatch((await audit(t, far(more))).text, "long-wait", more);
});

t.test("the level decides the exit code, and advice can be left out by its id", async (t) => {
  const yaml = WISE.replace("limits:", "x-limits:");
  t.match(await audit(t, yaml), { code: 0, text: /^medium +no-limits +limits +a key may spend without end/m });
  t.match(await audit(t, yaml, "--level", "medium"), { code: 1 });
  t.match(await audit(t, yaml, "--level", "medium", "--ignore", "no-limits"), { code: 0, text: "nothing to advise" });
  await t.rejects(audit(t, yaml, "--level", "loud"), { message: /choose from high, medium, low/ });
  await t.rejects(audit(t, yaml, "--ignore", "nothing"), { message: /there are no-auth/ });
  t.match(USAGE, /--ignore/);
  t.match(help, /^audit /);
});
