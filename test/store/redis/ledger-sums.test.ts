import t from "tap";
import { LedgerSums } from "../../../src/store/redis/ledger-sums.ts";

/** A ledger that counts queries, and a clock. */
function ledger() {
  const state = { now: 5000, asked: [] as number[], fails: false };
  const spentSince = async (since: number) => {
    state.asked.push(since);
    if (state.fails) throw new Error("away");
    return { spent: new Map([["all", state.asked.length]]), positions: new Map() };
  };
  return { state, sums: new LedgerSums(spentSince, () => state.now) };
}

t.test("callers of the same second share one query for each period", async (t) => {
  const { state, sums } = ledger();
  await Promise.all([sums.since(1), sums.since(1), sums.since(2)]);
  t.same(state.asked, [1, 2]);
  state.now += 999;
  t.equal((await sums.since(1)).spent.get("all"), 1);
  state.now += 1;
  t.equal((await sums.since(1)).spent.get("all"), 3);
  state.now -= 5000;
  t.equal((await sums.since(1)).spent.get("all"), 4, "a clock that was set back makes none last longer");
  sums.clear();
  t.equal((await sums.since(1)).spent.get("all"), 5);
});

t.test("a query that failed is an error for its callers, and the next one asks again", async (t) => {
  const { state, sums } = ledger();
  state.fails = true;
  await t.rejects(Promise.all([sums.since(1), sums.since(1)]), { code: "store_unavailable" });
  state.fails = false;
  await sums.since(1);
  t.same(state.asked, [1, 1]);
});

t.test("sums of former periods are not kept", async (t) => {
  const { state, sums } = ledger();
  for (let day = 0; day < 5; day++, state.now += 86_400_000) await sums.since(day);
  t.equal((Reflect.get(sums, "cached") as Map<number, unknown>).size, 1);
});

t.test("one query of a period runs at a time, and those who ask later share the next", async (t) => {
  const running: PromiseWithResolvers<void>[] = [];
  let now = 0;
  const sums = new LedgerSums(
    async () => {
      const query = Promise.withResolvers<void>();
      const place = running.push(query);
      await query.promise;
      return { spent: new Map([["all", place]]), positions: new Map() };
    },
    () => now,
  );
  const asked: Promise<number | undefined>[] = [];
  for (; now < 5000; now += 500) asked.push(sums.since(1).then(({ spent }) => spent.get("all")));
  t.equal(running.length, 1);
  running[0]?.resolve();
  t.same(await Promise.all(asked.slice(0, 2)), [1, 1]);
  t.equal(running.length, 2);
  running[1]?.resolve();
  t.same(await Promise.all(asked.slice(2)), Array(8).fill(2));
});
