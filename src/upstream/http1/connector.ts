import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { Http1Error } from "./errors.ts";
import { type HttpProxy, unbracketed } from "./proxies.ts";
import { openTunnel, proxyFailure } from "./tunnel.ts";

export interface ConnectorOptions {
  /** What stands in between; undefined: nothing. */
  proxy?: HttpProxy | undefined;
  /** How names become addresses; Node's own otherwise. */
  lookup?: LookupFunction | undefined;
  /** Gives a connection that needs no system: one within the process. It is ready at once. */
  within?: ((origin: string) => Socket) | undefined;
  /** Takes what is read, instead of the socket's events; the bytes change once this has returned. */
  receive(socket: Socket, bytes: Buffer): void;
}

/** Told how an attempt to connect went. */
type Connected = (error: Error | undefined, socket?: Socket) => void;

interface Endpoint {
  /** A name or an address, without brackets. */
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
}

/** Milliseconds of silence after which the system asks whether the other side is still there. */
const PROBE = 60_000;
/** Where all connections read to: what is in it is dealt with before the next one reads. */
const INBOX = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Makes connections to one origin: over TLS where it says https, with the last session resumed. Where a proxy stands in
 * between, https goes through a tunnel that the proxy opens (CONNECT), and http to the proxy itself, which is then asked
 * for the whole address (absolute-form): many proxies open tunnels to port 443 only.
 */
export class Connector {
  private readonly origin: Endpoint;
  /** Host and port, as a proxy is asked for them. */
  private readonly authority: string;
  private session: Buffer | undefined;

  /** @param address scheme, host and port. */
  constructor(
    private readonly address: string,
    private readonly options: ConnectorOptions,
  ) {
    const { protocol, hostname, port } = new URL(address);
    const secure = protocol === "https:";
    this.origin = { host: unbracketed(hostname), port: Number(port) || (secure ? 443 : 80), secure };
    this.authority = `${hostname}:${this.origin.port}`;
  }

  /**
   * Calls back once, with a connection that is ready or why there is none; not at all after the answered function has been
   * called, which gives the attempt up. There is no limit of time but the system's.
   */
  open(done: Connected): () => void {
    const { proxy, within, receive } = this.options;
    if (within) return connected(within(this.address), receive, done);
    const socket = this.dial(proxy ?? this.origin, !(proxy && this.origin.secure));
    let over = false;
    const settle: Connected = (error, ready) => {
      if (over) return;
      over = true;
      if (error) socket.destroy();
      done(error, error ? undefined : ready);
    };
    if (!proxy) established(socket, this.origin, settle);
    else
      established(socket, proxy, (error) => {
        if (error) settle(proxyFailure(proxy, error));
        else if (this.origin.secure) this.tunnel(socket, proxy, settle);
        else settle(undefined, socket);
      });
    return () => {
      over = true;
      socket.destroy();
    };
  }

  /** @param own whether what is read goes to the options' `receive`, and not to the socket's events */
  private dial(endpoint: Endpoint, own: boolean): Socket {
    const { host, port } = endpoint;
    const { lookup, receive } = this.options;
    const onread = {
      buffer: INBOX,
      callback(this: Socket, size: number): boolean {
        receive(this, INBOX.subarray(0, size));
        return true;
      },
    };
    const options = {
      ...{ host, port, autoSelectFamily: true },
      ...(own ? { onread } : {}),
      ...(lookup ? { lookup } : {}),
    };
    const socket = endpoint.secure ? this.secured(options, endpoint) : connectTcp(options);
    return socket.setNoDelay(true).setKeepAlive(true, PROBE);
  }

  /** TLS to the origin, or to a proxy. */
  private secured(options: ConnectionOptions, endpoint: Endpoint): Socket {
    const { host } = endpoint;
    const toOrigin = endpoint === this.origin;
    const socket = connectTls({
      ...options,
      // An address is no name that a server could be asked for (RFC 6066 §3).
      ...(isIP(host) ? {} : { servername: host }),
      ALPNProtocols: ["http/1.1"],
      ...(toOrigin && this.session ? { session: this.session } : {}),
    });
    if (toOrigin)
      socket.on("session", (session) => {
        this.session = session;
      });
    return socket;
  }

  /** Through the proxy to the origin. */
  private tunnel(socket: Socket, proxy: HttpProxy, settle: Connected): void {
    openTunnel(socket, proxy, this.authority, (error) => {
      if (error) {
        settle(error);
        return;
      }
      // The host only says whose certificate it must be.
      const secured = this.secured({ socket, host: this.origin.host }, this.origin);
      established(secured, this.origin, (failed) => {
        if (failed) secured.destroy();
        else secured.on("data", (bytes: Buffer) => this.options.receive(secured, bytes));
        settle(failed, secured);
      });
    });
  }
}

/** Calls back with a connection that is ready: in a later turn, like those that are made over a network. */
function connected(socket: Socket, receive: ConnectorOptions["receive"], done: Connected): () => void {
  socket.on("data", (bytes: Buffer) => receive(socket, bytes));
  const turn = setImmediate(() => done(undefined, socket));
  return () => {
    clearImmediate(turn);
    socket.destroy();
  };
}

/** Calls back once: when the connection is ready for the first request, or why it never will be. */
function established(socket: Socket, { secure }: Endpoint, done: Connected): void {
  // Forgotten once it is told: the listener below lives as long as the connection, and would keep its first request alive.
  let told: Connected | undefined = done;
  const once = (error?: Error): void => {
    const tell = told;
    told = undefined;
    tell?.(error, socket);
  };
  socket.once(secure ? "secureConnect" : "connect", () => once());
  // Later errors are told to whoever listens then; without a listener they would end the process.
  socket.on("error", once);
  socket.once("close", () => once(new Http1Error("CONNECTION_CLOSED")));
}
