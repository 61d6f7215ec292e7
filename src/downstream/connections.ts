import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { addressLimitKey, LOOPBACK, Networks, peerAddress } from "../core/networks.ts";
import { type HeaderList, headerValues } from "../wire/headers.ts";

/** Connection limits, and the proxies that speak for other addresses. */
export interface ConnectionLimits {
  /** Maximum connections of one address. */
  readonly perAddress: number;
  /**
   * Proxies: their connections are not counted, and their X-Forwarded-For is trusted. If there are none, connections from this
   * machine are not counted, as they may come from a proxy.
   */
  readonly trust: Networks;
}

/** Maximum requests of a connection that wait for their turn. */
const MAX_WAITING = 500;
/** Number of waiting requests from which reading stops: only while the socket is read is a client's disconnect noticed. */
const READ_AHEAD = 16;
const ignore = (): void => {};

/** A client connection, on which requests are served one after the other. */
export class ClientConnection {
  /** The response to its latest request. */
  lastResponse: ServerResponse | undefined;
  /** Number of request heads received. */
  headsReceived = 0;
  private waiting = 0;

  /** @param address the peer's; empty if it has already disconnected */
  constructor(
    private readonly socket: Socket,
    readonly address: string,
    /** Whether it is a trusted proxy. */
    public proxy: boolean,
  ) {
    // Node resumes reading after every message. A socket that was paused again meanwhile would not emit `pause` again.
    socket.on("resume", () => {
      if (this.waiting < READ_AHEAD) return;
      if (socket.isPaused()) socket.emit("pause");
      else socket.pause();
    });
  }

  /** Whether requests wait for earlier ones: meanwhile the socket is not read, and the rest of a head is not late. */
  get busy(): boolean {
    return this.waiting > 0;
  }

  /**
   * Runs `serve` when the previous response has ended; never, if the connection ends with that. Beyond READ_AHEAD waiting
   * requests the socket is not read: only requests of one packet can exceed that. Returns false if there are too many.
   * @param response has no socket yet
   */
  enqueue(response: ServerResponse, serve: () => void): boolean {
    if (this.waiting === MAX_WAITING) return false;
    const { lastResponse, socket } = this;
    this.waiting++;
    this.lastResponse = response;
    if (this.waiting >= READ_AHEAD) socket.pause();
    lastResponse?.once("close", () => {
      this.waiting--;
      if (response.socket === null) return;
      if (this.waiting === READ_AHEAD - 1) socket.resume();
      serve();
    });
    return true;
  }
}

/** All client connections. */
export class Connections {
  private readonly bySocket = new WeakMap<Socket, ClientConnection>();
  private readonly open = new Set<Socket>();
  /** Number of connections by limit key. */
  private readonly counts = new Map<string, number>();

  constructor(private limits: ConnectionLimits) {}

  /** Applies new limits: those of `perAddress` to new connections, and `trust` to open ones too, which proxies keep for hours. */
  configure(limits: ConnectionLimits): void {
    this.limits = limits;
    for (const socket of this.open) {
      const connection = this.get(socket);
      connection.proxy = limits.trust.has(connection.address);
    }
  }

  /** Registers a new connection. Returns false if its address has too many. */
  accept(socket: Socket): boolean {
    // Node removes its own listener before it emits `upgrade`, `connect` and `clientError`, and an unhandled error ends the
    // process.
    socket.on("error", ignore);
    const { perAddress, trust } = this.limits;
    const address = peerAddress(socket);
    // Node adds a timeout to a connection with its first response: set from the start, all sockets have one shape for V8.
    socket.setTimeout(0);
    const proxy = trust.has(address);
    this.bySocket.set(socket, new ClientConnection(socket, address, proxy));
    this.open.add(socket);
    socket.once("close", () => this.open.delete(socket));
    if (proxy || address === "" || (trust.empty && LOOPBACK.test(address))) return true;
    return this.count(addressLimitKey(address), socket) <= perAddress;
  }

  get(socket: Socket): ClientConnection {
    return this.bySocket.get(socket) as ClientConnection;
  }

  /** Number of open connections. */
  get size(): number {
    return this.open.size;
  }

  /** Whether a response is still being sent to a client. */
  get isSending(): boolean {
    for (const socket of this.open) {
      const { lastResponse } = this.get(socket);
      if (socket.writableLength > 0 || (lastResponse && !lastResponse.writableFinished)) return true;
    }
    return false;
  }

  /** Whether a connection has not received any request yet. */
  get hasUnused(): boolean {
    for (const socket of this.open) if (!this.get(socket).lastResponse) return true;
    return false;
  }

  /** Lets connections end with responses whose head has not been sent. */
  closeAfterResponses(): void {
    for (const socket of this.open) {
      const { lastResponse } = this.get(socket);
      if (lastResponse && !lastResponse.headersSent) lastResponse.shouldKeepAlive = false;
    }
  }

  /** Sends a FIN to clients whose connections have no request, after at least one: they send the next one elsewhere. */
  endIdle(): void {
    for (const socket of this.open) {
      const { lastResponse } = this.get(socket);
      if (lastResponse?.writableFinished && socket.writable) socket.end();
    }
  }

  /** Sends a FIN to every client; data already written is still sent. */
  end(): void {
    for (const socket of this.open) socket.end();
  }

  destroy(): void {
    for (const socket of this.open) socket.destroy();
  }

  /**
   * Returns scheme and host that the client used. The host is taken from trusted proxies only; the scheme from anybody, as on the
   * admin side: it is returned only to its sender, and a client wrongly taken as one without TLS would send its key in clear
   * text.
   */
  origin({ proxy }: ClientConnection, headers: HeaderList): string | undefined {
    const forwarded = (name: string) => headers.get(name)?.split(",", 1)[0]?.trim();
    const host = (proxy ? forwarded("x-forwarded-host") : undefined) ?? headers.get("host");
    return URL.parse(`${forwarded("x-forwarded-proto") === "https" ? "https" : "http"}://${host ?? ""}`)?.origin;
  }

  private count(network: string, socket: Socket): number {
    const open = (this.counts.get(network) ?? 0) + 1;
    this.counts.set(network, open);
    socket.once("close", () => {
      const remaining = (this.counts.get(network) ?? 1) - 1;
      if (remaining === 0) this.counts.delete(network);
      else this.counts.set(network, remaining);
    });
    return open;
  }

  /** Returns the client's address: the peer's own, or what trusted proxies report. */
  clientAddress({ address, proxy }: ClientConnection, headers: HeaderList): string {
    if (!proxy) return address;
    const forwardedFor = headerValues(headers, "x-forwarded-for");
    return this.limits.trust.clientAddress(address, forwardedFor);
  }
}

/** Matches headers in which proxies report the client: they have been read here and must not be forwarded. */
export const isForwardingHeader = (name: string): boolean =>
  name.startsWith("x-forwarded-") || name === "forwarded" || name === "x-real-ip";
