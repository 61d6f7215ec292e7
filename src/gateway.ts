import type { AddressInfo, Socket } from "node:net";
import type { DependencyContainer } from "tsyringe";
import { registerAdminAnswers } from "./admin/questions.ts";
import type { Readiness } from "./admin/readiness.ts";
import { AuditTrail, type Initiator, servedFile } from "./audit-trail.ts";
import { type Change, type StartSettings, withStartSettings } from "./config/changes.ts";
import { unlimitedPaths, unsharedLimitsReason } from "./config/limits.ts";
import { configSecrets } from "./config/secrets.ts";
import type { Config } from "./config/types.ts";
import { processContainer } from "./container.ts";
import { budgetPeriods, hasLimits } from "./core/limits.ts";
import type { Log } from "./core/log.ts";
import { Networks } from "./core/networks.ts";
import { type Peers, type Question, QuestionHandlers } from "./core/peers.ts";
import { withTimeout } from "./core/timeout.ts";
import { KeyWatch } from "./downstream/key-watch.ts";
import type { SocketAddress } from "./downstream/listener.ts";
import type { RunningExchange } from "./downstream/running-exchanges.ts";
import { Downstream, type ServerLimits } from "./downstream/server.ts";
import type { StopTimeouts } from "./downstream/server-stop.ts";
import { CONVERSATIONS_TOPIC, COUNTED_TOPIC, Generation, HEALTH_TOPIC, SWITCHES_TOPIC } from "./generation.ts";
import { LatePrices } from "./late-prices.ts";
import { type ConfigPlace, type LoadedConfig, loadWithExtensions } from "./loaded-config.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import type { MetricJson } from "./metrics/families.ts";
import { answerMetrics, PROCESS_METRICS, ProcessMetrics } from "./metrics/process-metrics.ts";
import { openLimiter } from "./open-limiter.ts";
import { type ReloadResult, Reloads, STOPPING } from "./reloads.ts";
import { BudgetMarks, type TimedBudgetMark } from "./store/budget-marks.ts";
import { MAX_EXCHANGES } from "./store/counted-names.ts";
import { limitedKeys } from "./store/keys.ts";
import type { LedgerWarn, UnwrittenLines } from "./store/ledger.ts";
import { leftBehindWarning } from "./store/left-behind.ts";
import type { Limiter } from "./store/limiter.ts";
import { connectStores, type Stores } from "./store/open.ts";
import { COUNTED_TWICE, OtherGatewayWatch } from "./store/other-gateways.ts";
import { earlierCounts } from "./store/spend.ts";
import { FormattedError, formatError } from "./text/format-error.ts";
import { Envelopes } from "./translation/envelope.ts";
import type { Pools } from "./upstream/http1/pools.ts";
import { UpstreamResources } from "./upstream-resources.ts";
import { askKnownStore } from "./workers/known-store.ts";
import { shareWrongKeys } from "./workers/shared-wrong-keys.ts";

interface GatewayOptions extends ConfigPlace {
  log: Log;
}

/** A generation that is ready to serve. */
export interface PreparedReload {
  readonly loaded: LoadedConfig;
  readonly changes: readonly Change[];
  /** Absent: nothing has changed. */
  readonly generation?: Generation;
  readonly envelopes?: Envelopes;
}

/** The parts shared by all generations of a gateway. */
interface SharedParts {
  readonly started: StartSettings;
  readonly stores: Stores;
  readonly prices: LatePrices;
  readonly carried: UpstreamResources;
  readonly limiter: Limiter;
  readonly process: DependencyContainer;
  readonly log: Log;
  readonly processes: number;
  readonly peers: Peers | undefined;
  readonly metrics: ProcessMetrics;
}

/** How a gateway is opened. */
interface OpenOptions {
  /** Number of processes over which connections are spread. */
  processes?: number;
  /** The other processes. */
  peers?: Peers;
  /** The connection pools for providers. */
  pools?: Pools;
  /** The settings of the start where that was an earlier one, of the primary; default: those of the file. */
  started?: StartSettings;
}

/** A running gateway: one store, and the generation for new requests. */
export class Gateway {
  private listenAddress: AddressInfo | undefined;
  private readonly downstream: Downstream;
  private readonly keyWatch: KeyWatch;
  private readonly endKeyMetrics: () => void;
  /** Former generations that exchanges still keep alive. */
  private readonly retired = new Set<Generation>();
  /** Number of exchanges that began with former generations. */
  private formerlyBegun = 0;
  readonly reloads: Reloads;
  /** Handlers for questions to this process. */
  readonly answers = new QuestionHandlers();
  private stopping = false;
  /** Ends the wait for a running preparation. */
  private cancelPrepare: () => void = () => {};
  private readonly marks = new BudgetMarks();
  private readonly otherGateways: OtherGatewayWatch | undefined;

  /** @param loaded gateway.yaml as it is written; what is in force is the generation's */
  private constructor(
    private loaded: LoadedConfig,
    private serving: Generation,
    private envelopes: Envelopes,
    private readonly shared: SharedParts,
  ) {
    const { config } = serving;
    this.downstream = new Downstream(() => this.serving, serverLimits(config, shared.processes));
    this.keyWatch = new KeyWatch(shared.stores.keys, this.downstream.exchanges);
    const { log, metrics, stores } = shared;
    this.endKeyMetrics = stores.keys.watch((change) => {
      if ("id" in change) metrics.exchanges.forgetCaller(change.id);
    });
    const secrets = () => configSecrets(this.config, this.loaded.env);
    const act = async () => this.adopt(await this.untilStop(this.prepare()));
    this.reloads = new Reloads(log, act, new AuditTrail(log, () => stores.audit, secrets), () =>
      servedFile(this.config),
    );
    registerAdminAnswers(this.answers, this);
    shared.limiter.onBudgetMark = this.marks.add;
    const { limits, postgres } = config.store;
    if (limits === "memory" && !postgres) this.otherGateways = this.watchOthers();
    answerMetrics(this.answers, () => metrics.json(this, stores.ledger));
    stores.ledger.watch();
    this.downstream.exchanges.onEnded = (exchange) => metrics.exchanges.countExchange(exchange);
    this.downstream.onRefused = (code) => metrics.exchanges.countRefusal(code);
    this.downstream.onPreflight = () => metrics.exchanges.countPreflight();
    if (limits === "memory") this.downstream.onDrain = () => this.recordRunning();
    shared.peers?.subscribe(SWITCHES_TOPIC, (name, off) => this.switch(name, off));
    shared.peers?.subscribe(HEALTH_TOPIC, (_key, news) => this.serving.upstreams.health.applyRemote(news));
    shared.peers?.subscribe(CONVERSATIONS_TOPIC, (_key, news) =>
      this.serving.upstreams.health.applyRemoteConversation(news),
    );
    shared.peers?.subscribe(COUNTED_TOPIC, (_key, name) => metrics.exchanges.addCountedName(name));
    void this.loadCountedNames();
    metrics.exchanges.onCountedName = (name) => shared.peers?.publish(COUNTED_TOPIC, name.slice(-2), name);
  }

  /** @throws ConfigError, PluginError, or the system's error for a file or port; everything is closed then */
  static async start(options: GatewayOptions): Promise<Gateway> {
    const gateway = await Gateway.open(await loadWithExtensions(options), options.log);
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
   * @throws PluginError, or the system's error for a file; everything is closed then
   */
  static async open(loaded: LoadedConfig, log: Log, options: OpenOptions = {}): Promise<Gateway> {
    const { processes = 1, peers, pools, started = loaded.config } = options;
    const { extensions } = loaded;
    const config = withStartSettings(loaded.config, started);
    const warn = ledgerWarner(log);
    const others = async () => {
      const known = peers && (await askKnownStore(peers));
      if (known)
        log.warn(
          {},
          "PostgreSQL (store: ledger) is unavailable: this worker starts with what the other workers know of it",
        );
      return known;
    };
    const stays = await leftBehindWarning(config.file, config.store.postgres);
    if (stays !== undefined) log.warn({}, `store: ledger: ${stays}`);
    const stores = await connectStores(config.store, config.keys, warn, others);
    if (peers) shareWrongKeys(stores.keys, peers);
    const prices = new LatePrices(stores.prices, log);
    let limiter: Limiter | undefined;
    try {
      const opened = await openLimiter(config, stores.ledger, log, processes, peers);
      limiter = opened;
      stores.ledger.onFeed = () => opened.sendUnreserved();
      // The first requests wait for anything that takes longer, like the journals of crashed processes.
      await withTimeout(SPEND_TIMEOUT, limiter.prepare(budgetPeriods(config.limits))).catch(() => {});
      const envelopes = new Envelopes(config.envelopes.key ?? (await stores.secret()));
      const carried = new UpstreamResources(extensions.protocolList, pools);
      const process = processContainer({ log });
      const lasting = { started, stores, prices, carried, limiter, process, log, processes, peers };
      const shared = { ...lasting, metrics: new ProcessMetrics(log) };
      const generation = await buildGeneration(loaded, envelopes, shared);
      return new Gateway(loaded, generation, envelopes, shared);
    } catch (thrown) {
      prices.close();
      await limiter?.close();
      await stores.close();
      throw thrown;
    }
  }

  /** The configuration in force: with the settings of the start. */
  get config(): Config {
    return this.serving.config;
  }

  get stores(): Stores {
    return this.shared.stores;
  }

  get limiter(): Limiter {
    return this.shared.limiter;
  }

  /** The generation for new requests. */
  get generation(): Generation {
    return this.serving;
  }

  /** The loaded plugins, by name. */
  get plugins(): ReadonlyMap<string, LoadedPlugin> {
    return this.serving.plugins;
  }

  /** The exchanges that have not ended. */
  get exchanges(): readonly RunningExchange[] {
    return this.downstream.exchanges.items();
  }

  /**
   * Breaks off an exchange.
   * @returns whether it is running
   */
  cancel(id: string): boolean {
    return this.downstream.exchanges.cancel(id);
  }

  /**
   * Switches a provider or a target off, or on again, for the lifetime of this process.
   * @param name of either
   */
  switch(name: string, off: boolean): void {
    this.serving.upstreams.health.setSwitchedOff(name, off);
  }

  /** Returns the budget shares reached here since the last call. */
  takeMarks(): TimedBudgetMark[] {
    return this.marks.drain();
  }

  /** All living generations, the current one first. */
  get generations(): readonly Generation[] {
    return [this.serving, ...this.retired];
  }

  /**
   * Serves the current content of gateway.yaml from the next request on: settings, plugin code and secrets together, or nothing
   * of it. Running exchanges continue unchanged. Reloads run one at a time.
   * @param by who requests it
   * @throws ConfigError, PluginError, or the error of a plugin's start: nothing has changed then
   */
  reload(by?: Initiator): Promise<ReloadResult> {
    return this.reloads.run(by);
  }

  /**
   * Returns what a reload would change.
   * @throws ConfigError
   */
  async compare(): Promise<Omit<ReloadResult, "generation">> {
    const next = await this.loaded.again();
    const changes = this.loaded.changesTo(next, this.plugins);
    return { changes, restart: next.sectionsToRestart(this.config), notices: next.noticesSince(this.loaded) };
  }

  /** Returns the sections of gateway.yaml on disk that wait for the next start. @throws ConfigError */
  awaitingRestart(): Promise<string[]> {
    return this.loaded.sectionsAwaitingRestart(this.config);
  }

  /**
   * Prepares a reload: builds a generation in addition to the current one.
   * @throws as `reload`
   */
  async prepare(text?: string): Promise<PreparedReload> {
    const loaded = await this.loaded.again(text);
    const changes = this.loaded.changesTo(loaded, this.plugins);
    if (changes.length === 0) return { loaded, changes };
    const envelopes = await this.envelopesOf(loaded.config);
    const generation = await buildGeneration(loaded, envelopes, this.shared, this.serving);
    return { loaded, changes, generation, envelopes };
  }

  /** The number of the current generation: workers that serve the same configuration have the same number. */
  get number(): number {
    return this.serving.number;
  }

  set number(number: number) {
    this.serving.number = number;
  }

  /**
   * Completes a reload by replacing one reference; nothing of this can fail.
   * @param number the new generation's; the current one gets it where nothing has changed for this process, as for a worker that
   * started with the new code of a plugin
   */
  adopt(
    { loaded, changes, generation, envelopes = this.envelopes }: PreparedReload,
    number = this.number + (generation ? 1 : 0),
  ): ReloadResult {
    const restart = loaded.sectionsToRestart(this.config);
    const notices = loaded.noticesSince(this.loaded);
    if (generation && this.stopping) void generation.close(false);
    else if (generation) {
      const former = this.serving;
      this.envelopes = envelopes;
      generation.number = number;
      this.formerlyBegun += former.begun;
      this.serving = generation;
      this.loaded = loaded;
      this.stores.keys.replaceFileKeys(loaded.config.keys);
      this.downstream.configure(serverLimits(loaded.config, this.shared.processes));
      this.shared.log.level = loaded.config.log.level;
      this.retire(former);
    } else this.number = number;
    return { changes, restart, notices, generation: this.number };
  }

  /** Closes a prepared generation that is not wanted. */
  async discard({ generation }: PreparedReload): Promise<void> {
    await generation?.close(false);
  }

  /** @throws the system's error for the address */
  async listen(listenAddress: SocketAddress): Promise<void> {
    this.listenAddress = await this.downstream.listen(listenAddress);
  }

  /**
   * The address it listens on.
   * @throws Error if it does not listen itself, but is passed its connections
   */
  get address(): AddressInfo {
    if (!this.listenAddress) throw new Error("This gateway does not listen itself.");
    return this.listenAddress;
  }

  /** Serves a connection. */
  accept(socket: Socket): void {
    this.downstream.accept(socket);
  }

  /** Returns the readiness of the parts that serve requests. */
  readiness(): Readiness {
    const isStopping = this.downstream.stop.hasBegun;
    const { state: store } = this.stores.ledger;
    const limits = this.otherGateways?.isCountedTwice ? "twice" : this.generation.limiter.state;
    return { ready: !isStopping, parts: { gateway: isStopping ? "stopping" : "ok", store, limits } };
  }

  /** Tells the metrics what former processes counted, like an answer made in the background, which is fetched again. */
  private async loadCountedNames(): Promise<void> {
    const { stores, metrics } = this.shared;
    const names = await earlierCounts(() => stores.ledger)
      .countedNames(MAX_EXCHANGES)
      .catch(() => []);
    for (const name of names) metrics.exchanges.addCountedName(name);
  }

  /** Watches for other gateways on the same store: one that counts limits in memory sees only its own requests. */
  private watchOthers(): OtherGatewayWatch {
    const { stores, log, peers } = this.shared;
    const parent = peers && process.ppid;
    return new OtherGatewayWatch(
      () => stores.ledger.isShared(parent),
      () => this.isLimited(),
      (twice) => {
        if (twice) log.error({}, COUNTED_TWICE);
        else log.warn({}, "no other gateway uses the same store any more: limits are counted once");
      },
    );
  }

  private async isLimited(): Promise<boolean> {
    return hasLimits(this.config.limits) || (await limitedKeys(this.stores.keys)).length > 0;
  }

  /**
   * Handles the loss of the primary, before this process stops. Where limits are counted there, what arrives on idle connections
   * could not be served, while its clients can connect to the next primary.
   */
  async orphan(): Promise<void> {
    if (this.config.store.limits !== "memory") return;
    // What runs was recorded when the stop began.
    if (this.stopping) this.recordRunning();
    // If the store does not respond, some keys may have limits.
    if (await this.isLimited().catch(() => true)) this.downstream.stop.endIdle();
  }

  /** Records what running exchanges have reserved, for the process that succeeds this one or its primary. */
  recordRunning(): void {
    void this.stores.ledger.recordOrphaned(this.limiter.running);
  }

  get unwritten(): UnwrittenLines | undefined {
    return this.stores.ledger.unwritten;
  }

  /** Whether ledger rows were lost as it stopped. */
  get hasLost(): boolean {
    return this.stores.ledger.lostLines > 0;
  }

  async askAll<Ask, Answer>({ name }: Question<Ask, Answer>, payload: Ask): Promise<Answer[]> {
    return [(await this.answers.answer(name, payload)) as Answer];
  }

  askMetrics(): Promise<MetricJson[][]> {
    return this.askAll(PROCESS_METRICS, null);
  }

  /** The counters and histograms of this process that can be read without waiting. */
  get counts(): MetricJson[] {
    return this.shared.metrics.counters;
  }

  /** Number of exchanges that have not ended. */
  get running(): number {
    return this.downstream.exchanges.size;
  }

  /** Number of exchanges that have begun; `Infinity` once it stops. */
  get begun(): number {
    return this.downstream.stop.hasBegun ? Number.POSITIVE_INFINITY : this.formerlyBegun + this.serving.begun;
  }

  /** Prepares a stop: from now on responses close their connections. */
  prepareStop(): void {
    this.downstream.stop.prepare();
  }

  /**
   * Stops as `Downstream.close` does, and closes everything. Never throws, never hangs. By default running exchanges get the time
   * that gateway.yaml sets.
   */
  async stop({
    linger,
    drain = this.config.drain || Number.POSITIVE_INFINITY,
    signal,
  }: Partial<StopTimeouts> = {}): Promise<void> {
    this.stopping = true;
    this.reloads.end();
    this.cancelPrepare();
    const limit = performance.now() + drain;
    const left = await this.downstream.close({ linger, drain, signal });
    this.keyWatch.close();
    this.endKeyMetrics();
    this.otherGateways?.stop();
    const { log, limiter, prices } = this.shared;
    for (const { id, path } of left) log.error({ id, path }, "an exchange could not be ended and was abandoned");
    await this.reloads.whenIdle();
    await Promise.all(this.generations.map((generation) => generation.close(left.length === 0)));
    prices.close();
    await limiter.close();
    await this.stores.ledger.written(limit - performance.now(), signal);
    await this.stores.close();
  }

  /**
   * Stops after a failure outside of any request: refuses new requests, gives running ones a little time, and closes everything.
   */
  async fail(): Promise<void> {
    this.downstream.refuseAll();
    await this.stop({ drain: crashDrain(this.config) });
  }

  /** Ends the wait for a preparation at a stop; a late result is discarded. */
  private async untilStop(preparing: Promise<PreparedReload>): Promise<PreparedReload> {
    const stop = Promise.withResolvers<never>();
    this.cancelPrepare = () => stop.reject(new FormattedError(STOPPING));
    try {
      return await Promise.race([preparing, stop.promise]);
    } catch (thrown) {
      preparing.then((prepared) => this.discard(prepared)).catch(() => {});
      throw thrown;
    } finally {
      this.cancelPrepare = () => {};
    }
  }

  /** Gives the exchanges of a former generation their time, then breaks them off. */
  private retire(former: Generation): void {
    const { drain } = former.config;
    this.retired.add(former);
    if (drain > 0) former.endsAt = Date.now() + drain;
    const late = () => {
      this.shared.log.warn(
        { generation: former.number, exchanges: former.active },
        "exchanges of a former configuration were ended: drain is over",
      );
      this.downstream.exchanges.retire(former);
    };
    const timer = drain > 0 ? setTimeout(late, drain).unref() : undefined;
    void former.close().then(() => {
      clearTimeout(timer);
      this.retired.delete(former);
    });
  }

  private async envelopesOf({ envelopes: { key } }: Config): Promise<Envelopes> {
    if (key === this.config.envelopes.key) return this.envelopes;
    return new Envelopes(key ?? (await this.stores.secret()));
  }
}

/** Milliseconds that a start waits for past spending to be loaded. */
const SPEND_TIMEOUT = 1000;

async function buildGeneration(
  { config: written, extensions }: LoadedConfig,
  envelopes: Envelopes,
  { started, stores, prices, peers, metrics, ...lasting }: SharedParts,
  former?: Generation,
): Promise<Generation> {
  const config = withStartSettings(written, started);
  const { keys, keptValues, ledger, owners } = stores;
  const { protocolList: protocols, classes } = extensions;
  const parts = { config, protocols, classes, keys, values: keptValues, ledger, owners, envelopes, former, ...lasting };
  const observed = { observer: metrics.pluginTimes, rates: metrics.providerRates };
  const generation = await Generation.build({ ...parts, ...observed, ...(peers && { peers }) });
  const targets = generation.marketplace.models.flatMap((model) => model.targets);
  try {
    await prices.keep(targets.flatMap((target) => target.prices?.all ?? []));
  } catch (thrown) {
    await generation.close(false);
    throw thrown;
  }
  await logUnenforcedLimits(config, stores, lasting.log).catch((thrown) =>
    lasting.log.warn({ cause: formatError(thrown) }, "it is unknown whether keys have limits that are not enforced"),
  );
  return generation;
}

/** Returns the limits for clients. */
function serverLimits({ connections, trust, overload }: Config, processes: number): Partial<ServerLimits> {
  const { per_address: most, head, headers, head_size: size, target, idle: keepAlive } = connections;
  // Connections of one address are spread over the processes.
  const perAddress = Math.ceil(most / processes);
  return { perAddress, head, heads: { headers, size, target }, keepAlive, trust: new Networks(trust), overload };
}

/** Logs keys with limits, which are in the store, that gateway.yaml does not enforce. */
async function logUnenforcedLimits(
  { paths, chains, store, instances }: Config,
  { keys }: Stores,
  log: Log,
): Promise<void> {
  const [open] = unlimitedPaths(paths, (use) => chains.get(use) ?? []);
  const why = open?.message ?? unsharedLimitsReason(store, instances);
  if (why === undefined) return;
  const limited = await limitedKeys(keys);
  if (limited.length === 0) return;
  log.error(
    { keys: limited.map(({ name }) => name) },
    `keys have limits, and ${why}${open ? ". Until then their requests there are refused." : ""}`,
  );
}

/** Returns a function that logs a ledger's warnings for the operator. */
export const ledgerWarner =
  (log: Log): LedgerWarn =>
  (message, fields = {}, over = false) =>
    over ? log.info(fields, message) : log.error(fields, message);

/** Returns the milliseconds for running exchanges after a failure that may have left the process in an unknown state. */
export const crashDrain = ({ crash_drain: most, drain }: Pick<Config, "crash_drain" | "drain">): number =>
  Math.min(most, drain || most);
