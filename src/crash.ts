import { fileURLToPath } from "node:url";
import { thrownStack, thrownText } from "./core/errors.ts";
import type { Log } from "./core/log.ts";
import { replaceSecrets } from "./core/replace-secrets.ts";
import type { LoadedPlugin } from "./loader/instances.ts";

/** Further failures that are logged while the gateway drains: a timer may fail every second. */
const MAX_LOGGED = 20;

/** The part of a gateway that a crash concerns. */
interface CrashableGateway {
  readonly plugins: ReadonlyMap<string, LoadedPlugin>;
  /** Refuses new requests, lets running ones end, and closes everything. */
  fail(): Promise<void>;
}

/**
 * Handles an exception outside of any request, in a timer or an event listener: logs it and the plugin at fault, refuses new
 * requests, lets running ones end, and then exits. Further exceptions meanwhile are only logged.
 * @param leave ends the process
 */
export function stopAfterCrash(gateway: CrashableGateway, log: Log, leave: () => Promise<unknown>): void {
  let crashes = 0;
  process.on("uncaughtException", (thrown: unknown) => {
    const secrets = new Map([...gateway.plugins.values()].flatMap(({ secrets }) => [...(secrets ?? [])]));
    const cause = replaceSecrets(thrownStack(thrown), secrets);
    if (++crashes <= MAX_LOGGED)
      log.error(
        { cause, plugin: pluginInStack(cause, gateway.plugins) },
        "the gateway failed, and stops when running requests have ended, after crash_drain at the latest",
      );
    if (crashes > 1) return;
    gateway
      .fail()
      .catch((error) => log.error({ cause: thrownText(error) }, "could not be closed"))
      .finally(leave);
  });
}

/**
 * Reports when code that is not the gateway's own calls `process.exit()`, as a plugin or what it imports may do: a check, for
 * example, would end without a word, and as if all were well.
 */
export function reportForeignExit(report: (message: string) => void): void {
  process.once("exit", (code) => {
    // Without a call of it, at the end of all work, there is no such line.
    const [, caller] = /\n *at process\.exit .*\n *(at .*)/.exec(new Error().stack ?? "") ?? [];
    if (caller === undefined || caller.includes(OWN_SOURCES)) return;
    process.exitCode = code || 1;
    report(`a plugin, or what it imports, ended the process with process.exit(${code}) ${caller}`);
  });
}

/**
 * Returns the plugin whose code is first in a stack trace; undefined if there is none.
 * @param ownPackage the folder of the gateway's package, which is no plugin's own
 */
export function pluginInStack(
  stack: string,
  plugins: ReadonlyMap<string, LoadedPlugin>,
  ownPackage = OWN_PACKAGE,
): string | undefined {
  const packages = [...plugins.values()].map(({ file }) => packageFolder(file));
  const owned = [...plugins].map(([name, { file }]) => {
    const folder = packageFolder(file);
    const shared = folder === ownPackage || packages.filter((each) => each === folder).length > 1;
    return { name, parts: [`${file}:`, `${file}?`, !folder || shared ? `${file.replace(/\.[^./]+$/, "")}/` : folder] };
  });
  for (const line of stack.split("\n"))
    for (const { name, parts } of owned) if (parts.some((part) => line.includes(part))) return name;
  return undefined;
}

const OWN_SOURCES = fileURLToPath(new URL(".", import.meta.url));
const OWN_PACKAGE = fileURLToPath(new URL("..", import.meta.url));

/** Returns the folder of the package that contains a file, with a slash at its end. */
const packageFolder = (file: string): string | undefined => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(file)?.[0];
