import { once } from "node:events";
import { Worker } from "node:worker_threads";
import t from "tap";
import { sleepSync } from "../../src/store/sleep-sync.ts";

/** Sets a flag a while after it has said that it runs. */
const SETTING = `
  const { parentPort, workerData } = require("node:worker_threads");
  parentPort.postMessage("runs");
  setTimeout(() => Atomics.store(workerData, 0, 1), 100);
`;

t.test("other threads go on while this one sleeps", async (t) => {
  const flag = new Int32Array(new SharedArrayBuffer(4));
  const other = new Worker(SETTING, { eval: true, workerData: flag });
  await once(other, "message");
  for (let i = 0; i < 1000 && Atomics.load(flag, 0) === 0; i++) sleepSync(20);
  t.equal(Atomics.load(flag, 0), 1);
  await once(other, "exit");
});
