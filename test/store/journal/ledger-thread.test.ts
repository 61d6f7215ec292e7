import { join } from "node:path";
import t from "tap";
import { LedgerThread } from "../../../src/store/journal/ledger-thread.ts";

t.test("a process has one thread for all its ledgers, which does not keep it running", async (t) => {
  const thread = LedgerThread.shared();
  t.equal(LedgerThread.shared(), thread);
  await t.rejects(thread.request(12345, { type: "ask", method: "sums", args: [{ by: [] }] }), /not open/);
});

t.test("a store that cannot be opened is reported, and so is every query to it", async (t) => {
  const store = join(t.testdir({ file: "" }), "file", "gateway.db");
  const warned = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<void>();
  const listener = { warn: warned.resolve, onState: () => {}, onEnded: ended.resolve };
  const thread = LedgerThread.shared();
  const ledger = thread.open({ store, folder: `${store}.journal`, owner: "1-1-1", durable: false, keep: 0 }, listener);
  t.match(await warned.promise, /cannot be used/);
  await ended.promise;
  await t.rejects(thread.request(ledger, { type: "ask", method: "recent", args: [1] }), /not open/);
});
