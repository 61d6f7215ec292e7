import { connect as connectTcp, isIP, type LookupFunction, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { Http1Error } from "./errors.ts";
import { type HttpProxy, withoutBrackets } from "./proxies.ts";
import { openTunnel, proxyFailure } from "./tunnel.ts";

export interface ConnectorOptions {
  /** The proxy in front of the origin; undefined: none. */
  proxy?: HttpProxy | undefined;
  /** Resolves host names; Node's own lookup by default. */
  lookup?: LookupFunction | undefined;
  /** Creates a connection inside the process, without the network. It is ready at once. */
  connectInProcess?: ((origin: string) => Socket) | undefined;
  /** Receives what is read, instead of the socket's events; the buffer is reused after this returns. */
  receive(socket: Socket, bytes: Buffer): void;
}

/** Called with the result of an attempt to connect. */
type ConnectCallback = (error: Error | undefined, socket?: Socket) => void;

interface Endpoint {
  /** A name or an address, without brackets. */
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
}

/** Milliseconds of silence after which the system sends TCP keep-alive probes. */
const KEEP_ALIVE_DELAY = 60_000;
/** The read buffer of all connections: each read is processed before the next one. */
const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Opens connections to one origin: over TLS for https, resuming the last session. With a proxy, https goes through a tunnel that
 * the proxy opens (CONNECT), and http to the proxy itself in absolute-form: many proxies open tunnels to port 443 only.
 */
export class Connector {
  private readonly origin: Endpoint;
  /** Host and port, as a proxy expects them. */
  private readonly authority: string;
  private session: Buffer | undefined;

  /** @param address scheme, host and port. */
  constructor(
    private readonly address: string,
    private readonly options: ConnectorOptions,
  ) {
    const { protocol, hostname, port } = new URL(address);
    const secure = protocol === "https:";
    this.origin = { host: withoutBrackets(hostname), port: Number(port) || (secure ? 443 : 80), secure };
    this.authority = `${hostname}:${this.origin.port}`;
  }

  /**
   * Calls back once, with a connection that is ready or with an error. The returned function cancels the attempt; no callback
   * follows then. Only the system's own timeouts apply.
   */
  open(done: ConnectCallback): () => void {
    const { proxy, connectInProcess, receive } = this.options;
    if (connectInProcess) return readySocket(connectInProcess(this.address), receive, done);
    const socket = this.dial(proxy ?? this.origin, !(proxy && this.origin.secure));
    let settled = false;
    const settle: ConnectCallback = (error, ready) => {
      if (settled) return;
      settled = true;
      if (error) socket.destroy();
      done(error, error ? undefined : ready);
    };
    if (!proxy) onceReady(socket, this.origin, settle);
    else
      onceReady(socket, proxy, (error) => {
        if (error) settle(proxyFailure(proxy, error));
        else if (this.origin.secure) this.tunnel(socket, proxy, settle);
        else settle(undefined, socket);
      });
    return () => {
      settled = true;
      socket.destroy();
    };
  }

  /** @param directReads whether reads go to the options' `receive`, and not to the socket's events */
  private dial(endpoint: Endpoint, directReads: boolean): Socket {
    const { host, port } = endpoint;
    const { lookup, receive } = this.options;
    const onread = {
      buffer: READ_BUFFER,
      callback(this: Socket, size: number): boolean {
        receive(this, READ_BUFFER.subarray(0, size));
        return true;
      },
    };
    const options = {
      ...{ host, port, autoSelectFamily: true },
      ...(directReads ? { onread } : {}),
      ...(lookup ? { lookup } : {}),
    };
    const socket = endpoint.secure ? this.openTls(options, endpoint) : connectTcp(options);
    return socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_DELAY);
  }

  /** Opens TLS to the origin, or to a proxy. */
  private openTls(options: ConnectionOptions, endpoint: Endpoint): Socket {
    const { host } = endpoint;
    const toOrigin = endpoint === this.origin;
    const socket = connectTls({
      ...options,
      // An IP address is not allowed as a server name (RFC 6066 §3).
      ...(isIP(host) ? {} : { servername: host }),
      ALPNProtocols: ["http/1.1"],
      // Otherwise NODE_TLS_REJECT_UNAUTHORIZED=0 would send credentials to anybody.
      rejectUnauthorized: true,
      ...(toOrigin && this.session ? { session: this.session } : {}),
    });
    if (toOrigin)
      socket.on("session", (session) => {
        this.session = session;
      });
    return socket;
  }

  /** Opens a tunnel through the proxy to the origin. */
  private tunnel(socket: Socket, proxy: HttpProxy, settle: ConnectCallback): void {
    openTunnel(socket, proxy, this.authority, (error) => {
      if (error) {
        settle(error);
        return;
      }
      // The host is used only to verify the certificate.
      const tlsSocket = this.openTls({ socket, host: this.origin.host }, this.origin);
      onceReady(tlsSocket, this.origin, (tlsError) => {
        if (tlsError) tlsSocket.destroy();
        else tlsSocket.on("data", (bytes: Buffer) => this.options.receive(tlsSocket, bytes));
        settle(tlsError, tlsSocket);
      });
    });
  }
}

/** Calls back with a ready connection in a later turn, like connections over a network. */
function readySocket(socket: Socket, receive: ConnectorOptions["receive"], done: ConnectCallback): () => void {
  socket.on("data", (bytes: Buffer) => receive(socket, bytes));
  const immediate = setImmediate(() => done(undefined, socket));
  return () => {
    clearImmediate(immediate);
    socket.destroy();
  };
}

/** Calls back once: when the connection is ready for the first request, or with the error that prevents it. */
function onceReady(socket: Socket, { secure }: Endpoint, done: ConnectCallback): void {
  // Dropped after the callback: the listeners below live as long as the connection, and would keep its first request in memory.
  let callback: ConnectCallback | undefined = done;
  const once = (error?: Error): void => {
    const notify = callback;
    callback = undefined;
    notify?.(error, socket);
  };
  socket.once(secure ? "secureConnect" : "connect", () => once());
  // Later errors are handled by other listeners; without any listener they would end the process.
  socket.on("error", once);
  socket.once("close", () => once(new Http1Error("CONNECTION_CLOSED")));
}
