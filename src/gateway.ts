import type { AddressInfo, Socket } from "node:net";
import { dirname } from "node:path";
import type { Readiness } from "./admin/admin.ts";
import { loadConfig, type Vocabulary } from "./config/load.ts";
import type { Config } from "./config/types.ts";
import { processContainer } from "./container.ts";
import { Calendar } from "./core/calendar.ts";
import type { Log } from "./core/log.ts";
import { Networks } from "./core/networks.ts";
import type { Protocol } from "./core/protocol.ts";
import { KeyWatch } from "./downstream/key-watch.ts";
import type { ListenPlace } from "./downstream/listener.ts";
import { Downstream, type Patience } from "./downstream/server.ts";
import { Generation } from "./generation.ts";
import { isBuiltIn, loadPlugin, loadProtocols, nothingAt, pluginFile, pluginNames } from "./loader/discover.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import { methodsOf, misspelt, phasesOf } from "./loader/methods.ts";
import { MemoryLimiter } from "./store/memory-limiter.ts";
import { openStores, type Stores } from "./store/open.ts";
import { spendSince } from "./store/spend.ts";
import { Envelopes } from "./translation/envelope.ts";
import { keptSecret } from "./translation/secret.ts";
import type { Peers } from "./workers/peers.ts";
import { SharedLimiter } from "./workers/shared-limiter.ts";

/** What names may stand in a gateway.yaml, and the plugin classes loaded on the way. */
export interface Words extends Vocabulary {
  protocolList: readonly Protocol[];
  classes: Map<string, LoadedPlugin>;
}

/** Loads the protocols, and each plugin when the file names it. */
export async function words(folder: string): Promise<Words> {
  const protocolList = await loadProtocols();
  const classes: Words["classes"] = new Map();
  return {
    protocolList,
    classes,
    protocols: new Map(protocolList.map((protocol) => [protocol.name, protocol])),
    plugins: pluginNames(folder),
    async plugin(name, from, folder) {
      const found = pluginFile(name, from, folder);
      if (found === undefined && from !== undefined) throw new Error(nothingAt(from, folder));
      if (found === undefined) return undefined;
      const Class = await loadPlugin(found);
      classes.set(name, { file: found, Class });
      const doubts = misspelt(methodsOf(Class.prototype));
      const { options, after, before } = Class;
      const placed = { ...(after && { after }), ...(before && { before }) };
      return { options, doubts, phases: phasesOf(Class), builtIn: isBuiltIn(found), ...placed };
    },
  };
}

export interface GatewayOptions {
  /** The gateway.yaml, absolute. */
  file: string;
  /** Where relative paths in it start; its own folder. */
  folder?: string;
  env: NodeJS.ProcessEnv;
  log: Log;
}

/** A gateway.yaml that was found right, and what its names stand for. */
export interface Loaded {
  config: Config;
  vocabulary: Words;
}

/** @throws ConfigError */
export async function load({ file, folder = dirname(file), env }: Omit<GatewayOptions, "log">): Promise<Loaded> {
  const vocabulary = await words(folder);
  return { config: await loadConfig(file, vocabulary, env, folder), vocabulary };
}

/** A running gateway: one store, and the generation that new requests belong to. */
export class Gateway {
  private place: AddressInfo | undefined;

  private constructor(
    readonly config: Config,
    readonly stores: Stores,
    readonly generation: Generation,
    /** What it was built with, by name. */
    readonly plugins: ReadonlyMap<string, LoadedPlugin>,
    private readonly downstream: Downstream,
    private readonly keyWatch: KeyWatch,
    private readonly log: Log,
  ) {}

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
   * @throws PluginError, or what the system says of files; nothing is left open then.
   */
  static async open({ config, vocabulary }: Loaded, log: Log, processes = 1, peers?: Peers): Promise<Gateway> {
    const stores = openStores(config.store.ledger, config.keys, (message) => log.error({}, message), config.store);
    let generation: Generation | undefined;
    try {
      const { keys, ledger, owners } = stores;
      const warn = (message: string) => log.warn({}, message);
      const limiter = peers
        ? new SharedLimiter(peers)
        : new MemoryLimiter(spendSince(ledger), new Calendar(config.timezone), warn);
      const envelopes = new Envelopes(config.envelopes.key ?? keptSecret(config.store.ledger, warn));
      const made = {
        config,
        protocols: vocabulary.protocolList,
        classes: vocabulary.classes,
        process: processContainer({ log }),
        keys,
        ledger,
        limiter,
        owners,
        envelopes,
        log,
        processes,
        ...(peers && { peers }),
      };
      generation = await Generation.build(made);
      const current = generation;
      await keepPrices(stores, generation);
      const { per_address: most, head, idle: keepAlive } = config.connections;
      const trust = new Networks(config.trust);
      // Connections of one address are spread over the processes.
      const limits = { perAddress: Math.ceil(most / processes), head, keepAlive, trust, overload: config.overload };
      const downstream = new Downstream(() => current, limits);
      const keyWatch = new KeyWatch(keys, downstream);
      return new Gateway(config, stores, generation, vocabulary.classes, downstream, keyWatch, log);
    } catch (thrown) {
      await generation?.close();
      await stores.close();
      throw thrown;
    }
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
    return { ready: !stopping, parts: { gateway: stopping ? "stopping" : "ok", store: this.stores.ledger.state } };
  }

  /** How many exchanges have begun; `Infinity` once it stops. */
  get begun(): number {
    return this.downstream.stopping ? Number.POSITIVE_INFINITY : this.generation.begun;
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
    const left = await this.downstream.close({ linger, drain, hurry });
    this.keyWatch.close();
    for (const { id, path } of left) this.log.error({ id, path }, "an exchange could not be ended, and is given up");
    await this.generation.close(left.length === 0);
    await this.stores.close();
  }

  /** Something broke outside of every request: refuses what is new, gives what runs a little time, and closes everything. */
  async fail(): Promise<void> {
    this.downstream.refuseAll();
    await this.stop({ drain: Math.min(AFTER_FAILURE, this.config.drain || AFTER_FAILURE) });
  }
}

/** Keeps the terms of all prices, for the ledger names them. */
async function keepPrices({ prices }: Stores, { marketplace: { models } }: Generation): Promise<void> {
  const targets = models.flatMap((model) => model.targets);
  await prices.keep(targets.flatMap((target) => target.prices?.all ?? []));
}

/** Milliseconds that running exchanges get when something broke of which nobody knows what it left behind. */
export const AFTER_FAILURE = 10_000;
