import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import type { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

/** Tokens of every answer: ten times a tenth of a cent. */
const OUT = 10;
const CALL = 0.01;
const BODY = `{"model":"m","max_tokens":${OUT},"messages":[]}`;
const WHOLE = JSON.stringify({
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: OUT, total_tokens: 5 + OUT },
});
const PRICE = "price: { input: 0, output: 1000 }, output: 100";

type Reply = Parameters<NonNullable<Parameters<typeof httpUpstream>[0]>>[1];

async function provider(t: Test, answer: (request: SeenRequest, reply: Reply) => unknown = (_, reply) => whole(reply)) {
  const upstream = await httpUpstream(answer);
  t.teardown(() => upstream.close());
  return upstream;
}

const whole = (reply: Reply) => reply.writeHead(200, { "content-type": "application/json" }).end(WHOLE);

const ask = (url: string, body = BODY, init: RequestInit = {}) =>
  fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body, ...init });

async function asked(url: string): Promise<{ status: number; text: string; headers: Headers }> {
  const answer = await ask(url, BODY);
  return { status: answer.status, text: await answer.text(), headers: answer.headers };
}

interface KeyPageBudget {
  spent: number;
  reserved: number;
  remaining: number;
}

const page = async (url: string) =>
  ((await (await fetch(`${url}/v1/key`, { headers: asking() })).json()) as { data: Record<string, unknown> }).data;
const budgets = async (url: string): Promise<KeyPageBudget[]> =>
  ((await page(url))["limits"] as { budgets?: KeyPageBudget[] }[]).flatMap(({ budgets = [] }) => budgets);

/** How many exchanges have something reserved. */
const pendingIn = ({ gateway }: Running): number => (gateway.generation.limiter as MemoryLimiter).pending;

t.test("a thousand concurrent calls on a budget for ten: ten pass, at every level", async (t) => {
  const calls = Number(process.env["GATEWAY_TEST_LIMITS"] ?? 1000);
  const upstream = await provider(t);
  for (const [where, key, limits] of [
    ["key", "budget: $0.10/day,", ""],
    ["group", "", "groups: { acme/research: { budget: $0.10/day } }"],
    ["group above", "", "groups: { acme: { budget: $0.10/month } }"],
    ["model", "", "models: { m: { budget: $0.10/week } }"],
    ["provider", "", "providers: { p: { budget: $0.10 } }"],
    ["all", "", "all: { budget: $0.10/hour }"],
  ] as const) {
    const before = upstream.seen.length;
    const running = await startGateway(
      t,
      `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], ${PRICE} } }
keys: { test: { key: test-key-0123456789abcdef, group: acme/research, ${key} } }
limits: { ${limits} }
`,
    );
    const some = where === "key" ? calls : 50;
    const answers = await Promise.all(Array.from({ length: some }, () => asked(running.url)));
    const passed = answers.filter(({ status }) => status === 200).length;
    t.equal(passed, 10, where);
    t.equal(upstream.seen.length - before, 10);
    const refused = answers.filter(({ status }) => status === 429);
    t.equal(refused.length, some - 10);
    t.match(refused[0]?.text, /may spend \$0\.10.*insufficient_quota/s);
    if (where !== "model" && where !== "provider")
      t.match(await budgets(running.url), [{ spent: 10 * CALL, reserved: 0, remaining: 0 }]);
    t.equal(pendingIn(running), 0, "nothing stays reserved");
    await running.gateway.stop({ drain: 0 });
  }
});

t.test("however an exchange ends, nothing stays reserved, and the spending equals the ledger's", async (t) => {
  /** Each leaves when the provider has its request. */
  const clients = Array.from({ length: 60 }, () => new AbortController());
  const upstream = await provider(t, async ({ body }, reply) => {
    const { user } = JSON.parse(body.toString()) as { user?: string };
    if (user === "fail") return reply.writeHead(500).end();
    if (user === "cut") return reply.destroy();
    if (user === "slow") await sleep(100);
    if (user?.startsWith("leave")) return clients[Number(user.slice(5))]?.abort();
    if (user === "refuse") return reply.writeHead(400, { "content-type": "application/json" }).end("{}");
    return whole(reply);
  });
  const second = await provider(t);
  const running = await startGateway(
    t,
    `providers:
  p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], health: { failures: 1000, errors: off } }
  q: { url: "${second.origin.origin}/v1", speaks: [openai-chat] }
models:
  m: { targets: [p:x], fallback: [n], ${PRICE} }
  n: { targets: [q:x], price: { input: 0, output: 2000 }, output: 100 }
retry: { least: 1000 }
limits:
  default: { budget: $100/day, concurrency: 100 }
  models: { m: { budget: $50/day, concurrency: 100 }, n: { budget: $50/day, concurrency: 100 } }
  providers: { p: { budget: $50, tpm: 1M }, q: { budget: $50, tpm: 1M } }
`,
  );
  const users = ["", "fail", "cut", "slow", "refuse", "leave"];
  await Promise.all(
    Array.from({ length: 60 }, async (_, i) => {
      const user = users[i % users.length] as string;
      const body = BODY.replace("{", `{"user":"${user === "leave" ? `leave${i}` : user}",`);
      await ask(running.url, body, { signal: (clients[i] as AbortController).signal }).then(
        (answer) => answer.text(),
        () => {},
      );
    }),
  );
  await until(() => pendingIn(running) === 0, "the last settlement");
  await running.gateway.stores.ledger.flush();
  const rows = await running.gateway.stores.ledger.recent(1000);
  t.equal(rows.length, 60);
  const sum = (fits: (row: (typeof rows)[number]) => boolean) =>
    rows.filter(fits).reduce((all, { cost = 0 }) => all + cost, 0);
  const { limiter } = running.gateway.generation;
  const budgets = [{ nano: 1, per: "total" as const, soft: true }];
  const day = [{ nano: 1, per: "day" as const, soft: true }];
  for (const [kind, name, fits, of] of [
    ["key", "test", () => true, day],
    ["model", "m", ({ model }) => model === "m", day],
    ["model", "n", ({ model }) => model === "n", day],
    ["provider", "p", ({ target }) => target.startsWith("p:"), budgets],
    ["provider", "q", ({ target }) => target.startsWith("q:"), budgets],
  ] as const satisfies [string, string, (row: (typeof rows)[number]) => boolean, unknown][]) {
    const level = { kind, name, scope: `${kind}:${name}`, limits: { budgets: of, concurrency: 100 } };
    const [status] = await limiter.statuses([level]);
    t.equal(status?.budgets[0]?.spent, sum(fits), `${kind} ${name}`);
    t.ok(sum(fits) > 0);
    t.equal(status?.budgets[0]?.reserved, 0);
    t.equal(status?.concurrency?.remaining, 100);
  }
});

t.test("a provider or a model over its limit is skipped for the next, and named where there is none", async (t) => {
  const [first, second] = [await provider(t), await provider(t)];
  const running = await startGateway(
    t,
    `providers:
  p: { url: "${first.origin.origin}/v1", speaks: [openai-chat] }
  q: { url: "${second.origin.origin}/v1", speaks: [openai-chat] }
models: { m: { targets: [{ to: p:x, weight: 1000000000 }, { to: q:x, weight: 0.000001 }], ${PRICE} } }
plugins: { models: { continuity: off } }
limits: { providers: { p: { budget: $0.02 }, q: { rpm: 3 } } }
`,
  );
  const { ledger } = running.gateway.stores;
  const begun: string[] = [];
  const begin = ledger.begin.bind(ledger);
  ledger.begin = (entry) => {
    begun.push(entry.target);
    begin(entry);
  };
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) statuses.push((await asked(running.url)).status);
  t.same(statuses, [200, 200, 200, 200, 200, 429]);
  t.same([first.seen.length, second.seen.length], [2, 3]);
  t.same(
    begun,
    ["p:x", "p:x", "q:x", "q:x", "q:x"],
    "the ledger has each running attempt, whichever target was skipped",
  );
  const last = await asked(running.url);
  t.match(last.text, /The provider \\"q\\" may make 3 requests a minute/);
  t.equal(pendingIn(running), 0);
});

t.test("a model over its limit is skipped for its fallback, and named where that is over its own", async (t) => {
  const upstream = await provider(t);
  const running = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models:
  m: { targets: [p:x], fallback: [n], ${PRICE} }
  n: { targets: [p:y], ${PRICE} }
limits: { default: { rpm: 100 }, models: { m: { rpm: 2 }, n: { rpm: 2 } } }
`,
  );
  const answers = [];
  for (let i = 0; i < 5; i++) answers.push(await asked(running.url));
  t.same(
    answers.map(({ status, headers }) => [status, headers.get("gateway-target")]),
    [
      [200, "p:x"],
      [200, "p:x"],
      [200, "p:y"],
      [200, "p:y"],
      [429, "p:y"],
    ],
  );
  t.same(
    answers.map(({ headers }) => headers.get("x-ratelimit-limit-requests")),
    ["100", "100", "100", "100", "2"],
    "an answer has no headers of a limit for which another model was skipped",
  );
  t.match(answers[4]?.text, /The model \\"n\\" may make 2 requests a minute/);
  t.equal(pendingIn(running), 0);
});

t.test("a soft budget lets everything pass, and is reported in a header and in the log", async (t) => {
  const upstream = await provider(t);
  const running = await startGateway(
    t,
    `providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], ${PRICE} } }
limits: { default: { budget: { amount: $0.05/month, soft: true } } }
`,
  );
  const notices: (string | null)[] = [];
  for (let i = 0; i < 7; i++) notices.push((await asked(running.url)).headers.get("gateway-notice"));
  t.same(notices.slice(0, 4), [null, null, null, null]);
  t.match(notices[4], /The key "test" has spent \$0\.04 of \$0\.05 a month \(80 %\)/);
  t.match(notices[6], /\(120 %\)/);
  const said = running.log.lines.filter(({ level, message }) => level === "warn" && /has spent/.test(message));
  t.equal(said.length, 2, "at 80 % and at 100 %");
});
