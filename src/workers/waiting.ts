import type { Socket } from "node:net";
import type { Log } from "../core/log.ts";

/** Milliseconds without a worker for which connections wait for one: whoever is in front shall ask another gateway then. */
const PATIENCE = 2000;
/** Connections that may wait. */
const MOST = 1024;

/** Connections for which there is no worker at the moment. */
export class WaitingConnections {
  private readonly sockets: Socket[] = [];
  /** Runs while no worker serves and connections still wait for one. */
  private timer: NodeJS.Timeout | undefined;
  /** None waits any more, until a worker serves. */
  private closing = false;
  private told = false;
  private closed = 0;

  /**
   * @param log told when connections are closed, and when that is over
   * @param patience milliseconds without a worker
   * @param most connections that wait at a time
   */
  constructor(
    private readonly log: Log,
    private readonly patience = PATIENCE,
    private readonly most = MOST,
  ) {}

  /** No worker serves from now on. */
  begin(): void {
    if (this.closing || this.timer) return;
    this.timer = setTimeout(() => this.close(), this.patience);
  }

  /** One more, which is closed where it cannot wait. */
  add(socket: Socket): void {
    this.begin();
    if (this.closing || this.sockets.length >= this.most) this.refuse(socket);
    else this.sockets.push(socket);
  }

  /** A worker serves. Returns those that it is to have. */
  end(): Socket[] {
    if (this.told)
      this.log.info({ connections: this.closed }, "a worker serves again: connections were closed until now");
    clearTimeout(this.timer);
    this.timer = undefined;
    this.closing = false;
    this.told = false;
    this.closed = 0;
    return this.sockets.splice(0);
  }

  /** Closes those that wait, and all that come before a worker serves. */
  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.closing = true;
    for (const socket of this.sockets.splice(0)) this.refuse(socket);
  }

  private refuse(socket: Socket): void {
    // Nothing was read: a proxy counts it as an error, and asks another gateway.
    socket.destroy();
    this.closed++;
    if (!this.told) this.log.error({}, "no worker serves: connections are closed until one does");
    this.told = true;
  }
}
