import type { Chains, KnownPlugin, ListedPlugins } from "./plugins.ts";
import type { ConfigPath, Report } from "./problems.ts";
import { DEFAULT_CHAINS } from "./schema.ts";
import { suggestion } from "./suggest.ts";
import type { ConfiguredPath } from "./types.ts";

/** The phases that run on passthrough paths. */
const PASS_PHASES = ["access", "send", "done"];

/**
 * Warns of chains that are valid but probably not as intended: those that let anybody in, resolve no model, contain a plugin that
 * never runs, or are used by no path.
 * @param plugins every plugin that the chains name
 */
export function checkChains(
  paths: readonly ConfiguredPath[],
  chains: Chains,
  plugins: ReadonlyMap<string, KnownPlugin>,
  report: Report,
): void {
  const warn: Warn = (path, message, key = false) => report({ path, key, message, severity: "warning" });
  const used = Map.groupBy(paths, ({ use }) => use);
  for (const [use, users] of used) checkUsed(chains.get(use) ?? { plugins: [] }, users, plugins, warn);
  const names = [...new Set([...Object.keys(DEFAULT_CHAINS), ...used.keys()])].filter((name) => !name.startsWith("/"));
  for (const [name, { path }] of chains) {
    if (!path || names.includes(name) || used.has(name)) continue;
    const meant = suggestion(name, names, `; there are ${names.join(", ")}`);
    warn(path, `no path uses chain ${JSON.stringify(name)}${meant}`, true);
  }
}

/** @param key whether it is about the name of the entry, not its value */
type Warn = (path: ConfigPath, message: string, key?: boolean) => void;

/** Checks a chain that these paths use. */
function checkUsed(
  { plugins: names, path }: ListedPlugins,
  users: readonly ConfiguredPath[],
  plugins: ReadonlyMap<string, KnownPlugin>,
  warn: Warn,
): void {
  const usePath = path ?? ["paths", (users[0] as ConfiguredPath).path, "use"];
  const has = (builtIn: string, phase: string) =>
    names.some((name) => {
      const plugin = plugins.get(name);
      return name === builtIn || (plugin && !plugin.builtIn && plugin.phases?.includes(phase));
    });
  const warnPaths = (kind: (user: ConfiguredPath) => unknown, message: string) => {
    const meant = users.filter(kind).map((user) => user.path);
    if (meant.length > 0) warn(usePath, `${meant.join(", ")}: ${message}`, usePath[0] === "chains");
  };
  if (!has("auth", "access")) {
    const noCaller = "no plugin of the chain checks keys, so";
    const fix = 'put "auth" into it';
    warnPaths(({ protocol, pass }) => protocol ?? pass, `${noCaller} anybody may use the providers' accounts; ${fix}`);
    // An operator's own plugin may serve everybody on purpose, or check access itself.
    warnPaths(({ serve = "" }) => plugins.get(serve)?.builtIn, `${noCaller} anybody may read it; ${fix}`);
  }
  if (!has("models", "route"))
    warnPaths(
      ({ protocol }) => protocol,
      'no plugin of the chain names a model, so every request that no plugin answers is refused; put "models" into it',
    );
  const user = users.find(({ pass }) => pass);
  if (!user) return;
  for (const [i, name] of names.entries())
    if (!(plugins.get(name)?.phases ?? PASS_PHASES).some((phase) => PASS_PHASES.includes(phase)))
      warn(
        path ? [...path, i] : usePath,
        `plugin ${JSON.stringify(name)} does nothing on ${user.path}: a path with "pass" runs only access, send and done`,
      );
}
