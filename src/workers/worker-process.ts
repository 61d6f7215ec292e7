import { type ChildProcess, fork } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Readiness } from "../admin/readiness.ts";
import type { Question } from "../core/peers.ts";
import type { Unwritten } from "../store/ledger.ts";
import { KnownReason } from "../text/reason.ts";
import type { PrimaryAnswer, ToPrimary, ToWorker } from "./messages.ts";

const ENTRY = fileURLToPath(new URL("./main.ts", import.meta.url));
/** Milliseconds after which a connection that was not taken says that its worker is busy. */
const BUSY = 1000;

/** Who hears of a worker. */
interface WorkerListener {
  /** Whole lines that it has written. */
  lines(bytes: Buffer, from: "stdout" | "stderr"): void;
  message(message: ToPrimary, from: WorkerProcess): void;
  /** It has ended; these connections it never took. */
  ended(worker: WorkerProcess, untaken: readonly Socket[]): void;
}

/** One worker, as the primary sees it. */
export class WorkerProcess {
  /** Settles when it serves; rejects when it ends before. */
  readonly ready: Promise<void>;
  /** It serves. */
  serving = false;
  /** It does, or did before it ended. */
  served = false;
  /** It gets no more connections. */
  leaving = false;
  /** What it said of its parts when it was last looked at. */
  parts: Readiness["parts"] = {};
  /** What it could not write of the ledger's journal, as it said then. */
  unwritten: Unwritten | undefined;
  /** `performance.now()` when it last said anything. */
  heardAt = performance.now();
  readonly startedAt = performance.now();
  private readonly child: ChildProcess;
  /** Connections it has, taken or not. */
  private open = 0;
  private given = 0;
  /** Connections it has not taken yet, with the time of each. */
  private readonly untaken = new Map<number, { socket: Socket; at: number }>();

  private asked = 0;
  /** Questions that it has not answered yet. */
  private readonly asking = new Map<number, PromiseWithResolvers<unknown>>();

  /**
   * @param args what `main.ts` of this folder takes
   * @param text the gateway.yaml that it serves
   * @param generation the number of what it serves
   */
  constructor(
    args: readonly string[],
    public text: string,
    generation: number,
    private readonly listener: WorkerListener,
  ) {
    const { LISTEN_PID: _, LISTEN_FDS: __, LISTEN_FDNAMES: ___, ...env } = process.env;
    this.child = fork(ENTRY, args, { env, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    const ready = Promise.withResolvers<void>();
    this.ready = ready.promise;
    this.ready.catch(() => {});
    this.child.on("message", (message: ToPrimary) => {
      this.heardAt = performance.now();
      if (message.type === "ready") {
        this.serving = true;
        this.served = true;
        ready.resolve();
      } else if (message.type === "alive") {
        this.parts = message.parts;
        this.unwritten = message.unwritten;
      } else if (message.type === "taken") this.taken(message.id);
      else if (message.type === "closed") this.open -= message.count;
      else if (message.type === "told") this.told(message);
      listener.message(message, this);
    });
    // A channel that is gone is told by the end of the process.
    this.child.on("error", () => {});
    this.child.once("exit", (code, signal) => {
      this.serving = false;
      for (const { reject } of this.asking.values()) reject(new Error("the worker has ended"));
      this.asking.clear();
      // It has said why, unless something killed it.
      ready.reject(new KnownReason(`a worker has ended before it was ready: ${signal ?? `exit code ${code}`}`));
      this.listener.ended(
        this,
        [...this.untaken.values()].map(({ socket }) => socket),
      );
    });
    for (const from of ["stdout", "stderr"] as const)
      byLines(this.child[from] as Readable, (bytes) => listener.lines(bytes, from));
    this.send({ type: "start", text, generation });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** How it ended, for the log; undefined while it runs. */
  get end(): string | undefined {
    const { exitCode, signalCode } = this.child;
    return signalCode ?? (exitCode === null ? undefined : `exit code ${exitCode}`);
  }

  /** Connections it has. */
  get connections(): number {
    return this.open;
  }

  /** Whether it leaves a connection waiting: its event loop is busy. */
  get busy(): boolean {
    const [oldest] = this.untaken.values();
    return oldest !== undefined && performance.now() - oldest.at > BUSY;
  }

  /** Hands a connection over. This process keeps it open until the worker has it, and can so give it to another. */
  give(socket: Socket): void {
    const id = ++this.given;
    this.open++;
    this.untaken.set(id, { socket, at: performance.now() });
    this.child.send({ type: "connection", id } satisfies ToWorker, socket, { keepOpen: true }, () => {});
  }

  send(message: ToWorker): void {
    if (this.child.connected) this.child.send(message, () => {});
  }

  /**
   * Asks it something. Rejects with why there is no answer.
   * @param patience milliseconds
   */
  async ask<Ask, Answer>({ name }: Question<Ask, Answer>, question: Ask, patience: number): Promise<Answer> {
    const id = ++this.asked;
    const waiting = Promise.withResolvers<unknown>();
    this.asking.set(id, waiting);
    const late = () => waiting.reject(new Error(`a worker has not answered in ${patience / 1000} s`));
    const timer = setTimeout(late, patience);
    try {
      if (this.end !== undefined) late();
      this.send({ type: "ask", id, name, question });
      return (await waiting.promise) as Answer;
    } finally {
      clearTimeout(timer);
      this.asking.delete(id);
    }
  }

  kill(): void {
    this.child.kill("SIGKILL");
  }

  private told({ id, answer, failure }: PrimaryAnswer): void {
    if (failure === undefined) this.asking.get(id)?.resolve(answer);
    else this.asking.get(id)?.reject(new KnownReason(failure));
  }

  private taken(id: number): void {
    const { socket } = this.untaken.get(id) ?? {};
    this.untaken.delete(id);
    socket?.destroy();
  }
}

const NEWLINE = 10;

/** Hands over what comes in whole lines, so that those of several workers never stand within each other. */
function byLines(stream: Readable, take: (bytes: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  stream.on("data", (bytes: Buffer) => {
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (end > 0) take(rest.length > 0 ? Buffer.concat([rest, bytes.subarray(0, end)]) : bytes.subarray(0, end));
    const left = bytes.subarray(end);
    rest = end > 0 || rest.length === 0 ? Buffer.from(left) : Buffer.concat([rest, left]);
  });
  // One that was killed leaves half a line behind.
  stream.once("end", () => rest.length > 0 && take(Buffer.concat([rest, Buffer.from("\n")])));
}
