import { constants, PerformanceObserver } from "node:perf_hooks";
import type { Test } from "tap";

/** The detail of a performance entry about a collection, which Node's types leave out. */
interface Collection {
  detail: { kind: number };
}

/** Returns a function that returns the number of collections of the whole heap in this thread since then. */
export function fullCollections(t: Test): () => number {
  let count = 0;
  const observer = new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries() as unknown as Collection[])
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) count++;
  });
  observer.observe({ entryTypes: ["gc"] });
  t.teardown(() => observer.disconnect());
  return () => count;
}
