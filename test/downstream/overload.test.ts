import t from "tap";
import type { GatewayError } from "../../src/core/errors.ts";
import { Overload } from "../../src/downstream/overload.ts";
import { MemoryLog } from "../support/gateway.ts";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Keeps the event loop from turning for a while. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** The loop goes round without a rest. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** How many of a hundred requests of a caller are refused. */
function refused(overload: Overload, caller = "one", all = 100): number {
  let count = 0;
  for (let i = 0; i < all; i++) {
    try {
      overload.check(caller);
    } catch (thrown) {
      const { code, status, retryAfter = 0 } = thrown as GatewayError;
      if (code === "overloaded" && status === 503 && retryAfter >= 1) count++;
    }
  }
  return count;
}

t.test(
  "new requests are refused while the event loop is late, more of them the longer it is, and none once it is not",
  async (t) => {
    const log = new MemoryLog();
    const overload = new Overload({ delay: 50, heap: 0 }, () => log);
    t.teardown(() => overload.close());
    t.equal(refused(overload), 0);
    for (let i = 0; i < 60 && overload.calm; i++) {
      block(120);
      refused(overload);
      await turn();
    }
    t.equal(overload.calm, false);
    for (let i = 0; i < 10; i++) {
      block(120);
      refused(overload);
      await turn();
    }
    const most = refused(overload);
    t.ok(most > 20, `${most} of 100`);
    t.equal(refused(overload, "another", 1), 0, "who asks for little is served");
    while (!overload.calm) await sleep(50);
    t.equal(refused(overload), 0);
    const [first] = log.lines;
    t.match(first, { level: "warn", message: "overloaded: new requests are refused" });
    while (log.lines.at(-1)?.message !== "no longer overloaded") await sleep(50);
    t.match(log.lines.at(-1)?.fields, { shed: /^\d+$/ });
  },
);

t.test("one late turn refuses nobody", async (t) => {
  const overload = new Overload({ delay: 50, heap: 0 }, () => new MemoryLog());
  t.teardown(() => overload.close());
  for (let i = 0; i < 3; i++) {
    block(300);
    // Looks at a loop that is on time.
    await sleep(300);
    t.equal(overload.calm, true);
  }
});

t.test("nor does a loop that comes late and rests in between: others have its core", async (t) => {
  const overload = new Overload({ delay: 10, heap: 0 }, () => new MemoryLog());
  t.teardown(() => overload.close());
  for (let i = 0; i < 25; i++) {
    refused(overload);
    block(60);
    await sleep(30);
    t.equal(overload.calm, true);
  }
});

t.test("all new requests are refused while the heap is nearly full", async (t) => {
  const overload = new Overload({ delay: 0, heap: 0.0001 }, () => new MemoryLog());
  t.teardown(() => overload.close());
  while (overload.calm) await sleep(20);
  t.equal(refused(overload), 100);
});

t.test("limits that are off refuse nobody", async (t) => {
  const overload = new Overload({ delay: 0, heap: 0 }, () => new MemoryLog());
  t.teardown(() => overload.close());
  for (let i = 0; i < 8; i++) {
    block(250);
    await sleep(1);
  }
  t.equal(refused(overload), 0);
});
