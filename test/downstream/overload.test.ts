import { Socket } from "node:net";
import t, { type Test } from "tap";
import { Overload, type OverloadLimits, WaitingRequest } from "../../src/downstream/overload.ts";
import { MemoryLog } from "../support/gateway.ts";
import { TestClock } from "../support/loop-clock.ts";

interface Told {
  served: string[];
  refused: string[];
  /** Milliseconds that each of the refused has waited. */
  waits: number[];
}

function made(t: Test, limits: Partial<OverloadLimits> = {}) {
  const log = new MemoryLog();
  const clock = new TestClock();
  const overload = new Overload({ delay: 50, heap: 0, ...limits }, () => log, clock);
  t.teardown(() => overload.close());
  const told: Told = { served: [], refused: [], waits: [] };
  /** Requests of a caller, each of which is so many milliseconds of work. */
  const ask = (count: number, work: number, caller = "one"): void => {
    for (let i = 0; i < count; i++) {
      const since = clock.now();
      const serve = () => {
        clock.work(work);
        told.served.push(caller);
      };
      const refuse = (_: undefined, retryAfter: number) => {
        told.refused.push(retryAfter >= 1 && retryAfter <= 3 ? caller : `${caller} with ${retryAfter}`);
        told.waits.push(clock.now() - since);
      };
      overload.add(new WaitingRequest(since, undefined, { callerOf: () => caller, serve, refuse }));
    }
  };
  const answered = async (): Promise<void> => {
    while (overload.waiting > 0) await clock.turn();
  };
  /** More comes than can be done, until some of it is refused. */
  const flood = async (): Promise<void> => {
    for (let i = 0; i < 1000 && overload.isCalm; i++) {
      ask(40, 1);
      await clock.turn();
    }
    ask(40, 1);
    await answered();
  };
  return { overload, log, told, clock, ask, answered, flood };
}

t.test(
  "requests that arrive in one turn are served at once up to the turn's limit, and the rest in the next turns",
  async (t) => {
    const { overload, told, clock, ask } = made(t, { delay: 2000 });
    ask(40, 1);
    t.equal(overload.waiting, 40, "until all requests of the turn have arrived");
    await clock.turn();
    const turns = [overload.waiting];
    t.ok(told.served.length >= 1 && told.served.length <= 25, `${told.served.length} in the first turn`);
    t.equal(told.served.length + overload.waiting, 40);
    while (overload.waiting > 0) {
      await clock.turn();
      turns.push(overload.waiting);
    }
    t.ok(turns.length > 1, `others get their turn in between: ${turns.join(", ")} wait`);
    t.equal(told.served.length, 40);
    t.equal(overload.isCalm, true, "a burst is no overload");
  },
);

t.test("when requests wait too long for several turns, those that wait longer than a moment are refused", async (t) => {
  const { overload, log, told, clock, ask, answered, flood } = made(t);
  await flood();
  t.ok(told.refused.length > 20, `${told.refused.length} refused`);
  t.ok(told.refused.every((caller) => caller === "one"));
  told.refused.length = 0;
  told.served.length = 0;
  for (let i = 0; i < 20; i++) {
    ask(20, 1);
    ask(1, 1, "another");
    await clock.turn();
  }
  await answered();
  t.same(
    [told.served, told.refused].map((all) => all.filter((caller) => caller === "another").length),
    [20, 0],
    "the caller with few requests is served",
  );
  t.ok(told.refused.length > told.served.length, `${told.refused.length} refused, ${told.served.length} served`);
  while (!overload.isCalm) await clock.rest(50);
  told.refused.length = 0;
  ask(40, 1);
  await answered();
  t.same(told.refused, [], "none once it is over");
  t.match(log.lines[0], { level: "warn", message: "overloaded: new requests are refused" });
  while (log.lines.at(-1)?.message !== "no longer overloaded") await clock.rest(50);
  t.match(log.lines.at(-1)?.fields, { shed: /^\d+$/ });
});

t.test("a request is refused in the turn in which it arrives, before another is served in it", async (t) => {
  const { overload, told, clock, ask, answered, flood } = made(t);
  await flood();
  // So that some wait already.
  ask(20, 1);
  await clock.turn();
  told.waits.length = 0;
  for (let i = 0; i < 50; i++) {
    if (overload.waiting === 0) ask(5, 1);
    ask(20, 1);
    await clock.turn();
  }
  await answered();
  t.ok(told.waits.length > 500, `${told.waits.length} refused`);
  const longest = Math.max(...told.waits);
  t.ok(longest <= 10, `after ${longest} ms at most`);
});

t.test("overload is detected before a request has waited too long, where that can be foreseen", async (t) => {
  const { overload, told, clock, ask } = made(t, { delay: 200 });
  const began = clock.now();
  while (overload.isCalm) {
    ask(40, 1);
    await clock.turn();
  }
  const time = clock.now() - began;
  t.ok(time < 100, `after ${time} ms`);
  t.ok(told.refused.length < 40 && told.waits.every((waited) => waited === 0), "only those that have just arrived");
});

t.test("requests that were queued before an overload was noticed are served, rather than refused late", async (t) => {
  const { overload, told, clock, ask } = made(t, { delay: 200 });
  while (overload.isCalm) {
    ask(40, 1);
    await clock.turn();
  }
  t.ok(overload.waiting > 180, `${overload.waiting} wait`);
  const earlier = clock.now();
  while (told.served.length < 250) {
    ask(12, 1);
    // Refusals take time too.
    clock.work(2);
    await clock.turn();
  }
  t.ok(clock.now() - earlier > 200, "for longer than `delay`");
  t.ok(Math.max(...told.waits) < 10, `refused after ${Math.max(...told.waits)} ms at most`);
});

t.test("a few turns with an expensive request are no overload", async (t) => {
  const { overload, told, clock, ask, answered } = made(t, { delay: 200 });
  ask(1, 40);
  for (let i = 0; i < 3; i++) {
    ask(30, 0.5);
    await clock.turn();
  }
  await answered();
  t.same(told.refused, []);
  t.equal(overload.isCalm, true);
});

t.test("requests of callers with one request each are refused at once where they would wait too long", async (t) => {
  const { overload, told, clock, ask, flood } = made(t);
  await flood();
  t.equal(overload.isCalm, false);
  told.refused.length = told.waits.length = 0;
  for (let nth = 0; nth < 200; nth++) ask(1, 1, `one${nth}`);
  const { waiting } = overload;
  t.ok(waiting > 100);
  await clock.turn();
  t.ok(told.refused.length > 100, `${told.refused.length} refused`);
  t.ok(Math.max(...told.waits) <= 10);
});

t.test(
  "a loop that shares its core with other processes is not late, and takes nothing from new requests",
  async (t) => {
    const { overload, told, clock, ask, flood } = made(t);
    await flood();
    for (let i = 0; i < 60; i++) {
      ask(16, 1);
      clock.away(30);
      await clock.turn();
    }
    t.equal(overload.isCalm, false);
    told.served.length = 0;
    ask(16, 1);
    clock.away(30);
    await clock.turn();
    t.ok(told.served.length >= 4, `${told.served.length} of 16 in a turn`);
  },
);

t.test("a caller with one request at a time is not refused because another caller has too many", async (t) => {
  const { overload, told, clock, ask, answered, flood } = made(t, { delay: 1000 });
  await flood();
  t.equal(overload.isCalm, false);
  const before = told.refused.length;
  for (let nth = 0; nth < 30; nth++) ask(1, 1, `quiet${nth}`);
  for (let nth = 0; nth < 60; nth++) {
    ask(20, 1, "noisy");
    await clock.turn();
  }
  await answered();
  const quiet = (name: string) => name.startsWith("quiet");
  t.same(told.refused.filter(quiet), []);
  t.equal(told.served.filter(quiet).length, 30);
  t.ok(told.refused.length > before, "the noisy one is refused");
});

t.test("a process that gets no CPU for a while refuses nobody", async (t) => {
  const { overload, told, clock, ask, answered } = made(t, { delay: 20 });
  for (let i = 0; i < 10; i++) {
    ask(12, 1);
    clock.away(100);
    await clock.turn();
    await clock.turn();
    await clock.rest(50);
  }
  await answered();
  t.equal(overload.isCalm, true);
  t.same(told.refused, []);
});

t.test("work other than new requests leaves less of each turn to them", async (t) => {
  const { overload, told, clock, ask } = made(t);
  // Turns of 120 ms, of which new requests take next to nothing.
  for (let i = 0; i < 60 && overload.isCalm; i++) {
    ask(1, 0);
    clock.work(120);
    await clock.turn();
  }
  t.equal(overload.isCalm, false);
  for (let i = 0; i < 15; i++) {
    ask(8, 0.3);
    clock.work(120);
    await clock.turn();
  }
  told.served.length = 0;
  ask(40, 0.3);
  await clock.turn();
  t.ok(told.served.length <= 8, `${told.served.length} of 40 in one turn`);
  while (overload.waiting > 0) {
    clock.work(120);
    await clock.turn();
  }
  t.ok(told.refused.length > 0);
});

t.test("a loop that is late and idle in between is not overloaded: other processes have its core", async (t) => {
  const { overload, clock, ask } = made(t, { delay: 10 });
  for (let i = 0; i < 25; i++) {
    ask(1, 60);
    await clock.rest(30);
    t.equal(overload.isCalm, true);
  }
});

t.test("connections that arrive together are received together, and requests wait meanwhile", async (t) => {
  const { overload, told, clock, ask } = made(t, { delay: 0 });
  const received: Socket[] = [];
  overload.onConnection = (socket) => received.push(socket);
  const accept = () => overload.addConnection(new Socket());
  accept();
  t.equal(received.length, 1, "the first at once");
  await clock.turn();
  accept();
  ask(1, 1);
  await clock.turn();
  accept();
  await clock.turn();
  t.same([received.length, told.served.length, overload.waiting], [1, 0, 3]);
  await clock.turn();
  t.same([received.length, told.served.length, overload.waiting], [3, 1, 0]);
});

t.test("the wait of a connection before it was accepted counts", async (t) => {
  const { overload } = made(t);
  t.ok(Math.abs(overload.waitingSince(1000) - 1000) < 1, "no request waits");
});

t.test("all new requests are refused while the heap is nearly full", async (t) => {
  const { overload, told, clock, ask, answered } = made(t, { delay: 0, heap: 0.0001 });
  while (overload.isCalm) {
    ask(1, 0);
    await clock.rest(20);
  }
  told.refused.length = 0;
  ask(100, 0);
  await answered();
  t.equal(told.refused.length, 100);
});

t.test("the heap is looked at in each evaluation only while more than half of its limit is in use", async (t) => {
  const clock = new TestClock();
  const heap = { usage: 0.1, looks: 0 };
  const usage = () => {
    heap.looks++;
    return heap.usage;
  };
  const overload = new Overload({ delay: 0, heap: 0.8 }, () => new MemoryLog(), clock, usage);
  t.teardown(() => overload.close());
  overload.add(new WaitingRequest(clock.now(), undefined, { callerOf: () => "one", serve() {}, refuse() {} }));
  /** Looks in half a second, which has ten evaluations. */
  const looks = async (): Promise<number> => {
    heap.looks = 0;
    await clock.rest(500);
    return heap.looks;
  };
  t.equal(await looks(), 2);
  heap.usage = 0.9;
  await clock.rest(250);
  t.equal(overload.isCalm, false);
  heap.usage = 0.5;
  t.ok((await looks()) >= 10);
  t.equal(overload.isCalm, true);
});

t.test("the loop is not watched while there are no requests", async (t) => {
  const { clock, ask } = made(t);
  t.equal(clock.timers, 0);
  for (let i = 0; i < 3; i++) {
    ask(1, 1);
    await clock.rest(500);
    t.equal(clock.timers, 1);
  }
  await clock.rest(1500);
  t.equal(clock.timers, 0);
  ask(1, 1);
  t.equal(clock.timers, 1);
});

t.test("limits that are off refuse no request and make none wait", async (t) => {
  const { overload, told, clock, ask } = made(t, { delay: 0 });
  for (let i = 0; i < 8; i++) {
    ask(10, 20);
    await clock.rest(1);
    t.equal(overload.waiting, 0);
  }
  t.same([told.served.length, told.refused.length], [80, 0]);
});
