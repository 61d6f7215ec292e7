/** Admin sessions that were ended early, for all gateways that share a store. */
export abstract class RevokedSessions {
  /**
   * Ends a session.
   * @param until Unix milliseconds at which it would expire; expired sessions are deleted
   * @throws the store's error when it cannot be written
   */
  abstract add(session: string, until: number, now?: number): Promise<void>;
  /** Reports whether it was ended. @throws the store's error when it cannot be read */
  abstract has(session: string): Promise<boolean>;
}
