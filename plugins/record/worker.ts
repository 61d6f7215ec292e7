import { parentPort, workerData } from "node:worker_threads";
import { isDiskFull, pruneInterval, RecordFile } from "./file.ts";
import type { FromRecordThread, RecordWorkerOptions, ToRecordThread } from "./messages.ts";
import { ExchangeRedactor } from "./redactor.ts";

// The thread that removes secrets from recordings and writes them, so that no response waits for it.

const options = workerData as RecordWorkerOptions;
let file: RecordFile | undefined;
const openFile = (): RecordFile => {
  file ??= new RecordFile(options);
  return file;
};
try {
  openFile();
} catch (thrown) {
  // A gateway also starts on a full disk: recordings are dropped and reported until there is space.
  if (!isDiskFull(thrown)) throw thrown;
}
const post = (message: FromRecordThread) => parentPort?.postMessage(message);

// Deletes expired recordings even if no new ones arrive. The timer does not keep the thread running.
setInterval(() => {
  try {
    file?.prune();
  } catch (thrown) {
    post({ type: "kept too long", problem: (thrown as Error).message });
  }
}, pruneInterval(options)).unref();

parentPort?.on("message", (message: ToRecordThread) => {
  if (message.type === "close") {
    file?.close();
    parentPort?.close();
    return;
  }
  const { exchange, secrets, size } = message;
  try {
    openFile().keep(new ExchangeRedactor(options, secrets).redact(exchange));
    post({ type: "done", size });
  } catch (thrown) {
    post({ type: "done", size, problem: (thrown as Error).message });
  }
});
post({ type: "ready" });
