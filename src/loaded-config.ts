import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { type Change, compareConfigs, restartSections } from "./config/changes.ts";
import { loadConfig } from "./config/load.ts";
import type { Extensions } from "./config/plugins.ts";
import type { Config } from "./config/types.ts";
import type { Protocol } from "./core/protocol.ts";
import { isBuiltIn, loadPlugin, loadProtocols, notFoundMessage, pluginFile, pluginNames } from "./loader/discover.ts";
import { codeVersions, type LoadedPlugin, packagesToRestart } from "./loader/instances.ts";
import { knownPlugin, methodsOf, misspeltMethods } from "./loader/methods.ts";
import { codeDigest } from "./loader/versions.ts";

/** The names that a gateway.yaml may use, and the plugin classes loaded so far. */
export interface LoadedExtensions extends Extensions {
  protocolList: readonly Protocol[];
  classes: Map<string, LoadedPlugin>;
}

/** Loads the protocols, and each plugin when the file names it. */
export async function findExtensions(folder: string): Promise<LoadedExtensions> {
  const protocolList = await loadProtocols();
  const classes: LoadedExtensions["classes"] = new Map();
  return {
    protocolList,
    classes,
    protocols: new Map(protocolList.map((protocol) => [protocol.name, protocol])),
    plugins: pluginNames(folder),
    async plugin(name, from, folder) {
      const found = pluginFile(name, from, folder);
      if (found === undefined && from !== undefined) throw new Error(notFoundMessage(from, folder));
      if (found === undefined) return undefined;
      const Class = await loadPlugin(found);
      classes.set(name, { file: found, Class, version: codeDigest(found) });
      const warnings = misspeltMethods(methodsOf(Class.prototype));
      return { ...knownPlugin(Class), warnings, builtIn: isBuiltIn(found) };
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

/** A valid gateway.yaml, and the extensions that its names refer to. */
export class LoadedConfig {
  constructor(
    readonly config: Config,
    readonly extensions: LoadedExtensions,
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** Loads the same file again. @param text its content, if it has been read already @throws ConfigError */
  again(text?: string): Promise<LoadedConfig> {
    const { file, folder } = this.config;
    return loadWithExtensions({ file, folder, env: this.env, text });
  }

  /** Returns what a newer file changes, code included. @param plugins those that run */
  changesTo(next: LoadedConfig, plugins: ReadonlyMap<string, LoadedPlugin>): Change[] {
    const code = { before: codeVersions(plugins), after: codeVersions(next.extensions.classes) };
    return compareConfigs(this.config, next.config, code);
  }

  /** Returns the sections that take effect only at the next start. @param inForce has the settings of the last start */
  sectionsToRestart(inForce: Config): string[] {
    const { config, extensions } = this;
    return [...restartSections(compareConfigs(inForce, config)), ...packagesToRestart(extensions.classes)];
  }

  /** Returns these of the file on disk. @throws ConfigError */
  async sectionsAwaitingRestart(inForce: Config): Promise<string[]> {
    return (this.isStillOnDisk() ? this : await this.again()).sectionsToRestart(inForce);
  }

  /** Returns the warnings that the former configuration did not have. */
  noticesSince(former: LoadedConfig): string[] {
    return this.config.notices.filter((notice) => !former.config.notices.includes(notice));
  }

  /**
   * Reports whether the file is on disk as it was loaded. One with secrets of other files (`$file:`) never counts as such, because
   * these may have changed.
   */
  isStillOnDisk(): boolean {
    const { file, text } = this.config;
    try {
      return !text.includes("$file:") && readFileSync(file, "utf8") === text;
    } catch {
      return false;
    }
  }
}

/** Loads gateway.yaml. @throws ConfigError */
export async function loadWithExtensions({
  file,
  folder = dirname(file),
  env,
  text,
}: ConfigPlace): Promise<LoadedConfig> {
  const extensions = await findExtensions(folder);
  return new LoadedConfig(await loadConfig(file, extensions, env, folder, text), extensions, env);
}
