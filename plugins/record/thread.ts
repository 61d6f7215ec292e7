import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Log } from "model-gateway";
import type { FromRecordThread, RawExchange, RawMessage, RecordWorkerOptions, ToRecordThread } from "./messages.ts";

/** Milliseconds between two log messages about dropped recordings. */
const WARN_INTERVAL = 60_000;
/** Maximum milliseconds that a reader waits for pending writes. */
const SETTLE_TIMEOUT = 2000;

/** This process's handle of the thread that writes recordings. It never keeps the process running. */
export class RecordThread {
  /** Bytes queued at the thread. */
  private queuedBytes = 0;
  private dropped = 0;
  /** The last write error among the dropped recordings. */
  private cause: string | undefined;
  private warnedAt = 0;
  private ended = false;

  private constructor(
    private readonly worker: Worker,
    private readonly maxQueued: number,
    private readonly log: Log,
  ) {
    worker.unref();
    worker.on("message", (message: FromRecordThread) => this.onMessage(message));
    worker.on("error", (error: Error) => this.log.error({ cause: error.message }, "recording has ended"));
    worker.on("exit", () => {
      this.ended = true;
      this.queuedBytes = 0;
    });
  }

  /** Starts the thread. @param most maximum queued bytes @throws Error where the file cannot be used */
  static async start(terms: RecordWorkerOptions, most: number, log: Log): Promise<RecordThread> {
    const loader = import.meta.resolve("model-gateway/register");
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      execArgv: ["--import", loader],
      workerData: terms,
    });
    await once(worker, "message");
    return new RecordThread(worker, most, log);
  }

  /** Queues a recording without waiting: beyond the limit it is dropped. */
  keep(exchange: RawExchange, secrets: readonly string[]): void {
    const size = sizeOf(exchange);
    if (this.ended || this.queuedBytes + size > this.maxQueued) this.drop();
    else {
      this.queuedBytes += size;
      this.post({ type: "keep", exchange, secrets, size });
    }
  }

  /** Waits briefly until the queue is empty. */
  async settled(): Promise<void> {
    const limit = AbortSignal.timeout(SETTLE_TIMEOUT);
    while (this.queuedBytes > 0 && !limit.aborted)
      await once(this.worker, "message", { signal: limit }).catch(() => {});
  }

  /** Writes the queue, and ends the thread. */
  async close(): Promise<void> {
    if (!this.ended) {
      const exit = once(this.worker, "exit");
      // Otherwise a process with no other work would exit first.
      this.worker.ref();
      this.post({ type: "close" });
      await exit;
    }
    // Includes recordings dropped during the close.
    if (this.dropped > 0) this.warnDropped();
  }

  private post(message: ToRecordThread): void {
    this.worker.postMessage(message);
  }

  private onMessage(message: FromRecordThread): void {
    if (message.type === "kept too long")
      this.log.warn({ cause: message.problem }, "expired recordings could not be deleted");
    if (message.type !== "done") return;
    this.queuedBytes -= message.size;
    if (message.problem !== undefined) this.drop(message.problem);
    else if (this.dropped > 0) this.warnIfDue();
  }

  private drop(cause?: string): void {
    this.dropped++;
    this.cause = cause ?? this.cause;
    this.warnIfDue();
  }

  /** Logs the first drop at once, later ones as a count at intervals. */
  private warnIfDue(): void {
    if (performance.now() - this.warnedAt > WARN_INTERVAL || this.warnedAt === 0) this.warnDropped();
  }

  private warnDropped(): void {
    const { dropped, cause } = this;
    this.warnedAt = performance.now();
    this.log.warn(
      { dropped, ...(cause !== undefined && { cause }) },
      `exchanges were not recorded: ${cause === undefined ? "too many wait" : "the file cannot be written"}`,
    );
    this.dropped = 0;
    this.cause = undefined;
  }
}

const bytesIn = (message: RawMessage | undefined): number => (message?.body.length ?? 0) + 1024;

function sizeOf({ request, answer, attempts }: RawExchange): number {
  const ofAttempts = attempts.reduce((sum, each) => sum + bytesIn(each.request) + bytesIn(each.answer), 0);
  return bytesIn(request) + bytesIn(answer) + ofAttempts;
}
