import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import t from "tap";
import { journalFile, journalFolder } from "../../../src/store/journal/files.ts";
import type { FromLedgerThread, LedgerRequest } from "../../../src/store/journal/ledger-messages.ts";
import type { LedgerEntry } from "../../../src/store/ledger.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";

const LOADER = new URL("../../../src/loader/register.js", import.meta.url).href;

t.test("the thread feeds a ledger from its journal, answers queries about it, and closes it", async (t) => {
  const worker = new Worker(new URL("../../../src/store/journal/ledger-worker.ts", import.meta.url), {
    execArgv: ["--import", LOADER],
  });
  t.teardown(() => worker.terminate());
  let calls = 0;
  const ask = async (question: LedgerRequest) => {
    const call = ++calls;
    worker.postMessage({ ledger: 1, call, ...question });
    const [message] = (await once(worker, "message")) as [FromLedgerThread];
    t.match(message, { type: "answer", call });
    return message as Extract<FromLedgerThread, { type: "answer" }>;
  };
  const store = join(t.testdir({ "gateway.db.journal": {} }), "gateway.db");
  const folder = journalFolder(store);
  t.match(await ask({ type: "ask", method: "recent", args: [1] }), { error: "this ledger is not open" });
  t.notOk((await ask({ type: "open", store, folder, owner: "1-1-1", durable: false, keep: 0 })).error);
  const entry: LedgerEntry = {
    ...{ id: "1", time: 5, key: "k", model: "m", target: "p:m", protocol: "wire", operation: "generate", status: 200 },
    ...{ outcome: "completed", streaming: false, attempts: [], duration: 1, source: "none" },
  };
  const { kind, values } = entryToRow(entry);
  const text = `${JSON.stringify(["ended", [kind, values]])}\n`;
  writeFileSync(journalFile(folder, "1-1-1", 1), text);
  await ask({ type: "feed", number: 1, size: text.length });
  t.match((await ask({ type: "ask", method: "recent", args: [5] })).value, [{ id: "1", key: "k" }]);
  t.match((await ask({ type: "ask", method: "sums", args: [{ by: [] }] })).value, [{ requests: 1 }]);
  t.notOk((await ask({ type: "close", wait: 100 })).error);
  t.match(await ask({ type: "ask", method: "recent", args: [5] }), { error: "this ledger is not open" });
});
