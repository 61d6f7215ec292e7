import t from "tap";
import { RedisLimiter } from "../../src/store/redis-limiter.ts";
import { RedisServer } from "../../src/store/redis-server.ts";
import { limiterContract, type MakeLimiter } from "../support/limiter-contract.ts";
import { startRedis } from "../support/redis.ts";

const redis = await startRedis(t, ["--databases", "64"]);
let database = 0;

const make: MakeLimiter = async (t, spentSince, { clock, calendar, warn }) => {
  const server = await RedisServer.of(`${redis?.url}/${++database}`);
  const limiter = await RedisLimiter.open({ server, spentSince, calendar, warn, info: warn, clock });
  t.teardown(() => limiter.close());
  return limiter;
};

if (redis) limiterContract(t, make);
