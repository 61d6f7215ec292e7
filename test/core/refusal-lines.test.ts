import t from "tap";
import { takeRefusalLine } from "../../src/core/refusal-lines.ts";
import { MemoryLog } from "../support/gateway.ts";

t.test("a thousand refusals a minute have lines, and one line tells how many have not", async (t) => {
  const log = new MemoryLog();
  // The minute ends in a moment.
  const began = performance.now() - 59_990;
  const taken = Array.from({ length: 1500 }, (_, n) => takeRefusalLine(log, began + (n < 1000 ? 0 : 59_980)));
  t.equal(taken.filter(Boolean).length, 1000);
  t.equal(taken.lastIndexOf(true), 999);
  t.ok(takeRefusalLine(new MemoryLog(), began), "another log has its own");
  while (log.lines.length === 0) await new Promise((later) => setTimeout(later, 10));
  t.match(log.lines, [{ level: "warn", fields: { count: 500 } }]);
  t.ok(takeRefusalLine(log), "the next minute begins anew");
});
