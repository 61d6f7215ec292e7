import t from "tap";
import { Peers, QuestionHandlers } from "../src/core/peers.ts";
import { openLimiter } from "../src/open-limiter.ts";
import { MemoryLimiter } from "../src/store/memory-limiter.ts";
import { SharedLimiter } from "../src/workers/shared-limiter.ts";
import { freePort } from "./support/free-port.ts";
import { startGateway } from "./support/gateway.ts";

const MODELS = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';

t.test("limits are counted in this process, by its primary, or at Redis", async (t) => {
  const { gateway, log } = await startGateway(t, MODELS);
  const { config } = gateway;
  const { ledger } = gateway.stores;
  const alone = await openLimiter(config, ledger, log, 1);
  t.teardown(() => alone.close());
  t.ok(alone instanceof MemoryLimiter);
  const worker = await openLimiter(config, ledger, log, 2, new Peers(new QuestionHandlers()));
  t.teardown(() => worker.close());
  t.ok(worker instanceof SharedLimiter);
  const address = `127.0.0.1:${await freePort()}`;
  const shared = { ...config, store: { ...config.store, limits: `redis://${address}` } };
  await t.rejects(openLimiter(shared, ledger, log, 1), { message: new RegExp(address) });
});
