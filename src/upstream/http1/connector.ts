import { connect as connectTcp, isIP, type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface ConnectorOptions {
  /** Milliseconds after which a connection that does not come about is given up; 0: the system's limit. */
  connect: number;
  /** How names become addresses; Node's own otherwise. */
  lookup?: LookupFunction | undefined;
  /** Takes what is read, instead of the socket's events. */
  onread: OnReadOpts;
}

/**
 * Told how an attempt to connect went.
 * @param trip milliseconds from the first packet to the answer to it: a round trip to the provider
 */
export type Opened = (error: Error | undefined, socket: Socket | undefined, trip: number) => void;

/** Milliseconds of silence after which the system asks whether the other side is still there. */
const PROBE = 60_000;

/** Makes connections to one origin: over TLS where it says https, with the last session resumed. */
export class Connector {
  private readonly host: string;
  private readonly port: number;
  private readonly secure: boolean;
  private session: Buffer | undefined;

  /** @param origin scheme, host and port. */
  constructor(
    origin: string,
    private readonly options: ConnectorOptions,
  ) {
    const { protocol, hostname, port } = new URL(origin);
    this.secure = protocol === "https:";
    this.host = hostname.replace(/^\[|\]$/g, "");
    this.port = Number(port) || (this.secure ? 443 : 80);
  }

  /**
   * Calls back once, with a connection that is ready or why there is none; not at all after the answered function has been
   * called, which gives the attempt up.
   */
  open(done: Opened): () => void {
    const { connect } = this.options;
    const socket = this.secure ? this.overTls() : connectTcp(this.common());
    const limit = connect > 0 ? setTimeout(() => socket.destroy(new TimeoutError()), connect) : undefined;
    let over = false;
    let began = 0;
    let trip = 0;
    const once = (error: Error | undefined): void => {
      if (over) return;
      over = true;
      clearTimeout(limit);
      done(error, error ? undefined : socket, trip);
    };
    socket.setNoDelay(true).setKeepAlive(true, PROBE);
    // Of several addresses the last one tried is taken to be the one that answered: never too long a time.
    socket.on("connectionAttempt", () => {
      began = performance.now();
    });
    socket.once("connect", () => {
      trip = performance.now() - began;
    });
    socket.once(this.secure ? "secureConnect" : "connect", () => once(undefined));
    socket.on("error", once);
    socket.once("close", () => once(new TimeoutError()));
    return () => {
      over = true;
      clearTimeout(limit);
      socket.destroy();
    };
  }

  private overTls(): Socket {
    const socket = connectTls({
      ...this.common(),
      // An address is no name that a server could be asked for (RFC 6066 §3).
      ...(isIP(this.host) ? {} : { servername: this.host }),
      ALPNProtocols: ["http/1.1"],
      ...(this.session ? { session: this.session } : {}),
    });
    socket.on("session", (session) => {
      this.session = session;
    });
    return socket;
  }

  private common() {
    const { lookup, onread } = this.options;
    return { host: this.host, port: this.port, autoSelectFamily: true, onread, ...(lookup ? { lookup } : {}) };
  }
}

/** A connection that did not come about in time. */
class TimeoutError extends Error {
  readonly code = "ETIMEDOUT";
}
