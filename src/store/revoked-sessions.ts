import type { SqlRunner } from "./sql-runner.ts";

/** Admin sessions that were ended early, for all gateways that share a store. */
export class RevokedSessions {
  constructor(private readonly database: SqlRunner) {}

  /**
   * Ends a session.
   * @param until Unix milliseconds at which it would expire; expired sessions are deleted
   * @throws the store's error when it cannot be written
   */
  async add(session: string, until: number, now = Date.now()): Promise<void> {
    await this.database.query("delete from signed_out where until < ?", now);
    await this.database.query("insert into signed_out values (?, ?) on conflict do nothing", session, until);
  }

  /** Reports whether it was ended. @throws the store's error when it cannot be read */
  async has(session: string): Promise<boolean> {
    return (await this.database.query("select 1 from signed_out where session = ?", session)).length > 0;
  }
}
