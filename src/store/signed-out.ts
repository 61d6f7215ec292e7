/** Sessions of the admin side that were ended before their time, for all gateways that share a store. */
export abstract class SignedOut {
  /**
   * Ends a session.
   * @param until Unix milliseconds at which it would have ended by itself; what is older than now is forgotten
   * @throws what the store says where it cannot be written
   */
  abstract add(session: string, until: number, now?: number): Promise<void>;
  /** Whether it was ended. @throws what the store says where it cannot be read */
  abstract has(session: string): Promise<boolean>;
}
