import { parentPort, workerData } from "node:worker_threads";
import { Cleaner } from "./cleaner.ts";
import { isFull, lookOf, RecordFile } from "./file.ts";
import type { FromRecordThread, ToRecordThread, WorkerTerms } from "./messages.ts";

// The thread that takes secrets out of recordings and writes them, so that no answer waits for it.

const terms = workerData as WorkerTerms;
let file: RecordFile | undefined;
const opened = (): RecordFile => {
  file ??= new RecordFile(terms);
  return file;
};
try {
  opened();
} catch (thrown) {
  // A gateway starts on a full disk too: what comes is dropped and told, until there is room.
  if (!isFull(thrown)) throw thrown;
}
const tell = (message: FromRecordThread) => parentPort?.postMessage(message);

// What is over goes, whether anything comes behind it or not. It keeps nothing running.
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
