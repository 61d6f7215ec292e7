import t from "tap";
import { Peers, QuestionHandlers } from "../../src/core/peers.ts";
import type { StoreSnapshot } from "../../src/store/open.ts";
import { askKnownStore, registerKnownStore, registerMergedKnownStore } from "../../src/workers/known-store.ts";

const row = (id: string, changed: number) => ({ id, changed });

/** What a worker that starts is told by the primary of these. */
function told(...all: readonly (StoreSnapshot | undefined)[]): Promise<StoreSnapshot | undefined> {
  const workers = all.map((known) => {
    const answers = new QuestionHandlers();
    registerKnownStore(answers, { snapshot: () => known });
    return new Peers(answers);
  });
  const primary = new QuestionHandlers();
  registerMergedKnownStore(primary, (question, asked) =>
    Promise.all(workers.map((worker) => worker.ask(question, asked))),
  );
  return askKnownStore(new Peers(primary));
}

t.test("what several workers know is combined: the newest of each key, from the oldest look-up on", async (t) => {
  const groups = [["acme", 3]] as const;
  const one = { schema: 7, secret: "ab", keys: { seen: 5, age: 100, rows: [row("a", 1), row("b", 5)], groups } };
  const other = { schema: 7, secret: "ab", keys: { seen: 4, age: 900, rows: [row("b", 2), row("c", 3)], groups: [] } };
  t.same(await told(one, undefined, other), {
    ...{ schema: 7, secret: "ab" },
    keys: { seen: 4, age: 900, rows: [row("a", 1), row("b", 5), row("c", 3)], groups },
  });
});

t.test("where none has anything, or none responds, nothing is returned", async (t) => {
  t.equal(await told(), undefined);
  t.equal(await told(undefined), undefined);
  t.equal(await askKnownStore(new Peers()), undefined);
});
