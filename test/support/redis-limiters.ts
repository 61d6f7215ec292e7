import t, { type Test } from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import type { ReserveResult } from "../../src/store/limiter.ts";
import type { FindCharges, RowCharge } from "../../src/store/orphan-charges.ts";
import { RedisLimiter } from "../../src/store/redis/limiter.ts";
import { RedisServer } from "../../src/store/redis/server.ts";
import { level, START } from "./limiter-contract.ts";
import { type RedisProcess, startRedis } from "./redis.ts";

/** What was settled is in the ledger at once. */
export const written = async () => {};
export const noRows: FindCharges = async () => new Map();
export const row = (tokens: number, cost: number, model = "", provider = ""): RowCharge => ({
  tokens,
  cost,
  model,
  provider,
});

export interface Several {
  limiters: RedisLimiter[];
  clock: { now: number };
  /** What was logged. */
  logged: string[];
  /** What the ledger knows, by scope. */
  ledger: Map<string, number>;
  /** The rows in the ledger that processes did not live to settle, by the exchange's id. */
  rows: Map<string, RowCharge>;
}

/** Some processes at one server. @param instances as gateway.yaml says */
export async function several(
  t: Test,
  url: string,
  count: number,
  instances?: number,
  writing: (i: number) => Promise<void> = written,
): Promise<Several> {
  const clock = { now: START };
  const logged: string[] = [];
  const ledger = new Map<string, number>();
  const rows = new Map<string, RowCharge>();
  const log = (message: string) => void logged.push(message);
  /** Of each process: where its rows end in its journal, and how far that is in the ledger. */
  const [ends, stored] = [Array.from({ length: count }, () => 0), Array.from({ length: count }, () => 0)];
  const positions = writing === written ? ends : stored;
  const spentSince = async () => ({
    spent: new Map(ledger),
    positions: new Map(positions.map((position, i) => [`journal${i}`, position])),
  });
  const limiters: RedisLimiter[] = [];
  for (let i = 0; i < count; i++) {
    const limiter = await RedisLimiter.open({
      ...{ server: await RedisServer.create(url), spentSince, calendar: new Calendar(), warn: log, info: log },
      findCharges: async () => rows,
      place: () => ({ journal: `journal${i}`, position: ++(ends[i] as number) }),
      async flushLedger() {
        const end = ends[i] as number;
        await writing(i);
        stored[i] = end;
      },
      clock: () => clock.now,
      ...(instances !== undefined && { instances }),
    });
    t.teardown(() => limiter.close());
    limiters.push(limiter);
  }
  return { limiters, clock, logged, ledger, rows };
}

/** A process dies: it says nothing any more. */
export const beat = (limiter: RedisLimiter) => (limiter as unknown as { beat(): Promise<void> }).beat();
export const die = (limiter: RedisLimiter) => (limiter as unknown as { stop(): void }).stop();
export const NONE = { tokens: 0, cost: 0 };
let ids = 0;
export const asking = (levels: readonly LimitLevel[], cost: number) => ({
  ...{ id: `r${++ids}`, levels, maximum: { tokens: 0, cost }, minimum: { tokens: 0, cost: 1 } },
});
export const budget = (nano: number, name = "ci") => [
  level("key", name, { budgets: [{ nano, per: "day", soft: false }] }),
];
export const spent = async (limiter: RedisLimiter, levels: readonly LimitLevel[]) =>
  (await limiter.statuses(levels))[0]?.budgets[0];
export const passed = (all: readonly ReserveResult[]) => all.filter((each) => "grant" in each).length;

export const test = (name: string, body: (t: Test, redis: RedisProcess) => Promise<void>) =>
  t.test(name, async (t) => {
    const own = await startRedis(t);
    if (own) await body(t, own);
  });
