import { setImmediate as nextTurn } from "node:timers/promises";
import { GatewayError } from "../core/errors.ts";
import type { ServerResponse } from "../core/node-http.ts";
import { waitUntil } from "../core/timeout.ts";
import type { Connections } from "./connections.ts";
import type { Listener } from "./listener.ts";
import type { Overload } from "./overload.ts";
import { LAST_BYTES, type RunningExchanges } from "./running-exchanges.ts";

/** How long a stop waits, in milliseconds. */
export interface StopTimeouts {
  /** For new connections and for requests on idle ones, if no other process accepts them. */
  linger?: number | undefined;
  /** For everything that runs. */
  drain: number;
  /** Aborts the wait. */
  signal?: AbortSignal | undefined;
}

/** The graceful stop of a server: when it is quiet, and in which order everything is closed. */
export class ServerStop {
  private begun = false;
  private endsIdle = false;
  /** `performance.now()` when there was last something to wait for. */
  private busyAt = 0;

  /** @param onDrain called when no more connections are accepted */
  constructor(
    private readonly connections: Connections,
    private readonly exchanges: RunningExchanges,
    private readonly overload: Overload,
    private readonly onDrain: () => void,
  ) {}

  get hasBegun(): boolean {
    return this.begun;
  }

  /** From now on responses close their connections, and clients have time for further requests. */
  prepare(): void {
    if (!this.begun) this.busyAt = performance.now();
    this.begun = true;
    this.connections.closeAfterResponses();
  }

  /** Ends idle connections, and from now on each that becomes idle during the stop. */
  endIdle(): void {
    this.endsIdle = true;
    this.connections.endIdle();
  }

  /** Gives a client that connects during the stop as much time for its first request as all others for their next one. */
  onConnection(): void {
    this.busyAt = performance.now();
  }

  /** Makes the response to a request that arrives during the stop close its connection. */
  onRequest(response: ServerResponse, arrivedAt: number): void {
    this.busyAt = arrivedAt;
    response.shouldKeepAlive = false;
  }

  /**
   * For the time of `linger` everything continues, but each response closes its connection. Then no connections are accepted and
   * clients of WebSockets are told to reconnect; running exchanges continue, and requests on idle connections are served, until
   * none has arrived for that time. At the limit the rest is interrupted, each exchange in its own protocol. Idle connections are
   * closed last, with a FIN from this side, so that none is reset. Never throws, never hangs.
   * @param refusesAll all requests are refused
   */
  async run(
    { linger = 0, drain, signal }: StopTimeouts,
    listener: Listener | undefined,
    refusesAll: boolean,
  ): Promise<void> {
    const { connections, exchanges } = this;
    const limit = performance.now() + drain;
    const late = () => performance.now() >= limit || signal?.aborted === true;
    this.prepare();
    const began = performance.now();
    if (listener && !listener.isInherited) await waitUntil(() => late() || performance.now() - began >= linger);
    // While everything is refused, an error response is better than a refused connection.
    if (!refusesAll || listener?.isInherited) await listener?.close();
    this.onDrain();
    do {
      await waitUntil(() => late() || this.isQuiet(linger));
      // What arrived while the process waited for a core has not been read yet.
      await nextTurn();
    } while (!late() && !this.isQuiet(linger));
    await listener?.close();
    if (exchanges.size > 0) {
      exchanges.interruptWhere(() => new GatewayError("interrupted"));
      await waitUntil(() => exchanges.size === 0 && !connections.isSending, LAST_BYTES);
    }
    connections.end();
    await waitUntil(() => connections.size === 0, LAST_BYTES);
    connections.destroy();
    await waitUntil(() => exchanges.size === 0, LAST_BYTES);
  }

  /** Reports whether nothing runs, nothing is being sent to a client, and no request is likely to arrive on open connections. */
  private isQuiet(linger: number): boolean {
    const { connections } = this;
    if (this.endsIdle) connections.endIdle();
    if (this.exchanges.size > 0 || this.overload.waiting > 0 || connections.isSending) {
      this.busyAt = performance.now();
      return false;
    }
    if (connections.size === 0) return true;
    // A client that has just connected is about to send a request.
    const wait = connections.hasUnused ? Math.max(linger, LAST_BYTES) : linger;
    return performance.now() - this.busyAt >= wait;
  }
}
