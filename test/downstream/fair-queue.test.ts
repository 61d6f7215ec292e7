import t from "tap";
import { FairQueue, type QueueItem } from "../../src/downstream/fair-queue.ts";

interface Named extends QueueItem {
  name: string;
}

/** Adds one for each letter, each a millisecond after the one before. */
function filled(callers: string, queue = new FairQueue<Named>()): FairQueue<Named> {
  const counts = new Map<string, number>();
  for (const [since, caller] of [...callers].entries()) {
    const nth = (counts.get(caller) ?? 0) + 1;
    counts.set(caller, nth);
    queue.add({ caller, since, name: `${caller}${nth}` });
  }
  return queue;
}

const names = (queue: FairQueue<Named>, count = Number.POSITIVE_INFINITY): string =>
  Array.from({ length: Math.min(count, queue.size) }, () => queue.takeNext()?.name).join(" ");

t.test("callers take turns; a caller with more requests waits for its own", async (t) => {
  t.equal(names(filled("aaaabbc")), "a1 b1 c1 a2 b2 a3 a4");
  const queue = filled("aaaa");
  t.equal(names(queue, 2), "a1 a2");
  filled("bb", queue);
  t.equal(names(queue), "a3 b1 a4 b2");
  t.equal(queue.takeNext(), undefined);
  t.equal(queue.size, 0);
});

t.test("the oldest request is dropped, and its caller's others keep their turns", async (t) => {
  const queue = filled("aaaabb");
  t.equal(queue.takeOldest()?.name, "a1");
  t.equal(queue.oldest?.name, "a2");
  t.equal(queue.takeNext()?.name, "a2");
  t.equal(queue.takeOldest()?.name, "a3");
  queue.add({ caller: "a", since: 9, name: "new" });
  t.equal(names(queue), "b1 a4 b2 new");
  t.equal(queue.takeOldest(), undefined);
  t.equal(queue.oldest, undefined);
});

t.test("it reports how many requests a caller has, and how many precede its next one at most", async (t) => {
  const queue = filled("aaaaab");
  t.same([queue.countOf("a"), queue.countOf("b"), queue.countOf("c")], [5, 1, 0]);
  t.equal(queue.maxAhead(0), 2, "one of each");
  t.equal(queue.maxAhead(5), 6, "all of them");
  queue.takeOldest();
  queue.takeNext();
  t.same([queue.countOf("a"), queue.countOf("b")], [3, 1]);
  names(queue);
  t.equal(queue.maxAhead(0), 0);
});

t.test("nothing is kept of callers whose requests have all been dropped", async (t) => {
  const queue = filled("abc");
  while (queue.takeOldest());
  t.equal(queue.countOf("a"), 0);
  filled("ddd", queue);
  t.equal(queue.maxAhead(0), 1, "no turn of theirs comes first");
  t.equal(names(queue), "d1 d2 d3");
});

t.test("callers with many and with few dropped requests are served alike", async (t) => {
  const queue = new FairQueue<Named>();
  const served: Record<string, number> = { a: 0, b: 0 };
  for (let since = 0; since < 1000; since++) {
    for (const caller of ["a", "a", "a", "a", "a", "a", "a", "b"]) queue.add({ caller, since, name: caller });
    const next = queue.takeNext() as Named;
    served[next.caller] = (served[next.caller] ?? 0) + 1;
    while ((queue.oldest?.since ?? since) < since - 2) queue.takeOldest();
  }
  t.ok(Math.abs((served["a"] ?? 0) - (served["b"] ?? 0)) <= 10, JSON.stringify(served));
});

t.test("it works for long queues", async (t) => {
  const queue = filled("a".repeat(10_000));
  t.equal(names(queue, 5000).split(" ").at(-1), "a5000");
  for (let i = 0; i < 4999; i++) queue.takeOldest();
  t.equal(names(queue), "a10000");
});
