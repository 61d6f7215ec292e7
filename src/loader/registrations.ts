import { getCallSites } from "node:util";
import { container, type InjectionToken } from "tsyringe";
import type { LoadedPlugin } from "./instances.ts";
import type { PluginProblem } from "./problems.ts";
import { codeUrls } from "./versions.ts";

// Notices what plugins register in tsyringe's own container (`@singleton()`, `@registry()`, `container.register`). All of them
// share it, and of two registrations of a token the later one replaces the earlier without a word.

/** URLs of the modules that have registered each token, also of versions that are not used any more. */
const registered = new Map<InjectionToken, Set<string>>();

/** Frames between a registration and the module that makes it: their maximum number, and modules that make none themselves. */
const MAX_FRAMES = 20;
const HELPERS = /\/node_modules\/(?:tsyringe|reflect-metadata|tslib|@swc\/helpers)\//;
const SOURCE = new URL("..", import.meta.url).href;

const original = container.register as (...args: readonly unknown[]) => typeof container;
/** The other methods of the container and its decorators call this one. */
container.register = (token: InjectionToken, ...provider: readonly unknown[]) => {
  const by = callingModule();
  if (by !== undefined) registered.set(token, (registered.get(token) ?? new Set()).add(by));
  return original.call(container, token, ...provider);
};

/** Returns the module's URL with its version, which a stack mapped to the source would not have. */
function callingModule(): string | undefined {
  return getCallSites(MAX_FRAMES, { sourceMap: false }).find(
    ({ scriptName }) => scriptName.startsWith("file:") && !scriptName.startsWith(SOURCE) && !HELPERS.test(scriptName),
  )?.scriptName;
}

/** Returns the tokens that the code of two plugins registers, each for itself. */
export function registrationProblems(plugins: Iterable<LoadedPlugin>): PluginProblem[] {
  if (registered.size === 0) return [];
  const files = new Set(Array.from(plugins, ({ file }) => file));
  const code = Array.from(files, (file) => ({ file, urls: new Set(codeUrls(file)) }));
  return [...registered].flatMap(([token, by]) => {
    const making = code.filter(({ urls }) => !urls.isDisjointFrom(by));
    return making.flatMap((one, i) =>
      making
        .slice(i + 1)
        .filter((other) => !isShared(one.urls, other.urls, by))
        .map((other) => ({ file: other.file, message: twice(token, one.file) })),
    );
  });
}

/** Whether all registrations by one of two plugins are made in files that the other has too. */
const isShared = (one: Set<string>, other: Set<string>, by: Set<string>): boolean =>
  one.intersection(by).isSubsetOf(other) || other.intersection(by).isSubsetOf(one);

const twice = (token: InjectionToken, file: string): string =>
  `it registers the token ${tokenLabel(token)} of tsyringe, as ${file} does: both plugins would get what was registered last. Use another ` +
  "token, or register it in one file that both import";

const tokenLabel = (token: InjectionToken): string =>
  typeof token === "string" ? JSON.stringify(token) : typeof token === "function" ? token.name : String(token);
