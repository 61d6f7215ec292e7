import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { limitedBy, Networks, plainAddress } from "../core/networks.ts";
import type { HeaderList } from "../wire/headers.ts";

/** Who may connect how often, and for whom a proxy speaks. */
export interface ConnectionLimits {
  /** Connections that one address may hold. */
  readonly perAddress: number;
  /**
   * Proxies: their connections are not counted, and their X-Forwarded-For is believed. Where there are none, connections
   * of this machine are not counted, as a proxy may stand there.
   */
  readonly trust: Networks;
}

/** A machine's own addresses. */
const LOCAL = /^(?:::1|127\.\d+\.\d+\.\d+)$/;
/** Requests of a connection that may wait for their turn. */
const WAITING = 500;
/** So many that no more are read: as long as somebody reads, a client that leaves is noticed. */
const AHEAD = 16;
const ignore = (): void => {};

/** One connection of a client, on which requests are served one after the other. */
export class ClientConnection {
  /** What it was last asked. */
  last: ServerResponse | undefined;
  /** How many heads of requests have come on it. */
  heads = 0;
  private waiting = 0;

  /** @param address of who has connected; empty when it has gone already */
  constructor(
    private readonly socket: Socket,
    readonly address: string,
    /** Whether it speaks for others. */
    readonly proxy: boolean,
  ) {
    // Node reads on behind every message. One that was paused again meanwhile would not tell so once more.
    socket.on("resume", () => {
      if (this.waiting < AHEAD) return;
      if (socket.isPaused()) socket.emit("pause");
      else socket.pause();
    });
  }

  /** Whether requests wait for those before them: until then nobody reads, and what does not come is not late. */
  get busy(): boolean {
    return this.waiting > 0;
  }

  /**
   * Runs `serve` when what was asked before has been answered; never, where the connection ends with that. What follows a
   * few stays in the socket: only requests of one packet are more. False: there are too many.
   * @param response has no socket yet
   */
  wait(response: ServerResponse, serve: () => void): boolean {
    if (this.waiting === WAITING) return false;
    const { last, socket } = this;
    this.waiting++;
    this.last = response;
    if (this.waiting >= AHEAD) socket.pause();
    last?.once("close", () => {
      this.waiting--;
      if (response.socket === null) return;
      if (this.waiting === AHEAD - 1) socket.resume();
      serve();
    });
    return true;
  }
}

/** All connections of clients. */
export class Connections {
  private readonly known = new WeakMap<Socket, ClientConnection>();
  /** Those that are open. */
  private readonly open = new Set<Socket>();
  /** How many there are, by what limits go by. */
  private readonly counts = new Map<string, number>();

  constructor(public limits: ConnectionLimits) {}

  /** A connection was made; it is closed again where its address has too many. */
  accept(socket: Socket): void {
    // Node takes its own listener away before it emits `upgrade`, `connect` and `clientError`, and an error that nobody hears
    // ends the process.
    socket.on("error", ignore);
    const { perAddress, trust } = this.limits;
    const address = plainAddress(socket.remoteAddress ?? "") ?? "";
    // Node gives a connection this member with its first answer: with it from the start all have one shape for V8.
    socket.setTimeout(0);
    const proxy = trust.has(address);
    this.known.set(socket, new ClientConnection(socket, address, proxy));
    this.open.add(socket);
    socket.once("close", () => this.open.delete(socket));
    if (proxy || address === "" || (trust.empty && LOCAL.test(address))) return;
    if (this.count(limitedBy(address), socket) > perAddress) socket.destroy();
  }

  of(socket: Socket): ClientConnection {
    return this.known.get(socket) as ClientConnection;
  }

  /** How many are open. */
  get size(): number {
    return this.open.size;
  }

  /** Whether something that was answered is still on its way to a client. */
  get sending(): boolean {
    for (const socket of this.open) {
      const { last } = this.of(socket);
      if (socket.writableLength > 0 || (last && !last.writableFinished)) return true;
    }
    return false;
  }

  /** Whether one has not been asked anything yet. */
  get fresh(): boolean {
    for (const socket of this.open) if (!this.of(socket).last) return true;
    return false;
  }

  /** Connections end with the answers that are not yet on their way. */
  endWithAnswers(): void {
    for (const socket of this.open) {
      const { last } = this.of(socket);
      if (last && !last.headersSent) last.shouldKeepAlive = false;
    }
  }

  /** Says to every client that nothing more will come; what was written still leaves. */
  end(): void {
    for (const socket of this.open) socket.end();
  }

  destroy(): void {
    for (const socket of this.open) socket.destroy();
  }

  /**
   * Scheme and host by which the client asked. Of the host proxies are believed that are trusted; of the scheme anybody, as on
   * the admin side: it goes to nobody but who says so, and a client that is taken for one without TLS would show its key in clear.
   */
  origin({ proxy }: ClientConnection, headers: HeaderList): string | undefined {
    const told = (name: string) => headers.get(name)?.split(",", 1)[0]?.trim();
    const host = (proxy ? told("x-forwarded-host") : undefined) ?? headers.get("host");
    return URL.parse(`${told("x-forwarded-proto") === "https" ? "https" : "http"}://${host ?? ""}`)?.origin;
  }

  private count(network: string, socket: Socket): number {
    const open = (this.counts.get(network) ?? 0) + 1;
    this.counts.set(network, open);
    socket.once("close", () => {
      const left = (this.counts.get(network) ?? 1) - 1;
      if (left === 0) this.counts.delete(network);
      else this.counts.set(network, left);
    });
    return open;
  }

  /**
   * The address of the client: the peer's own, or what trusted proxies say of theirs, up to the first that is not trusted.
   * What a client says itself stands left of that, and is not looked at.
   */
  client({ address, proxy }: ClientConnection, headers: HeaderList): string {
    if (!proxy) return address;
    const told: string[] = [];
    for (const [name, value] of headers.entries()) if (name === "x-forwarded-for") told.push(...value.split(","));
    let client = address;
    for (const entry of told.toReversed()) {
      const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|([^:]+):\d+)$/.exec(entry.trim()) ?? [];
      const next = plainAddress(bracketed ?? plain ?? entry.trim());
      if (next === undefined) return client;
      client = next;
      if (!this.limits.trust.has(client)) return client;
    }
    return client;
  }
}

/** Headers in which proxies tell who has asked: what they say was read here, and concerns nobody behind. */
export const isForwarded = (name: string): boolean =>
  name.startsWith("x-forwarded-") || name === "forwarded" || name === "x-real-ip";
