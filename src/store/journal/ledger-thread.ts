import { Worker } from "node:worker_threads";
import { StoreAway } from "../../core/errors.ts";
import type { LedgerWarn } from "../ledger.ts";
import type { FromLedgerThread, LedgerAsk, ToLedgerThread } from "./ledger-messages.ts";

/** What a ledger hears of its thread by itself. */
export interface LedgerListener {
  warn: LedgerWarn;
  state(state: "ok" | "waiting"): void;
  /** The thread does not know it any more: it has died, or cannot open the store. What was not read stands in the journal. */
  ended(): void;
}

/** The thread of this process, started with its first ledger. It never keeps the process running. */
let thread: LedgerThread | undefined;

/** This process's end of the thread that feeds its ledgers. */
export class LedgerThread {
  private readonly worker: Worker;
  private readonly listeners = new Map<number, LedgerListener>();
  private readonly calls = new Map<number, PromiseWithResolvers<unknown>>();
  private ledgers = 0;
  private called = 0;

  private constructor() {
    const loader = new URL("../../loader/register.js", import.meta.url).href;
    this.worker = new Worker(new URL("./ledger-worker.ts", import.meta.url), { execArgv: ["--import", loader] });
    this.worker.unref();
    this.worker.on("message", (message: FromLedgerThread) => this.hear(message));
    this.worker.on("error", (thrown: Error) => this.end(thrown));
    this.worker.on("exit", (code) => this.end(new Error(`exit code ${code}`)));
  }

  static shared(): LedgerThread {
    thread ??= new LedgerThread();
    return thread;
  }

  /** @returns the number by which to ask about a ledger */
  open(place: Omit<Extract<LedgerAsk, { type: "open" }>, "type">, listener: LedgerListener): number {
    const ledger = ++this.ledgers;
    this.listeners.set(ledger, listener);
    this.ask(ledger, { type: "open", ...place }).catch((thrown: Error) => {
      // Where the thread has died that is told already.
      if (!this.listeners.delete(ledger)) return;
      listener.warn(thrown.message);
      listener.ended();
    });
    return ledger;
  }

  /** Tells the thread something, and wants no answer. */
  tell(ledger: number, ask: LedgerAsk): void {
    this.post({ ledger, call: 0, ...ask });
  }

  /** @throws Error what the thread's store says */
  ask(ledger: number, ask: LedgerAsk): Promise<unknown> {
    const answer = Promise.withResolvers<unknown>();
    const call = ++this.called;
    this.calls.set(call, answer);
    // Who waits for an answer wants to be there when it comes.
    this.worker.ref();
    this.post({ ledger, call, ...ask });
    return answer.promise;
  }

  /** Closes a ledger; nothing is heard of it any more. @param wait milliseconds for a store that is down */
  async close(ledger: number, wait: number): Promise<void> {
    await this.ask(ledger, { type: "close", wait }).finally(() => this.listeners.delete(ledger));
  }

  private post(message: ToLedgerThread): void {
    this.worker.postMessage(message);
  }

  private hear(message: FromLedgerThread): void {
    if (message.type === "warning") this.listeners.get(message.ledger)?.warn(message.message, undefined, message.over);
    else if (message.type === "state") this.listeners.get(message.ledger)?.state(message.state);
    else {
      const answer = this.calls.get(message.call);
      this.calls.delete(message.call);
      if (this.calls.size === 0) this.worker.unref();
      if (message.error === undefined) answer?.resolve(message.value);
      else answer?.reject(message.away ? new StoreAway(message.error) : new Error(message.error));
    }
  }

  /** The thread has died: what it has not put into the ledger stands in the journals, and another one reads it. */
  private end(thrown: Error): void {
    if (thread === this) thread = undefined;
    const listeners = [...this.listeners.values()];
    this.listeners.clear();
    for (const { warn, ended } of listeners) {
      warn(`The ledger's thread has ended: ${thrown.message}. Its journal goes on, and another one reads it.`);
      ended();
    }
    for (const { reject } of this.calls.values()) reject(thrown);
    this.calls.clear();
  }
}
