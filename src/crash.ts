import type { Log } from "./core/log.ts";
import type { LoadedPlugin } from "./loader/instances.ts";

/** Further failures that are logged while the gateway drains: a timer may fail every second. */
const LOGGED = 20;

/** What can break outside of every request. */
interface Breakable {
  readonly plugins: ReadonlyMap<string, LoadedPlugin>;
  /** Refuses what is new, lets what runs end, and closes everything. */
  fail(): Promise<void>;
}

/**
 * Something broke outside of every request, in a timer or in an event's listener: says what and whose it is, refuses what
 * comes, lets what runs end, and then leaves. What breaks meanwhile ends nothing more.
 * @param leave ends the process
 */
export function endAfterCrash(gateway: Breakable, log: Log, leave: () => Promise<unknown>): void {
  let crashes = 0;
  process.on("uncaughtException", (thrown: unknown) => {
    const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    if (++crashes <= LOGGED)
      log.error(
        { cause, plugin: culprit(cause, gateway.plugins) },
        "the gateway failed, and stops when running requests have ended, in 10 s at most",
      );
    if (crashes > 1) return;
    gateway
      .fail()
      .catch((error) => log.error({ cause: String(error) }, "could not be closed"))
      .finally(leave);
  });
}

/** The plugin in whose code a stack stands first; undefined where it stands in none. */
export function culprit(stack: string, plugins: ReadonlyMap<string, LoadedPlugin>): string | undefined {
  for (const line of stack.split("\n"))
    for (const [name, { file }] of plugins)
      if ([`${file}:`, `${file}?`, folderOf(file)].some((part) => line.includes(part))) return name;
  return undefined;
}

/** Where the other files of a plugin stand: in its package, or in the folder of its name. */
function folderOf(file: string): string {
  const inPackage = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(file)?.[0];
  return inPackage ?? `${file.replace(/\.[^./]+$/, "")}/`;
}
