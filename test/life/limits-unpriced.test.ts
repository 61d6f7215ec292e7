import t, { type Test } from "tap";
import { asking } from "../support/key.ts";
import { page } from "../support/limited.ts";
import { startPostgres } from "../support/postgres.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { startRedis } from "../support/redis.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Starts a provider of which some answers were made by a model without a price. */
async function provider(t: Test) {
  const upstream = await httpUpstream(({ body }, reply) => {
    const iterations = body.includes("unpriced")
      ? [{ type: "fallback_message", model: "unknown", input_tokens: 7, output_tokens: 3 }]
      : undefined;
    const message = { id: "m", type: "message", role: "assistant", model: "x", content: [], stop_reason: "end_turn" };
    const usage = { input_tokens: 7, output_tokens: 3, ...(iterations && { iterations }) };
    reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ ...message, usage }));
  });
  t.teardown(() => upstream.close());
  return upstream;
}

const ask = async ({ url }: GatewayProcess, content: string) => {
  const body = JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content }] });
  const answer = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking({ connection: "close" }), body });
  await answer.text();
  return answer.status;
};

/** What the ledger reports: the cost of each row, and the spending of the model. */
async function reported({ admin }: GatewayProcess) {
  const get = async (path: string) => (await fetch(`${admin}/api/${path}`)).json();
  const { requests } = (await get("requests")) as { requests: { cost?: number; assumedCost?: number }[] };
  const { rows } = (await get("spend?by=model")) as { rows: object[] };
  return { rows: requests.map(({ cost, assumedCost }) => [cost, assumedCost]), spend: rows };
}

const COST = 3_007_000;

/** @param restart runs between a gateway that was killed and the next one */
async function restarted(t: Test, store: string, restart = async () => {}): Promise<void> {
  const { origin } = await provider(t);
  const yaml = `${store}linger: off
providers: { p: { url: "${origin.origin}/v1", protocol: anthropic-messages } }
models: { m: { targets: [p:x], price: { input: 1, output: 1000 }, output: 100 } }
limits: { default: { budget: $1/day }, models: { m: { budget: $1/month } }, all: { budget: $1 } }
`;
  const first = await startProcess(t, yaml);
  for (const content of ["unpriced", "priced", "unpriced"]) t.equal(await ask(first, content), 200);
  const before = await page(first);
  t.match(before[0], { budgets: [{ spent: (3 * COST) / 1e9 }] }, "budgets count the part that has a price");
  await first.end("SIGKILL");
  await restart();
  const second = await startProcess(t, yaml, { folder: first.folder });
  const budgets = (limits: Awaited<ReturnType<typeof page>>) => limits.map((each) => each.budgets);
  t.same(budgets(await page(second)), budgets(before), "nothing is forgotten");
  const { rows, spend } = await reported(second);
  const unpriced = [undefined, COST];
  t.same(rows, [unpriced, [COST, undefined], unpriced], "their cost stays unknown");
  t.match(spend, [{ requests: 3, unsettled: 2, cost: COST }]);
  t.notMatch(JSON.stringify(spend), /assumed/);
}

t.test("budgets remember unpriced rows across a kill, with a SQLite file", (t) => restarted(t, ""));

t.test("budgets remember unpriced rows across a kill, with PostgreSQL", async (t) => {
  const server = await startPostgres(t);
  if (server) await restarted(t, `store: { ledger: "${await server.database()}" }\ninstances: 1\n`);
});

t.test("budgets remember unpriced rows when Redis has lost its counts", async (t) => {
  const redis = await startRedis(t);
  if (!redis) return;
  const store = `store: { ledger: "sqlite:./gateway.db", limits: "${redis.url}" }\n`;
  await restarted(t, store, async () => void (await redis.ask("FLUSHALL")));
});
