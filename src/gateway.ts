import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import { loadConfig, type Vocabulary } from "./config/load.ts";
import type { Config } from "./config/types.ts";
import { processContainer } from "./container.ts";
import type { Log } from "./core/log.ts";
import type { Protocol } from "./core/protocol.ts";
import { Downstream } from "./downstream/server.ts";
import { Generation } from "./generation.ts";
import { isBuiltIn, loadPlugin, loadProtocols, nothingAt, pluginFile, pluginNames } from "./loader/discover.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import { methodsOf, misspelt, phasesOf } from "./loader/methods.ts";
import { openStores, type Stores } from "./store/open.ts";
import { Envelopes } from "./translation/envelope.ts";
import { keptSecret } from "./translation/secret.ts";

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

/** Milliseconds for the last bytes of answers to reach their clients. */
const LAST_BYTES = 1000;

/** A running gateway: one store, one listener, and the generation that new requests belong to. */
export class Gateway {
  private constructor(
    readonly config: Config,
    readonly address: AddressInfo,
    readonly stores: Stores,
    readonly generation: Generation,
    /** What it was built with, by name. */
    readonly plugins: ReadonlyMap<string, LoadedPlugin>,
    private readonly downstream: Downstream,
  ) {}

  /** @throws ConfigError, PluginError, or what the system says of files and ports; nothing is left open then. */
  static async start({ file, folder = dirname(file), env, log }: GatewayOptions): Promise<Gateway> {
    const vocabulary = await words(folder);
    const config = await loadConfig(file, vocabulary, env, folder);
    const stores = await openStores(config.store.ledger, config.keys, (message) => log.error({}, message));
    let generation: Generation | undefined;
    try {
      const { keys, ledger } = stores;
      const warn = (message: string) => log.warn({}, message);
      const envelopes = new Envelopes(config.envelopes.key ?? keptSecret(config.store.ledger, warn));
      const made = {
        config,
        protocols: vocabulary.protocolList,
        classes: vocabulary.classes,
        process: processContainer({ log }),
        keys,
        ledger,
        envelopes,
        log,
      };
      generation = await Generation.build(made);
      const current = generation;
      const downstream = new Downstream(() => current);
      const address = await downstream.listen(config.listen.host, config.listen.port);
      return new Gateway(config, address, stores, generation, vocabulary.classes, downstream);
    } catch (thrown) {
      await generation?.close();
      await stores.close();
      throw thrown;
    }
  }

  /** Refuses new requests, lets running ones end within `grace` milliseconds, then closes everything. */
  async drain(grace = this.config.drain): Promise<void> {
    await this.downstream.drain(grace);
    await this.stop(LAST_BYTES);
  }

  /** Takes no new connections, lets running requests end within `grace` milliseconds, then closes everything. */
  async stop(grace = this.config.drain): Promise<void> {
    await this.downstream.close(grace);
    await this.generation.close();
    await this.stores.close();
  }
}
