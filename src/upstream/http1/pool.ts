import type { LookupFunction, Socket } from "node:net";
import { Connection, type ConnectionOwner } from "./connection.ts";
import { Connector } from "./connector.ts";
import { Http1Error } from "./errors.ts";
import type { HttpRequest } from "./http-request.ts";
import type { HttpProxy } from "./proxies.ts";
import { type Addressing, addressingOf, checkRequest } from "./request-head.ts";
import { forwarderRefusal } from "./tunnel.ts";

interface PoolOptions {
  /** Maximum of connections; further requests wait for one. */
  connections: number;
  /** Milliseconds for which an idle connection is kept. */
  keepAlive: number;
  /** Milliseconds after the last request for which an idle TLS connection is kept ready; 0: none is. */
  warm?: number | undefined;
  /** The proxy in front of the origin; undefined: none. */
  proxy?: HttpProxy | undefined;
  /** Resolves host names; Node's own lookup by default. */
  lookup?: LookupFunction | undefined;
  /** Creates connections inside the process, in place of network sockets. */
  connectInProcess?: ((origin: string) => Socket) | undefined;
}

/** Safety margin in milliseconds: a connection is not used this long before the provider closes it by its own announcement. */
const CLOSE_MARGIN = 2000;

type PooledSocket = Socket & { connection?: Connection };

/**
 * The connections to one origin for one credential: HTTP/1.1 without pipelining, most recently used first. A request gets a
 * connection only after all bytes have been read that had arrived when the request was made. An unsolicited response therefore
 * closes the connection, and is not mistaken for the response to that request.
 */
export class Pool implements ConnectionOwner {
  readonly addressing: Addressing;
  /** Number of connections opened so far. */
  opened = 0;

  private readonly connector: Connector;
  private readonly connections = new Set<Connection>();
  private readonly idle: Connection[] = [];
  /** Requests for which a connection is being opened, and the function that cancels the opening. */
  private readonly connecting = new Map<HttpRequest, () => void>();
  /** Requests without a connection, in order of arrival. */
  private readonly queue: HttpRequest[] = [];
  private scheduled = false;
  private sweepTimer: NodeJS.Timeout | undefined;
  private sweepAt = Number.POSITIVE_INFINITY;
  private closing: PromiseWithResolvers<void> | undefined;
  /** Time of the last request; 0: none, or no connection is kept ready. */
  private usedAt = 0;
  /** Cancels the opening of a connection that is to be kept ready. */
  private warming: (() => void) | undefined;
  private warmedAt = 0;
  /** Until then none is opened in advance, because the provider did not keep the last one. */
  private noWarmingUntil = 0;
  /** The proxy that takes requests in absolute-form. */
  private readonly forwarder: HttpProxy | undefined;

  /** @param origin scheme, host and port. */
  constructor(
    readonly origin: string,
    private readonly options: PoolOptions,
  ) {
    const { protocol, host } = new URL(origin);
    const { proxy, lookup, connectInProcess } = options;
    this.forwarder = protocol === "http:" ? proxy : undefined;
    this.addressing = this.forwarder
      ? addressingOf(host, `http://${host}`, this.forwarder.authorization)
      : addressingOf(host);
    const receive = (socket: PooledSocket, bytes: Buffer): void => socket.connection?.receive(bytes);
    this.connector = new Connector(origin, { proxy, lookup, connectInProcess, receive });
  }

  /** Sends a request as soon as a connection can take it. @param onNewConnection whether to open a connection even if one is idle */
  send(request: HttpRequest, onNewConnection = false): void {
    const invalid = this.closing ? new Http1Error("POOL_CLOSED") : checkRequest(request);
    if (invalid) request.onError(invalid);
    else if (onNewConnection) this.open(request);
    else {
      if (this.options.warm) this.usedAt = performance.now();
      this.queue.push(request);
      this.schedule();
    }
  }

  /** Withdraws a request that has not started. */
  cancel(request: HttpRequest): void {
    const index = this.queue.indexOf(request);
    if (index >= 0) this.queue.splice(index, 1);
    this.connecting.get(request)?.();
    if (this.connecting.delete(request) && this.queue.length > 0) this.schedule();
    this.settle();
  }

  /** Takes no new requests; settles when the running ones have ended. */
  close(): Promise<void> {
    this.closing ??= Promise.withResolvers<void>();
    this.warming?.();
    for (const connection of this.idle.splice(0)) connection.abort();
    this.settle();
    return this.closing.promise;
  }

  onReleased(connection: Connection, keepAliveTimeout: number | undefined): void {
    const { keepAlive } = this.options;
    const time = keepAliveTimeout === undefined ? keepAlive : Math.min(keepAlive, keepAliveTimeout - CLOSE_MARGIN);
    if (time <= 0 || (this.closing && this.queue.length === 0)) {
      connection.abort();
      return;
    }
    connection.expires = performance.now() + time;
    this.idle.push(connection);
    if (this.queue.length > 0) this.schedule();
    if (connection.expires < this.sweepAt) this.sweepIn(time);
  }

  onClosed(connection: Connection): void {
    this.connections.delete(connection);
    const index = this.idle.lastIndexOf(connection);
    if (index >= 0) this.idle.splice(index, 1);
    if (this.queue.length > 0) this.schedule();
    // Unless that was its timeout, the provider keeps no idle connections.
    if (connection.unused && performance.now() - this.warmedAt < this.options.keepAlive / 2) this.pauseWarming();
    this.keepWarm();
    this.settle();
  }

  statusError(status: number): Error | undefined {
    return forwarderRefusal(this.forwarder, status);
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(this.distribute);
  }

  /** Assigns connections to waiting requests in order, while there are any. */
  private readonly distribute = (): void => {
    this.scheduled = false;
    let assigned = 0;
    for (const request of this.queue) {
      if (!this.assign(request)) break;
      assigned++;
    }
    // Nearly always one: `splice` takes three times as long.
    if (assigned === 1) this.queue.shift();
    else this.queue.splice(0, assigned);
    // They were kept for requests that have been cancelled.
    if (this.closing && this.queue.length === 0) for (const connection of this.idle.splice(0)) connection.abort();
    this.settle();
  };

  /** Returns false when no connection is idle, and none may be opened. */
  private assign(request: HttpRequest): boolean {
    const connection = this.idle.pop();
    if (connection) {
      if (!connection.send(request)) this.idle.push(connection);
      else if (this.idle.length === 0) this.keepWarm();
      return true;
    }
    if (this.connections.size + this.connecting.size >= this.options.connections) return false;
    this.open(request);
    return true;
  }

  private open(request: HttpRequest): void {
    request.onConnecting?.();
    const cancelOpening = this.connector.open((error, socket) => {
      this.connecting.delete(request);
      if (socket) this.addConnection(socket, request);
      else request.onError(error ?? new Http1Error("CONNECTION_CLOSED"));
      if (this.queue.length > 0) this.schedule();
      this.settle();
    });
    this.connecting.set(request, cancelOpening);
  }

  private addConnection(socket: PooledSocket, request?: HttpRequest): void {
    this.opened++;
    const connection = new Connection(socket, this);
    socket.connection = connection;
    this.connections.add(connection);
    if (!request) this.onReleased(connection, undefined);
    else if (!connection.send(request)) connection.abort();
    else this.keepWarm();
  }

  /** Opens a connection if none is idle or being opened, while the provider is in use. Nothing is sent on it. */
  private keepWarm(): void {
    const { warm = 0, connections } = this.options;
    if (warm === 0 || this.idle.length + this.connecting.size > 0 || this.warming || this.closing) return;
    const now = performance.now();
    const isWanted = this.usedAt > 0 && now - this.usedAt < warm && now >= this.noWarmingUntil;
    if (!isWanted || this.connections.size >= connections || !this.origin.startsWith("https:")) return;
    this.warmedAt = now;
    this.warming = this.connector.open((error, socket) => {
      this.warming = undefined;
      if (error || !socket) this.pauseWarming();
      else this.addConnection(socket);
    });
  }

  /** Opens no connection in advance for a while: each would be in vain. */
  private pauseWarming(): void {
    this.noWarmingUntil = performance.now() + 2 * this.options.keepAlive;
  }

  /** Closes connections that have been idle for too long. */
  private sweepIn(time: number): void {
    clearTimeout(this.sweepTimer);
    this.sweepAt = performance.now() + time;
    this.sweepTimer = setTimeout(() => {
      this.sweepAt = Number.POSITIVE_INFINITY;
      const now = performance.now() + 1;
      for (const connection of this.idle.filter(({ expires }) => expires <= now)) connection.abort();
      const nextExpiry = this.idle.reduce(
        (soonest, { expires }) => Math.min(soonest, expires),
        Number.POSITIVE_INFINITY,
      );
      if (nextExpiry < Number.POSITIVE_INFINITY) this.sweepIn(nextExpiry - now + 1);
    }, time).unref();
  }

  /** Settles `close()` once no connection and no request is left. */
  private settle(): void {
    const open = this.connections.size + this.connecting.size + this.queue.length;
    if (!this.closing || open > 0) return;
    clearTimeout(this.sweepTimer);
    this.closing.resolve();
  }
}
