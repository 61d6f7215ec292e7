import { constants, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as turn } from "node:timers/promises";
import t from "tap";
import { IdleCollector, type YoungGeneration, youngGeneration } from "../../src/downstream/idle-collector.ts";
import { startFullCollection } from "../../src/full-collection.ts";
import { until } from "../support/until.ts";

/** A collector with a young generation of which 0.9 are in use. */
function made() {
  const state = { awaited: false, usage: 0.9, collected: 0, looks: 0 };
  const collect = () => {
    state.collected++;
    state.usage = 0;
  };
  const collector = new IdleCollector(() => state.awaited, {
    usage() {
      state.looks++;
      return state.usage;
    },
    collect,
  });
  return { state, collector };
}

t.test("a young generation that is nearly full is collected once, after an exchange has ended", async (t) => {
  const { state, collector } = made();
  state.awaited = true;
  collector.check(0.1);
  t.equal(state.collected, 0);
  state.awaited = false;
  collector.onEnd();
  t.equal(state.collected, 0, "not before other events of this turn");
  await turn();
  collector.onEnd();
  await turn();
  t.equal(state.collected, 1);
});

t.test("it is not collected while a client waits for the beginning of a response", async (t) => {
  const { state, collector } = made();
  state.awaited = true;
  collector.check(0.1);
  collector.onEnd();
  await turn();
  collector.check(0.1);
  t.equal(state.collected, 0);
});

t.test("without an exchange that ends, the next check collects it", (t) => {
  const { state, collector } = made();
  collector.check(0.1);
  collector.check(0.1);
  t.equal(state.collected, 1);
  t.end();
});

t.test("it is not collected while much of it is free, because V8 has collected it, or under load", async (t) => {
  for (const [usage, utilization] of [
    [0.6, 0.1],
    [0.9, 0.35],
  ] as const) {
    const { state, collector } = made();
    collector.check(0.1);
    state.usage = usage;
    collector.check(utilization);
    collector.onEnd();
    await turn();
    t.equal(state.collected, 0, `${usage} in use, utilization ${utilization}`);
  }
});

t.test("it is looked at rarely while it will not be full soon, and in time", async (t) => {
  for (const pace of [0.002, 0.01]) {
    const { state, collector } = made();
    state.usage = 0;
    const full: number[] = [];
    let checks = 0;
    for (; state.collected < 10; checks++) {
      state.usage += pace;
      const { usage, collected } = state;
      collector.check(0.1);
      if (state.collected > collected) full.push(usage);
    }
    const told = `${state.looks} looks of ${checks} checks, collected at ${full.map((usage) => usage.toFixed(2))}`;
    t.ok(state.looks < checks / 7, told);
    t.ok(Math.max(...full) <= 0.7 + 3 * pace, told);
  }
  // Its pace may change.
  const { state, collector } = made();
  state.usage = 0.01;
  for (let checks = 0; checks < 100; checks++) collector.check(0.1);
  state.usage = 0.75;
  for (let checks = 0; checks < 22; checks++) collector.check(0.1);
  t.equal(state.collected, 1);
});

t.test("the young generation of V8 is collected at once", (t) => {
  const young = youngGeneration();
  young.collect();
  const { before, length } = fillTo(young.usage() + 0.3, young);
  young.collect();
  const after = young.usage();
  t.ok(after < before, `${before} of it in use before, ${after} after; ${length} arrays`);
  t.end();
});

/** Allocates arrays that nothing refers to afterwards, until so much of the young generation is in use. */
function fillTo(usage: number, young: YoungGeneration): { before: number; length: number } {
  const arrays: unknown[] = [];
  while (arrays.length < 100_000 && young.usage() < usage) arrays.push(new Array(100));
  return { before: young.usage(), length: arrays.length };
}

t.test("V8's own collection of the whole heap is not completed in one step for it", async (t) => {
  const young = youngGeneration();
  const heap = Array.from({ length: 500_000 }, (_, i) => ({ i, of: [i] }));
  const majors: number[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { detail, startTime } of list.getEntries() as unknown as {
      detail: { kind: number };
      startTime: number;
    }[])
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) majors.push(startTime);
  });
  observer.observe({ entryTypes: ["gc"] });
  t.teardown(() => observer.disconnect());
  // Not the one that so many objects have begun.
  await until(() => majors.length > 0, "the collection to end");
  startFullCollection();
  await turn();
  await turn();
  const begin = performance.now();
  young.collect();
  const end = performance.now();
  await until(() => majors.length > 1, "the next one to end");
  t.equal(heap.length, 500_000);
  t.notOk(
    majors.some((each) => begin <= each && each <= end),
    "none within the call",
  );
});
