import type { Log } from "../core/log.ts";
import type { Patience } from "../downstream/server.ts";
import type { Initiator } from "../trail.ts";
import { signalled } from "./author.ts";

/** What signals are about. */
interface Stoppable {
  stop(patience: Partial<Patience>): Promise<void>;
  /** Replaces the workers; absent where there are none. */
  replace?(by: Initiator): Promise<void>;
  /** Serves what gateway.yaml says now. Rejects with what is wrong with it, which is in the log then. */
  reload(by: Initiator): Promise<unknown>;
}

/** Milliseconds in which what npm passes on has come, too few to press it again. */
const ECHO = 300;

/**
 * Obeys signals until one has ended the gateway. SIGTERM stops it so that nobody is hurt; SIGINT, which a person sends,
 * without waiting for those who might still come; a second one of either interrupts what runs, and still loses nothing of
 * log and ledger. SIGHUP reloads gateway.yaml, SIGUSR2 replaces the workers.
 * @param linger milliseconds, as gateway.yaml says
 * @param env says whether `npm start` did: Ctrl-C then comes twice, from the terminal and from npm, which passes it on
 */
export async function untilStopped(
  gateway: Stoppable,
  linger: number,
  log: Log,
  out: (line: string) => void,
  env: NodeJS.ProcessEnv = {},
) {
  const echo = env["npm_lifecycle_event"] === "start" ? ECHO : 0;
  let begun = Number.NEGATIVE_INFINITY;
  const hurry = new AbortController();
  const first = Promise.withResolvers<NodeJS.Signals>();
  let signals = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => {
      if (performance.now() - begun < echo) return;
      if (++signals === 1) {
        begun = performance.now();
        first.resolve(signal);
      } else if (signals === 2) {
        out(`${signal}: running requests are interrupted`);
        hurry.abort();
      }
    });
  process.on("SIGHUP", () => void gateway.reload(signalled("SIGHUP")).catch(() => {}));
  process.on("SIGUSR2", () => {
    if (gateway.replace) void gateway.replace(signalled("SIGUSR2"));
    else log.warn({}, "SIGUSR2 replaces workers, and there are none: set workers: 2 or more");
  });
  const signal = await first.promise;
  out(`${signal}: stopping when running requests have ended (again to interrupt them)`);
  await gateway.stop({ linger: signal === "SIGTERM" ? linger : 0, hurry: hurry.signal });
}
