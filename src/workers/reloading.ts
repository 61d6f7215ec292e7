import { type Answers, question } from "../core/peers.ts";
import type { Gateway, Prepared } from "../gateway.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** What gateway.yaml says, as the primary has read it: all workers serve the same, whatever the file says by then. */
const PREPARE = question<string, true>("reload prepare");
const ADOPT = question<number, true>("reload adopt");
const DISCARD = question<null, true>("reload discard");

/** Milliseconds for all workers to build a generation. */
const PREPARING = 70_000;

/** Obeys the primary. */
export function answerReloads(answers: Answers, gateway: Gateway): void {
  let prepared: Prepared | undefined;
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
 * Has all workers serve another gateway.yaml: each builds its generation, and only when all are ready they serve it.
 * @param generation its number, in all of them
 * @throws Error with what the first one says that cannot: none has changed then
 */
export async function reloadAll(workers: readonly WorkerProcess[], text: string, generation: number): Promise<void> {
  const ready = await Promise.allSettled(workers.map((worker) => worker.ask(PREPARE, text, PREPARING)));
  // One that has died meanwhile is replaced, by one that serves what is in force then.
  const failed = ready.find((each, i) => each.status === "rejected" && workers[i]?.serving);
  const end = (worker: WorkerProcess) =>
    failed ? worker.ask(DISCARD, null, PREPARING) : worker.ask(ADOPT, generation, PREPARING);
  await Promise.allSettled(workers.map(end));
  if (failed?.status === "rejected") throw failed.reason;
}
