import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { listenOptions } from "../core/networks.ts";
import { AcceptQueueFiller, MIN_BACKLOG } from "./accept-queue.ts";

/** The source of connections: an address, or a listening socket that another process keeps. */
export type SocketAddress = { readonly host: string; readonly port: number } | { readonly fd: number };

/** Maximum length of the accept queue. */
const BACKLOG = 4096;

/** How often a queue is filled in order to drain it, as clients may connect in between. */
const TRIES = 5;
/** Milliseconds for all of that. */
const CLOSE_TIMEOUT = 1000;

/** A listening socket. */
export class Listener {
  private server: Server;
  private filler: AcceptQueueFiller | undefined;
  private closing: Promise<void> | undefined;
  /** Whether the socket belongs to another process, which still accepts connections after this one has closed it. */
  readonly isInherited: boolean;

  /**
   * @param onConnection receives each connection
   * @param paused does not read from connections before they are resumed, here or in another process
   */
  constructor(
    private readonly address: SocketAddress,
    private readonly onConnection: (socket: Socket) => void,
    private readonly paused = false,
  ) {
    this.isInherited = "fd" in address;
    this.server = this.make();
  }

  /** @throws the system's error for the address */
  async listen(): Promise<AddressInfo> {
    const { address, server } = this;
    await new Promise<void>((ready, failed) =>
      // As an argument: node ignores an option beside a descriptor, and would make another's queue shorter.
      server.once("error", failed).listen(listenOptions(address), BACKLOG, () => {
        server.off("error", failed);
        ready();
      }),
    );
    // Running out of file descriptors only costs the connections that arrive meanwhile.
    server.on("error", () => {});
    return server.address() as AddressInfo;
  }

  /**
   * Stops accepting; open connections stay, and those in the accept queue are accepted first. Resolves within about a second.
   */
  close(): Promise<void> {
    this.closing ??= this.server.listening ? this.drainAndClose() : Promise.resolve();
    return this.closing;
  }

  private make(): Server {
    return createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: this.paused }, (socket) => {
      if (!this.filler?.claim(socket)) this.onConnection(socket);
    });
  }

  private async drainAndClose(): Promise<void> {
    const address = this.server.address() as AddressInfo;
    const timeout = sleep(CLOSE_TIMEOUT, true, { ref: false });
    // If another process has a copy of the socket, its queue survives.
    let isSettled = this.isInherited || process.platform !== "linux";
    for (let tries = 0; !isSettled && tries < TRIES; tries++) {
      const filler = new AcceptQueueFiller(address);
      this.filler = filler;
      await new Promise<void>((connecting) => process.nextTick(connecting));
      this.setBacklog(MIN_BACKLOG);
      isSettled = await Promise.race([filler.settled, timeout]);
      if (!isSettled) this.setBacklog(BACKLOG);
      else this.server.close();
      filler.close();
    }
    this.server.close();
  }

  /** Changes the length of the accept queue. */
  private setBacklog(backlog: number): void {
    const next = this.make().on("error", () => {});
    // Both servers share the socket now; the new one gets its connections.
    this.server = next.listen(this.server, backlog);
  }
}

/**
 * Tries whether an address can be listened on, and leaves it: what cannot listen shall not change a store for its version before.
 * @throws the system's error for the address
 */
export async function tryAddress(address: SocketAddress): Promise<void> {
  if ("fd" in address) return;
  const server = createServer((socket) => socket.destroy()).listen(listenOptions(address));
  await once(server, "listening");
  await once(server.close(), "close");
}

/** The first file descriptor passed by systemd (`sd_listen_fds(3)`). */
const FIRST_FD = 3;

/**
 * Returns the listening socket that systemd, or a program with the same protocol, keeps under a name (`FileDescriptorName=`); one
 * with another name is used for the public side. Undefined if there is none.
 */
export function inheritedSocket(name: "listen" | "admin", env: NodeJS.ProcessEnv): { fd: number } | undefined {
  if (Number(env["LISTEN_PID"]) !== process.pid) return undefined;
  const count = Number(env["LISTEN_FDS"]) || 0;
  const names = (env["LISTEN_FDNAMES"] ?? "").split(":");
  for (let i = 0; i < count; i++) if ((names[i] === "admin" ? "admin" : "listen") === name) return { fd: FIRST_FD + i };
  return undefined;
}
