import t from "tap";
import { KeyPage } from "../../../plugins/limits/key-page.ts";
import { runUsage } from "../../../src/cli/usage.ts";
import { Calendar } from "../../../src/core/calendar.ts";
import { Levels } from "../../../src/core/limits.ts";
import type { Limiter } from "../../../src/store/limiter.ts";
import { keptLedger } from "../../support/kept-ledger.ts";
import { captured } from "../../support/terminal.ts";

const ZONE = "Asia/Kolkata";
/** There 10:00 on a Thursday; days begin in the middle of an hour of UTC. */
const NOW = Date.UTC(2026, 9, 15, 4, 30);
const HOUR = 3_600_000;

t.test("a key's spending of the day, week and month is that of usage, in the gateway's time zone", async (t) => {
  const { stores, append } = keptLedger(t);
  const clock = { now: NOW };
  t.intercept(Date, "now", { value: () => clock.now });
  const spent = (time: number, usd: number, key = "k") => append({ time, key, cost: usd * 1e9 });
  const midnight = Date.UTC(2026, 9, 14, 18, 30);
  spent(midnight, 1);
  spent(midnight - 1, 2);
  const monday = midnight - 3 * 24 * HOUR;
  spent(monday, 4);
  spent(monday - 1, 8);
  const first = Date.UTC(2026, 8, 30, 18, 30);
  spent(first, 16);
  spent(first - 1, 32);
  spent(midnight, 64, "other");
  let queries = 0;
  const ledger = Object.assign(Object.create(stores.ledger), {
    sums(query: Parameters<typeof stores.ledger.sums>[0]) {
      queries++;
      return stores.ledger.sums(query);
    },
  });
  const limiter = { statuses: async () => [] } as unknown as Limiter;
  const page = new KeyPage(limiter, new Levels({}, new Calendar(ZONE)), ledger);
  const told = async (id = "k") => {
    const { body } = await page.answer({ id, name: id });
    return (JSON.parse(String(body)) as { data: Record<string, number> }).data;
  };
  // At once, as the sums are asked for again after a few seconds.
  const [own, other, none] = await Promise.all([told(), told("other"), told("new")]);
  t.match(own, { usage: 63, usage_daily: 1, usage_weekly: 7, usage_monthly: 31, timezone: ZONE });
  t.match(other, { usage: 64, usage_daily: 64, usage_weekly: 64, usage_monthly: 64 });
  t.match(none, { usage: 0, usage_daily: 0, usage_weekly: 0, usage_monthly: 0 });
  t.equal(queries, 4, "for all callers together");
  const usage = async (since: string) => {
    const args = ["--since", since, "--by", "key", "--json"];
    const { text } = await captured((io) => runUsage(args, io, stores, () => ZONE));
    return (JSON.parse(text) as { key: string; cost: number }[]).find(({ key }) => key === "k")?.cost;
  };
  for (const [since, usd] of [
    ["today", 1],
    ["2026-10-12", 7],
    ["2026-10-01", 31],
  ] as const)
    t.equal(await usage(since), usd * 1e9, `usage --since ${since}`);
  clock.now = midnight + 24 * HOUR;
  t.match(await told(), { usage: 63, usage_daily: 0, usage_weekly: 7 }, "the next day begins at once");
});

t.test("after a failure of the ledger its sums are asked for again at once", async (t) => {
  const { stores } = keptLedger(t);
  let isAway = true;
  const ledger = Object.assign(Object.create(stores.ledger), {
    sums: async () => (isAway ? Promise.reject(new Error("away")) : []),
  });
  const limiter = { statuses: async () => [] } as unknown as Limiter;
  const page = new KeyPage(limiter, new Levels({}, new Calendar(ZONE)), ledger);
  await t.rejects(page.answer({ id: "k", name: "k" }), /ledger/);
  isAway = false;
  t.match(JSON.parse(String((await page.answer({ id: "k", name: "k" })).body)), { data: { usage: 0 } });
});

t.test("all periods of a response are those of one moment, also at midnight", async (t) => {
  const clock = { now: NOW };
  t.intercept(Date, "now", { value: () => clock.now });
  const asked: number[] = [];
  const { stores } = keptLedger(t);
  const ledger = Object.assign(Object.create(stores.ledger), {
    async sums({ since }: { since: number }) {
      asked.push(since);
      clock.now = NOW + 24 * HOUR;
      return [];
    },
  });
  const limiter = { statuses: async () => [] } as unknown as Limiter;
  await new KeyPage(limiter, new Levels({}, new Calendar(ZONE)), ledger).answer({ id: "k", name: "k" });
  t.same(asked.slice(0, 2), [0, Date.UTC(2026, 9, 14, 18, 30)]);
});
