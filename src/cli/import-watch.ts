import { Worker } from "node:worker_threads";
import type { Extensions } from "../config/plugins.ts";
import { isBuiltIn, pluginFile } from "../loader/discover.ts";

/** Milliseconds after which a plugin that is still being imported or started is named. */
const LONG_IMPORT = 5000;

/** Names on standard error the first file of those that are being imported or started, which the others wait for. */
const WATCH = `
const { parentPort, workerData } = require("node:worker_threads");
const steps = [];
let timer;
parentPort.on("message", ({ begun, ended }) => {
  if (begun !== undefined) steps.push(begun);
  else steps.splice(steps.indexOf(ended), 1);
  clearTimeout(timer);
  if (steps.length === 0) return;
  const text = \`still \${steps[0]}: does its code run to its end?\\n\`;
  timer = setTimeout(() => require("node:fs").writeSync(2, text), workerData);
});`;

/** Extensions whose plugins are watched while they are imported, and what else of a plugin is to be watched. */
type Watched<T> = T & {
  /** Runs a plugin's constructor and methods, which may not end either. */
  starting<R>(file: string, run: () => Promise<R>): Promise<R>;
  close(): void;
};

/**
 * Returns extensions that name a plugin whose import or start takes long. From another thread: a plugin that never ends lets no timer
 * run in this one.
 */
export function withImportWatch<T extends Extensions>(extensions: T, longImport = LONG_IMPORT): Watched<T> {
  let worker: Worker | undefined;
  async function watched<R>(doing: string, file: string, run: () => Promise<R>): Promise<R> {
    if (isBuiltIn(file)) return run();
    worker ??= new Worker(WATCH, { eval: true, workerData: longImport, execArgv: [] });
    worker.unref();
    const step = `${doing} ${file}`;
    worker.postMessage({ begun: step });
    try {
      return await run();
    } finally {
      worker.postMessage({ ended: step });
    }
  }
  return {
    ...extensions,
    async plugin(name, from, folder) {
      const file = pluginFile(name, from, folder);
      const load = () => extensions.plugin(name, from, folder);
      return file === undefined ? load() : watched("importing", file, load);
    },
    starting: (file, run) => watched("starting", file, run),
    close() {
      void worker?.terminate();
    },
  };
}
