/** The share of one of several processes in what gateway.yaml allows all of them together. */
import type { Config } from "./config/types.ts";
import type { AdmissionLimits } from "./core/admission.ts";
import type { BufferLimits } from "./core/buffer-memory.ts";
import type { RetryLimits } from "./core/marketplace.ts";

/** Divides the requests that run or wait among the processes. */
export const admissionShare = (
  { concurrency, per_key: perKey, queue, wait }: Pick<Config["overload"], "concurrency" | "per_key" | "queue" | "wait">,
  processes = 1,
): AdmissionLimits => ({
  concurrency: Math.ceil(concurrency / processes),
  perKey: Math.ceil(perKey / processes),
  queue: Math.ceil(queue / processes),
  wait,
});

/** The least memory of a process for answers: as one key may have half of it, one of the maximum size fits. */
const MIN_ANSWER_MEMORY = 128 * 1024 * 1024;

/** Divides the room for bodies among the processes; all of a key's connections may be at one of them. */
export const bodyShare = (room: number, perCaller: number, processes = 1): BufferLimits => ({
  perCaller,
  total: Math.max(room / processes, Math.min(room, perCaller)),
});

/** Divides the memory for answers among the processes. */
export function answerMemoryShare({ memory }: Config["answers"], processes = 1): BufferLimits {
  const total = Math.max(memory / processes, Math.min(memory, MIN_ANSWER_MEMORY));
  return { perCaller: total / 2, total };
}

/** Divides the retries that are always granted among the processes. */
export const retryShare = (limits: RetryLimits, processes = 1): RetryLimits => ({
  ...limits,
  least: limits.least / processes,
});
