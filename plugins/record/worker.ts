import { parentPort, workerData } from "node:worker_threads";
import { Cleaner } from "./cleaner.ts";
import { isFull, lookOf, RecordFile } from "./file.ts";
import type { FromRecordThread, ToRecordThread, WorkerTerms } from "./messages.ts";

// The thread that removes secrets from recordings and writes them, so that no response waits for it.

const terms = workerData as WorkerTerms;
let file: RecordFile | undefined;
const opened = (): RecordFile => {
  file ??= new RecordFile(terms);
  return file;
};
try {
  opened();
} catch (thrown) {
  // A gateway also starts on a full disk: recordings are dropped and reported until there is space.
  if (!isFull(thrown)) throw thrown;
}
const tell = (message: FromRecordThread) => parentPort?.postMessage(message);

// Deletes expired recordings even if no new ones arrive. The timer does not keep the thread running.
setInterval(() => {
  try {
    file?.prune();
  } catch (thrown) {
    tell({ type: "kept too long", problem: (thrown as Error).message });
  }
}, lookOf(terms)).unref();

parentPort?.on("message", (message: ToRecordThread) => {
  if (message.type === "close") {
    file?.close();
    parentPort?.close();
    return;
  }
  const { exchange, secrets, size } = message;
  try {
    opened().keep(new Cleaner(terms, secrets).exchange(exchange));
    tell({ type: "done", size });
  } catch (thrown) {
    tell({ type: "done", size, problem: (thrown as Error).message });
  }
});
tell({ type: "ready" });
