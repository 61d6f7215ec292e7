import type { LookupFunction, Socket } from "node:net";
import { Connection, ConnectionError, type ConnectionOwner } from "./connection.ts";
import { Connector } from "./connector.ts";
import type { HttpRequest } from "./http-request.ts";
import { checkRequest } from "./request-head.ts";

export interface PoolLimits {
  /** Connections at most; more calls wait for one. */
  connections: number;
  /** Milliseconds an unused connection is kept. */
  keepAlive: number;
  /** Milliseconds after which a connection that does not come about is given up; 0: the system's limit. */
  connect: number;
  /** How names become addresses; Node's own otherwise. */
  lookup?: LookupFunction | undefined;
}

/** Milliseconds before the time at which the provider says it closes a connection, from which on it is not used. */
const MARGIN = 2000;
/** Where all connections read to: what is in it is dealt with before the next one reads. */
const INBOX = Buffer.allocUnsafeSlow(64 * 1024);

type Wired = Socket & { line?: Connection };

/**
 * The connections to one origin made for one credential: HTTP/1.1 without pipelining, the connection used last first. A
 * line carries a call only after everything has been read that had come when the call was made, so that an answer which
 * nobody asked for closes the line instead of being taken for the answer to that call.
 */
export class Pool implements ConnectionOwner {
  readonly host: string;
  /** How many connections were made so far. */
  made = 0;

  private readonly connector: Connector;
  private readonly lines = new Set<Connection>();
  private readonly idle: Connection[] = [];
  /** Calls for which a connection is being made, and what gives it up. */
  private readonly connecting = new Map<HttpRequest, () => void>();
  /** Calls that have no line yet, in the order in which they came. */
  private readonly calls: HttpRequest[] = [];
  private scheduled = false;
  private sweep: NodeJS.Timeout | undefined;
  private sweepAt = Number.POSITIVE_INFINITY;
  private closing: PromiseWithResolvers<void> | undefined;

  constructor(
    readonly origin: string,
    private readonly options: PoolLimits,
  ) {
    this.host = new URL(origin).host;
    const onread = {
      buffer: INBOX,
      callback(this: Wired, size: number): boolean {
        this.line?.receive(INBOX.subarray(0, size));
        return true;
      },
    };
    this.connector = new Connector(origin, { connect: options.connect, lookup: options.lookup, onread });
  }

  /** Carries a call as soon as a line can. @param alone on a new line, whatever others there are */
  send(call: HttpRequest, alone = false): void {
    if (this.closing) {
      call.onError(new ConnectionError("LANE_CLOSED"));
      return;
    }
    const wrong = checkRequest(call);
    if (wrong) call.onError(wrong);
    else if (alone) this.open(call);
    else {
      this.calls.push(call);
      this.schedule();
    }
  }

  /** A call that has not started wants no line any more. */
  cancel(call: HttpRequest): void {
    const at = this.calls.indexOf(call);
    if (at >= 0) this.calls.splice(at, 1);
    this.connecting.get(call)?.();
    if (this.connecting.delete(call) && this.calls.length > 0) this.schedule();
    this.settle();
  }

  /** Lets running calls end, takes no new ones. */
  close(): Promise<void> {
    this.closing ??= Promise.withResolvers<void>();
    for (const line of this.idle.splice(0)) line.abort();
    this.settle();
    return this.closing.promise;
  }

  /** Cuts everything at once. */
  destroy(): Promise<void> {
    const closed = this.close();
    const error = new ConnectionError("LANE_CLOSED");
    for (const line of [...this.lines]) line.fail(error);
    const unserved = [...this.calls.splice(0), ...this.connecting.keys()];
    for (const giveUp of this.connecting.values()) giveUp();
    this.connecting.clear();
    for (const call of unserved) call.onError(error);
    this.settle();
    return closed;
  }

  released(line: Connection, keptFor: number | undefined): void {
    const time = keptFor === undefined ? this.options.keepAlive : Math.min(this.options.keepAlive, keptFor - MARGIN);
    if (time <= 0 || (this.closing && this.calls.length === 0)) {
      line.abort();
      return;
    }
    line.expires = performance.now() + time;
    this.idle.push(line);
    if (this.calls.length > 0) this.schedule();
    if (line.expires < this.sweepAt) this.sweepIn(time);
  }

  closed(line: Connection): void {
    this.lines.delete(line);
    const at = this.idle.lastIndexOf(line);
    if (at >= 0) this.idle.splice(at, 1);
    if (this.calls.length > 0) this.schedule();
    this.settle();
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(this.distribute);
  }

  /** Gives lines to calls, the first first, as long as there are any. */
  private readonly distribute = (): void => {
    this.scheduled = false;
    let placed = 0;
    for (const call of this.calls) {
      if (!this.place(call)) break;
      placed++;
    }
    this.calls.splice(0, placed);
    // Lines that were kept for calls which nobody wanted any more.
    if (this.closing && this.calls.length === 0) for (const line of this.idle.splice(0)) line.abort();
    this.settle();
  };

  /** False when there is no line, and none may be opened. */
  private place(call: HttpRequest): boolean {
    const line = this.idle.pop();
    if (line) {
      if (!line.send(call)) this.idle.push(line);
      return true;
    }
    if (this.lines.size + this.connecting.size >= this.options.connections) return false;
    this.open(call);
    return true;
  }

  private open(call: HttpRequest): void {
    const giveUp = this.connector.open((error, socket, trip) => {
      this.connecting.delete(call);
      if (socket) this.join(socket, trip, call);
      else call.onError(error ?? new ConnectionError("CONNECTION_FAILED"));
      if (this.calls.length > 0) this.schedule();
      this.settle();
    });
    this.connecting.set(call, giveUp);
  }

  private join(socket: Wired, trip: number, call: HttpRequest): void {
    this.made++;
    const line = new Connection(socket, trip, this);
    socket.line = line;
    this.lines.add(line);
    if (!line.send(call)) line.abort();
  }

  /** Closes lines that have been idle for too long. */
  private sweepIn(time: number): void {
    clearTimeout(this.sweep);
    this.sweepAt = performance.now() + time;
    this.sweep = setTimeout(() => {
      this.sweepAt = Number.POSITIVE_INFINITY;
      const now = performance.now() + 1;
      for (const line of this.idle.filter(({ expires }) => expires <= now)) line.abort();
      const next = this.idle.reduce((soonest, { expires }) => Math.min(soonest, expires), Number.POSITIVE_INFINITY);
      if (next < Number.POSITIVE_INFINITY) this.sweepIn(next - now + 1);
    }, time).unref();
  }

  /** Ends the closing once nothing runs any more. */
  private settle(): void {
    const open = this.lines.size + this.connecting.size + this.calls.length;
    if (!this.closing || open > 0) return;
    clearTimeout(this.sweep);
    this.closing.resolve();
  }
}
