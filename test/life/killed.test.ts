import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { mixedProvider, traffic } from "../support/traffic.ts";
import { until } from "../support/until.ts";

/** How often the gateway is killed, and requests in a second. */
const KILLS = Number(process.env["GATEWAY_TEST_KILLS"] ?? 10);
const RATE = Number(process.env["GATEWAY_TEST_KILL_RATE"] ?? 100);

t.test("a gateway that is killed at any moment loses and duplicates no row", async (t) => {
  const upstream = await mixedProvider();
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:m], price: { input: 1, output: 1 } } }
`;
  let gateway: GatewayProcess | undefined;
  const answered: string[] = [];
  for (let life = 0; life <= KILLS; life++) {
    gateway = await startProcess(t, yaml, gateway ? { folder: gateway.folder } : {});
    const stop = traffic(gateway.port, RATE);
    if (life < KILLS) {
      await after(300 + Math.random() * 700);
      await gateway.end("SIGKILL");
    } else await after(500);
    answered.push(...(await stop()).whole);
  }
  if (!gateway) return;
  const { folder } = gateway;
  const since = performance.now();
  // What the killed ones left is taken over while the last one serves.
  const left = () =>
    readdirSync(join(folder, "gateway.db.journal")).filter((name) => !name.startsWith(`${gateway.child.pid}-`));
  await until(() => left().length === 0, "the journals of the killed to be in the ledger");
  const settled = Math.round(performance.now() - since);
  t.equal(await gateway.end("SIGINT"), 0);
  t.same(readdirSync(join(folder, "gateway.db.journal")), [], "and nothing waits after a stop");
  const { outcomes, twice } = gateway.ledger();
  const ids = gateway.rows();
  t.equal(twice, 0, "no row is stored twice");
  t.same(
    answered.filter((id) => ids[id] !== "completed"),
    [],
    "every answered request has a completed row",
  );
  const rows = Object.keys(ids).length;
  t.ok(rows >= upstream.seen.length, `${rows} rows for ${upstream.seen.length} requests that a provider received`);
  t.same(
    Object.keys(outcomes).filter((name) => !["completed", "interrupted", "aborted"].includes(name)),
    [],
  );
  t.comment(
    `${KILLS} kills: ${answered.length} complete answers, ${rows} rows, ${JSON.stringify(outcomes)}; nothing open ${settled} ms after the last traffic`,
  );
});
