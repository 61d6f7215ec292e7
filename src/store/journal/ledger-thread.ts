import { Worker } from "node:worker_threads";
import { StoreUnavailableError } from "../../core/errors.ts";
import type { LedgerWarn } from "../ledger.ts";
import type { FromLedgerThread, LedgerRequest, ToLedgerThread } from "./ledger-messages.ts";

/** Receives a ledger's events from its thread. */
export interface LedgerListener {
  warn: LedgerWarn;
  onState(state: "ok" | "waiting"): void;
  /** The thread has died or cannot open the store, and no longer knows the ledger. Unread lines stay in the journal. */
  onEnded(): void;
}

/** Megabytes of the thread's young generation: V8's default takes 10 to 15 MB more, without storing a row faster. */
const YOUNG_MB = 8;

/** The thread of this process, started with its first ledger. It does not keep the process alive. */
let thread: LedgerThread | undefined;

/** The main thread's side of the thread that feeds its ledgers. */
export class LedgerThread {
  private readonly worker: Worker;
  private readonly listeners = new Map<number, LedgerListener>();
  private readonly calls = new Map<number, PromiseWithResolvers<unknown>>();
  private ledgers = 0;
  private lastCall = 0;

  private constructor() {
    const loader = new URL("../../loader/register.js", import.meta.url).href;
    this.worker = new Worker(new URL("./ledger-worker.ts", import.meta.url), {
      execArgv: ["--import", loader],
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.worker.unref();
    this.worker.on("message", (message: FromLedgerThread) => this.onMessage(message));
    this.worker.on("error", (thrown: Error) => this.onExit(thrown));
    this.worker.on("exit", (code) => this.onExit(new Error(`exit code ${code}`)));
  }

  static shared(): LedgerThread {
    thread ??= new LedgerThread();
    return thread;
  }

  /** @returns the id of the ledger for later requests */
  open(options: Omit<Extract<LedgerRequest, { type: "open" }>, "type">, listener: LedgerListener): number {
    const ledger = ++this.ledgers;
    this.listeners.set(ledger, listener);
    this.request(ledger, { type: "open", ...options }).catch((thrown: Error) => {
      // A thread's death has already been reported.
      if (!this.listeners.delete(ledger)) return;
      listener.warn(thrown.message);
      listener.onEnded();
    });
    return ledger;
  }

  /** Sends a message without expecting an answer. */
  send(ledger: number, ask: LedgerRequest): void {
    this.post({ ledger, call: 0, ...ask });
  }

  /** Sends a request. @throws Error of the thread's store */
  request(ledger: number, ask: LedgerRequest): Promise<unknown> {
    const answer = Promise.withResolvers<unknown>();
    const call = ++this.lastCall;
    this.calls.set(call, answer);
    // A pending request keeps the process alive.
    this.worker.ref();
    this.post({ ledger, call, ...ask });
    return answer.promise;
  }

  /** Closes a ledger; its events end. @param wait milliseconds for a store that is down */
  async close(ledger: number, wait: number): Promise<void> {
    await this.request(ledger, { type: "close", wait }).finally(() => this.listeners.delete(ledger));
  }

  private post(message: ToLedgerThread): void {
    this.worker.postMessage(message);
  }

  private onMessage(message: FromLedgerThread): void {
    if (message.type === "warning") this.listeners.get(message.ledger)?.warn(message.message, undefined, message.over);
    else if (message.type === "state") this.listeners.get(message.ledger)?.onState(message.state);
    else {
      const answer = this.calls.get(message.call);
      this.calls.delete(message.call);
      if (this.calls.size === 0) this.worker.unref();
      if (message.error === undefined) answer?.resolve(message.value);
      else answer?.reject(message.away ? new StoreUnavailableError(message.error) : new Error(message.error));
    }
  }

  /** Handles the thread's death: unwritten rows are in the journals, and a new thread reads them. */
  private onExit(thrown: Error): void {
    if (thread === this) thread = undefined;
    const listeners = [...this.listeners.values()];
    this.listeners.clear();
    for (const { warn, onEnded } of listeners) {
      warn(`The ledger's thread has ended: ${thrown.message}. Its journal goes on, and another one reads it.`);
      onEnded();
    }
    for (const { reject } of this.calls.values()) reject(thrown);
    this.calls.clear();
  }
}
