import type { JournalEnd } from "../ledger.ts";

/** Writes what was spent here to the ledger's store, and knows how far that has come. */
export class LedgerWrites {
  /** The position up to which this process's rows are in the ledger's store. */
  stored = 0;
  private writing: Promise<void> | undefined;

  /**
   * @param place returns where this process's rows so far end in its journal
   * @param flush waits until everything spent here is in the ledger, visible to others; rejects when the ledger cannot be written
   */
  constructor(
    private readonly place: () => JournalEnd,
    private readonly flush: () => Promise<void>,
  ) {}

  /** The position at which this process's rows so far end in its journal. */
  get position(): number {
    return this.place().position;
  }

  /** Writes what was spent when the running write began, or until now. */
  write(): Promise<void> {
    this.writing ??= this.writeOnce().finally(() => (this.writing = undefined));
    return this.writing;
  }

  /** Writes everything spent until now. @throws Error when the ledger cannot be written */
  async writeAll(): Promise<void> {
    await this.writing?.catch(() => {});
    await this.write();
  }

  private async writeOnce(): Promise<void> {
    const { position } = this;
    await this.flush();
    this.stored = position;
  }
}
