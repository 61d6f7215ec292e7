import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { AlertWatch } from "../../src/alerts/alert-watch.ts";
import { Alerts } from "../../src/alerts/alerts.ts";
import { Webhook } from "../../src/alerts/webhook.ts";
import { configSecrets } from "../../src/config/secrets.ts";
import { Redactor } from "../../src/core/redactor.ts";
import type { TimedBudgetMark } from "../../src/store/budget-marks.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";
import { startReceiver } from "../support/webhook.ts";

/** A gateway that is watched, with a receiver for its alerts; looks are the test's own. */
async function watched(t: Test, yaml: string, env: Record<string, string> = {}) {
  const receiver = await startReceiver(t);
  const all = { HOOK: receiver.url, ...env };
  const running = await startGateway(t, `alerts: { webhook: $HOOK }\n${yaml}`, {}, all);
  const { gateway, log } = running;
  const webhook = new Webhook({}, [1]);
  t.teardown(() => webhook.close());
  const clock = { now: 0 };
  /** A watch as a process that has just started has it. */
  const startWatch = () => {
    const alerts = new Alerts({
      ...{ log, webhook, claims: gateway.stores.claims },
      settings: () => gateway.config.alerts,
      redactor: () => new Redactor(configSecrets(gateway.config, all)),
      clock: () => clock.now,
    });
    const watch = new AlertWatch(gateway, alerts, 3_600_000);
    t.teardown(() => watch.close());
    /** Checks once, and returns what that has posted. */
    const look = async () => {
      const before = receiver.received.length;
      await watch.check();
      await alerts.flush();
      return receiver.received.slice(before).map(({ subject, state, text }) => ({ subject, state, text }));
    };
    return { alerts, watch, look };
  };
  const ask = async (model: string, key?: string) => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
    const headers = asking(key === undefined ? {} : { authorization: `Bearer ${key}` });
    const answer = await fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers, body });
    await answer.text();
    return answer.status;
  };
  return { ...running, ...startWatch(), startWatch, ask, receiver, clock };
}

t.test("a refused credential and a failing target raise an alert, and another one when they recover", async (t) => {
  let well = false;
  const upstream = await httpUpstream(({ body, rawHeaders }, reply) => {
    const { model } = JSON.parse(body.toString()) as { model: string };
    const refused = model === "locked" && rawHeaders.includes("Bearer sk-canary-of-first");
    const status = well ? 200 : model === "down" ? 500 : refused ? 401 : 200;
    reply.writeHead(status, { "content-type": "application/json" });
    reply.end(
      status === 200 ? JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }) : "{}",
    );
  });
  t.teardown(() => upstream.close());
  const address = `${upstream.origin.origin}/v1`;
  const yaml = `providers:
  up: { url: "${address}", speaks: [openai-chat], credential: [$FIRST, $SECOND] }
  weak: { url: "${address}", speaks: [openai-chat], health: { failures: 1 } }
retry: { attempts: 0 }
models: { plain: { targets: [up:locked] }, broken: { targets: [weak:down] } }
`;
  const env = { FIRST: "sk-canary-of-first", SECOND: "sk-canary-of-second" };
  const { look, ask, receiver, gateway } = await watched(t, yaml, env);
  t.same(await look(), []);
  for (let i = 0; i < 4; i++) await ask("plain");
  await ask("broken");
  const told = await look();
  t.same(told.map(({ subject }) => subject).sort(), ["credential up FIRST", "target weak:down"]);
  t.match(
    told.find(({ subject }) => subject === "credential up FIRST")?.text,
    /does not accept.*FIRST; requests use its 1 other/,
  );
  t.same(await look(), [], "once");
  well = true;
  const { health } = gateway.generation.upstreams;
  health.applyRemote({ about: "up", credential: "FIRST", until: 0, time: 0 });
  health.applyRemote({ about: "weak:down", until: 0, time: 0 });
  t.equal(await ask("broken"), 200);
  const after = await look();
  t.same(after.map(({ subject, state }) => [subject, state]).sort(), [
    ["credential up FIRST", "resolved"],
    ["target weak:down", "resolved"],
  ]);
  t.notMatch(JSON.stringify(receiver.received), /canary/);
});

t.test("a provider or target that an admin has switched off raises an alert, and one when it is back", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] }, slow: { targets: [demo:slow] } }
`;
  const { look, gateway } = await watched(t, yaml);
  t.same(await look(), []);
  gateway.switch("demo", true);
  const [told, ...others] = await look();
  t.match(told, { subject: "provider demo", state: "firing", text: /"demo" was switched off by an admin/ });
  t.same(others, [], "its targets raise none of their own");
  t.same(await look(), [], "once");
  gateway.switch("demo", false);
  gateway.switch("demo:slow", true);
  const changed = (await look()).map(({ subject, state }) => [subject, state]);
  t.same(changed.sort(), [
    ["provider demo", "resolved"],
    ["target demo:slow", "firing"],
  ]);
  gateway.switch("demo:slow", false);
  t.match(await look(), [{ subject: "target demo:slow", state: "resolved" }]);
});

t.test("no alert ends because no worker answers, as while all of them start again", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;
  const { look, gateway } = await watched(t, yaml);
  gateway.switch("demo", true);
  t.match(await look(), [{ subject: "provider demo", state: "firing" }]);
  const { askAll } = gateway;
  gateway.askAll = async () => [];
  t.same(await look(), []);
  gateway.askAll = askAll;
  t.same(await look(), []);
});

t.test("a budget at 80 % and a budget that refuses raise one alert each", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], output: 10, price: { request: 0.4 } } }
keys:
  rich: { key: key-of-rich-0123456789, budget: $100/month }
  poor: { key: key-of-poor-0123456789, budget: $1/day }
  told: { key: key-of-told-0123456789, budget: { amount: $0.5/day, soft: true } }
`;
  const { look, ask } = await watched(t, yaml);
  const statuses: number[] = [];
  for (const name of ["rich", "poor", "poor", "poor", "told", "told"])
    statuses.push(await ask("echo", `key-of-${name}-0123456789`));
  t.same(statuses, [200, 200, 200, 429, 200, 200]);
  const told = await look();
  t.equal(told.length, 2);
  t.match(
    told.find(({ subject }) => subject.includes("poor")),
    {
      subject: "budget key poor $1.00 day",
      text: /The key "poor" has a budget of \$1.00 a day, of which \$0.20 is left: requests are refused/,
    },
  );
  t.match(
    told.find(({ subject }) => subject.includes("told"))?.text,
    /has spent \$0.80 of \$0.50 a day \(160 %\)\. The budget only warns/,
  );
  t.equal(await ask("echo", "key-of-poor-0123456789"), 429);
  t.same(await look(), []);
});

t.test("a burst that reserves a whole budget raises no alert, and the spent budget does so later", async (t) => {
  const upstream = await httpUpstream(async ({ body }, reply) => {
    if (body.includes("slow")) await until(() => refused, "the refusal");
    const usage = { prompt_tokens: 0, completion_tokens: body.includes("slow") ? 1 : 85 };
    reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ choices: [], usage }));
  });
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models:
  slow: { targets: [up:slow], output: 90, price: { input: 0, output: 10000 } }
  quick: { targets: [up:quick], output: 90, price: { input: 0, output: 10000 } }
keys: { busy: { key: key-of-busy-0123456789, budget: $1/day } }
`;
  const { look, ask } = await watched(t, yaml);
  const key = "key-of-busy-0123456789";
  let refused = false;
  const running = ask("slow", key);
  await until(() => upstream.seen.length === 1, "the slow request");
  t.equal(await ask("slow", key), 429);
  t.same(await look(), [], "little is spent");
  refused = true;
  t.equal(await running, 200);
  t.equal(await ask("quick", key), 200);
  t.match(await look(), [
    { subject: "budget key busy $1.00 day", text: /has spent \$0\.86 of \$1\.00 a day \(86 %\)/ },
  ]);
  t.equal(await ask("quick", key), 429);
  t.match(await look(), [{ text: /of which \$0\.14 is left: requests are refused/ }]);
});

t.test("a spent budget raises one alert, and none again when it refuses", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], output: 10, price: { request: 0.5 } } }
keys: { even: { key: key-of-even-0123456789, budget: $1/day } }
`;
  const { look, ask } = await watched(t, yaml);
  const key = "key-of-even-0123456789";
  t.same([await ask("echo", key), await ask("echo", key)], [200, 200]);
  t.match(await look(), [{ subject: "budget key even $1.00 day", text: /has spent \$1.00 of .*are refused/ }]);
  t.equal(await ask("echo", key), 429);
  t.same(await look(), []);
});

t.test("the alert of a budget is repeated while it is spent, with what is spent by then", async (t) => {
  const yaml = (budget: string) => `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], output: 10, price: { request: 0.4 } } }
keys: { some: { key: key-of-some-0123456789, budget: ${budget} } }
`;
  const { look, ask, clock, folder, gateway } = await watched(t, yaml("{ amount: $1/day, soft: true }"));
  const key = "key-of-some-0123456789";
  t.same([await ask("echo", key), await ask("echo", key)], [200, 200]);
  t.match(await look(), [{ subject: "budget key some $1.00 day", text: /has spent \$0.80/ }]);
  t.same(await look(), []);
  clock.now += 4 * 3_600_000;
  t.match(await look(), [{ subject: "budget key some $1.00 day", state: "firing", text: /has spent \$0.80/ }]);
  t.same(await look(), [], "once for each interval");
  writeFileSync(join(folder, "gateway.yaml"), `alerts: { webhook: $HOOK }\n${yaml("{ amount: $9/day, soft: true }")}`);
  await gateway.reload();
  clock.now += 4 * 3_600_000;
  t.same(await look(), [], "not once the budget is another one");
});

t.test("the end of an alert that was posted before a restart is posted", async (t) => {
  const upstream = await httpUpstream((_, reply) => reply.writeHead(500).end());
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], health: { failures: 1 } } }
retry: { attempts: 0 }
models: { broken: { targets: [up:broken] } }
`;
  const { look, ask, gateway, startWatch } = await watched(t, yaml);
  await ask("broken");
  t.match(await look(), [{ subject: "target up:broken", state: "firing" }]);
  gateway.generation.upstreams.health.applyRemote({ about: "up:broken", until: 0, time: 0 });
  t.match(await startWatch().look(), [{ subject: "target up:broken", state: "resolved" }]);
  t.same(await startWatch().look(), [], "nothing is left to end");
});

t.test("a budget of a new period raises an alert again, and a lower mark of the same period does not", async (t) => {
  const { gateway, alerts, receiver } = await watched(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  let marks: TimedBudgetMark[] = [];
  const subject = {
    config: gateway.config,
    reloads: gateway.reloads,
    stores: gateway.stores,
    readiness: () => gateway.readiness(),
  };
  const watch = new AlertWatch(
    { ...subject, askAll: async () => [], takeMarks: () => marks.splice(0) } as unknown as typeof gateway,
    alerts,
    3_600_000,
  );
  t.teardown(() => watch.close());
  const told = async (share: number, time: string) => {
    const before = receiver.received.length;
    const mark = { kind: "group", name: "team", label: "", per: "hour", limit: 1e9, spent: share * 1e9 } as const;
    marks = [{ ...mark, soft: false, refused: false, share, time: Date.parse(time) }];
    await watch.check();
    await alerts.flush();
    return receiver.received.length - before;
  };
  t.equal(await told(1, "2026-11-20T10:30:00Z"), 1);
  t.equal(await told(0.8, "2026-11-20T10:31:00Z"), 0, "a gateway that found it later");
  t.equal(await told(1, "2026-11-20T10:32:00Z"), 0);
  t.equal(await told(1, "2026-11-20T11:01:00Z"), 1, "the next hour");
});

t.test("a failed reload raises an alert with the reason, and the reload that repaired it another one", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { look, gateway, folder } = await watched(t, yaml);
  const file = join(folder, "gateway.yaml");
  const good = readFileSync(file, "utf8");
  writeFileSync(file, `${good}nonsense: { key: canary-0123456789-secret }\n`);
  await gateway.reload().catch(() => {});
  const [told] = await look();
  t.match(told, { subject: "reload", state: "firing", text: /was not reloaded.*nonsense/s });
  t.notMatch(told?.text, /canary-0123/);
  await gateway.reload().catch(() => {});
  t.same(await look(), []);
  writeFileSync(file, good);
  await gateway.reload();
  t.match(await look(), [{ subject: "reload", state: "resolved" }]);
});

t.test("an unhealthy ledger or limiter raises an alert if that lasts", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { look, gateway } = await watched(t, yaml);
  const parts: Record<string, string> = { gateway: "ok", store: "waiting", limits: "apart" };
  Object.defineProperty(gateway, "readiness", { value: () => ({ ready: true, parts }) });
  t.same([await look(), await look()], [[], []]);
  t.same(
    (await look()).map(({ subject }) => subject),
    ["ledger", "limits"],
  );
  Object.assign(parts, { store: "unknown", limits: "unknown" });
  t.same(await look(), [], "no worker reports: no alert ends");
  Object.assign(parts, { store: "ok", limits: "ok" });
  t.same(
    (await look()).map(({ subject, state }) => [subject, state]),
    [
      ["ledger", "resolved"],
      ["limits", "resolved"],
    ],
  );
});

t.test("missing workers raise an alert if that lasts", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { look, gateway } = await watched(t, yaml);
  const counts = { wanted: 4, up: 3, deaths: 1 };
  Object.defineProperty(gateway, "workerCounts", { value: counts });
  t.same([await look(), await look()], [[], []], "a worker that exits is replaced in a moment");
  const subject = "workers";
  t.match(await look(), [{ subject, state: "firing", text: /3 of 4 workers serve: see the log/ }]);
  t.same(await look(), [], "once");
  counts.up = 0;
  t.match(await look(), [{ subject, state: "firing", text: /0 of 4 workers serve/ }]);
  counts.up = 4;
  t.match(await look(), [{ subject, state: "resolved", text: /All workers serve again/ }]);
});

t.test("without a webhook nothing is sent, also not later", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { look, gateway, receiver, folder } = await watched(t, yaml);
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace(/^alerts:.*\n/m, ""));
  await gateway.reload();
  t.equal(gateway.config.alerts, undefined);
  await gateway.reload().catch(() => {});
  t.same(await look(), []);
  t.equal(receiver.received.length, 0);
});
