import { dirname } from "node:path";
import { loadConfig, type Vocabulary } from "./config/load.ts";
import type { Config } from "./config/types.ts";
import type { Protocol } from "./core/protocol.ts";
import { isBuiltIn, loadPlugin, loadProtocols, nothingAt, pluginFile, pluginNames } from "./loader/discover.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import { methodsOf, misspelt, phasesOf } from "./loader/methods.ts";
import { versionOf } from "./loader/versions.ts";

/** The names that a gateway.yaml may use, and the plugin classes loaded so far. */
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
      classes.set(name, { file: found, Class, version: versionOf(found) });
      const doubts = misspelt(methodsOf(Class.prototype));
      const { options, after, before, twice } = Class;
      const placed = { ...(after && { after }), ...(before && { before }), ...(twice && { twice }) };
      return { options, doubts, phases: phasesOf(Class), builtIn: isBuiltIn(found), ...placed };
    },
  };
}

/** The location of a gateway.yaml, and its context. */
export interface ConfigPlace {
  /** The absolute path of gateway.yaml. */
  file: string;
  /** The base of relative paths in it; default: its own folder. */
  folder?: string;
  env: NodeJS.ProcessEnv;
  /** The content of the file, if it has been read already. */
  text?: string | undefined;
}

/** A valid gateway.yaml, and the vocabulary that its names refer to. */
export interface Loaded {
  config: Config;
  vocabulary: Words;
  env: NodeJS.ProcessEnv;
}

/**
 * Loads gateway.yaml.
 * @throws ConfigError
 */
export async function load({ file, folder = dirname(file), env, text }: ConfigPlace): Promise<Loaded> {
  const vocabulary = await words(folder);
  return { config: await loadConfig(file, vocabulary, env, folder, text), vocabulary, env };
}
