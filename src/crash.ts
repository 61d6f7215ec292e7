import type { Log } from "./core/log.ts";
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
    const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    if (++crashes <= MAX_LOGGED)
      log.error(
        { cause, plugin: pluginInStack(cause, gateway.plugins) },
        "the gateway failed, and stops when running requests have ended, in 10 s at most",
      );
    if (crashes > 1) return;
    gateway
      .fail()
      .catch((error) => log.error({ cause: String(error) }, "could not be closed"))
      .finally(leave);
  });
}

/** Returns the plugin whose code is first in a stack trace; undefined if there is none. */
export function pluginInStack(stack: string, plugins: ReadonlyMap<string, LoadedPlugin>): string | undefined {
  for (const line of stack.split("\n"))
    for (const [name, { file }] of plugins)
      if ([`${file}:`, `${file}?`, pluginFolder(file)].some((part) => line.includes(part))) return name;
  return undefined;
}

/** Returns the folder of a plugin's other files: its package, or the folder of its name. */
function pluginFolder(file: string): string {
  const inPackage = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(file)?.[0];
  return inPackage ?? `${file.replace(/\.[^./]+$/, "")}/`;
}
