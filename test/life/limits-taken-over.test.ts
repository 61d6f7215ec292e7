import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { backgroundUpstream } from "../support/background.ts";
import { freshStores, sharedServers, startInstances } from "../support/instances.ts";
import { asking } from "../support/key.ts";
import { ask, BODY, page, provider } from "../support/limited.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const servers = await sharedServers(t);

/** Starts a gateway again that was killed, with its own folder. */
const again = (t: Test, { folder }: GatewayProcess, yaml: string) => startProcess(t, yaml, { folder });

/** Nano-dollars that the ledger has, of all requests. */
async function spending({ admin }: GatewayProcess): Promise<number> {
  const answer = await fetch(`${admin}/api/spend?by=model`);
  const { rows } = (await answer.json()) as { rows: { cost: number }[] };
  return rows.reduce((sum, { cost }) => sum + cost, 0);
}

/** All budgets, with what is spent in nano-dollars. */
const budgetsOf = async (gateway: GatewayProcess) =>
  (await page(gateway)).flatMap(({ budgets }) =>
    budgets.map(({ spent, reserved }) => ({ spent: Math.round(spent * 1e9), reserved: Math.round(reserved * 1e9) })),
  );

if (servers) {
  t.test("what a killed gateway had reserved is counted by another one, once its rows are in the ledger", async (t) => {
    const { store } = await freshStores(servers);
    const upstream = await provider(t);
    const yaml = `linger: off
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], price: { input: 1000, output: 1000 }, output: 100 } }
limits: { default: { budget: [$10/day, $20], concurrency: 900 }, models: { m: { budget: $30 } }, all: { budget: $40 } }
`;
    const [dying, other] = (await startInstances(t, yaml, store, 2)) as [GatewayProcess, GatewayProcess];
    for (const gateway of [dying, other, dying]) t.equal(await ask(gateway.url), 200);
    const hanging = BODY.replace("{", '{"user":"hang",');
    const running = [dying, dying, other].map(({ url }) => ask(url, hanging));
    await until(() => upstream.seen.length === 6, "the requests that hang");
    const before = await budgetsOf(other);
    t.equal(before.length, 3, "of the key, for a day and in total, and of all");
    await dying.end("SIGKILL");
    const free = async () => (await page(other))[0]?.concurrency?.remaining;
    t.equal(await free(), 897);
    await until(async () => (await free()) === 899, "its requests to run no more");
    t.same(await budgetsOf(other), before, "their money stays reserved while nobody knows what they cost");
    const next = await again(t, dying, `store: ${store}\ninstances: 2\n${yaml}`);
    // One of three still runs.
    const left = (before[0]?.reserved ?? 0) / 3;
    await until(async () => (await budgetsOf(other))[0]?.reserved === left, "the rows to be counted");
    upstream.cut();
    await Promise.all(running);
    await until(async () => (await budgetsOf(other))[0]?.reserved === 0, "the last one to be counted");
    const spent = await spending(other);
    t.ok(spent > (before[0]?.spent ?? 0), "a request without an answer costs its input");
    for (const gateway of [other, next])
      t.same(await budgetsOf(gateway), Array(3).fill({ spent, reserved: 0 }), "to the nano-dollar");
  });
}

/** What each request costs, also one without an answer, in nano-dollars. */
const EACH = 15_000_000;

if (servers)
  t.test("Redis loses all while a killed gateway's journal is away: budgets lack what only that has", async (both) => {
    const { store, redis } = await freshStores(servers);
    const upstream = await provider(both);
    const yaml = `linger: off
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], price: { input: 1000, output: 1000 }, output: 100 } }
limits: { default: { budget: [$10/day, $20] }, all: { budget: $40 } }
`;
    let [dying, other] = (await startInstances(both, yaml, store, 2)) as [GatewayProcess, GatewayProcess];
    /** One dies while Redis is away or emptied, and starts again. @param before what has been spent until then */
    const round = async (t: Test, before: number, empty: () => Promise<unknown>) => {
      const asked = upstream.seen.length;
      for (const gateway of [dying, other, dying]) t.equal(await ask(gateway.url), 200);
      const running = ask(dying.url, BODY.replace("{", '{"user":"hang",'));
      await until(() => upstream.seen.length === asked + 4, "the request that hangs");
      await dying.end("SIGKILL");
      await running;
      await empty();
      const countsApart = async () => (await other.ready())?.body["limits"] === "apart";
      const together = async () => {
        await until(countsApart, "the loss to be known");
        await until(async () => !(await countsApart()), "the gateway to count with Redis");
      };
      await together();
      const [loaded = 0, ...same] = (await budgetsOf(other)).map(({ spent }) => spent);
      t.same(same, [loaded, loaded]);
      const ofRound = loaded - before;
      t.ok(ofRound >= EACH && ofRound <= 3 * EACH, "what the ledger has, including all of the gateway that is alive");
      for (let i = 0; i < 2; i++) t.equal(await ask(other.url), 200);
      dying = await again(both, dying, `store: ${store}\ninstances: 2\n${yaml}`);
      const all = before + 6 * EACH;
      await until(async () => (await spending(other)) === all, "all rows to be in the ledger");
      const counted = Array(3).fill({ spent: loaded + 2 * EACH, reserved: 0 });
      t.same(await budgetsOf(other), counted, "nothing else is missing, or reserved");
      await empty();
      await together();
      t.same(await budgetsOf(other), Array(3).fill({ spent: all, reserved: 0 }), "until they are loaded again");
    };
    await both.test("it is emptied", (t) => round(t, 0, () => redis.ask("FLUSHALL")));
    await both.test("it is restarted", (t) =>
      round(t, 6 * EACH, async () => {
        await redis.kill();
        await redis.start();
      }),
    );
  });

if (servers)
  t.test("Redis is killed and comes back empty under traffic: budgets equal the ledger's sum", async (t) => {
    const { store, redis } = await freshStores(servers);
    const upstream = await provider(t);
    const yaml = `linger: off
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], price: { input: 1000, output: 1000 }, output: 100 } }
limits: { default: { budget: [$1000/day, $2000] }, all: { budget: $4000 } }
`;
    const gateways = await startInstances(t, yaml, store, 2);
    let going = true;
    const statuses: number[] = [];
    const traffic = Array.from({ length: 8 }, async (_, i) => {
      while (going) statuses.push(await ask((gateways[i % 2] as GatewayProcess).url));
    });
    for (let i = 0; i < 2; i++) {
      const before = statuses.length;
      await until(() => statuses.length > before + 60, "traffic");
      await redis.kill();
      await redis.start();
      const apart = async (gateway: GatewayProcess) => (await gateway.ready())?.body["limits"] === "apart";
      await until(async () => (await Promise.all(gateways.map(apart))).includes(true), "the loss to be known");
      await until(async () => !(await Promise.all(gateways.map(apart))).includes(true), "Redis to be back");
    }
    const before = statuses.length;
    await until(() => statuses.length > before + 60, "traffic");
    going = false;
    await Promise.all(traffic);
    t.same(new Set(statuses), new Set([200]));
    const [one] = gateways as [GatewayProcess];
    await until(async () => (await spending(one)) === statuses.length * EACH, "all rows to be in the ledger");
    const expected = Array(3).fill({ spent: statuses.length * EACH, reserved: 0 });
    for (const gateway of gateways) t.same(await budgetsOf(gateway), expected);
  });

/** Dies by `kill -9` when an exchange has its row, and before its cost is settled. */
const DIES = `import { existsSync, rmSync } from "node:fs";
import { Ledger } from "model-gateway/store";
import { injectable } from "tsyringe";
@injectable()
export default class Dies {
  constructor(private readonly ledger: Ledger) {}
  done() {
    if (!existsSync("die")) return;
    rmSync("die");
    this.ledger.persist();
    process.kill(process.pid, "SIGKILL");
  }
}
`;
const COST = 30_000_000;

/** A provider whose answers are made in the background, and have their usage each time that they are fetched. */
async function background(t: Test) {
  const upstream = await httpUpstream(({ url }, reply) => {
    const id = url.endsWith("/responses") ? "resp_1" : (url.split("/").at(-1) as string);
    const status = url.endsWith("/responses") ? "queued" : "completed";
    const usage = status === "queued" ? null : { input_tokens: 10, output_tokens: 20, total_tokens: 30 };
    reply.writeHead(200, { "content-type": "application/json" });
    reply.end(JSON.stringify({ id, object: "response", background: true, status, model: "x", output: [], usage }));
  });
  t.teardown(() => upstream.close());
  return `linger: off
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { targets: [p:x], price: { input: 1000, output: 1000 }, output: 100 } }
plugins: { dies: { from: ./dies.ts } }
chains: { llm: [sse, auth, models, limits, rewrite, usage, dies] }
limits:
  default: { budget: [{ amount: $1/day, soft: true }, { amount: $2, soft: true }] }
  providers: { p: { budget: { amount: $3, soft: true } } }
  all: { budget: { amount: $4, soft: true } }
`;
}

const post = async ({ url }: GatewayProcess) => {
  const body = '{"model":"m","input":"x","background":true}';
  const answer = await fetch(`${url}/v1/responses`, { method: "POST", headers: asking({ connection: "close" }), body });
  await answer.text();
  return answer.status;
};
const fetchAnswer = ({ url }: GatewayProcess) =>
  fetch(`${url}/v1/responses/resp_1`, { headers: asking({ connection: "close" }) }).then(
    async (answer) => {
      await answer.text();
      return answer.status;
    },
    () => 0,
  );

/** Fetches an answer, and kills the process that passes it on. */
async function dieWith(gateway: GatewayProcess): Promise<void> {
  writeFileSync(join(gateway.folder, "die"), "");
  await fetchAnswer(gateway);
  await until(() => !existsSync(join(gateway.folder, "die")), "its death");
}

/** Whether all budgets have counted the answer once, and the ledger too. */
async function countsOnce(t: Test, gateway: GatewayProcess, why: string): Promise<void> {
  t.equal(await spending(gateway), COST, why);
  t.same(await budgetsOf(gateway), Array(3).fill({ spent: COST, reserved: 0 }), why);
}

const counted = (gateway: GatewayProcess) =>
  until(async () => (await budgetsOf(gateway))[0]?.spent === COST, "the row to be counted");

t.test(
  "usage that a killed worker had recorded, and not settled, counts once, however often it is fetched",
  async (t) => {
    const yaml = await background(t);
    const gateway = await startProcess(t, `workers: 2\n${yaml}`, { files: { "dies.ts": DIES } });
    t.equal(await post(gateway), 200);
    await dieWith(gateway);
    await counted(gateway);
    for (let i = 0; i < 3; i++) t.equal(await fetchAnswer(gateway), 200);
    await countsOnce(t, gateway, "the row's own charge");
  },
);

if (servers)
  for (const first of ["the killed gateway's row", "another gateway's"])
    t.test(`usage that a killed gateway had recorded, and not settled, counts once: first ${first}`, async (t) => {
      const { store } = await freshStores(servers);
      const yaml = `store: ${store}\ninstances: 2\n${await background(t)}`;
      const files = { "dies.ts": DIES };
      const dying = await startProcess(t, yaml, { files });
      const other = await startProcess(t, yaml, { files });
      t.equal(await post(other), 200);
      await dieWith(dying);
      if (first === "another gateway's") {
        t.equal(await fetchAnswer(other), 200);
        await counted(other);
      }
      const next = await again(t, dying, yaml);
      await counted(other);
      const orphans = async () => Number(await servers.redis.ask("EVAL", ORPHANS, "0"));
      await until(async () => (await orphans()) === 0, "what the dead had reserved to be counted");
      for (const gateway of [other, next, other]) t.equal(await fetchAnswer(gateway), 200);
      for (const gateway of [other, next]) await countsOnce(t, gateway, "one of two rows");
    });

/** Counts the orphans of which nothing is counted. */
const ORPHANS = `local count = 0
for _, key in ipairs(redis.call('KEYS', '*:holds:*')) do count = count + redis.call('HLEN', key) end
for _, key in ipairs(redis.call('KEYS', '*:orphans')) do
  for _, text in ipairs(redis.call('HVALS', key)) do
    if not cjson.decode(text)[3] then count = count + 1 end
  end
end
return count`;

for (const workers of [1, 2])
  t.test(`a background answer that a killed gateway counted is not counted again (workers: ${workers})`, async (t) => {
    const upstream = await backgroundUpstream(t);
    const yaml = `linger: off
workers: ${workers}
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-responses] } }
models: { m: { targets: [p:x], price: { input: 1000, output: 1000 }, output: 100 } }
limits: { default: { budget: { amount: $10/day, soft: true } } }
`;
    const first = await startProcess(t, yaml);
    const created = await fetch(`${first.url}/v1/responses`, {
      method: "POST",
      headers: asking({ "content-type": "application/json", connection: "close" }),
      body: '{"model":"m","input":"a","background":true}',
    });
    t.equal(created.status, 200, await created.text());
    const poll = async ({ url }: GatewayProcess) => {
      const answer = await fetch(`${url}/v1/responses/resp_1`, { headers: asking({ connection: "close" }) });
      t.match(await answer.json(), { status: "completed" });
    };
    await poll(first);
    await poll(first);
    t.match(await budgetsOf(first), [{ spent: EACH }]);
    await first.end("SIGKILL");
    const next = await again(t, first, yaml);
    await poll(next);
    t.match(await budgetsOf(next), [{ spent: EACH }]);
    t.equal(await spending(next), EACH);
  });
