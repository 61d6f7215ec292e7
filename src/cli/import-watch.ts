import { Worker } from "node:worker_threads";
import type { Extensions } from "../config/plugins.ts";
import { isBuiltIn, pluginFile } from "../loader/discover.ts";

/** Milliseconds after which a plugin that is still being imported is named. */
const LONG_IMPORT = 5000;

/** Names on standard error the first file of those that are being imported, which the others wait for. */
const WATCH = `
const { parentPort, workerData } = require("node:worker_threads");
const files = [];
let timer;
parentPort.on("message", ({ begun, ended }) => {
  if (begun !== undefined) files.push(begun);
  else files.splice(files.indexOf(ended), 1);
  clearTimeout(timer);
  if (files.length === 0) return;
  const text = \`still importing \${files[0]}: does its code run to its end?\\n\`;
  timer = setTimeout(() => require("node:fs").writeSync(2, text), workerData);
});`;

/**
 * Returns extensions that name a plugin whose import takes long. From another thread: a plugin that never ends lets no timer run in
 * this one.
 */
export function withImportWatch<T extends Extensions>(extensions: T, longImport = LONG_IMPORT): T & { close(): void } {
  let worker: Worker | undefined;
  return {
    ...extensions,
    async plugin(name, from, folder) {
      const file = pluginFile(name, from, folder);
      if (file === undefined || isBuiltIn(file)) return extensions.plugin(name, from, folder);
      worker ??= new Worker(WATCH, { eval: true, workerData: longImport, execArgv: [] });
      worker.unref();
      worker.postMessage({ begun: file });
      try {
        return await extensions.plugin(name, from, folder);
      } finally {
        worker.postMessage({ ended: file });
      }
    },
    close() {
      void worker?.terminate();
    },
  };
}
