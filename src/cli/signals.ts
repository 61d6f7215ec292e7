import type { Initiator } from "../audit-trail.ts";
import type { Log } from "../core/log.ts";
import type { StopTimeouts } from "../downstream/server-stop.ts";
import { signalInitiator } from "./author.ts";

/** The target of signals. */
interface Stoppable {
  stop(timeouts: Partial<StopTimeouts>): Promise<void>;
  /** Replaces the workers; absent without workers. */
  replace?(by: Initiator): Promise<void>;
  /** Reloads gateway.yaml. Rejects with its problems, after logging them. */
  reload(by: Initiator): Promise<unknown>;
}

/** Milliseconds in which npm's copy of a signal arrives, too short to press Ctrl-C again. */
const ECHO_TIME = 300;

/** Signals that wait for the end of the start: gateway.yaml may have changed after it was read. */
export const RELOAD_SIGNALS: readonly NodeJS.Signals[] = ["SIGHUP", "SIGUSR2"];
/** Signals that stop the gateway. Before it listens they end the process at once. */
export const STOP_SIGNALS: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM"];

/**
 * Defers signals during the start.
 * @param onSignal called when one comes
 * @returns a function that delivers those that came, to handlers installed meanwhile
 */
export function deferSignals(signals: readonly NodeJS.Signals[], onSignal = () => {}): () => void {
  const pending = new Set<NodeJS.Signals>();
  const defer = (signal: NodeJS.Signals) => {
    pending.add(signal);
    onSignal();
  };
  for (const signal of signals) process.on(signal, defer);
  return () => {
    for (const signal of signals) process.off(signal, defer);
    for (const signal of pending) process.emit(signal, signal);
  };
}

/**
 * Ignores SIGUSR1, upon which Node would open its debugger on a port that every user of this machine can reach, and with it all
 * secrets of the process.
 */
export function ignoreDebugSignal(): void {
  process.on("SIGUSR1", () => {});
}

/**
 * Handles signals until one has stopped the gateway. SIGTERM stops it gracefully; SIGINT, sent by a person, without waiting for
 * further clients; a second one of either aborts running requests, and still loses nothing of log and ledger. SIGHUP reloads
 * gateway.yaml, SIGUSR2 replaces the workers.
 * @param linger milliseconds from gateway.yaml
 * @param env shows whether `npm start` is the parent: Ctrl-C then arrives twice, from the terminal and from npm
 */
export async function untilStopped(
  gateway: Stoppable,
  linger: number,
  log: Log,
  out: (line: string) => void,
  env: NodeJS.ProcessEnv = {},
) {
  const echo = env["npm_lifecycle_event"] === "start" ? ECHO_TIME : 0;
  let begun = Number.NEGATIVE_INFINITY;
  const interrupt = new AbortController();
  const first = Promise.withResolvers<NodeJS.Signals>();
  let signals = 0;
  for (const signal of STOP_SIGNALS)
    process.on(signal, () => {
      if (performance.now() - begun < echo) return;
      if (++signals === 1) {
        begun = performance.now();
        first.resolve(signal);
      } else if (signals === 2) {
        out(`${signal}: running requests are interrupted`);
        interrupt.abort();
      }
    });
  process.on("SIGHUP", () => void gateway.reload(signalInitiator("SIGHUP")).catch(() => {}));
  process.on("SIGUSR2", () => {
    if (gateway.replace) void gateway.replace(signalInitiator("SIGUSR2"));
    else log.warn({}, "SIGUSR2 replaces workers, and there are none: set workers: 2 or more");
  });
  const signal = await first.promise;
  out(`${signal}: stopping when running requests have ended (again to interrupt them)`);
  await gateway.stop({ linger: signal === "SIGTERM" ? linger : 0, signal: interrupt.signal });
}
