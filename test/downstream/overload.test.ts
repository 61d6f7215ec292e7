import t, { type Test } from "tap";
import { Overload, type OverloadLimits } from "../../src/downstream/overload.ts";
import { MemoryLog } from "../support/gateway.ts";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Keeps the event loop from turning for a while. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** The loop goes round without a rest. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

interface Told {
  served: string[];
  refused: string[];
}

/** Requests of a caller, each of which is so many milliseconds of work. */
function ask(overload: Overload, told: Told, count: number, work: number, caller = "one"): void {
  for (let i = 0; i < count; i++) {
    const since = performance.now();
    const serve = () => {
      block(work);
      told.served.push(caller);
    };
    const refuse = (retryAfter: number) => {
      told.refused.push(retryAfter >= 1 && retryAfter <= 3 ? caller : `${caller} with ${retryAfter}`);
    };
    if (overload.free(since, false)) serve();
    else overload.wait({ caller, since, serve, refuse });
  }
}

function made(t: Test, limits: Partial<OverloadLimits> = {}) {
  const log = new MemoryLog();
  const overload = new Overload({ delay: 50, heap: 0, ...limits }, () => log);
  t.teardown(() => overload.close());
  const told: Told = { served: [], refused: [] };
  return { overload, log, told };
}

/** More comes than can be done, until some of it is refused. */
async function flood(overload: Overload, told: Told): Promise<void> {
  while (overload.calm) {
    ask(overload, told, 20, 1);
    await turn();
  }
  ask(overload, told, 20, 1);
  while (overload.waiting > 0) await turn();
}

t.test(
  "what comes in one turn is served at once, up to what a turn may take, and the rest in the next ones",
  async (t) => {
    const { overload, told } = made(t, { delay: 2000 });
    ask(overload, told, 40, 1);
    const [at, waiting] = [told.served.length, overload.waiting];
    t.ok(at >= 1 && at <= 11, `${at} at once`);
    t.equal(at + waiting, 40);
    await turn();
    const turns = [overload.waiting];
    while (overload.waiting > 0) {
      await turn();
      turns.push(overload.waiting);
    }
    t.ok(turns.length > 1, `others get their turn in between: ${turns.join(", ")} wait`);
    t.equal(told.served.length, 40);
    t.equal(overload.calm, true, "a burst is no overload");
  },
);

t.test(
  "when requests wait for longer than they may, turn after turn, those that wait for more than a moment are refused",
  async (t) => {
    const { overload, log, told } = made(t);
    await flood(overload, told);
    t.ok(told.refused.length > 20, `${told.refused.length} refused`);
    t.ok(told.refused.every((caller) => caller === "one"));
    told.refused.length = 0;
    told.served.length = 0;
    for (let i = 0; i < 20; i++) {
      ask(overload, told, 20, 1);
      ask(overload, told, 1, 1, "another");
      await turn();
    }
    while (overload.waiting > 0) await turn();
    t.same(
      [told.served, told.refused].map((all) => all.filter((caller) => caller === "another").length),
      [20, 0],
      "who asks for little is served",
    );
    t.ok(told.refused.length > told.served.length, `${told.refused.length} refused, ${told.served.length} served`);
    while (!overload.calm) await sleep(50);
    told.refused.length = 0;
    ask(overload, told, 40, 1);
    while (overload.waiting > 0) await turn();
    t.same(told.refused, [], "none once it is over");
    t.match(log.lines[0], { level: "warn", message: "overloaded: new requests are refused" });
    while (log.lines.at(-1)?.message !== "no longer overloaded") await sleep(50);
    t.match(log.lines.at(-1)?.fields, { shed: /^\d+$/ });
  },
);

t.test("who asks for one thing at a time is not refused for what another has too much of", async (t) => {
  const { overload, told } = made(t, { delay: 1000 });
  await flood(overload, told);
  t.equal(overload.calm, false);
  const before = told.refused.length;
  for (let nth = 0; nth < 30; nth++) ask(overload, told, 1, 1, `quiet${nth}`);
  for (let nth = 0; nth < 60; nth++) {
    ask(overload, told, 20, 1, "noisy");
    await turn();
  }
  while (overload.waiting > 0) await turn();
  const quiet = (name: string) => name.startsWith("quiet");
  t.same(told.refused.filter(quiet), []);
  t.equal(told.served.filter(quiet).length, 30);
  t.ok(told.refused.length > before, "the noisy one is refused");
});

t.test("a process that is kept from its core for a while refuses nobody", async (t) => {
  const { overload, told } = made(t, { delay: 20 });
  for (let i = 0; i < 10; i++) {
    ask(overload, told, 12, 1);
    block(100);
    await turn();
    await turn();
    await sleep(50);
  }
  while (overload.waiting > 0) await turn();
  t.equal(overload.calm, true);
  t.same(told.refused, []);
});

t.test("work that is not new requests' leaves less of each turn to them", async (t) => {
  const { overload, told } = made(t);
  // Turns of 120 ms, of which new requests take next to nothing.
  for (let i = 0; i < 60 && overload.calm; i++) {
    ask(overload, told, 1, 0);
    block(120);
    await turn();
  }
  t.equal(overload.calm, false);
  for (let i = 0; i < 15; i++) {
    ask(overload, told, 8, 0.3);
    block(120);
    await turn();
  }
  told.served.length = 0;
  ask(overload, told, 40, 0.3);
  await turn();
  t.ok(told.served.length <= 8, `${told.served.length} of 40 in one turn`);
  while (overload.waiting > 0) {
    block(120);
    await turn();
  }
  t.ok(told.refused.length > 0);
});

t.test("a loop that comes late and rests in between is no overload: others have its core", async (t) => {
  const { overload, told } = made(t, { delay: 10 });
  for (let i = 0; i < 25; i++) {
    ask(overload, told, 1, 60);
    await sleep(30);
    t.equal(overload.calm, true);
  }
});

t.test("a connection that waited long until it was taken has waited already", async (t) => {
  const { overload } = made(t);
  t.ok(Math.abs(overload.before(1000) - 1000) < 1, "nobody waits");
});

t.test("all new requests are refused while the heap is nearly full", async (t) => {
  const { overload, told } = made(t, { delay: 0, heap: 0.0001 });
  while (overload.calm) await sleep(20);
  ask(overload, told, 100, 0);
  while (overload.waiting > 0) await turn();
  t.equal(told.refused.length, 100);
});

t.test("limits that are off refuse nobody, and nobody waits", async (t) => {
  const { overload, told } = made(t, { delay: 0 });
  for (let i = 0; i < 8; i++) {
    ask(overload, told, 10, 20);
    t.equal(overload.waiting, 0);
    await sleep(1);
  }
  t.same([told.served.length, told.refused.length], [80, 0]);
});
