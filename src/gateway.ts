import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { DependencyContainer } from "tsyringe";
import { answerAdmin } from "./admin/questions.ts";
import type { Readiness } from "./admin/readiness.ts";
import { Carried } from "./carried.ts";
import { type Change, changesOf, needRestart } from "./config/changes.ts";
import { countedApart, openPaths } from "./config/limits.ts";
import { secretsOf } from "./config/secrets.ts";
import type { Config } from "./config/types.ts";
import { processContainer } from "./container.ts";
import { Calendar } from "./core/calendar.ts";
import { inTime } from "./core/in-time.ts";
import { hasLimits, periodsOf } from "./core/limits.ts";
import type { Log } from "./core/log.ts";
import { Networks } from "./core/networks.ts";
import { Answers, type Peers, type Question } from "./core/peers.ts";
import { KeyWatch } from "./downstream/key-watch.ts";
import type { ListenPlace } from "./downstream/listener.ts";
import { Downstream, type Patience, type ServerLimits } from "./downstream/server.ts";
import { Generation, HEALTH, SWITCHES } from "./generation.ts";
import { type LoadedPlugin, versionsOf } from "./loader/instances.ts";
import { pluginError } from "./loader/problems.ts";
import { answerMetrics, ProcessMetrics } from "./metrics/process-metrics.ts";
import { type Reloaded, Reloads } from "./reloads.ts";
import { type BudgetMark, BudgetMarks } from "./store/budget-marks.ts";
import type { Ledger, LedgerWarn, Unwritten } from "./store/ledger.ts";
import type { Limiter } from "./store/limiter.ts";
import { MemoryLimiter } from "./store/memory-limiter.ts";
import { connectStores, type Stores } from "./store/open.ts";
import { COUNTED_TWICE, OtherGateways } from "./store/other-gateways.ts";
import { openRedisLimiter } from "./store/redis/limiter.ts";
import { spendSince, writing } from "./store/spend.ts";
import { type Initiator, servedFile, Trail } from "./trail.ts";
import { Envelopes } from "./translation/envelope.ts";
import type { Pools } from "./upstream/http1/pools.ts";
import { type ConfigPlace, type Loaded, load } from "./vocabulary.ts";
import { knownStore } from "./workers/known-store.ts";
import { SharedLimiter } from "./workers/shared-limiter.ts";

interface GatewayOptions extends ConfigPlace {
  log: Log;
}

/** A generation that is ready to serve. */
export interface Prepared {
  readonly loaded: Loaded;
  readonly changes: readonly Change[];
  /** Absent: nothing has changed. */
  readonly generation?: Generation;
  readonly envelopes?: Envelopes;
}

/** What all generations of a gateway have in common. */
interface Lasting {
  readonly stores: Stores;
  readonly carried: Carried;
  readonly limiter: Limiter;
  readonly process: DependencyContainer;
  readonly log: Log;
  readonly processes: number;
  readonly peers: Peers | undefined;
  readonly metrics: ProcessMetrics;
}

/** A running gateway: one store, and the generation that new requests belong to. */
export class Gateway {
  private place: AddressInfo | undefined;
  private readonly downstream: Downstream;
  private readonly keyWatch: KeyWatch;
  /** Those before that exchanges still keep alive. */
  private readonly retired = new Set<Generation>();
  /** Exchanges that began with those. */
  private past = 0;
  readonly reloads: Reloads;
  /** Answers what is asked of this process. */
  readonly answers = new Answers();
  private stopping = false;
  private readonly started: Config;
  private readonly marks = new BudgetMarks();
  private readonly others: OtherGateways | undefined;

  private constructor(
    private loaded: Loaded,
    private serving: Generation,
    private envelopes: Envelopes,
    private readonly lasting: Lasting,
  ) {
    const { config } = loaded;
    this.started = config;
    this.downstream = new Downstream(() => this.serving, serverLimits(config, lasting.processes));
    this.keyWatch = new KeyWatch(lasting.stores.keys, this.downstream);
    const { log, metrics, stores } = lasting;
    const secrets = () => secretsOf(this.config, this.loaded.env);
    const act = async () => this.adopt(await this.soon(this.prepare()));
    this.reloads = new Reloads(log, act, new Trail(log, () => stores.audit, secrets), () => servedFile(this.config));
    answerAdmin(this.answers, this);
    lasting.limiter.marked = this.marks.add;
    const { limits, postgres } = config.store;
    if (limits === "memory" && !postgres) this.others = this.watchOthers();
    answerMetrics(this.answers, () => metrics.json(this, stores.ledger));
    this.downstream.ended = (exchange) => metrics.ended(exchange);
    this.downstream.refused = (code) => metrics.refused(code);
    this.downstream.preflight = () => metrics.preflight();
    lasting.peers?.hear(SWITCHES, (name, off) => this.switch(name, off));
    lasting.peers?.hear(HEALTH, (_key, news) => this.serving.upstreams.health.learn(news));
  }

  /** @throws ConfigError, PluginError, or what the system says of files and ports; nothing is left open then. */
  static async start(options: GatewayOptions): Promise<Gateway> {
    const gateway = await Gateway.open(await load(options), options.log);
    try {
      await gateway.listen(gateway.config.listen);
      return gateway;
    } catch (thrown) {
      await gateway.stop({ drain: 0 });
      throw thrown;
    }
  }

  /**
   * Opens everything but a listener.
   * @param processes among which connections are spread
   * @param peers the others of them
   * @param pools what connects to providers
   * @throws PluginError, or what the system says of files; nothing is left open then.
   */
  static async open(loaded: Loaded, log: Log, processes = 1, peers?: Peers, pools?: Pools): Promise<Gateway> {
    const { config, vocabulary } = loaded;
    const warn = ledgerWarn(log);
    let away = false;
    const others = async () => {
      const known = peers && (await knownStore(peers));
      away = known !== undefined;
      if (away) log.warn({}, "PostgreSQL (store: ledger) is away: this worker starts with what the others know of it");
      return known;
    };
    const stores = await connectStores(config.store, config.keys, warn, others);
    let limiter: Limiter | undefined;
    try {
      limiter = await openLimiter(config, stores.ledger, log, processes, peers);
      // What takes longer, as the journals of the dead do, the first requests wait for.
      await inTime(ASKING, limiter.prepare(periodsOf(config.limits))).catch(() => {});
      const envelopes = new Envelopes(config.envelopes.key ?? (await stores.secret()));
      const carried = new Carried(vocabulary.protocolList, pools);
      const process = processContainer({ log });
      const lasting = { stores, carried, limiter, process, log, processes, peers, metrics: new ProcessMetrics(log) };
      const generation = await build(loaded, envelopes, lasting, { away });
      return new Gateway(loaded, generation, envelopes, lasting);
    } catch (thrown) {
      await limiter?.close();
      await stores.close();
      throw thrown;
    }
  }

  /** What the generation that serves was made of. */
  get config(): Config {
    return this.loaded.config;
  }

  get stores(): Stores {
    return this.lasting.stores;
  }

  /** The generation that new requests belong to. */
  get generation(): Generation {
    return this.serving;
  }

  /** What it was built with, by name. */
  get plugins(): ReadonlyMap<string, LoadedPlugin> {
    return this.serving.plugins;
  }

  /** The exchanges that have not ended. */
  get exchanges(): Downstream["exchanges"] {
    return this.downstream.exchanges;
  }

  /** Breaks an exchange off. @returns whether it runs */
  cancel(id: string): boolean {
    return this.downstream.cancel(id);
  }

  /** Switches a provider or a target off, or on again, until it ends. @param name of either */
  switch(name: string, off: boolean): void {
    this.serving.upstreams.health.switch(name, off);
  }

  /** Shares of budgets that were reached here since they were taken last. */
  takeMarks(): BudgetMark[] {
    return this.marks.take();
  }

  /** All generations that live, the one that serves first, each with its number. */
  get generations(): readonly Generation[] {
    return [this.serving, ...this.retired];
  }

  /**
   * Serves what gateway.yaml says now, from the next request on: settings, plugins' code and secrets at once, or nothing of
   * it. What runs goes on as it began. One at a time.
   * @param by who wants it
   * @throws ConfigError, PluginError, or what a plugin's start throws: nothing has changed then
   */
  reload(by?: Initiator): Promise<Reloaded> {
    return this.reloads.run(by);
  }

  /** What a reload would change. @throws ConfigError */
  async compare(): Promise<Pick<Reloaded, "changes" | "restart">> {
    const { file, folder } = this.config;
    const next = await load({ file, folder, env: this.loaded.env });
    return { changes: this.changes(next), restart: this.restart(next.config) };
  }

  /** The first half of a reload: builds a generation beside the one that serves. @throws as `reload` */
  async prepare(text?: string): Promise<Prepared> {
    const { file, folder } = this.config;
    const loaded = await load({ file, folder, env: this.loaded.env, text });
    const changes = this.changes(loaded);
    if (changes.length === 0) return { loaded, changes };
    const envelopes = await this.envelopesOf(loaded.config);
    const generation = await build(loaded, envelopes, this.lasting, { former: this.serving });
    return { loaded, changes, generation, envelopes };
  }

  /** The number of the generation that serves: among several processes it is the same in all that serve the same. */
  get number(): number {
    return this.serving.number;
  }

  set number(number: number) {
    this.serving.number = number;
  }

  /** The second half: one reference is changed, and nothing of this can fail. @param number the new generation's */
  adopt(
    { loaded, changes, generation, envelopes = this.envelopes }: Prepared,
    number: number = this.number + 1,
  ): Reloaded {
    const restart = this.restart(loaded.config);
    if (generation && this.stopping) void generation.close(false);
    else if (generation) {
      const former = this.serving;
      this.envelopes = envelopes;
      generation.number = number;
      this.past += former.begun;
      this.serving = generation;
      this.loaded = loaded;
      this.stores.keys.adopt(loaded.config.keys);
      this.downstream.configure(serverLimits(loaded.config, this.lasting.processes));
      this.lasting.log.level = loaded.config.log.level;
      this.retire(former);
    }
    return { changes, restart, generation: this.number };
  }

  /** A generation that was prepared is not wanted. */
  async discard({ generation }: Prepared): Promise<void> {
    await generation?.close(false);
  }

  /** @throws what the system says of the address */
  async listen(place: ListenPlace): Promise<void> {
    this.place = await this.downstream.listen(place);
  }

  /** Where it listens. @throws Error where it does not, because it is given its connections */
  get address(): AddressInfo {
    if (!this.place) throw new Error("This gateway does not listen itself.");
    return this.place;
  }

  /** Serves a connection. */
  accept(socket: Socket): void {
    this.downstream.accept(socket);
  }

  /** What the parts that serve requests say of themselves. */
  readiness(): Readiness {
    const { stopping } = this.downstream;
    const { state: store } = this.stores.ledger;
    const limits = this.others?.twice ? "twice" : this.generation.limiter.state;
    return { ready: !stopping, parts: { gateway: stopping ? "stopping" : "ok", store, limits } };
  }

  /** One that counts limits in memory knows only what it has let through itself. */
  private watchOthers(): OtherGateways {
    const { stores, log, peers } = this.lasting;
    const parent = peers && process.ppid;
    const limited = async () =>
      hasLimits(this.config.limits) || (await stores.keys.list()).some(({ limits, revoked }) => limits && !revoked);
    return new OtherGateways(
      () => stores.ledger.isShared(parent),
      limited,
      (twice) => {
        if (twice) log.error({}, COUNTED_TWICE);
        else log.warn({}, "no other gateway uses the same store any more: limits are counted once");
      },
    );
  }

  get unwritten(): Unwritten | undefined {
    return this.stores.ledger.unwritten;
  }

  /** Whether rows of the ledger were lost as it stopped. */
  get hasLost(): boolean {
    return this.stores.ledger.lostLines > 0;
  }

  async askAll<Ask, Answer>({ name }: Question<Ask, Answer>, asked: Ask): Promise<Answer[]> {
    return [(await this.answers.answer(name, asked)) as Answer];
  }

  /** How many exchanges have begun; `Infinity` once it stops. */
  get begun(): number {
    return this.downstream.stopping ? Number.POSITIVE_INFINITY : this.past + this.serving.begun;
  }

  /** A stop is near: answers end their connections from now on. */
  leave(): void {
    this.downstream.leave();
  }

  /**
   * Stops as `Downstream.close` does, and closes everything. Never throws, never hangs. Without patience for running
   * exchanges they get what gateway.yaml says.
   */
  async stop({
    linger,
    drain = this.config.drain || Number.POSITIVE_INFINITY,
    hurry,
  }: Partial<Patience> = {}): Promise<void> {
    this.stopping = true;
    const limit = performance.now() + drain;
    const left = await this.downstream.close({ linger, drain, hurry });
    this.keyWatch.close();
    this.others?.stop();
    const { log, limiter } = this.lasting;
    for (const { id, path } of left) log.error({ id, path }, "an exchange could not be ended, and is given up");
    await this.reloads.settled();
    await Promise.all(this.generations.map((generation) => generation.close(left.length === 0)));
    await limiter.close();
    await this.stores.ledger.written(limit - performance.now(), hurry);
    await this.stores.close();
  }

  /** Something broke outside of every request: refuses what is new, gives what runs a little time, and closes everything. */
  async fail(): Promise<void> {
    this.downstream.refuseAll();
    await this.stop({ drain: Math.min(AFTER_FAILURE, this.config.drain || AFTER_FAILURE) });
  }

  /** A plugin's start may never end: what is late is not wanted any more. */
  private async soon(preparing: Promise<Prepared>): Promise<Prepared> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(pluginError(this.config.file, LATE)), PREPARING);
    try {
      return await Promise.race([preparing, late.promise]);
    } catch (thrown) {
      preparing.then((prepared) => this.discard(prepared)).catch(() => {});
      throw thrown;
    } finally {
      clearTimeout(timer);
    }
  }

  /** What keeps it alive is given its time, and then broken off. */
  private retire(former: Generation): void {
    const { drain } = former.config;
    this.retired.add(former);
    if (drain > 0) former.ends = Date.now() + drain;
    const late = () => {
      this.lasting.log.warn(
        { generation: former.number, exchanges: former.active },
        "a generation is ended: drain is over",
      );
      this.downstream.retire(former);
    };
    const timer = drain > 0 ? setTimeout(late, drain).unref() : undefined;
    void former.close().then(() => {
      clearTimeout(timer);
      this.retired.delete(former);
    });
  }

  private changes(next: Loaded): Change[] {
    const code = { before: versionsOf(this.plugins), after: versionsOf(next.vocabulary.classes) };
    return changesOf(this.config, next.config, code);
  }

  private restart(config: Config): string[] {
    return needRestart(changesOf(this.started, config));
  }

  private async envelopesOf({ envelopes: { key } }: Config): Promise<Envelopes> {
    if (key === this.config.envelopes.key) return this.envelopes;
    return new Envelopes(key ?? (await this.stores.secret()));
  }
}

/** Milliseconds for which a start waits for what was spent before. */
const ASKING = 1000;
/** Milliseconds that all plugins of a reload have to start. */
const PREPARING = 60_000;
const LATE = `the new configuration was not ready after ${PREPARING / 1000} s: the start() of a plugin has not ended`;

async function build(
  { config, vocabulary }: Loaded,
  envelopes: Envelopes,
  { stores, peers, metrics, ...lasting }: Lasting,
  { former, away = false }: { former?: Generation; away?: boolean },
): Promise<Generation> {
  const { keys, values, ledger, owners } = stores;
  const { protocolList: protocols, classes } = vocabulary;
  const parts = { config, protocols, classes, keys, values, ledger, owners, envelopes, former, ...lasting };
  const observed = { observer: metrics.times, rates: metrics.rates };
  const generation = await Generation.build({ ...parts, ...observed, ...(peers && { peers }) });
  try {
    // The processes beside this one have kept the prices, and told the rest, unless their code is older.
    if (away) void keepPricesLater(stores, generation);
    else {
      await keepPrices(stores, generation);
      await tellUnkept(config, stores, lasting.log);
    }
    return generation;
  } catch (thrown) {
    await generation.close(false);
    throw thrown;
  }
}

/** What is accepted of clients. */
function serverLimits({ connections, trust, overload }: Config, processes: number): Partial<ServerLimits> {
  const { per_address: most, head, idle: keepAlive } = connections;
  // Connections of one address are spread over the processes.
  return { perAddress: Math.ceil(most / processes), head, keepAlive, trust: new Networks(trust), overload };
}

/**
 * What counts for this process.
 * @throws Error where limits are counted in a server that does not answer
 */
async function openLimiter(
  { store: { limits: url }, timezone, instances }: Config,
  ledger: Ledger,
  log: Log,
  processes: number,
  peers?: Peers,
): Promise<Limiter> {
  const warn = (message: string) => log.warn({}, message);
  const [spentSince, calendar] = [spendSince(ledger), new Calendar(timezone)];
  if (url === "memory") return peers ? new SharedLimiter(peers) : new MemoryLimiter(spentSince, calendar, warn);
  const info = (message: string) => log.info({}, message);
  // Each worker of each gateway counts there by itself.
  const most = instances === undefined ? {} : { instances: instances * processes };
  return openRedisLimiter(url, { spentSince, written: writing(ledger), calendar, warn, info, ...most });
}

/** Limits of keys stand in the store, and what keeps them in gateway.yaml: told where that is not there. */
async function tellUnkept({ paths, chains, store, instances }: Config, { keys }: Stores, log: Log): Promise<void> {
  const [open] = openPaths(paths, (use) => chains.get(use) ?? []);
  const why = open?.message ?? countedApart(store, instances);
  if (why === undefined) return;
  const limited = (await keys.list()).filter(({ limits, revoked }) => limits && revoked === undefined);
  if (limited.length === 0) return;
  log.error({ keys: limited.map(({ name }) => name) }, `keys have limits, and ${why}`);
}

/** Tells a log what an operator should know of a ledger. */
export const ledgerWarn =
  (log: Log): LedgerWarn =>
  (message, fields = {}, over = false) =>
    over ? log.info(fields, message) : log.error(fields, message);

/** Keeps the terms of all prices, for the ledger names them. */
async function keepPrices({ prices }: Stores, { marketplace: { models } }: Generation): Promise<void> {
  const targets = models.flatMap((model) => model.targets);
  await prices.keep(targets.flatMap((target) => target.prices?.all ?? []));
}

/** The same, once a database that is away is back. Never throws. */
async function keepPricesLater(stores: Stores, generation: Generation): Promise<void> {
  for (;;)
    try {
      await keepPrices(stores, generation);
      return;
    } catch {
      await sleep(AGAIN, undefined, { ref: false });
    }
}

/** Milliseconds until a database that is away is tried again. */
const AGAIN = 5000;

/** Milliseconds that running exchanges get when something broke of which nobody knows what it left behind. */
export const AFTER_FAILURE = 10_000;
