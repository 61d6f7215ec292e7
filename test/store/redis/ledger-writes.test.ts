import t from "tap";
import { LedgerWrites } from "../../../src/store/redis/ledger-writes.ts";

/** A journal that grows, and a ledger that is written when it is told to. */
function made() {
  const state = { position: 10, flushes: [] as PromiseWithResolvers<void>[] };
  const flush = () => {
    const flushing = Promise.withResolvers<void>();
    state.flushes.push(flushing);
    return flushing.promise;
  };
  return { state, writes: new LedgerWrites(() => ({ journal: "j", position: state.position }), flush) };
}

t.test("what was in the journal when a write began is stored when it has ended", async (t) => {
  const { state, writes } = made();
  const written = writes.write();
  state.position = 20;
  t.equal(writes.write(), written, "one write at a time");
  t.same([writes.stored, writes.position], [0, 20]);
  state.flushes[0]?.resolve();
  await written;
  t.equal(writes.stored, 10);
});

t.test("all that was spent until now is written after a write that runs, even if that one fails", async (t) => {
  const { state, writes } = made();
  const first = writes.write();
  state.position = 20;
  const all = writes.writeAll();
  state.flushes[0]?.reject(new Error("away"));
  await t.rejects(first, { message: "away" });
  t.equal(writes.stored, 0);
  await new Promise(setImmediate);
  state.flushes[1]?.resolve();
  await all;
  t.equal(writes.stored, 20);
});

t.test("a ledger that cannot be written is reported", async (t) => {
  const { state, writes } = made();
  const all = t.rejects(writes.writeAll(), { message: "away" });
  await new Promise(setImmediate);
  state.flushes[0]?.reject(new Error("away"));
  await all;
});
