import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { basename } from "node:path";
import { parentPort } from "node:worker_threads";
import { StoreUnavailableError } from "../../core/errors.ts";
import type { LedgerWarn } from "../ledger.ts";
import { type LedgerStore, openLedgerStore } from "../ledger-store.ts";
import { Retention } from "../retention.ts";
import { storeErrorMessage } from "../sqlite/errors.ts";
import { JournalFeeder } from "./feeder.ts";
import { MAX_LAG } from "./files.ts";
import { LagWatch } from "./lag-watch.ts";
import type { FromLedgerThread, LedgerRequest, ToLedgerThread } from "./ledger-messages.ts";
import { StoreLineConsumer } from "./store-line-consumer.ts";

// The thread that feeds a process's ledgers from their journals and answers queries about them, so that none of this blocks the
// thread that serves requests.

/** Milliseconds between touches of the own journal, and between checks for abandoned journals. */
const CHECK_INTERVAL = 1000;

/** Niceness of this thread: requests on the same core have priority over it. */
const NICE = 10;

function lowerPriority(): void {
  try {
    // On Linux each thread has its own priority, and this link resolves to the id of the thread that reads it.
    setPriority(Number(basename(readlinkSync("/proc/thread-self"))), NICE);
  } catch {
    // Elsewhere the priority stays as it is.
  }
}

const post = (message: FromLedgerThread): void => parentPort?.postMessage(message);

/** One ledger in this thread. */
class WorkerLedger {
  private readonly feeder: JournalFeeder;
  private readonly timer: NodeJS.Timeout;
  private readonly retention: Retention;
  private state: "ok" | "waiting" = "ok";
  /** `performance.now()` since which the journal cannot be written; undefined: it can. */
  private unwrittenSince: number | undefined;
  private adopting = false;
  private readonly lag: LagWatch;
  /** Why abandoned journals could not be read at the last check. */
  private lastAdoptError = "";

  private constructor(
    private readonly number: number,
    { folder, owner, keep }: Extract<LedgerRequest, { type: "open" }>,
    private readonly store: LedgerStore,
    warn: LedgerWarn,
  ) {
    this.feeder = new JournalFeeder(folder, owner, new StoreLineConsumer(store), warn);
    this.lag = new LagWatch(warn);
    this.retention = new Retention(store, keep, warn);
    this.timer = setInterval(() => this.check(), CHECK_INTERVAL);
    this.check();
  }

  /** @throws Error when the store cannot be opened */
  static async open(number: number, options: Extract<LedgerRequest, { type: "open" }>): Promise<WorkerLedger> {
    const warn: LedgerWarn = (message, _fields, over = false) =>
      post({ type: "warning", ledger: number, message, over });
    return new WorkerLedger(number, options, await openLedgerStore(options.store, options.durable, warn), warn);
  }

  async handle(ask: LedgerRequest): Promise<unknown> {
    switch (ask.type) {
      case "feed":
        return this.feeder.feed(ask);
      case "ask": {
        const { ledger } = this.store;
        return (ledger[ask.method] as (...args: readonly unknown[]) => unknown).apply(ledger, ask.args);
      }
      case "prunedBefore":
        return (await this.store.age(Date.now())).pruned;
      case "journal":
        this.unwrittenSince = ask.writable ? undefined : performance.now();
        return undefined;
      case "backlog":
        return this.feeder.backlog();
      case "close":
        return this.close(ask.wait);
      default:
        return undefined;
    }
  }

  private check(): void {
    this.feeder.touch(this.unwrittenSince);
    const since = this.feeder.behindSince;
    this.lag.check(since);
    this.store.ledger.probe();
    const behind = since !== undefined && performance.now() - since > MAX_LAG;
    const state = behind ? "waiting" : this.store.ledger.state;
    if (state !== this.state) post({ type: "state", ledger: this.number, state });
    this.state = state;
    if (this.adopting) return;
    this.adopting = true;
    this.feeder.adopt().then(
      () => {
        this.adopting = false;
        this.lastAdoptError = "";
      },
      ({ message }: Error) => {
        this.adopting = false;
        if (message !== this.lastAdoptError)
          post({
            type: "warning",
            ledger: this.number,
            message: `A journal cannot be read: ${message}. It stays, and is tried again.`,
          });
        this.lastAdoptError = message;
      },
    );
  }

  /** @param wait milliseconds for a store that is down */
  private async close(wait: number): Promise<void> {
    clearInterval(this.timer);
    await this.retention.stop(wait);
    const late = setTimeout(() => this.feeder.stop(), wait);
    const done = await this.feeder.drain();
    clearTimeout(late);
    this.feeder.stop();
    if (done) this.feeder.removeJournal();
    await this.store.close();
  }
}

lowerPriority();
const ledgers = new Map<number, Promise<WorkerLedger>>();

async function handleMessage(message: ToLedgerThread): Promise<unknown> {
  if (message.type === "open") {
    const opened = WorkerLedger.open(message.ledger, message);
    ledgers.set(message.ledger, opened);
    opened.catch(() => ledgers.delete(message.ledger));
    await opened;
    return;
  }
  const ledger = await ledgers.get(message.ledger)?.catch(() => {});
  if (!ledger) throw new Error("this ledger is not open");
  if (message.type === "close") ledgers.delete(message.ledger);
  const answer = ledger.handle(message);
  // If no answer is expected, nothing waits for a store that is down.
  return message.call === 0 ? undefined : answer;
}

parentPort?.on("message", (message: ToLedgerThread) => {
  const { call } = message;
  handleMessage(message).then(
    (value) => call > 0 && post({ type: "answer", call, value }),
    (thrown: Error) =>
      call > 0 &&
      post({ type: "answer", call, error: storeErrorMessage(thrown), away: thrown instanceof StoreUnavailableError }),
  );
});
