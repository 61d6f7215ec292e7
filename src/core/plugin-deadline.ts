import { GatewayError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import type { Head } from "./head.ts";

/** The origin of a promise, and its deadline. */
export interface PluginDeadline {
  /** Plugin and phase, like `auth.access`. */
  readonly origin: string;
  /** Milliseconds; 0: no limit. */
  readonly deadline: number;
}

/** Reports whether a result must be awaited: a promise, or any other object with a `then`, like queries of database clients. */
export const isThenable = <T>(made: T | PromiseLike<T>): made is PromiseLike<T> =>
  made !== undefined && typeof (made as PromiseLike<T> | null)?.then === "function";

/** Milliseconds that a plugin may still record once the gateway stops waiting. */
const DONE_GRACE = 500;

/** Waits for a plugin's `done`. On a stop it waits no longer than DONE_GRACE, as the plugin's deadline may be infinite. */
export function awaitDone(promise: PromiseLike<void>, step: PluginDeadline, exchange: Exchange): Promise<void> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const unsubscribe = exchange.onInterrupt(() => {
    timer = setTimeout(
      () => reject(toPluginError(pluginTimeout({ ...step, deadline: DONE_GRACE }), step.origin)),
      DONE_GRACE,
    );
  });
  return Promise.race([awaitPlugin(promise, step), timeout]).finally(() => {
    clearTimeout(timer);
    unsubscribe();
  });
}

/** What a plugin works on. */
interface AwaitContext {
  /** The response's head: time that the plugin spends reading it whole counts as the provider's. */
  head?: Head;
  /** Once it is interrupted, the plugin is no longer awaited. */
  exchange?: Exchange;
}

/**
 * Awaits a plugin's promise within its deadline.
 * @throws GatewayError what the plugin threw, `plugin_timeout` or `interrupted`; each names plugin and phase
 */
export function awaitPlugin<T>(
  promise: PromiseLike<T>,
  { origin, deadline }: PluginDeadline,
  { head, exchange }: AwaitContext = {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const expired = () => {
      if (head?.isReading) timer = setTimeout(expired, deadline);
      else reject(toPluginError(pluginTimeout({ origin, deadline }), origin));
    };
    let timer = deadline > 0 ? setTimeout(expired, deadline) : undefined;
    const unsubscribe = exchange?.onInterrupt(() => {
      clearTimeout(timer);
      reject(toPluginError(exchange.interruption, origin));
    });
    const settle = () => {
      clearTimeout(timer);
      unsubscribe?.();
    };
    Promise.resolve(promise).then(
      (value) => {
        settle();
        resolve(value);
      },
      (thrown) => {
        settle();
        reject(toPluginError(thrown, origin));
      },
    );
  });
}

const pluginTimeout = ({ origin, deadline }: PluginDeadline): GatewayError =>
  new GatewayError("plugin_timeout", { message: `${origin} did not end within ${deadline / 1000} s.` });

/** Returns any thrown value as a GatewayError that names plugin and phase. */
export function toPluginError(thrown: unknown, origin: string): GatewayError {
  const error = GatewayError.from(thrown, "plugin_failed");
  error.origin ??= origin;
  return error;
}
