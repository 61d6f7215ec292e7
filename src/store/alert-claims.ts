import type { KeptValues } from "./kept-values.ts";

/** The state of a subject whose alert has ended. */
export const RESOLVED = "resolved";

/** Where the subjects with an alert are kept, for a year. */
const [SPACE, NAME] = ["alerts", "open"] as const;
const TERMS = { milliseconds: 365 * 86_400_000, bytes: 1024 * 1024 };

/** Decides which of several gateways sends an alert that all of them have noticed, and remembers which alerts have not ended. */
export class AlertClaims {
  /** @param values where one gateway keeps its alerts; absent: it forgets them with its process */
  constructor(private readonly values?: KeptValues) {}

  /**
   * Reports whether this gateway sends the alert: no gateway has sent this state of the subject within `_timeout`. With a store
   * for one gateway it always does.
   * @param _timeout milliseconds
   * @param ordered whether states are ordered as text: one that is lower than the last is then never sent. Such an alert, like a
   * budget's, has no end, and is not remembered for one
   * @throws Error when the store does not respond
   */
  async claim(subject: string, state: string, _timeout: number, ordered: boolean): Promise<boolean> {
    if (!this.values || ordered) return true;
    const open = new Set(await this.unresolved());
    const had = open.has(subject);
    if (state === RESOLVED) open.delete(subject);
    else open.add(subject);
    if (open.has(subject) !== had) await this.values.set(SPACE, NAME, Buffer.from(JSON.stringify([...open])), TERMS);
    return true;
  }

  /**
   * Lets another gateway claim an alert that this one could not send, while the state is the same.
   * @throws Error when the store does not respond
   */
  async release(subject: string, state: string): Promise<void> {
    // An end that is not told is still to be told after a restart.
    if (state === RESOLVED) await this.claim(subject, "", 0, false);
  }

  /** Returns the subjects whose alert has not ended, of former processes too. @throws Error when the store does not respond */
  async unresolved(): Promise<readonly string[]> {
    const kept = await this.values?.get(SPACE, NAME);
    return kept ? (JSON.parse(kept.toString()) as string[]) : [];
  }
}
