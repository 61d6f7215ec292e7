import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { WorkerCounts } from "../admin/admin-gateway.ts";
import { type Readiness, UNKNOWN_STATE } from "../admin/readiness.ts";
import { AuditTrail, type Initiator, PROGRAM, servedFile } from "../audit-trail.ts";
import { startSettings, withStartSettings } from "../config/changes.ts";
import { configSecrets } from "../config/secrets.ts";
import type { Config } from "../config/types.ts";
import { Calendar } from "../core/calendar.ts";
import { thrownMessage } from "../core/errors.ts";
import { budgetPeriods } from "../core/limits.ts";
import type { JsonLog } from "../core/log.ts";
import { type Question, QuestionHandlers, type SharedFact } from "../core/peers.ts";
import { waitUntil } from "../core/timeout.ts";
import { Listener, type SocketAddress } from "../downstream/listener.ts";
import type { StopTimeouts } from "../downstream/server-stop.ts";
import { crashDrain, ledgerWarner } from "../gateway.ts";
import { HEALTH_TOPIC, SWITCHES_TOPIC } from "../generation.ts";
import type { LoadedConfig } from "../loaded-config.ts";
import type { LoadedPlugin } from "../loader/instances.ts";
import { type MetricJson, promClient } from "../metrics/families.ts";
import { PROCESS_METRICS } from "../metrics/process-metrics.ts";
import { type ReloadResult, Reloads } from "../reloads.ts";
import { BudgetMarks, type TimedBudgetMark } from "../store/budget-marks.ts";
import type { Ledger, UnwrittenLines } from "../store/ledger.ts";
import { MemoryLimiter, type SpendSince } from "../store/memory-limiter.ts";
import { connectStores, runWithStores, type Stores } from "../store/open.ts";
import { findCharges } from "../store/orphan-charges.ts";
import { OrphanWatch } from "../store/orphan-watch.ts";
import { earlierCounts, spendSince } from "../store/spend.ts";
import { registerMergedKnownStore } from "./known-store.ts";
import { LOST_ROWS_EXIT, type QuestionMessage, type ToPrimary } from "./messages.ts";
import { FLUSH_LEDGER, registerLimits } from "./shared-limiter.ts";
import { registerWarnings } from "./shared-warnings.ts";
import { registerWrongKeys } from "./shared-wrong-keys.ts";
import { WaitingConnections } from "./waiting-connections.ts";
import { WorkerProcess } from "./worker-process.ts";
import { reloadWorkers } from "./worker-reloads.ts";
import { isCount, WorkerTotals } from "./worker-totals.ts";

/** Milliseconds between checks of the workers, and without a message of one until it is killed: its event loop is blocked. */
const CHECK_INTERVAL = 1000;
const UNRESPONSIVE_AFTER = 15_000;
/** Milliseconds: a worker that lived for less is restarted with a backoff, which doubles each time. */
const MIN_LIFETIME = 10_000;
const BACKOFF = 250;
const MAX_BACKOFF = 30_000;
/** Milliseconds for a worker to answer a question of the admin side. */
const ASK_TIMEOUT = 5000;
/** Milliseconds for a later worker to become ready: `start()` of a plugin may hang. A slow first start is left to the operator. */
const START_TIMEOUT = 60_000;
/** Milliseconds that stopping workers get beyond their drain time before they are killed. */
const STOP_GRACE = 20_000;

/** Action and subject for the audit trail. */
const REPLACE = ["workers.replace", "workers"] as const;

/** A slot for one of the workers. */
interface WorkerSlot {
  worker: WorkerProcess;
  /** Workers of this slot that died soon after their start, in a row. */
  failures: number;
}

/**
 * The primary process: listens, and passes each connection to the worker that has the fewest. It reads no byte of them. Its
 * socket stays open whatever happens to workers: a dead one is replaced, and all can be replaced while connections arrive.
 */
export class Primary {
  /** Answers the questions of all workers. */
  readonly answers = new QuestionHandlers();
  address!: AddressInfo;
  readonly reloads: Reloads;
  private readonly trail: AuditTrail;
  private readonly started: Config;
  private inForce: Config;
  private opened: Stores | undefined;
  private generationNumber = 1;
  private readonly limiter: MemoryLimiter;
  private readonly orphans: OrphanWatch;
  private readonly marks = new BudgetMarks();
  private readonly listener: Listener;
  private readonly slots: WorkerSlot[] = [];
  private readonly workers = new Set<WorkerProcess>();
  private readonly totals = new WorkerTotals<WorkerProcess>();
  private readonly waiting: WaitingConnections;
  /** Connections that have not reached a worker. */
  private readonly lost = new WeakSet<Socket>();
  /** The latest fact of each key of each topic, for workers that start later. */
  private readonly facts = new Map<string, SharedFact>();
  private readonly checkTimer: NodeJS.Timeout;
  private starting = true;
  private stopping = false;
  private replacing = false;
  private deaths = 0;
  /** Whether rows of the ledger were lost during the stop. */
  hasLost = false;

  /** @param loaded gateway.yaml as it is written */
  private constructor(
    private loaded: LoadedConfig,
    private readonly log: JsonLog,
    listenAddress: SocketAddress,
  ) {
    const { config } = loaded;
    this.started = config;
    this.inForce = config;
    this.waiting = new WaitingConnections(log);
    const secrets = () => configSecrets(this.config, this.loaded.env);
    this.trail = new AuditTrail(log, () => this.stores.audit, secrets);
    this.reloads = new Reloads(
      log,
      () => this.reloadNow(),
      this.trail,
      () => servedFile(this.config),
    );
    const warn = (message: string) => log.warn({}, message);
    const spendingSince: SpendSince = (since) =>
      this.orphans.readSums(async () => {
        await this.flushLedgers();
        return this.readLedger((ledger) => spendSince(ledger)(since));
      });
    this.limiter = new MemoryLimiter(spendingSince, new Calendar(config.timezone), warn);
    this.limiter.earlier = earlierCounts(() => this.stores.ledger);
    this.limiter.onBudgetMark = this.marks.add;
    this.orphans = new OrphanWatch(this.limiter, {
      findCharges: (ids) => this.readLedger((ledger) => findCharges(ledger)(ids)),
      findOrphaned: () => this.readLedger((ledger) => ledger.orphanedElsewhere()),
      isShared: () => this.stores.ledger.isShared(process.pid),
    });
    registerLimits(this.answers, this.limiter);
    registerWrongKeys(this.answers);
    registerWarnings(this.answers, warn);
    registerMergedKnownStore(this.answers, (question, payload) => this.askAll(question, payload));
    this.listener = new Listener(listenAddress, (socket) => this.passConnection(socket), true);
    this.checkTimer = setInterval(() => this.checkWorkers(), CHECK_INTERVAL);
  }

  /**
   * The ledger is read at the start, once for each kind of period, and after a worker's death; the store is open only during that
   * query.
   */
  private readLedger<Result>(query: (ledger: Ledger) => Promise<Result>): Promise<Result> {
    const { store, keys } = this.started;
    const warn = (message: string) => this.log.warn({}, message);
    return runWithStores(connectStores(store, keys, warn), ({ ledger }) => query(ledger));
  }

  /**
   * Waits until all that workers have settled is in the store, where a sum that begins later would miss it. What one that ends
   * meanwhile has left is read like the journals of dead processes. Rejects while rows wait for a store that is down.
   */
  private async flushLedgers(): Promise<void> {
    const flushes = this.serving.map((worker) =>
      worker.ask(FLUSH_LEDGER, null, ASK_TIMEOUT).catch((thrown: unknown) => {
        if (worker.serving) throw thrown;
      }),
    );
    await Promise.all(flushes);
  }

  /**
   * @param onListen called before it listens; returns what settles when it is to stop: later workers are not waited for then
   * @throws the system's error for the address, or Error where a worker does not start
   */
  static async start(
    loaded: LoadedConfig,
    log: JsonLog,
    listenAddress: SocketAddress,
    onListen: () => Promise<void>,
  ): Promise<Primary> {
    const primary = new Primary(loaded, log, listenAddress);
    try {
      const { store, keys } = loaded.config;
      primary.opened = await connectStores(store, keys, ledgerWarner(log));
      // In parallel with the start of the workers, so that no request has to wait for it. A failed query is repeated later.
      primary.limiter.prepare(budgetPeriods(loaded.config.limits)).catch(() => {});
      for (let i = 0; i < loaded.config.workers; i++) primary.slots.push({ worker: primary.fork(), failures: 0 });
      // While they start: otherwise connections wait for it at the first scrape.
      if (loaded.config.warm_up > 0) promClient();
      await primary.startListening(onListen);
      return primary;
    } catch (thrown) {
      await primary.stop({ drain: 0 });
      throw thrown;
    }
  }

  /**
   * Listens when the first worker serves, and settles when all do. Until then nobody can connect; on a socket that a service
   * manager keeps, connections wait in its queue, also for the process that gets the socket after a failed start.
   */
  private async startListening(onListen: () => Promise<void>): Promise<void> {
    const ready = this.slots.map(({ worker }) => worker.ready);
    let stops: Promise<void> | undefined;
    const listening = Promise.any(ready).then(async () => {
      stops = onListen();
      this.address = await this.listener.listen();
    });
    const started = Promise.all([...ready, listening]).then(() => {
      this.starting = false;
    });
    // Workers that serve already end as at any stop.
    const killOthers = () => {
      for (const worker of this.workers) if (!worker.serving) worker.kill();
    };
    try {
      await Promise.race([started, listening.then(() => stops)]);
      if (this.starting) killOthers();
    } catch (thrown) {
      killOthers();
      await listening.catch(() => {});
      throw thrown;
    }
  }

  /** The configuration in force: with the settings of the start. */
  get config(): Config {
    return this.inForce;
  }

  /** The plugins that the workers run; none runs in this process. */
  get plugins(): ReadonlyMap<string, LoadedPlugin> {
    return this.loaded.extensions.classes;
  }

  /** Reloads as `Gateway.reload` does, in all workers together: all of them serve the new configuration, or none. */
  reload(by?: Initiator): Promise<ReloadResult> {
    return this.reloads.run(by);
  }

  /** Returns the budget marks reached since the last call; this process counts for all workers. */
  takeMarks(): TimedBudgetMark[] {
    return this.marks.drain();
  }

  /** Switches as `Gateway.switch` does, in all workers. */
  switch(name: string, off: boolean): void {
    this.shareFact({ topic: SWITCHES_TOPIC.name, key: name, fact: off });
  }

  /** Returns what a reload would change. @throws ConfigError */
  async compare(): Promise<Omit<ReloadResult, "generation">> {
    return this.compareWith(await this.loaded.again());
  }

  /** Returns the sections of gateway.yaml on disk that wait for the next start. @throws ConfigError */
  awaitingRestart(): Promise<string[]> {
    return this.loaded.sectionsAwaitingRestart(this.started);
  }

  /** The stores that the admin side uses. */
  get stores(): Stores {
    return this.opened as Stores;
  }

  askAll<Ask, Answer>(question: Question<Ask, Answer>, payload: Ask): Promise<Answer[]> {
    return this.askServing((worker) => worker.ask(question, payload, ASK_TIMEOUT));
  }

  /** Asks each worker that serves, and returns the answers of those that have one. */
  private async askServing<Answer>(ask: (worker: WorkerProcess) => Promise<Answer>): Promise<Answer[]> {
    const answers = await Promise.allSettled(this.serving.map(ask));
    return answers.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /**
   * Returns the metrics of all workers: gauges of those that answer, counters of all that ever ran, so that no counter falls when
   * a worker is late or has died.
   */
  async askMetrics(): Promise<MetricJson[][]> {
    const gauges = await this.askServing(async (worker) => {
      const metrics = await worker.ask(PROCESS_METRICS, null, ASK_TIMEOUT);
      this.totals.update(worker, metrics);
      return metrics.filter((metric) => !isCount(metric));
    });
    return [...this.totals.all, ...gauges];
  }

  private get serving(): WorkerProcess[] {
    return [...this.workers].filter((worker) => worker.serving);
  }

  get unwritten(): UnwrittenLines | undefined {
    const all = [...this.workers].flatMap(({ unwritten }) => (unwritten ? [unwritten] : []));
    const [first] = all;
    return first && { lines: all.reduce((sum, { lines }) => sum + lines, 0), where: first.where };
  }

  /** How many workers there should be, and how many serve. */
  get workerCounts(): WorkerCounts {
    const up = this.slots.filter(({ worker }) => worker.serving && !worker.draining).length;
    return { wanted: this.slots.length, up, deaths: this.deaths };
  }

  /** Ready while at least one worker serves; the parts report missing ones. */
  readiness(): Readiness {
    const { wanted, up } = this.workerCounts;
    const serving = this.slots.filter(({ worker }) => worker.serving);
    // A part that no worker reports is unknown, not ok.
    const worst = (part: string) => {
      const states = serving.map(({ worker }) => worker.parts[part] ?? "ok");
      return states.find((state) => state !== "ok") ?? states[0] ?? UNKNOWN_STATE;
    };
    const parts = {
      gateway: this.stopping ? "stopping" : "ok",
      workers: `${up} of ${wanted}`,
      store: worst("store"),
      limits: worst("limits"),
    };
    return { ready: !this.stopping && up > 0, parts };
  }

  /**
   * Replaces the workers one by one: each gets no more connections as soon as its successor is ready, and ends when its running
   * requests have ended. The successors serve the current gateway.yaml. Where that is invalid, or a successor does not start, the
   * remaining workers stay. Never throws.
   * @param by who requested it
   */
  async replace(by = PROGRAM): Promise<void> {
    if (this.replacing || this.stopping) return;
    this.replacing = true;
    const { length: workers } = this.slots;
    this.log.info({ workers }, "workers are being replaced");
    try {
      await this.reload(by);
      for (const slot of this.slots) {
        // A worker that starts after the stop has begun would not be stopped.
        if (this.stopping) return;
        await this.replaceWorker(slot);
      }
      this.log.info({ workers }, "workers are replaced");
      await this.trail.recordAction(by, ...REPLACE, { workers });
    } catch (thrown) {
      const cause = thrownMessage(thrown);
      this.log.error({ cause }, "a new worker did not start: the running workers stay");
      await this.trail.recordFailure(by, ...REPLACE, cause);
    }
    this.replacing = false;
  }

  /** Stops as `Downstream.close` does, all workers at once. Never throws, never hangs. */
  async stop({
    linger = 0,
    drain = this.config.drain || Number.POSITIVE_INFINITY,
    signal,
  }: StopTimeouts): Promise<void> {
    const began = performance.now();
    this.stopping = true;
    this.reloads.end();
    for (const worker of this.workers) worker.send({ type: "leave" });
    if (!this.listener.isInherited)
      await waitUntil(() => performance.now() - began >= linger || signal?.aborted === true);
    await this.listener.close();
    this.waiting.close();
    const left = drain - (performance.now() - began);
    for (const worker of this.workers) {
      worker.draining = true;
      worker.send({ type: "stop", linger, drain: Math.min(left, NO_LIMIT) });
    }
    const sendInterrupt = () => {
      for (const worker of this.workers) worker.send({ type: "interrupt" });
    };
    if (signal?.aborted) sendInterrupt();
    else signal?.addEventListener("abort", sendInterrupt);
    let limit = performance.now() + left + STOP_GRACE;
    await waitUntil(() => {
      if (signal?.aborted) limit = Math.min(limit, performance.now() + STOP_GRACE);
      return this.workers.size === 0 || performance.now() >= limit;
    });
    for (const worker of this.workers) {
      this.log.error({ worker: worker.pid }, "a worker did not end, and is killed");
      worker.kill();
    }
    await waitUntil(() => this.workers.size === 0);
    clearInterval(this.checkTimer);
    this.orphans.close();
    await this.opened?.close();
  }

  /** Stops after a crash in this process: the workers get a short time to finish what they serve. */
  fail(): Promise<void> {
    return this.stop({ drain: crashDrain(this.config) });
  }

  private compareWith(next: LoadedConfig): Omit<ReloadResult, "generation"> {
    const changes = this.loaded.changesTo(next, this.plugins);
    return { changes, restart: next.sectionsToRestart(this.started), notices: next.noticesSince(this.loaded) };
  }

  private async reloadNow(): Promise<ReloadResult> {
    const next = await this.loaded.again();
    const { changes, restart, notices } = this.compareWith(next);
    if (changes.length > 0) {
      const { text } = next.config;
      const serving = this.serving.filter((worker) => !worker.draining);
      await reloadWorkers(serving, text, this.generationNumber + 1);
      this.loaded = next;
      this.inForce = withStartSettings(next.config, this.started);
      this.generationNumber++;
      for (const worker of serving) worker.generation = this.generationNumber;
      this.log.level = next.config.log.level;
      this.opened?.keys.replaceFileKeys(next.config.keys);
      // Facts about a changed provider are stale; workers send current ones again. The operator's switches and conversations stay.
      for (const [key, { topic }] of this.facts) if (topic === HEALTH_TOPIC.name) this.facts.delete(key);
    }
    return { changes, restart, notices, generation: this.generationNumber };
  }

  /** Reloads a worker that started before the last reload. Must not run beside a reload. */
  private async catchUp(worker: WorkerProcess): Promise<void> {
    if (!worker.serving || worker.draining || worker.generation === this.generationNumber) return;
    try {
      await reloadWorkers([worker], this.config.text, this.generationNumber);
      worker.generation = this.generationNumber;
    } catch (thrown) {
      this.log.error(
        { worker: worker.pid, cause: thrownMessage(thrown) },
        "a worker could not load the new configuration and is replaced",
      );
      worker.kill();
    }
  }

  private fork(): WorkerProcess {
    const { file, folder, text } = this.config;
    const start = { text, generation: this.generationNumber, started: startSettings(this.started) };
    const worker = new WorkerProcess([file, folder], start, {
      onOutput: (bytes, from) => (from === "stdout" ? this.log.relay(bytes) : process.stderr.write(bytes)),
      onMessage: (message, from) => this.onMessage(message, from),
      onDisconnect: (ended) => this.totals.finish(ended),
      onLost: (sockets, from) => this.onConnectionsLost(sockets, from),
      onExit: (ended, notAccepted) => this.onWorkerExit(ended, notAccepted),
    });
    this.totals.add(worker);
    this.workers.add(worker);
    return worker;
  }

  /** Starts a worker that is killed if it does not become ready. */
  private forkInTime(): WorkerProcess {
    const worker = this.fork();
    const timer = setTimeout(() => {
      const limit = START_TIMEOUT / 1000;
      this.log.error({ worker: worker.pid }, `a new worker was not ready after ${limit} s, and is killed`);
      worker.kill();
    }, START_TIMEOUT);
    worker.ready.catch(() => {}).finally(() => clearTimeout(timer));
    return worker;
  }

  private onMessage(message: ToPrimary, from: WorkerProcess): void {
    // A worker's last report may be read after its exit.
    if (message.type === "metrics") this.totals.update(from, message.metrics);
    if (!this.workers.has(from)) return;
    if (message.type === "ready") {
      for (const fact of this.facts.values()) from.send({ type: "fact", ...fact });
      this.passWaiting();
      void this.reloads.enqueue(() => this.catchUp(from));
    } else if (message.type === "fact") {
      const { topic, key, fact } = message;
      this.shareFact({ topic, key, fact }, from);
    } else if (message.type === "question") {
      void this.answerQuestion(message, from);
    } else if (message.type === "failed") {
      from.draining = true;
      this.deaths++;
      const slot = this.slots.find(({ worker }) => worker === from);
      if (slot) void this.restartWorker(slot);
      this.onServingLost();
      for (const socket of from.takeUnaccepted()) this.passConnection(socket);
    }
  }

  /** Sends a fact to all workers, including those that start later. @param from the worker that reported it */
  private shareFact(shared: SharedFact, from?: WorkerProcess): void {
    this.facts.set(`${shared.topic} ${shared.key}`, shared);
    for (const worker of this.workers) if (worker !== from) worker.send({ type: "fact", ...shared });
  }

  private async answerQuestion({ id, name, question }: QuestionMessage, from: WorkerProcess): Promise<void> {
    try {
      from.send({ type: "answer", id, answer: await this.answers.answer(name, question) });
    } catch (thrown) {
      from.send({ type: "answer", id, failure: thrownMessage(thrown) });
    }
    // The worker that asked has died in the meantime.
    if (!this.workers.has(from)) this.orphans.release(String(from.pid));
  }

  private passConnection(socket: Socket): void {
    let best: WorkerProcess | undefined;
    for (const { worker } of this.slots)
      if (worker.serving && !worker.draining && (!best || isLessBusy(worker, best))) best = worker;
    if (best) best.passConnection(socket);
    else this.waiting.add(socket);
  }

  /** Passes connections that have not reached a worker to another one; those that do not reach that either are closed. */
  private onConnectionsLost(sockets: readonly Socket[], { pid }: WorkerProcess): void {
    const { length: connections } = sockets;
    this.log.error(
      { worker: pid, connections },
      "connections did not reach a worker, which has no free file descriptor",
    );
    for (const socket of sockets)
      if (this.lost.has(socket)) socket.destroy();
      else {
        this.lost.add(socket);
        this.passConnection(socket);
      }
  }

  /** Passes waiting connections to a worker that has begun to serve. */
  private passWaiting(): void {
    if (this.workerCounts.up > 0) for (const socket of this.waiting.takeAll()) this.passConnection(socket);
  }

  /** Called when a worker no longer serves. After the last one, connections wait for a limited time for the next one. */
  private onServingLost(): void {
    if (this.workerCounts.up === 0) this.waiting.startTimeout();
  }

  private checkWorkers(): void {
    for (const worker of this.workers) {
      if (worker.serving && performance.now() - worker.lastMessageAt > UNRESPONSIVE_AFTER) {
        this.log.error({ worker: worker.pid }, "a worker's event loop is blocked: the worker is killed");
        worker.kill();
      } else worker.check();
    }
  }

  private onWorkerExit(worker: WorkerProcess, notAccepted: readonly Socket[]): void {
    this.workers.delete(worker);
    this.orphans.release(String(worker.pid));
    const slot = this.slots.find((each) => each.worker === worker);
    // A worker that never served fails the start, which reports it.
    if (slot && !this.stopping && !(this.starting && !worker.hasServed)) {
      // One that sent `failed` was counted at that time.
      if (!worker.draining) this.deaths++;
      this.log.error({ worker: worker.pid, end: worker.exitReason }, "a worker has died, and is replaced");
      void this.restartWorker(slot);
      this.onServingLost();
    }
    // A worker that ended by itself has logged what it could not write.
    const loggedLoss = worker.exitReason === `exit code ${LOST_ROWS_EXIT}`;
    const killed = worker.unwritten !== undefined && worker.exitReason !== "exit code 0" && !loggedLoss;
    if (this.stopping && (loggedLoss || killed)) this.hasLost = true;
    if (worker.unwritten && killed)
      this.log.error(
        { worker: worker.pid, lines: worker.unwritten.lines },
        "lines of the ledger's journal were in this worker's memory only, as they could not be written: they are lost, and with them what it wrote since",
      );
    for (const socket of notAccepted) this.passConnection(socket);
  }

  /** Starts a worker in the slot of one that failed, with a backoff where its predecessors died soon after their start. */
  private async restartWorker(slot: WorkerSlot): Promise<void> {
    const { worker } = slot;
    slot.failures = performance.now() - worker.startedAt < MIN_LIFETIME ? slot.failures + 1 : 0;
    if (slot.failures > 1) await sleep(Math.min(BACKOFF * 2 ** slot.failures, MAX_BACKOFF));
    if (!this.stopping && slot.worker === worker) slot.worker = this.forkInTime();
  }

  /** @throws Error where the successor does not start; the slot stays as it was */
  private async replaceWorker(slot: WorkerSlot): Promise<void> {
    const next = this.forkInTime();
    await next.ready;
    const { worker: last } = slot;
    slot.worker = next;
    last.draining = true;
    this.passWaiting();
    const { linger, drain } = this.config;
    last.send({ type: "stop", linger, drain: drain || NO_LIMIT });
  }
}

/** A number for "no limit" that JSON can represent. */
const NO_LIMIT = 2 ** 31 - 1;

/**
 * Workers that leave a connection waiting come last; otherwise the one with the fewest connections comes first, and of equals the
 * one whose last connection is the oldest, so that short connections one after another reach each worker in turn.
 */
function isLessBusy(one: WorkerProcess, other: WorkerProcess): boolean {
  if (one.isBusy !== other.isBusy) return other.isBusy;
  if (one.connections !== other.connections) return one.connections < other.connections;
  return one.lastConnectionAt < other.lastConnectionAt;
}
