import t from "tap";
import { Calendar } from "../../src/core/calendar.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import { Peers, QuestionHandlers } from "../../src/core/peers.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { FLUSH_LEDGER, registerLedgerFlush, registerLimits, SharedLimiter } from "../../src/workers/shared-limiter.ts";

const LEVELS: LimitLevel[] = [
  {
    ...{ kind: "key", name: "ci", scope: "key:ci" },
    limits: { concurrency: 2, budgets: [{ nano: 100, per: "day", soft: false }] },
  },
];
const asked = (id: string) => ({
  id,
  levels: LEVELS,
  maximum: { tokens: 0, cost: 40 },
  minimum: { tokens: 0, cost: 4 },
});

t.test("two processes share the counts of the one that responds, and one's reservations end with it", async (t) => {
  const answers = new QuestionHandlers();
  const counts = new MemoryLimiter(
    async () => new Map(),
    new Calendar(),
    () => {},
  );
  registerLimits(answers, counts);
  const [one, other] = ["1", "2"].map((owner) => new SharedLimiter(new Peers(answers), owner)) as [
    SharedLimiter,
    SharedLimiter,
  ];
  t.match(await one.reserve(asked("a")), { grant: {} });
  t.match(await other.reserve(asked("b")), { grant: {} });
  t.match(await one.reserve(asked("c")), { excess: { limit: "concurrency", level: { name: "ci" } } });
  t.match(one.running, [{ reservation: asked("a"), time: Number }], "what was refused does not run");
  one.settle("a", { tokens: 0, cost: 30 });
  t.same(one.running, []);
  t.match(await other.statuses(LEVELS), [{ concurrency: { remaining: 1 }, budgets: [{ spent: 30, reserved: 40 }] }]);
  counts.release("2");
  t.match(await one.statuses(LEVELS), [{ concurrency: { remaining: 2 }, budgets: [{ spent: 30, reserved: 40 }] }]);
  counts.settleOrphans(new Map([["b", { tokens: 0, cost: 50, model: "", provider: "" }]]));
  t.match(await one.statuses(LEVELS), [{ budgets: [{ spent: 80, reserved: 0 }] }]);
  one.settle("", { tokens: 0, cost: 7 }, undefined, { scopes: ["key:ci"], time: Date.now() });
  one.sendUnreserved();
  t.match(await other.statuses(LEVELS), [{ budgets: [{ spent: 87 }] }], "also what was not reserved");
  t.equal(counts.pending, 0);
});

t.test("what was spent without a reservation is sent together, before anything is asked", async (t) => {
  const answers = new QuestionHandlers();
  const counts = new MemoryLimiter(
    async () => new Map(),
    new Calendar(),
    () => {},
  );
  registerLimits(answers, counts);
  const peers = new Peers(answers);
  const asked: string[] = [];
  const { ask } = peers;
  peers.ask = (question, payload) => {
    asked.push(question.name);
    return ask.call(peers, question, payload) as never;
  };
  const limiter = new SharedLimiter(peers, "1");
  await limiter.statuses(LEVELS);
  const spend = () => limiter.settle("", { tokens: 0, cost: 1 }, undefined, { scopes: ["key:ci"], time: Date.now() });
  for (let i = 0; i < 20; i++) spend();
  t.match(await limiter.statuses(LEVELS), [{ budgets: [{ spent: 20 }] }]);
  for (let i = 0; i < 20; i++) spend();
  limiter.sendUnreserved();
  limiter.sendUnreserved();
  spend();
  await limiter.close();
  t.equal(asked.length, 5, asked.join());
  for (let i = 0; i < 1000; i++) spend();
  t.equal(asked.length, 7, "not too many wait");
  t.match(await limiter.statuses(LEVELS), [{ budgets: [{ spent: 1041 }] }]);
});

t.test("where none responds, no request is let in", async (t) => {
  const alone = new SharedLimiter(new Peers(), "1");
  const refused = {
    ...{ code: "store_unavailable", status: 503, kind: "overloaded", retry: true, retryAfter: 5, store: "limits" },
    message: /not known at the moment\. This is temporary/,
  };
  await t.rejects(alone.reserve(asked("a")), refused);
  await t.rejects(alone.statuses(LEVELS), refused);
  alone.settle("a", { tokens: 0, cost: 0 });
});

t.test("while a worker's rows wait for a store that is down, requests wait for them at length once only", async (t) => {
  const answers = new QuestionHandlers();
  registerLedgerFlush(answers, { flush: () => new Promise<never>(() => {}) }, 1000);
  const flush = () => new Peers(answers).ask(FLUSH_LEDGER, null);
  await t.rejects(flush(), /not answered in 1 s/);
  await t.rejects(flush(), /not answered in 100 ms/);
});
