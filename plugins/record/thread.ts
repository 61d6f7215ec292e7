import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Log } from "model-gateway";
import type { FromRecordThread, RawExchange, RawMessage, ToRecordThread, WorkerTerms } from "./messages.ts";

/** Milliseconds between two lines about what was dropped. */
const TELL = 60_000;
/** Milliseconds for which a look waits for what is still being written. */
const SETTLING = 2000;

/** This process's end of the thread that writes recordings. It never keeps the process running. */
export class RecordThread {
  /** Bytes on their way. */
  private waiting = 0;
  private dropped = 0;
  /** Why the file could not be written, of the last that was dropped for that. */
  private cause: string | undefined;
  private toldAt = 0;
  private ended = false;

  private constructor(
    private readonly worker: Worker,
    private readonly most: number,
    private readonly log: Log,
  ) {
    worker.unref();
    worker.on("message", (message: FromRecordThread) => this.hear(message));
    worker.on("error", (error: Error) => this.log.error({ cause: error.message }, "recording has ended"));
    worker.on("exit", () => {
      this.ended = true;
      this.waiting = 0;
    });
  }

  /** @param most bytes that may wait @throws Error where the file cannot be used */
  static async start(terms: WorkerTerms, most: number, log: Log): Promise<RecordThread> {
    const loader = import.meta.resolve("model-gateway/register");
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      execArgv: ["--import", loader],
      workerData: terms,
    });
    await once(worker, "message");
    return new RecordThread(worker, most, log);
  }

  /** Never waits: what is too much is dropped. */
  keep(exchange: RawExchange, secrets: readonly string[]): void {
    const size = sizeOf(exchange);
    if (this.ended || this.waiting + size > this.most) this.drop();
    else {
      this.waiting += size;
      this.post({ type: "keep", exchange, secrets, size });
    }
  }

  /** Waits a little until nothing is on its way. */
  async settled(): Promise<void> {
    const limit = AbortSignal.timeout(SETTLING);
    while (this.waiting > 0 && !limit.aborted) await once(this.worker, "message", { signal: limit }).catch(() => {});
  }

  /** Writes what waits. */
  async close(): Promise<void> {
    if (!this.ended) {
      const exit = once(this.worker, "exit");
      // A process that only waits for this must not end before.
      this.worker.ref();
      this.post({ type: "close" });
      await exit;
    }
    // Also what was on its way until now.
    if (this.dropped > 0) this.tell();
  }

  private post(message: ToRecordThread): void {
    this.worker.postMessage(message);
  }

  private hear(message: FromRecordThread): void {
    if (message.type === "kept too long")
      this.log.warn({ cause: message.problem }, "expired recordings could not be deleted");
    if (message.type !== "done") return;
    this.waiting -= message.size;
    if (message.problem !== undefined) this.drop(message.problem);
    else if (this.dropped > 0) this.tellInTime();
  }

  private drop(cause?: string): void {
    this.dropped++;
    this.cause = cause ?? this.cause;
    this.tellInTime();
  }

  /** The first at once, then how many there were since. */
  private tellInTime(): void {
    if (performance.now() - this.toldAt > TELL || this.toldAt === 0) this.tell();
  }

  private tell(): void {
    const { dropped, cause } = this;
    this.toldAt = performance.now();
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
