import { type ChildProcess, fork } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Readiness } from "../admin/readiness.ts";
import type { Question } from "../core/peers.ts";
import { withTimeout } from "../core/timeout.ts";
import type { UnwrittenLines } from "../store/ledger.ts";
import { FormattedError } from "../text/format-error.ts";
import { LF } from "../wire/grammar.ts";
import { omit } from "../wire/values.ts";
import type { ToPrimary, ToWorker, WorkerStart } from "./messages.ts";
import { PendingQuestions } from "./pending-questions.ts";

const ENTRY = fileURLToPath(new URL("./main.ts", import.meta.url));

/** Milliseconds after which a connection that was not accepted marks its worker as busy. */
const BUSY_AFTER = 1000;
/** Milliseconds for which a worker that a connection did not reach counts as busy: the fewer it has, the more it would get. */
const LOST_FOR = 2000;

/** Receives the events of a worker. */
interface WorkerListener {
  /** Called with whole lines of the worker's output. */
  onOutput(bytes: Buffer, from: "stdout" | "stderr"): void;
  onMessage(message: ToPrimary, from: WorkerProcess): void;
  /** Called with connections that have not reached the worker, as it has no free file descriptor. */
  onLost(sockets: readonly Socket[], worker: WorkerProcess): void;
  /** Called when the worker's channel is closed: no message comes any more. */
  onDisconnect(worker: WorkerProcess): void;
  /** Called when the worker has ended, with the connections that it never accepted. */
  onExit(worker: WorkerProcess, notAccepted: readonly Socket[]): void;
}

/** The primary's handle of one worker. */
export class WorkerProcess {
  /** Resolves when the worker serves; rejects when it ends before. */
  readonly ready: Promise<void>;
  serving = false;
  /** Whether it serves, or served before it ended. */
  hasServed = false;
  /** Whether it gets no more connections. */
  draining = false;
  /** The number of the generation that it serves. */
  generation: number;
  /** Its parts as it last reported them. */
  parts: Readiness["parts"] = {};
  /** What it could not write of the ledger's journal, as it last reported. */
  unwritten: UnwrittenLines | undefined;
  /** `performance.now()` at its last message. */
  lastMessageAt = performance.now();
  readonly startedAt = performance.now();
  private readonly child: ChildProcess;
  /** Its open connections, accepted or not. */
  private openConnections = 0;
  private lastConnection = 0;
  /** `performance.now()` when it was given its last connection. */
  lastConnectionAt = 0;
  /** Connections that it has not accepted yet, with the time of each. */
  private readonly unaccepted = new Map<number, { socket: Socket; at: number }>();
  private readonly questions = new PendingQuestions((message) => this.send(message));
  /** `performance.now()` when a connection was last found not to have reached it. */
  private lastLostAt = Number.NEGATIVE_INFINITY;
  /** Why the system has no process for it. */
  private forkError: string | undefined;

  /** @param args of `main.ts` in this folder */
  constructor(
    args: readonly string[],
    start: WorkerStart,
    private readonly listener: WorkerListener,
  ) {
    this.generation = start.generation;
    const env = omit(process.env, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES");
    this.child = fork(ENTRY, args, { env, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    const ready = Promise.withResolvers<void>();
    this.ready = ready.promise;
    this.ready.catch(() => {});
    this.child.on("message", (message: ToPrimary) => {
      this.lastMessageAt = performance.now();
      if (message.type === "ready") {
        this.serving = true;
        this.hasServed = true;
        ready.resolve();
      } else if (message.type === "alive") {
        this.parts = message.parts;
        this.unwritten = message.unwritten;
        this.takeLost(message.connection);
      } else if (message.type === "accepted") this.onAccepted(message.id);
      else if (message.type === "closed") this.openConnections -= message.count;
      else if (message.type === "answer") this.questions.receive(message);
      listener.onMessage(message, this);
    });
    this.child.once("disconnect", () => listener.onDisconnect(this));
    const end = () => {
      this.serving = false;
      this.questions.end("the worker has ended");
      // The worker has logged the reason itself, unless it was killed.
      ready.reject(new FormattedError(`a worker has ended before it was ready: ${this.exitReason}`));
      this.listener.onExit(this, this.takeUnaccepted());
    };
    this.child.once("exit", end);
    this.child.on("error", ({ message }) => {
      // A closed channel is noticed by the exit of the process; without a process, nothing else follows.
      if (this.child.pid !== undefined || this.forkError !== undefined) return;
      this.forkError = message;
      listener.onDisconnect(this);
      end();
    });
    // Absent without free file descriptors.
    for (const from of ["stdout", "stderr"] as const)
      if (this.child[from]) forwardLines(this.child[from], (bytes) => listener.onOutput(bytes, from));
    this.send({ type: "start", ...start });
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** How it ended, for the log; undefined while it runs. */
  get exitReason(): string | undefined {
    const { exitCode, signalCode } = this.child;
    if (this.forkError !== undefined) return this.forkError;
    return signalCode ?? (exitCode === null ? undefined : `exit code ${exitCode}`);
  }

  get connections(): number {
    return this.openConnections;
  }

  /** Whether a connection has waited too long for it, because its event loop is busy, or has not reached it. */
  get isBusy(): boolean {
    const [oldest] = this.unaccepted.values();
    const now = performance.now();
    return (oldest !== undefined && now - oldest.at > BUSY_AFTER) || now - this.lastLostAt < LOST_FOR;
  }

  /**
   * Passes a connection to the worker. This process keeps it open until the worker has it, so that it can be given to another
   * one.
   */
  passConnection(socket: Socket): void {
    const id = ++this.lastConnection;
    this.lastConnectionAt = performance.now();
    this.openConnections++;
    this.unaccepted.set(id, { socket, at: this.lastConnectionAt });
    this.child.send({ type: "connection", id } satisfies ToWorker, socket, { keepOpen: true }, () => {});
  }

  /** Returns the connections that it has not accepted, for another worker: it must not accept them any more. */
  takeUnaccepted(): Socket[] {
    const sockets = [...this.unaccepted.values()].map(({ socket }) => socket);
    this.unaccepted.clear();
    this.openConnections -= sockets.length;
    return sockets;
  }

  send(message: ToWorker): void {
    if (this.child.connected) this.child.send(message, () => {});
  }

  /**
   * Sends a question to the worker. Rejects with the reason when there is no answer.
   * @param timeout milliseconds
   */
  ask<Ask, Answer>(question: Question<Ask, Answer>, payload: Ask, timeout: number): Promise<Answer> {
    return withTimeout(timeout, this.questions.ask(question, payload), "a worker");
  }

  kill(): void {
    this.child.kill("SIGKILL");
  }

  /** Asks for a sign of life. */
  check(): void {
    this.send({ type: "check", connection: this.lastConnection });
  }

  /**
   * Gives back connections that were sent before a message that the worker has read, and have not reached it: where it has no free
   * file descriptor, Node gives up after some tries without telling.
   */
  private takeLost(until: number): void {
    const lost = [...this.unaccepted].filter(([id]) => id <= until);
    if (lost.length === 0) return;
    for (const [id] of lost) this.unaccepted.delete(id);
    this.openConnections -= lost.length;
    this.lastLostAt = performance.now();
    this.listener.onLost(
      lost.map(([, { socket }]) => socket),
      this,
    );
  }

  private onAccepted(id: number): void {
    const { socket } = this.unaccepted.get(id) ?? {};
    this.unaccepted.delete(id);
    socket?.destroy();
  }
}

/** Passes on output in whole lines, so that lines of several workers do not mix. */
function forwardLines(stream: Readable, forward: (bytes: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  stream.on("data", (bytes: Buffer) => {
    const end = bytes.lastIndexOf(LF) + 1;
    if (end > 0) forward(rest.length > 0 ? Buffer.concat([rest, bytes.subarray(0, end)]) : bytes.subarray(0, end));
    const left = bytes.subarray(end);
    rest = end > 0 || rest.length === 0 ? Buffer.from(left) : Buffer.concat([rest, left]);
  });
  // A killed worker may leave an incomplete line.
  stream.once("end", () => rest.length > 0 && forward(Buffer.concat([rest, Buffer.from("\n")])));
}
