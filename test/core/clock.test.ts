import t from "tap";
import { readClockDirectly } from "../../src/core/clock.ts";

t.test("the clock is no getter afterwards, and the same as before", async (t) => {
  const before = performance;
  readClockDirectly();
  t.equal(performance, before);
  t.equal(Object.getOwnPropertyDescriptor(globalThis, "performance")?.get, undefined);
  readClockDirectly();
  t.equal(performance, before);
});
