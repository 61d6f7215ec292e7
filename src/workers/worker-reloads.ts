import { type QuestionHandlers, question } from "../core/peers.ts";
import type { Gateway, PreparedReload } from "../gateway.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** The gateway.yaml as the primary has read it: all workers serve the same text, even if the file changes in between. */
const PREPARE = question<string, true>("reload prepare");
const ADOPT = question<number, true>("reload adopt");
const DISCARD = question<null, true>("reload discard");

/** Milliseconds for all workers to build a generation. */
const PREPARE_TIMEOUT = 70_000;

/** Handles the primary's reload messages in a worker. */
export function registerReloads(answers: QuestionHandlers, gateway: Gateway): void {
  let prepared: PreparedReload | undefined;
  const discard = async () => {
    if (prepared) await gateway.discard(prepared);
    prepared = undefined;
    return true as const;
  };
  answers.set(PREPARE, async (text) => {
    await discard();
    prepared = await gateway.prepare(text);
    return true as const;
  });
  answers.set(ADOPT, (generation) => {
    if (prepared) gateway.adopt(prepared, generation);
    prepared = undefined;
    return true as const;
  });
  answers.set(DISCARD, discard);
}

/**
 * Makes all workers serve another gateway.yaml: each builds its generation, and they switch only when all are ready.
 * @param generation its number, in all of them
 * @throws Error with the message of the first worker that failed; no worker has switched then
 */
export async function reloadWorkers(
  workers: readonly WorkerProcess[],
  text: string,
  generation: number,
): Promise<void> {
  const ready = await Promise.allSettled(workers.map((worker) => worker.ask(PREPARE, text, PREPARE_TIMEOUT)));
  // A worker that died meanwhile is replaced by one with the current configuration.
  const failed = ready.find((each, i) => each.status === "rejected" && workers[i]?.serving);
  const end = (worker: WorkerProcess) =>
    failed ? worker.ask(DISCARD, null, PREPARE_TIMEOUT) : worker.ask(ADOPT, generation, PREPARE_TIMEOUT);
  await Promise.allSettled(workers.map(end));
  if (failed?.status === "rejected") throw failed.reason;
}
