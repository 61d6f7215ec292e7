import { type Peers, type QuestionHandlers, question } from "../core/peers.ts";

/** Reports a warning that all workers have reason for. */
const WARNING = question<string, null>("store warning");

/** Makes the process that answers for all workers log each of their warnings once. */
export function registerWarnings(answers: QuestionHandlers, warn: (message: string) => void): void {
  const logged = new Set<string>();
  answers.set(WARNING, (message) => {
    if (!logged.has(message)) warn(message);
    logged.add(message);
    return null;
  });
}

/** Returns the function that reports a warning to that process. */
export const warnOnce =
  (peers: Peers) =>
  (message: string): void =>
    void peers.ask(WARNING, message).catch(() => {});
