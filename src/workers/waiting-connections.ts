import type { Socket } from "node:net";
import type { Log } from "../core/log.ts";

/** Milliseconds without a worker for which connections wait: after that a load balancer should try another gateway. */
const MAX_WAIT = 2000;
/** Limit of waiting connections. */
const MAX_WAITING = 1024;

/** Connections for which there is no worker at the moment. */
export class WaitingConnections {
  private readonly sockets: Socket[] = [];
  /** Runs while no worker serves and connections may still wait for one. */
  private timer: NodeJS.Timeout | undefined;
  /** Whether all connections are closed until a worker serves. */
  private closing = false;
  private isLogged = false;
  private closed = 0;

  /**
   * @param log gets an entry when connections are closed, and when that is over
   * @param maxWait milliseconds without a worker
   * @param most waiting connections at a time
   */
  constructor(
    private readonly log: Log,
    private readonly maxWait = MAX_WAIT,
    private readonly most = MAX_WAITING,
  ) {}

  /** Called when no worker serves any more. */
  startTimeout(): void {
    if (this.closing || this.timer) return;
    this.timer = setTimeout(() => this.close(), this.maxWait);
  }

  /** Adds a connection, which is closed where it cannot wait. */
  add(socket: Socket): void {
    this.startTimeout();
    if (this.closing || this.sockets.length >= this.most) this.refuse(socket);
    else this.sockets.push(socket);
  }

  /** Called when a worker serves. Returns the waiting connections for it. */
  takeAll(): Socket[] {
    if (this.isLogged)
      this.log.info({ connections: this.closed }, "a worker serves again: connections were closed until now");
    clearTimeout(this.timer);
    this.timer = undefined;
    this.closing = false;
    this.isLogged = false;
    this.closed = 0;
    return this.sockets.splice(0);
  }

  /** Closes waiting connections, and all that arrive before a worker serves. */
  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.closing = true;
    for (const socket of this.sockets.splice(0)) this.refuse(socket);
  }

  private refuse(socket: Socket): void {
    // Nothing was read from it: a proxy counts that as an error, and tries another gateway.
    socket.destroy();
    this.closed++;
    if (!this.isLogged) this.log.error({}, "no worker serves: connections are closed until one does");
    this.isLogged = true;
  }
}
