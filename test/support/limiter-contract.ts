import type { Test } from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import type { Limits } from "../../src/core/limit-kinds.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import type { Grant, Limiter, ReserveResult, Spending } from "../../src/store/limiter.ts";
import type { SpendSince } from "../../src/store/memory-limiter.ts";

export const USD = 1e9;
const DAY = 86_400_000;
export const START = Date.UTC(2026, 10, 18, 12);

export const level = (kind: LimitLevel["kind"], name: string, limits: Limits): LimitLevel => ({
  kind,
  name,
  scope: `${kind}:${name}`,
  limits,
});

export const granted = (reserved: ReserveResult): Grant => {
  if ("excess" in reserved) throw new Error(`refused: ${JSON.stringify(reserved.excess)}`);
  return reserved.grant;
};
export const refused = (reserved: ReserveResult) => ("excess" in reserved ? reserved.excess : undefined);

/** Returns the spending known to a ledger. */
export const spentOf =
  (spent: Record<string, number> = {}): SpendSince =>
  async () =>
    new Map(Object.entries(spent));

/** A limiter with its own clock. */
export interface LimiterSetup {
  limiter: Limiter & { readonly pending: number };
  clock: { now: number };
  warnings: string[];
  /** The times since which its ledger was queried. */
  asked: number[];
}

/** Creates a limiter. */
export type MakeLimiter = (
  t: Test,
  spentSince: SpendSince,
  told: { clock: () => number; calendar: Calendar; warn: (message: string) => void },
) => Promise<LimiterSetup["limiter"]>;

export async function setUp(t: Test, makeLimiter: MakeLimiter, spent: SpendSince = spentOf()) {
  const clock = { now: START };
  const warnings: string[] = [];
  const asked: number[] = [];
  const since = (time: number) => {
    asked.push(time);
    return spent(time);
  };
  const limiter = await makeLimiter(t, since, {
    clock: () => clock.now,
    calendar: new Calendar("UTC"),
    warn: (message) => warnings.push(message),
  });
  let id = 0;
  const reserve = async (levels: readonly LimitLevel[], most: Partial<Spending> = {}) => {
    const name = String(++id);
    const whole = { tokens: 0, cost: 0, ...most };
    const reserved = await limiter.reserve({ id: name, levels, maximum: whole, minimum: { tokens: 0, cost: 1 } });
    return { id: name, ...reserved };
  };
  return { limiter, clock, warnings, asked, reserve, pending: () => limiter.pending };
}

/** Tests for every limiter, wherever it counts. */
export function limiterContract(t: Test, makeLimiter: MakeLimiter): void {
  const make = (t: Test, spent?: SpendSince) => setUp(t, makeLimiter, spent);

  t.test("so many requests pass in any minute, and the next one when the first is a minute old", async (t) => {
    const { clock, reserve, limiter } = await make(t);
    const key = [level("key", "ci", { rpm: 3 })];
    for (const seconds of [0, 10, 20]) {
      clock.now = START + seconds * 1000;
      limiter.settle((await reserve(key)).id, { tokens: 0, cost: 0 });
    }
    clock.now = START + 59_999;
    t.match(refused(await reserve(key)), {
      limit: "rpm",
      level: { kind: "key", name: "ci" },
      allowed: 3,
      remaining: 0,
    });
    clock.now = START + 61_000;
    t.match(granted(await reserve(key)).requests, { limit: 3, remaining: 0 });
    const excess = refused(await reserve(key));
    t.equal(excess?.retryAfter, 10, "until the second has left the window");
  });

  t.test("after the clock was set back by an hour, a minute's limits hold for a minute", async (t) => {
    const { clock, reserve } = await make(t);
    const limits = { rpm: { rpm: 3 }, tpm: { tpm: 30 } };
    const keys = Object.entries(limits).map(([kind, limit]) => [kind, [level("key", kind, limit)]] as const);
    const ask = (key: readonly LimitLevel[]) => reserve(key, { tokens: 10 });
    const fill = async () => {
      for (const [kind, key] of keys) {
        for (let i = 0; i < 3; i++) granted(await ask(key));
        t.match(refused(await ask(key)), { limit: kind });
      }
    };
    await fill();
    clock.now -= 3_600_000;
    for (const [kind, key] of keys) t.match(refused(await ask(key)), { limit: kind }, "what was counted still counts");
    clock.now += 61_000;
    await fill();
  });

  t.test("a budget that is added counts what was spent in its period without a limit, before and after", async (t) => {
    const ledger = new Map([["key:new", 5]]);
    const since = START - (START % DAY);
    const { clock, reserve, limiter } = await make(t, async (from) => new Map(from > since ? [] : ledger));
    const budgets = [{ nano: USD, per: "day", soft: false } as const];
    const other = await reserve([level("key", "other", { budgets })], { cost: 9 });
    const spend = (cost: number, time = clock.now, id = "") =>
      limiter.settle(id, { tokens: 0, cost }, undefined, { scopes: ["key:new", "group:acme", "all"], time });
    spend(7);
    ledger.set("key:new", 12);
    clock.now += 2000;
    const added = level("key", "new", { budgets });
    const spent = async () => (await limiter.statuses([added]))[0]?.budgets[0]?.spent;
    t.equal(await spent(), 12, "what had ended");
    spend(3);
    t.equal(await spent(), 15, "what was running");
    spend(4, clock.now, other.id);
    t.equal(await spent(), 19, "also if it had reserved something elsewhere");
    t.match(await limiter.statuses([level("key", "other", { budgets })]), [{ budgets: [{ spent: 4, reserved: 0 }] }]);
    spend(6, since - 1);
    t.equal(await spent(), 19, "and nothing of an earlier period");
    const once = { tokens: 0, cost: 8, once: "background answer" };
    for (let i = 0; i < 2; i++) limiter.settle("", once, undefined, { scopes: ["key:new"], time: clock.now });
    t.equal(await spent(), 27, "each usage once");
  });

  t.test("tokens are reserved at their most and counted as they were", async (t) => {
    const { clock, reserve, limiter } = await make(t);
    const key = [level("key", "ci", { tpm: 1000 })];
    const first = await reserve(key, { tokens: 800 });
    t.match(refused(await reserve(key, { tokens: 300 })), { limit: "tpm", remaining: 200, requested: 300 });
    limiter.settle(first.id, { tokens: 100, cost: 0 });
    t.match(granted(await reserve(key, { tokens: 300 })).tokens, { limit: 1000, remaining: 600 });
    clock.now += 61_000;
    t.match(granted(await reserve(key, { tokens: 1000 })).tokens, { remaining: 0 });
  });

  t.test("a request that may take more than a minute's tokens waits for a minute without any", async (t) => {
    const { clock, reserve } = await make(t);
    const key = [level("key", "ci", { tpm: 1000 })];
    granted(await reserve(key, { tokens: 1 }));
    t.ok(refused(await reserve(key, { tokens: 5000 })));
    clock.now += 61_000;
    t.ok(granted(await reserve(key, { tokens: 5000 })));
  });

  t.test("at a time so many run, and settling twice makes no more room", async (t) => {
    const { reserve, limiter } = await make(t);
    const key = [level("key", "ci", { concurrency: 2 })];
    const first = await reserve(key);
    await reserve(key);
    t.match(refused(await reserve(key)), { limit: "concurrency", allowed: 2, remaining: 0 });
    limiter.settle(first.id, { tokens: 0, cost: 0 });
    limiter.settle(first.id, { tokens: 0, cost: 0 });
    granted(await reserve(key));
    t.ok(refused(await reserve(key)));
  });

  t.test("a level without room refuses, and nothing is reserved at the others", async (t) => {
    const { reserve, limiter } = await make(t);
    const key = level("key", "ci", { rpm: 10, concurrency: 10, budgets: [{ nano: USD, per: "day", soft: false }] });
    const group = level("group", "acme", { concurrency: 1 });
    await reserve([key, group], { cost: 100 });
    t.match(refused(await reserve([key, group], { cost: 100 })), {
      limit: "concurrency",
      level: { kind: "group", name: "acme" },
    });
    const [status] = await limiter.statuses([key]);
    t.match(status, { requests: { remaining: 9 }, concurrency: { remaining: 9 }, budgets: [{ reserved: 100 }] });
  });

  t.test("a thousand at once on a budget for ten: ten pass, and what is spent never passes it", async (t) => {
    const { reserve, limiter, pending } = await make(t);
    const levels = [
      level("key", "ci", { budgets: [{ nano: 10 * USD, per: "day", soft: false }] }),
      level("group", "acme", { budgets: [{ nano: 20 * USD, per: "month", soft: false }] }),
      level("all", "", { budgets: [{ nano: 30 * USD, per: "total", soft: false }] }),
    ];
    const all = await Promise.all(Array.from({ length: 1000 }, () => reserve(levels, { cost: USD })));
    const passed = all.filter((each) => !refused(each));
    t.equal(passed.length, 10);
    for (const { id } of passed) limiter.settle(id, { tokens: 0, cost: 0.7 * USD });
    t.equal(pending(), 0);
    for (const { budgets } of await limiter.statuses(levels)) {
      t.equal(budgets[0]?.spent, 7 * USD);
      t.equal(budgets[0]?.reserved, 0);
    }
    const more = await Promise.all(Array.from({ length: 1000 }, () => reserve(levels, { cost: USD })));
    t.equal(more.filter((each) => !refused(each)).length, 3, "unused amounts are available to others");
  });

  t.test("where the ledger cannot answer a hard budget refuses, and a soft one lets through", async (t) => {
    const ledger = { away: true, sums: {} as Record<string, number> };
    const spent: SpendSince = async () => {
      if (ledger.away) throw new Error("it is away");
      return new Map(Object.entries(ledger.sums));
    };
    const { reserve, limiter, clock, warnings } = await make(t, spent);
    const budget = (soft: boolean, per: "day" | "month" = "day") => ({ nano: 10 * USD, per, soft });
    const soft = level("key", "soft", { rpm: 5, budgets: [budget(true), budget(true, "month")] });
    const hard = level("group", "hard", { budgets: [budget(false)] });
    await t.rejects(reserve([soft, hard], { cost: USD }), { code: "store_unavailable", store: "ledger" });
    const first = await reserve([soft], { cost: USD });
    t.match(
      granted(first).requests,
      { limit: 5, remaining: 4 },
      "its other limits apply, and the refused request left no trace",
    );
    const second = await reserve([soft], { cost: USD });
    limiter.settle(first.id, { tokens: 0, cost: USD });
    t.equal(warnings.filter((each) => each.startsWith("What soft budgets have spent is not known")).length, 1);
    t.equal(limiter.state, "ok");
    clock.now += 2000;
    Object.assign(ledger, { away: false, sums: { "key:soft": USD } });
    granted(await reserve([soft], { cost: 2 * USD }));
    limiter.settle(second.id, { tokens: 0, cost: 3 * USD });
    // Reports to the server arrive before the next query.
    const [status] = await limiter.statuses([soft]);
    t.match(status?.budgets, [
      { per: "day", spent: 4 * USD, reserved: 2 * USD },
      { per: "month", spent: 4 * USD, reserved: 2 * USD },
    ]);
  });

  t.test("a budget begins anew with its period, and what began before counts to the one before", async (t) => {
    const { clock, reserve, limiter } = await make(t);
    const key = [level("key", "ci", { budgets: [{ nano: 2 * USD, per: "day", soft: false }] })];
    const late = await reserve(key, { cost: USD });
    limiter.settle((await reserve(key, { cost: USD })).id, { tokens: 0, cost: USD });
    const excess = refused(await reserve(key, { cost: USD }));
    t.match(excess, {
      limit: "budget",
      allowed: 2 * USD,
      remaining: 0,
      per: "day",
      resets: Date.UTC(2026, 10, 19),
      retryAfter: 1,
    });
    clock.now = Date.UTC(2026, 10, 19);
    granted(await reserve(key, { cost: 2 * USD }));
    limiter.settle(late.id, { tokens: 0, cost: USD });
    const [status] = await limiter.statuses(key);
    t.match(status?.budgets, [{ spent: 0, reserved: 2 * USD, remaining: 0 }]);
  });

  t.test(
    "what costs nothing passes a budget that is spent, and what costs more than all of it never passes",
    async (t) => {
      const { reserve } = await make(t, spentOf({ "key:ci": 3 * USD }));
      const key = [level("key", "ci", { budgets: [{ nano: 2 * USD, per: "total", soft: false }] })];
      granted(await reserve(key, { cost: 0 }));
      t.equal(refused(await reserve(key, { cost: 1 }))?.retryAfter, undefined);
    },
  );

  t.test("what was spent before the start counts, asked once for each kind of period", async (t) => {
    const { reserve, limiter, asked } = await make(t, spentOf({ "key:ci": 1.5 * USD }));
    const budgets = [
      { nano: 2 * USD, per: "month" as const, soft: false },
      { nano: 5 * USD, per: "day" as const, soft: false },
    ];
    const key = [level("key", "ci", { budgets })];
    const some = await Promise.all([reserve(key, { cost: 0.5 * USD }), reserve(key, { cost: 0.5 * USD })]);
    t.equal(some.filter((each) => refused(each)).length, 1);
    t.same(asked, [Date.UTC(2026, 10, 1), Date.UTC(2026, 10, 18)]);
    const [status] = await limiter.statuses([level("key", "other", { budgets })]);
    t.match(status?.budgets[0], { spent: 0 });
  });

  t.test("where nobody knows what was spent, nothing is let in, and asked again", async (t) => {
    let down = true;
    const spent = async () => {
      if (down) throw new Error("no store");
      return new Map<string, number>();
    };
    const { limiter, reserve } = await make(t, spent);
    const key = [level("key", "ci", { budgets: [{ nano: USD, per: "day", soft: false }] })];
    await t.rejects(reserve(key, { cost: 1 }), { message: /not known/ });
    await t.rejects(limiter.statuses(key), { message: /not known/ });
    down = false;
    granted(await reserve(key, { cost: 1 }));
  });

  t.test("a soft budget refuses nothing, and is told at 80 % and at 100 %, once each", async (t) => {
    const { reserve, limiter, warnings } = await make(t);
    const key = [level("key", "ci", { budgets: [{ nano: 10 * USD, per: "month", soft: true }] })];
    const notices: unknown[] = [];
    for (let i = 0; i < 12; i++) {
      const made = await reserve(key, { cost: USD });
      notices.push(granted(made).warnings);
      limiter.settle(made.id, { tokens: 0, cost: USD });
    }
    await limiter.statuses(key);
    t.same(warnings, [
      'The key "ci" has spent $8.00 of $10.00 a month (80 %).',
      'The key "ci" has spent $10.00 of $10.00 a month (100 %).',
    ]);
    t.equal(notices[7], undefined);
    t.same(notices[8], ['The key "ci" has spent $8.00 of $10.00 a month (80 %).']);
  });

  t.test("what others have spent of a budget is told when the next request ends, once", async (t) => {
    const { reserve, limiter, warnings } = await make(t, spentOf({ "key:ci": 15 * USD }));
    const marks: string[] = [];
    limiter.onBudgetMark = ({ share, spent }) => marks.push(`${share} ${spent / USD}`);
    const key = [level("key", "ci", { budgets: [{ nano: 10 * USD, per: "month", soft: true }] })];
    for (let i = 0; i < 3; i++) {
      const made = await reserve(key, { cost: USD });
      limiter.settle(made.id, { tokens: 0, cost: USD });
      await limiter.statuses(key);
    }
    t.same(warnings, ['The key "ci" has spent $16.00 of $10.00 a month (160 %).']);
    t.same(marks, ["1 16"]);
  });

  t.test("two budgets of one kind of period are two limits on one sum", async (t) => {
    const { reserve, limiter } = await make(t);
    const budgets = [
      { nano: USD, per: "day" as const, soft: true },
      { nano: 2 * USD, per: "day" as const, soft: false },
    ];
    const key = [level("key", "ci", { budgets })];
    const made = await reserve(key, { cost: USD });
    limiter.settle(made.id, { tokens: 0, cost: USD });
    const [status] = await limiter.statuses(key);
    t.match(status?.budgets, [
      { spent: USD, reserved: 0 },
      { spent: USD, reserved: 0 },
    ]);
  });

  t.test("usage that is told again counts once", async (t) => {
    const { reserve, limiter } = await make(t);
    const key = [level("key", "ci", { budgets: [{ nano: USD, per: "day", soft: false }] })];
    for (let i = 0; i < 3; i++) limiter.settle((await reserve(key)).id, { tokens: 1, cost: 10, once: "p resp_1" });
    const [status] = await limiter.statuses(key);
    t.match(status?.budgets, [{ spent: 10 }]);
  });

  t.test("usage that is told again counts once for exchanges, and once for their attempts", async (t) => {
    const { limiter } = await make(t);
    const of = (name: string) => [level("key", name, { budgets: [{ nano: USD, per: "total", soft: false }] })];
    const [own, attempted] = [of("ci"), of("attempted")];
    const amounts = { maximum: { tokens: 1, cost: 20 }, minimum: { tokens: 0, cost: 0 } };
    for (const exchange of ["x", "y"])
      for (const [id, levels] of [
        [exchange, own],
        [`${exchange}/2`, attempted],
      ] as const) {
        granted(await limiter.reserve({ id, levels, ...amounts }));
        limiter.settle(id, { tokens: 1, cost: 10, once: "p resp_1" });
      }
    for (const levels of [own, attempted])
      t.match(await limiter.statuses(levels), [{ budgets: [{ spent: 10, reserved: 0 }] }]);
  });

  t.test("a level at which nothing was used gets its reservation back", async (t) => {
    const { reserve, limiter } = await make(t);
    const of = (name: string) => level("model", name, { budgets: [{ nano: USD, per: "day", soft: false }] });
    const made = await reserve([of("a"), of("b")], { cost: 100 });
    limiter.settle(made.id, { tokens: 0, cost: 10 }, "model:a");
    const [a, b] = await limiter.statuses([of("a"), of("b")]);
    t.match(a?.budgets, [{ spent: 0, reserved: 0 }]);
    t.match(b?.budgets, [{ spent: 10, reserved: 0 }]);
  });

  t.test("a budget that comes while its key is used counts what ran then, and what was settled before", async (t) => {
    const spent: Record<string, number> = {};
    const { reserve, limiter, clock, asked } = await make(t, async () => new Map(Object.entries(spent)));
    const budget = (name: string) => level("key", name, { budgets: [{ nano: 10 * USD, per: "day", soft: false }] });
    granted(await reserve([budget("other")], { cost: 1 }));
    const free = [level("key", "ci", { rpm: 100 })];
    const [settled, running] = [await reserve(free, { cost: 4 * USD }), await reserve(free, { cost: 4 * USD })];
    clock.now += 1000;
    limiter.settle(settled.id, { tokens: 1, cost: 3 * USD });
    spent["key:ci"] = 3 * USD;
    const key = [budget("ci")];
    const [before] = await limiter.statuses(key);
    t.match(before?.budgets[0], { spent: 3 * USD, reserved: 0 });
    t.equal(asked.length, 2, "queried again, for it was used since");
    limiter.settle(running.id, { tokens: 1, cost: 2 * USD });
    const [after] = await limiter.statuses(key);
    t.match(after?.budgets[0], { spent: 5 * USD, reserved: 0 });
    t.ok(refused(await reserve(key, { cost: 5 * USD + 1 })));
    granted(await reserve(key, { cost: 5 * USD }));
  });
}
