import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { freshStores, type SharedStores, sharedServers, startInstances } from "../support/instances.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Seconds of chaos. */
const SECONDS = Number(process.env["GATEWAY_TEST_CHAOS_SECONDS"] ?? 20);
/** Calls at once on the budget of each key, which covers ten of them; twice. */
const CALLS = Number(process.env["GATEWAY_TEST_LIMITS"] ?? 40);
const COVERED = 10;
const GATEWAYS = 3;
/**
 * Calls that each other gateway may let through while Redis is away: its part of what it takes for the rest, as it cannot know yet what
 * one of them has let through a moment before.
 */
const PART = Math.floor(COVERED / GATEWAYS);
/** A call's cost in nano-dollars. */
const CENT = 10_000_000;
const NAMES = Array.from({ length: 60 + 10 * SECONDS }, (_, i) => `k${i}`);

t.setTimeout((SECONDS + 240) * 1000);
const servers = await sharedServers(t);

/** What has happened to the calls with one key. */
interface Calls {
  /** Those that the provider has served, and those whose whole answer has arrived. */
  served: number;
  answered: number;
  /** Others, by their status; 0: without an answer. */
  readonly refused: Map<number, number>;
  /** The accidents that happened meanwhile. */
  readonly accidents: Set<string>;
}

const keyOf = (name: string) => `chaos-test-key-of-${name}`;
const request = ({ url }: GatewayProcess, path: string, name: string, body?: string) =>
  fetch(`${url}/v1/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${keyOf(name)}`, "content-type": "application/json", connection: "close" },
    ...(body !== undefined && { body }),
  });

/** Starts a provider whose answers cost a cent each, and take up to half a second. */
async function startVendor(t: Test, calls: ReadonlyMap<string, Calls>) {
  const usage = { prompt_tokens: 5, completion_tokens: 10, total_tokens: 15 };
  const message = { role: "assistant", content: "Hi" };
  const choices = [{ index: 0, message, finish_reason: "stop" }];
  const answer = JSON.stringify({ id: "c", object: "chat.completion", usage, choices });
  const upstream = await httpUpstream(async ({ body }, reply) => {
    const own = calls.get((JSON.parse(body.toString()) as { user: string }).user) as Calls;
    own.served++;
    await sleep(20 + Math.random() * 400);
    reply.writeHead(200, { "content-type": "application/json" }).end(answer);
  });
  t.teardown(() => upstream.close());
  return upstream;
}

/** Calls with one key at all gateways at once. */
async function callAll(gateways: readonly GatewayProcess[], name: string, calls: Calls): Promise<void> {
  const body = JSON.stringify({ model: "m", max_tokens: 10, messages: [], user: name });
  const call = async (i: number) => {
    const answer = request(gateways[i % gateways.length] as GatewayProcess, "chat/completions", name, body);
    const status = await answer.then(async (reply) => (await reply.text()) && reply.status).catch(() => 0);
    if (status === 200) calls.answered++;
    else calls.refused.set(Number(status), (calls.refused.get(Number(status)) ?? 0) + 1);
  };
  await Promise.all(Array.from({ length: CALLS }, (_, i) => call(i)));
}

/** Returns the budget of a key in nano-dollars. */
async function budgetOf(gateway: GatewayProcess, name: string) {
  const { data } = (await (await request(gateway, "key", name)).json()) as {
    data?: { limits: { budgets: { spent: number; reserved: number }[] }[] };
  };
  const { spent = Number.NaN, reserved = Number.NaN } = data?.limits[0]?.budgets[0] ?? {};
  return { spent: Math.round(spent * 1e9), reserved: Math.round(reserved * 1e9) };
}

/** Returns the nano-dollars that the ledger has of each key. */
async function spending({ postgres, database }: SharedStores): Promise<Map<string, number>> {
  const sums = "select key, sum(cost)::text as cost from usage join usage_kind on number = kind group by key";
  return new Map((await postgres.ask(database, sums)).map(({ key, cost }) => [String(key), Number(cost)]));
}

async function isWell(gateway: GatewayProcess): Promise<boolean> {
  const { limits, store } = (await gateway.ready())?.body ?? {};
  return limits === "ok" && store === "ok";
}
const allWell = (gateways: readonly GatewayProcess[]) =>
  until(async () => !(await Promise.all(gateways.map(isWell))).includes(false), "all to be well");

/** What happens to the servers, one after another; each is back afterwards. */
const accidents = ({ redis, postgres }: SharedStores): Record<string, () => Promise<unknown>> => ({
  async "Redis killed"() {
    await redis.kill();
    await sleep(Math.random() * 2000);
    await redis.start();
  },
  async "PostgreSQL killed"() {
    await postgres.kill();
    await sleep(Math.random() * 2000);
    await postgres.start();
  },
  "Redis emptied": () => redis.ask("FLUSHALL"),
  async "Redis suspended"() {
    redis.pause();
    await sleep(1500);
    redis.resume();
  },
});

if (servers)
  t.test(
    "gateways, Redis and PostgreSQL die under parallel calls: no budget is exceeded, no row is lost",
    async (t) => {
      const stores = await freshStores(servers);
      const calls = new Map(
        NAMES.map((name) => [name, { served: 0, answered: 0, refused: new Map(), accidents: new Set() } as Calls]),
      );
      const upstream = await startVendor(t, calls);
      const yaml = `linger: off
providers: { p: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], price: { input: 0, output: 1000 }, output: 100 } }
limits: { default: { budget: $0.10/month }, all: { budget: $1000000 } }
keys: { ${NAMES.map((name) => `${name}: { key: ${keyOf(name)} }`).join(", ")} }
`;
      const gateways = await startInstances(t, yaml, stores.store, GATEWAYS);
      let going = true;
      let accident: string | undefined;
      const used: string[] = [];
      const running = new Set<Calls>();
      const traffic = Array.from({ length: 2 }, async () => {
        for (let name = NAMES[used.length]; going && name !== undefined; name = NAMES[used.length]) {
          const own = calls.get(name) as Calls;
          used.push(name);
          running.add(own);
          if (accident !== undefined) own.accidents.add(accident);
          for (let i = 0; i < 2; i++) await callAll(gateways, name, own);
          running.delete(own);
        }
      });
      const happened: Record<string, number> = {};
      const kill = async () => {
        const i = (happened["gateway killed"] ?? 0) % gateways.length;
        const { folder, port, end } = gateways[i] as GatewayProcess;
        await end("SIGKILL");
        const again = `listen: 127.0.0.1:${port}\nstore: ${stores.store}\ninstances: ${GATEWAYS}\n${yaml}`;
        gateways[i] = await startProcess(t, again, { folder });
      };
      const events = Object.entries({ "gateway killed": kill, ...accidents(stores) });
      const end = performance.now() + SECONDS * 1000;
      for (let i = 0; performance.now() < end; i++) {
        const [name, act] = events[i % events.length] as (typeof events)[number];
        accident = name;
        for (const { accidents } of running) accidents.add(name);
        await act();
        happened[name] = (happened[name] ?? 0) + 1;
        await sleep(1000);
        // Redis that is emptied before the journal of a killed gateway is in the ledger lacks what that has.
        await allWell(gateways);
        accident = undefined;
        await sleep(2000);
      }
      going = false;
      await Promise.all(traffic);
      await allWell(gateways);

      const reserved = async () =>
        Promise.all(used.map(async (name) => (await budgetOf(gateways[0] as GatewayProcess, name)).reserved));
      await until(async () => (await reserved()).every((nano) => nano === 0), "nothing to be reserved");
      // Asked for figures, each stores the rows that it has by then.
      for (const { admin } of gateways) await (await fetch(`${admin}/api/spend`)).text();
      const ledger = await spending(stores);
      const figures = used.map((name) => ({ name, ...(calls.get(name) as Calls), stored: ledger.get(name) ?? 0 }));
      const total = (of: (figure: (typeof figures)[number]) => number) =>
        figures.reduce((sum, each) => sum + of(each), 0);
      const refused = [0, 429, 503].map((status) => total((figure) => figure.refused.get(status) ?? 0));
      t.comment(
        `${JSON.stringify(happened)}: ${used.length} keys, ${2 * CALLS * used.length} calls, ${total(({ served }) => served)} served, ` +
          `${total(({ answered }) => answered)} answered, ${refused} without an answer, 429 and 503; in the ledger ${total(({ stored }) => stored) / CENT}, ` +
          `exceeded ${JSON.stringify(figures.filter(({ stored }) => stored > COVERED * CENT).map(({ stored, accidents }) => [stored / CENT, ...accidents]))}`,
      );
      const most = ({ accidents }: Calls) =>
        [...accidents].some((name) => name.startsWith("Redis")) ? COVERED + (GATEWAYS - 1) * PART : COVERED;
      t.same(
        figures.filter((figure) => figure.stored > most(figure) * CENT),
        [],
        "no budget is exceeded, but by what gateways without Redis cannot know",
      );
      t.same(
        figures.filter(({ accidents, answered }) => accidents.size === 0 && answered !== COVERED),
        [],
        "all of a budget is available",
      );
      t.same(
        figures.filter(({ stored, served, answered }) => stored < answered * CENT || stored > served * CENT),
        [],
        "each answer is in the ledger, and none twice",
      );
      for (const gateway of gateways)
        t.same(
          await Promise.all(used.map(async (name) => [name, await budgetOf(gateway, name)])),
          figures.map(({ name, stored }) => [name, { spent: stored, reserved: 0 }]),
          "budgets equal the ledger's sums",
        );
    },
  );
