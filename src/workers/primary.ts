import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Readiness, UNKNOWN } from "../admin/readiness.ts";
import type { WorkerCounts } from "../admin/served.ts";
import { changesOf, needRestart } from "../config/changes.ts";
import { secretsOf } from "../config/secrets.ts";
import type { Config } from "../config/types.ts";
import { Calendar } from "../core/calendar.ts";
import { periodsOf } from "../core/limits.ts";
import type { JsonLog } from "../core/log.ts";
import type { SharedFact } from "../core/peers.ts";
import { Answers, type Question } from "../core/peers.ts";
import { Listener, type ListenPlace } from "../downstream/listener.ts";
import type { Patience } from "../downstream/server.ts";
import { AFTER_FAILURE, ledgerWarn } from "../gateway.ts";
import { SWITCHES } from "../generation.ts";
import { type LoadedPlugin, versionsOf } from "../loader/instances.ts";
import type { MetricJson } from "../metrics/families.ts";
import { PROCESS_METRICS } from "../metrics/process-metrics.ts";
import { type Reloaded, Reloads } from "../reloads.ts";
import { BudgetMarks, type TimedBudgetMark } from "../store/budget-marks.ts";
import type { Unwritten } from "../store/ledger.ts";
import { MemoryLimiter } from "../store/memory-limiter.ts";
import { connectStores, type Stores } from "../store/open.ts";
import { spendSince } from "../store/spend.ts";
import { type Initiator, PROGRAM, servedFile, Trail } from "../trail.ts";
import { type Loaded, load } from "../vocabulary.ts";
import { answerKnownStores } from "./known-store.ts";
import { LOST_ROWS, type PrimaryAnswer, type ToPrimary, type WorkerQuestion } from "./messages.ts";
import { reloadAll } from "./reloading.ts";
import { answerLimits } from "./shared-limiter.ts";
import { WaitingConnections } from "./waiting.ts";
import { WorkerProcess } from "./worker-process.ts";
import { isCount, WorkerTotals } from "./worker-totals.ts";

/**
 * Milliseconds between checks of the workers, and without a message after which one is killed, because its event loop is blocked.
 */
const LOOK = 1000;
const UNRESPONSIVE = 15_000;
/** Milliseconds: a worker that lived for less is restarted with a backoff, which doubles each time. */
const SHORT_LIFE = 10_000;
const BACKOFF = 250;
const LONGEST_BACKOFF = 30_000;
/** Milliseconds for a worker to answer a question of the admin side. */
const ASKING = 5000;
/** Milliseconds for a new worker to become ready. */
const STARTING = 60_000;
/** Milliseconds that stopping workers get beyond their drain time before they are killed. */
const STOPPING = 20_000;

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
  readonly answers = new Answers();
  address!: AddressInfo;
  readonly reloads: Reloads;
  private readonly trail: Trail;
  private readonly started: Config;
  private opened: Stores | undefined;
  private number = 1;
  private readonly limiter: MemoryLimiter;
  private readonly marks = new BudgetMarks();
  private readonly listener: Listener;
  private readonly slots: WorkerSlot[] = [];
  private readonly workers = new Set<WorkerProcess>();
  private readonly totals = new WorkerTotals<WorkerProcess>();
  private readonly waiting: WaitingConnections;
  /** The latest fact of each key of each topic, for workers that start later. */
  private readonly facts = new Map<string, SharedFact>();
  private readonly looking: NodeJS.Timeout;
  private starting = true;
  private stopping = false;
  private replacing = false;
  private deaths = 0;
  /** Whether rows of the ledger were lost during the stop. */
  hasLost = false;

  private constructor(
    private loaded: Loaded,
    private readonly log: JsonLog,
    place: ListenPlace,
  ) {
    const { config } = loaded;
    this.started = config;
    this.waiting = new WaitingConnections(log);
    const secrets = () => secretsOf(this.config, this.loaded.env);
    this.trail = new Trail(log, () => this.stores.audit, secrets);
    this.reloads = new Reloads(
      log,
      () => this.reloadNow(),
      this.trail,
      () => servedFile(this.config),
    );
    const warn = (message: string) => log.warn({}, message);
    // Past spending is read once for each kind of period; the store is open only during that query.
    const spent = async (since: number) => {
      const stores = await connectStores(config.store, config.keys, warn);
      try {
        return await spendSince(stores.ledger)(since);
      } finally {
        await stores.close();
      }
    };
    this.limiter = new MemoryLimiter(spent, new Calendar(config.timezone), warn);
    this.limiter.marked = this.marks.add;
    answerLimits(this.answers, this.limiter);
    answerKnownStores(this.answers, (question, asked) => this.askAll(question, asked));
    this.listener = new Listener(place, (socket) => this.give(socket), true);
    this.looking = setInterval(() => this.look(), LOOK);
  }

  /** @throws the system's error for the address, or Error where a worker does not start */
  static async start(loaded: Loaded, log: JsonLog, place: ListenPlace): Promise<Primary> {
    const primary = new Primary(loaded, log, place);
    try {
      const { store, keys } = loaded.config;
      primary.opened = await connectStores(store, keys, ledgerWarn(log));
      // In parallel with the start of the workers, so that no request has to wait for it. A failed query is repeated later.
      primary.limiter.prepare(periodsOf(loaded.config.limits)).catch(() => {});
      for (let i = 0; i < loaded.config.workers; i++) primary.slots.push({ worker: primary.fork(), failures: 0 });
      await primary.begin();
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
  private async begin(): Promise<void> {
    const ready = this.slots.map(({ worker }) => worker.ready);
    const listening = Promise.any(ready).then(async () => {
      this.address = await this.listener.listen();
    });
    try {
      await Promise.all([...ready, listening]);
    } catch (thrown) {
      // Workers that serve already end as at any stop.
      for (const worker of this.workers) if (!worker.serving) worker.kill();
      await listening.catch(() => {});
      throw thrown;
    }
    this.starting = false;
  }

  get config(): Config {
    return this.loaded.config;
  }

  /** The plugins that the workers run; none runs in this process. */
  get plugins(): ReadonlyMap<string, LoadedPlugin> {
    return this.loaded.vocabulary.classes;
  }

  /** Reloads as `Gateway.reload` does, in all workers together: all of them serve the new configuration, or none. */
  reload(by?: Initiator): Promise<Reloaded> {
    return this.reloads.run(by);
  }

  /** Returns the budget marks that were reached since the last call, in what is counted here for all workers. */
  takeMarks(): TimedBudgetMark[] {
    return this.marks.take();
  }

  /** Switches as `Gateway.switch` does, in all workers. */
  switch(name: string, off: boolean): void {
    this.share({ topic: SWITCHES.name, key: name, fact: off });
  }

  /** Returns what a reload would change. @throws ConfigError */
  async compare(): Promise<Pick<Reloaded, "changes" | "restart">> {
    const { changes, restart } = this.comparison(await this.readAgain());
    return { changes, restart };
  }

  /** The stores that the admin side uses. */
  get stores(): Stores {
    return this.opened as Stores;
  }

  async askAll<Ask, Answer>(question: Question<Ask, Answer>, asked: Ask): Promise<Answer[]> {
    const serving = [...this.workers].filter((worker) => worker.serving);
    const answers = await Promise.allSettled(serving.map((worker) => worker.ask(question, asked, ASKING)));
    return answers.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /** Gauges come from the workers that answer, counts from all that ever ran: a worker that is late or dead lowers no sum. */
  async askMetrics(): Promise<MetricJson[][]> {
    const serving = [...this.workers].filter((worker) => worker.serving);
    const answers = await Promise.allSettled(
      serving.map(async (worker) => {
        const metrics = await worker.ask(PROCESS_METRICS, null, ASKING);
        this.totals.heard(worker, metrics);
        return metrics.filter((metric) => !isCount(metric));
      }),
    );
    return [...this.totals.all, ...answers.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []))];
  }

  get unwritten(): Unwritten | undefined {
    const all = [...this.workers].flatMap(({ unwritten }) => (unwritten ? [unwritten] : []));
    const [first] = all;
    return first && { lines: all.reduce((sum, { lines }) => sum + lines, 0), where: first.where };
  }

  /** How many workers there should be, and how many serve. */
  get workerCounts(): WorkerCounts {
    const up = this.slots.filter(({ worker }) => worker.serving && !worker.leaving).length;
    return { wanted: this.slots.length, up, deaths: this.deaths };
  }

  /** Ready while at least one worker serves; the parts report missing ones. */
  readiness(): Readiness {
    const { wanted, up } = this.workerCounts;
    const serving = this.slots.filter(({ worker }) => worker.serving);
    // A part that no worker reports is unknown, not ok.
    const worst = (part: string) => {
      const states = serving.map(({ worker }) => worker.parts[part] ?? "ok");
      return states.find((state) => state !== "ok") ?? states[0] ?? UNKNOWN;
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
      for (const slot of this.slots) await this.succeed(slot);
      this.log.info({ workers }, "workers are replaced");
      await this.trail.done(by, ...REPLACE, { workers });
    } catch (thrown) {
      const cause = (thrown as Error).message;
      this.log.error({ cause }, "a new worker did not start: the running workers stay");
      await this.trail.failed(by, ...REPLACE, cause);
    }
    this.replacing = false;
  }

  /** Stops as `Downstream.close` does, all workers at once. Never throws, never hangs. */
  async stop({ linger = 0, drain = this.config.drain || Number.POSITIVE_INFINITY, hurry }: Patience): Promise<void> {
    const began = performance.now();
    this.stopping = true;
    for (const worker of this.workers) worker.send({ type: "leave" });
    if (!this.listener.kept) await until(() => performance.now() - began >= linger || hurry?.aborted === true);
    await this.listener.close();
    this.waiting.close();
    const left = drain - (performance.now() - began);
    for (const worker of this.workers) {
      worker.leaving = true;
      worker.send({ type: "stop", linger, drain: Math.min(left, LONGEST) });
    }
    const urge = () => {
      for (const worker of this.workers) worker.send({ type: "hurry" });
    };
    if (hurry?.aborted) urge();
    else hurry?.addEventListener("abort", urge);
    let limit = performance.now() + left + STOPPING;
    await until(() => {
      if (hurry?.aborted) limit = Math.min(limit, performance.now() + STOPPING);
      return this.workers.size === 0 || performance.now() >= limit;
    });
    for (const worker of this.workers) {
      this.log.error({ worker: worker.pid }, "a worker did not end, and is killed");
      worker.kill();
    }
    await until(() => this.workers.size === 0);
    clearInterval(this.looking);
    await this.opened?.close();
  }

  /** Stops after a crash in this process: the workers get a short time to finish what they serve. */
  fail(): Promise<void> {
    return this.stop({ drain: Math.min(AFTER_FAILURE, this.config.drain || AFTER_FAILURE) });
  }

  private readAgain(): Promise<Loaded> {
    const { config, env } = this.loaded;
    return load({ file: config.file, folder: config.folder, env });
  }

  private comparison({ config, vocabulary }: Loaded): Pick<Reloaded, "changes" | "restart"> {
    const code = { before: versionsOf(this.plugins), after: versionsOf(vocabulary.classes) };
    return { changes: changesOf(this.config, config, code), restart: needRestart(changesOf(this.started, config)) };
  }

  private async reloadNow(): Promise<Reloaded> {
    const next = await this.readAgain();
    const { changes, restart } = this.comparison(next);
    if (changes.length > 0) {
      const { text } = next.config;
      const serving = [...this.workers].filter((worker) => worker.serving && !worker.leaving);
      await reloadAll(serving, text, this.number + 1);
      for (const worker of serving) worker.text = text;
      this.loaded = next;
      this.number++;
      this.log.level = next.config.log.level;
      this.opened?.keys.adopt(next.config.keys);
      // Facts about a changed provider are stale; workers send current ones again. The operator's switches stay.
      for (const [key, { topic }] of this.facts) if (topic !== SWITCHES.name) this.facts.delete(key);
      // Workers that started during the reload.
      for (const worker of this.workers) if (worker.serving && !worker.leaving) void this.catchUp(worker);
    }
    return { changes, restart, generation: this.number };
  }

  /** Reloads a worker that started with an older configuration. */
  private async catchUp(worker: WorkerProcess): Promise<void> {
    const { text } = this.config;
    if (worker.text === text) return;
    try {
      await reloadAll([worker], text, this.number);
      worker.text = text;
    } catch (thrown) {
      this.log.error(
        { worker: worker.pid, cause: (thrown as Error).message },
        "a worker could not load the new configuration and is replaced",
      );
      worker.kill();
    }
  }

  private fork(): WorkerProcess {
    const { file, folder, text } = this.config;
    const worker = new WorkerProcess([file, folder, String(this.started.workers)], text, this.number, {
      lines: (bytes, from) => (from === "stdout" ? this.log.relay(bytes) : process.stderr.write(bytes)),
      message: (message, from) => this.hear(message, from),
      silent: (ended) => this.totals.end(ended),
      ended: (ended, untaken) => this.ended(ended, untaken),
    });
    this.totals.begin(worker);
    this.workers.add(worker);
    return worker;
  }

  private hear(message: ToPrimary, from: WorkerProcess): void {
    // A worker's last report may be read after its exit.
    if (message.type === "counted") this.totals.heard(from, message.metrics);
    if (!this.workers.has(from)) return;
    if (message.type === "ready") {
      for (const fact of this.facts.values()) from.send({ type: "fact", ...fact });
      this.found();
      void this.catchUp(from);
    } else if (message.type === "fact") {
      const { topic, key, fact } = message;
      this.share({ topic, key, fact }, from);
    } else if (message.type === "question") {
      void this.answer(message, from);
    } else if (message.type === "failed") {
      from.leaving = true;
      this.deaths++;
      const slot = this.slots.find(({ worker }) => worker === from);
      if (slot) void this.again(slot);
      this.lost();
    }
  }

  /** Sends a fact to all workers, including those that start later. @param from the worker that reported it */
  private share(shared: SharedFact, from?: WorkerProcess): void {
    this.facts.set(`${shared.topic} ${shared.key}`, shared);
    for (const worker of this.workers) if (worker !== from) worker.send({ type: "fact", ...shared });
  }

  private async answer({ id, name, question }: WorkerQuestion, from: WorkerProcess): Promise<void> {
    let told: Omit<PrimaryAnswer, "id">;
    try {
      told = { answer: await this.answers.answer(name, question) };
    } catch (thrown) {
      told = { failure: (thrown as Error).message };
    }
    from.send({ type: "answer", id, ...told });
    // The worker that asked has died since.
    if (!this.workers.has(from)) this.limiter.release(String(from.pid));
  }

  private give(socket: Socket): void {
    let best: WorkerProcess | undefined;
    for (const { worker } of this.slots)
      if (worker.serving && !worker.leaving && (!best || lighter(worker, best))) best = worker;
    if (best) best.give(socket);
    else this.waiting.add(socket);
  }

  /** Passes waiting connections to a worker that has begun to serve. */
  private found(): void {
    if (this.workerCounts.up > 0) for (const socket of this.waiting.end()) this.give(socket);
  }

  /** Called when a worker serves no longer: after the last one, connections wait for the next one for a limited time. */
  private lost(): void {
    if (this.workerCounts.up === 0) this.waiting.begin();
  }

  private look(): void {
    for (const worker of this.workers) {
      if (worker.serving && performance.now() - worker.heardAt > UNRESPONSIVE) {
        this.log.error({ worker: worker.pid }, "a worker's event loop is blocked: the worker is killed");
        worker.kill();
      } else worker.send({ type: "look" });
    }
  }

  private ended(worker: WorkerProcess, untaken: readonly Socket[]): void {
    this.workers.delete(worker);
    this.limiter.release(String(worker.pid));
    const slot = this.slots.find((each) => each.worker === worker);
    // A worker that never served fails the start, which reports it.
    if (slot && !this.stopping && !(this.starting && !worker.served)) {
      // A worker that sent `failed` has been counted then.
      if (!worker.leaving) this.deaths++;
      this.log.error({ worker: worker.pid, end: worker.end }, "a worker has died, and is replaced");
      void this.again(slot);
      this.lost();
    }
    // A worker that ended by itself has logged what it could not write.
    const toldLost = worker.end === `exit code ${LOST_ROWS}`;
    const killed = worker.unwritten !== undefined && worker.end !== "exit code 0" && !toldLost;
    if (this.stopping && (toldLost || killed)) this.hasLost = true;
    if (worker.unwritten && killed)
      this.log.error(
        { worker: worker.pid, lines: worker.unwritten.lines },
        "lines of the ledger's journal were in this worker's memory only, as they could not be written: they are lost, and with them what it wrote since",
      );
    for (const socket of untaken) this.give(socket);
  }

  /** Starts a worker in the slot of one that failed, with a backoff where its predecessors died soon after their start. */
  private async again(slot: WorkerSlot): Promise<void> {
    const { worker } = slot;
    slot.failures = performance.now() - worker.startedAt < SHORT_LIFE ? slot.failures + 1 : 0;
    if (slot.failures > 1) await sleep(Math.min(BACKOFF * 2 ** slot.failures, LONGEST_BACKOFF));
    if (!this.stopping && slot.worker === worker) slot.worker = this.fork();
  }

  /** @throws Error where the successor does not start; the slot stays as it was */
  private async succeed(slot: WorkerSlot): Promise<void> {
    const next = this.fork();
    const timer = setTimeout(() => next.kill(), STARTING);
    await next.ready.finally(() => clearTimeout(timer));
    const { worker: last } = slot;
    slot.worker = next;
    last.leaving = true;
    this.found();
    const { linger, drain } = this.config;
    last.send({ type: "stop", linger, drain: drain || LONGEST });
  }
}

/** A number for "no limit" that JSON can represent. */
const LONGEST = 2 ** 31 - 1;

/** Workers that leave a connection waiting come last; otherwise the one with the fewest connections comes first. */
const lighter = (one: WorkerProcess, other: WorkerProcess): boolean =>
  one.busy === other.busy ? one.connections < other.connections : other.busy;

async function until(enough: () => boolean): Promise<void> {
  while (!enough()) await sleep(10);
}
