import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { basename } from "node:path";
import { parentPort } from "node:worker_threads";
import { JournalFeeder } from "./journal-feeder.ts";
import type { FromLedgerThread, LedgerAsk, ToLedgerThread } from "./ledger-messages.ts";
import { Database } from "./sqlite.ts";
import { SqliteLedger } from "./sqlite-ledger.ts";
import { Retention } from "./sqlite-pruning.ts";

// The thread that feeds the ledgers of a process from their journals and answers questions about them: nothing of it keeps
// the thread waiting that serves requests.

/** Milliseconds between two signs of life, and between two looks at journals that may be nobody's. */
const LOOK = 1000;

/** Whoever shares a core with this thread goes first: what it does can wait, requests cannot. */
const NICE = 10;

function giveWay(): void {
  try {
    // On Linux each thread has a priority of its own, and this link ends in the number of the one that reads it.
    setPriority(Number(basename(readlinkSync("/proc/thread-self"))), NICE);
  } catch {
    // Elsewhere it shares as all do.
  }
}

const tell = (message: FromLedgerThread): void => parentPort?.postMessage(message);

/** One ledger in this thread. */
class FedLedger {
  private readonly database: Database;
  private readonly ledger: SqliteLedger;
  private readonly feeder: JournalFeeder;
  private readonly timer: NodeJS.Timeout;
  private readonly retention: Retention;
  private state: "ok" | "waiting" = "ok";
  private adopting = false;
  /** Journals were seen that may be nobody's in a moment. */
  private others = true;

  constructor(
    private readonly number: number,
    { store, folder, owner, durable, keep }: Extract<LedgerAsk, { type: "open" }>,
  ) {
    const warn = (message: string) => tell({ type: "warning", ledger: number, message });
    // Journals end once their rows are here: these survive what those did.
    this.database = new Database(store, durable);
    this.ledger = new SqliteLedger(this.database, warn);
    this.retention = new Retention(this.database, keep, warn);
    this.feeder = new JournalFeeder(folder, owner, this.ledger);
    this.timer = setInterval(() => this.look(), LOOK);
    this.look();
  }

  async answer(ask: LedgerAsk): Promise<unknown> {
    switch (ask.type) {
      case "feed":
        return this.feeder.feed(ask);
      case "sums":
        return this.ledger.sums(ask.query);
      case "recent":
        return this.ledger.recent(ask.limit);
      case "page":
        return this.ledger.page(ask.span, ask.after);
      case "close":
        return this.close(ask.wait);
      default:
        return undefined;
    }
  }

  private look(): void {
    this.feeder.touch();
    const { state } = this.ledger;
    if (state !== this.state) tell({ type: "state", ledger: this.number, state });
    this.state = state;
    if (!this.others || this.adopting) return;
    this.adopting = true;
    this.feeder.adopt().then(
      (others) => {
        this.adopting = false;
        this.others = others;
      },
      (thrown: Error) => {
        this.adopting = false;
        tell({ type: "warning", ledger: this.number, message: `A journal cannot be read: ${thrown.message}.` });
      },
    );
  }

  /** @param wait milliseconds for a store that is down */
  private async close(wait: number): Promise<void> {
    clearInterval(this.timer);
    await this.retention.stop();
    const late = setTimeout(() => this.feeder.stop(), wait);
    const done = await this.feeder.rest();
    clearTimeout(late);
    this.feeder.stop();
    if (done) this.feeder.end();
    await this.ledger.close();
    this.database.close();
  }
}

giveWay();
const ledgers = new Map<number, FedLedger>();

async function answered(message: ToLedgerThread): Promise<unknown> {
  if (message.type === "open") {
    ledgers.set(message.ledger, new FedLedger(message.ledger, message));
    return;
  }
  const ledger = ledgers.get(message.ledger);
  if (!ledger) throw new Error("this ledger is not open");
  if (message.type === "close") ledgers.delete(message.ledger);
  return ledger.answer(message);
}

parentPort?.on("message", (message: ToLedgerThread) => {
  const { call } = message;
  answered(message).then(
    (value) => call > 0 && tell({ type: "answer", call, value }),
    (thrown: Error) => call > 0 && tell({ type: "answer", call, error: thrown.message }),
  );
});
