import type { Socket } from "node:net";
import { readClockDirectly } from "../core/clock.ts";
import { JsonLog } from "../core/log.ts";
import type { QuestionHandlers } from "../core/peers.ts";
import { withTimeout } from "../core/timeout.ts";
import { stopAfterCrash } from "../crash.ts";
import { Gateway } from "../gateway.ts";
import { loadWithExtensions } from "../loaded-config.ts";
import { formatError } from "../text/format-error.ts";
import { WarmUp } from "../warm-up.ts";
import { shareLessMemory } from "../wire/own-memory.ts";
import { registerKnownStore } from "./known-store.ts";
import { LOST_ROWS_EXIT, type QuestionMessage, type ToPrimary, type ToWorker, type WorkerStart } from "./messages.ts";
import { registerLedgerFlush } from "./shared-limiter.ts";
import { WorkerPeers } from "./worker-peers.ts";
import { registerReloads } from "./worker-reloads.ts";

// Entry point of a worker, which serves the connections that its primary passes on. Arguments: the configuration file, the folder
// for its relative paths.

const [, , file = "", folder = ""] = process.argv;

// The primary handles signals, also those that a terminal or a service manager sends to all processes. On SIGUSR1 Node itself would
// open its debugger.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"] as const) process.on(signal, () => {});
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

const log = new JsonLog();
const sendToPrimary = (message: ToPrimary): void => {
  if (process.connected) process.send?.(message, undefined, {}, () => {});
};

/** Milliseconds between reports of the counts: what was counted since the last one is lost when a worker is killed. */
const REPORT_INTERVAL = 5000;
/** Milliseconds that a worker waits at its end for the primary to take its last report. */
const LAST_REPORT_TIMEOUT = 1000;

/** Sends the counts to the primary; does nothing before there is a gateway. */
let report = async (): Promise<void> => {};

/** Reports the counts regularly and at the end of the worker. */
function reportCounts(gateway: Gateway): void {
  report = () =>
    new Promise((resolve) => {
      if (!process.connected) return resolve();
      const message: ToPrimary = { type: "metrics", metrics: gateway.counts };
      process.send?.(message, undefined, {}, () => resolve());
    });
  setInterval(() => void report(), REPORT_INTERVAL).unref();
}

async function exitWorker(code: number): Promise<never> {
  await withTimeout(LAST_REPORT_TIMEOUT, report()).catch(() => {});
  await log.flush();
  process.exit(code);
}

/** Reports closed connections to the primary, batched per turn of the event loop. */
const closings = {
  count: 0,
  add(): void {
    if (this.count++ > 0) return;
    setImmediate(() => {
      sendToPrimary({ type: "closed", count: this.count });
      this.count = 0;
    });
  },
};

/** Whether this worker has crashed: its primary gives the connections that it has not accepted to others. */
let hasFailed = false;

function acceptConnection(gateway: Gateway, id: number, socket: Socket | undefined): void {
  if (hasFailed) {
    socket?.destroy();
    return;
  }
  sendToPrimary({ type: "accepted", id });
  if (!socket) {
    closings.add();
    return;
  }
  socket.once("close", () => closings.add());
  // The same options as node's server sets on sockets that it accepts itself.
  socket.allowHalfOpen = true;
  socket.setNoDelay(true);
  gateway.accept(socket);
}

async function answerPrimary(answers: QuestionHandlers, { id, name, question }: QuestionMessage): Promise<void> {
  try {
    sendToPrimary({ type: "answer", id, answer: await answers.answer(name, question) });
  } catch (thrown) {
    sendToPrimary({ type: "answer", id, failure: formatError(thrown) });
  }
}

/**
 * Before there is a gateway, only the primary's answers are handled; other messages are queued. Returns a function that ends this
 * and returns the queue.
 */
function queueMessages(peers: WorkerPeers): () => [ToWorker, Socket | undefined][] {
  const queued: [ToWorker, Socket | undefined][] = [];
  const onMessage = (message: ToWorker, socket: Socket | undefined) => {
    if (message.type === "answer") peers.questions.receive(message);
    else queued.push([message, socket]);
  };
  const orphan = () => peers.orphan();
  process.on("message", onMessage).once("disconnect", orphan);
  return () => {
    process.off("message", onMessage).off("disconnect", orphan);
    return queued;
  };
}

function handleMessages(gateway: Gateway, peers: WorkerPeers, queued: [ToWorker, Socket | undefined][]): void {
  const { answers } = gateway;
  registerReloads(answers, gateway);
  registerKnownStore(answers, gateway.stores);
  registerLedgerFlush(answers, gateway.stores.ledger);
  reportCounts(gateway);
  const interrupt = new AbortController();
  let stopping = false;
  const stop = async (timeouts: { linger: number; drain: number }) => {
    if (stopping) return;
    stopping = true;
    await gateway.stop({ ...timeouts, signal: interrupt.signal });
    await exitWorker(gateway.hasLost ? LOST_ROWS_EXIT : 0);
  };
  const onMessage = (message: ToWorker, socket: Socket | undefined) => {
    if (message.type === "connection") acceptConnection(gateway, message.id, socket);
    else if (message.type === "check") {
      const { connection } = message;
      const { unwritten } = gateway.stores.ledger;
      sendToPrimary({ type: "alive", connection, parts: gateway.readiness().parts, unwritten });
    } else if (message.type === "leave") gateway.prepareStop();
    else if (message.type === "stop") void stop(message);
    else if (message.type === "interrupt") interrupt.abort();
    else if (message.type === "fact") peers.receive(message);
    else if (message.type === "question") void answerPrimary(answers, message);
    else if (message.type === "answer") peers.questions.receive(message);
  };
  for (const [message, socket] of queued) onMessage(message, socket);
  process.on("message", onMessage);
  const orphaned = () => {
    peers.orphan();
    log.error({}, "the primary is gone: this worker stops when running requests have ended");
    void gateway.orphan();
    void stop({ linger: 0, drain: gateway.config.drain || Number.POSITIVE_INFINITY });
  };
  if (process.connected) process.once("disconnect", orphaned);
  else orphaned();
}

function receiveStart(): Promise<WorkerStart> {
  return new Promise((resolve, reject) => {
    const none = () => reject(new Error("the primary is gone: this worker does not start"));
    process.once("message", (message: ToWorker) => (message.type === "start" ? resolve(message) : none()));
    process.once("disconnect", none);
  });
}

shareLessMemory();
readClockDirectly();

try {
  const { text, generation, started } = await receiveStart();
  const loaded = await loadWithExtensions({ file, folder, env: process.env, text });
  log.level = loaded.config.log.level;
  const warmUp = await WarmUp.run(started.warm_up, log);
  const peers = new WorkerPeers(sendToPrimary);
  const dequeueMessages = queueMessages(peers);
  const gateway = await Gateway.open(loaded, log, { processes: started.workers, peers, started });
  gateway.number = generation;
  const fail = () => {
    hasFailed = true;
    sendToPrimary({ type: "failed" });
    return gateway.fail();
  };
  const breakable = {
    get plugins() {
      return gateway.plugins;
    },
    fail,
  };
  stopAfterCrash(breakable, log, () => exitWorker(1));
  handleMessages(gateway, peers, dequeueMessages());
  sendToPrimary({ type: "ready" });
  void warmUp?.continue(gateway);
} catch (thrown) {
  process.stderr.write(`${formatError(thrown)}\n`);
  await exitWorker(1);
}
