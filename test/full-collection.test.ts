import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { startFullCollection } from "../src/full-collection.ts";
import { fullCollections } from "./support/collections.ts";
import { until } from "./support/until.ts";

t.test("a collection of the whole heap happens each time, and no others follow it", async (t) => {
  const collections = fullCollections(t);
  for (let i = 0; i < 3; i++) {
    const before = collections();
    const garbage = new WeakRef(Array.from({ length: 1000 }, () => ({ i })));
    await after(1);
    startFullCollection();
    await until(() => collections() > before, "the collection to end");
    t.equal(garbage.deref(), undefined);
  }
  const before = collections();
  const large = Array.from({ length: 20 }, (_, i) => Reflect.has(t, `${"x".repeat(200_000)}.${i}`));
  t.equal(large.length, 20);
  await after(200);
  t.equal(collections(), before, "where a large object is allocated as usual");
});
