import type { Config, ConfiguredPath } from "./config/types.ts";
import { Chain, type Link } from "./core/chain.ts";
import type { Levels } from "./core/limits.ts";
import type { Provider } from "./core/marketplace.ts";
import type { Plugin } from "./core/plugin.ts";
import type { PhaseObserver } from "./core/plugin-timing.ts";
import type { Protocol } from "./core/protocol.ts";
import type { Mount } from "./downstream/paths.ts";
import { isBuiltIn } from "./loader/discover.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import type { PluginProblem } from "./loader/problems.ts";
import type { Envelopes } from "./translation/envelope.ts";
import { PassPath } from "./upstream/pass-path.ts";

/** The parts that chains and mounts are made of. */
export interface MountParts {
  config: Config;
  protocols: readonly Protocol[];
  /** Plugin classes by the name that chains use. */
  classes: ReadonlyMap<string, LoadedPlugin>;
  /** Shared by all generations, so that a reload breaks no conversation. */
  envelopes: Envelopes;
  /** Receives the durations of plugin phases. */
  observer?: PhaseObserver;
}

/** Returns problems with plugins that are to serve a path and cannot. */
export function servingProblems(
  paths: readonly ConfiguredPath[],
  classes: ReadonlyMap<string, LoadedPlugin>,
  plugins: ReadonlyMap<string, Plugin>,
): PluginProblem[] {
  return paths.flatMap(({ path, serve = "" }) => {
    const [served, plugin] = [classes.get(serve), plugins.get(serve)];
    if (!served || !plugin || plugin.serve) return [];
    return [{ file: served.file, message: `cannot serve ${path}: class ${served.Class.name} has no method serve()` }];
  });
}

/** Creates the chain of some plugins. */
export function createChain(
  name: string,
  names: readonly string[],
  plugins: ReadonlyMap<string, Plugin>,
  made: MountParts,
): Chain {
  const links = names.map((each) => createLink(each, plugins, made));
  return new Chain(name, links, undefined, made.observer);
}

const createLink = (
  name: string,
  plugins: ReadonlyMap<string, Plugin>,
  { config, classes }: Pick<MountParts, "config" | "classes">,
): Link => ({
  name,
  plugin: plugins.get(name) as Plugin,
  deadline: config.plugins.get(name)?.deadline,
  isBuiltIn: isBuiltIn(classes.get(name)?.file ?? ""),
});

/** Returns the mounts of all paths. */
export function createMounts(
  { config, classes, protocols, observer, envelopes }: MountParts,
  chains: ReadonlyMap<string, Chain>,
  plugins: ReadonlyMap<string, Plugin>,
  providers: ReadonlyMap<string, Provider>,
  levels: Levels,
): Mount[] {
  return config.paths.flatMap(({ path, protocol: name, serve, pass, use, strict }): Mount[] => {
    const chain = chains.get(use) as Chain;
    if (serve !== undefined) {
      const serving = createLink(serve, plugins, { config, classes });
      return [{ pattern: path, chain: new Chain(chain.name, chain.links, serving, observer), serve: true }];
    }
    if (pass !== undefined) {
      const speaks = config.providers.find((each) => each.name === pass.provider)?.speaks ?? [];
      const spoken = speaks.flatMap((each) => protocols.find((protocol) => protocol.name === each) ?? []);
      const where = new PassPath(path, providers.get(pass.provider), spoken, protocols, {
        ...pass,
        tickets: envelopes.uploads,
        trace: config.trace,
        unmeasuredLimit: (caller) => levels.unmeasured(caller, pass.provider),
      });
      return [{ pattern: path, chain, pass: where }];
    }
    const protocol = protocols.find((each) => each.name === name) as Protocol;
    const usual = protocol.paths.find((each) => each.endsWith("*") === path.endsWith("*")) ?? path;
    const own = protocol.paths.includes(path);
    return [{ pattern: path, chain, protocol, strict, ...(own ? {} : { as: usual }) }];
  });
}
