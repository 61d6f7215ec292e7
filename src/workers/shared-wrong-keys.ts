import { FailureLimiter } from "../core/failure-limiter.ts";
import { type Peers, type QuestionHandlers, question } from "../core/peers.ts";
import type { Keys } from "../store/keys.ts";

const WRONG_KEY = question<{ address: string; limit: number }, number | null>("wrong key");

/** Counts the wrong keys that all workers report. */
export function registerWrongKeys(answers: QuestionHandlers): void {
  const counts = new FailureLimiter();
  answers.set(WRONG_KEY, ({ address, limit }) => counts.add(address, limit) ?? null);
}

/** Makes keys report wrong ones to the process that counts them for all workers. */
export const shareWrongKeys = (keys: Pick<Keys, "shareWrongKeys">, peers: Peers): void =>
  keys.shareWrongKeys(async (address, limit) => (await peers.ask(WRONG_KEY, { address, limit })) ?? undefined);
