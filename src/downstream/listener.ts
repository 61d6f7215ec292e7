import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Plug, SHORTEST } from "./plug.ts";

/** Where connections come from: an address, or a socket that somebody else listens on and keeps. */
export type ListenPlace = { readonly host: string; readonly port: number } | { readonly fd: number };

/** Connections that wait to be taken. */
const BACKLOG = 4096;

/** How often a queue is filled to empty it, as somebody may come between ours; and how long that may take in milliseconds. */
const TRIES = 5;
const PATIENCE = 1000;

/** A listening socket. */
export class Listener {
  private server: Server;
  private plug: Plug | undefined;
  private closing: Promise<void> | undefined;
  /** Whether others take the connections that come when this one is closed: the socket is somebody else's. */
  readonly kept: boolean;

  /**
   * @param take given each connection
   * @param paused nothing is read from connections, because another process will
   */
  constructor(
    private readonly place: ListenPlace,
    private readonly take: (socket: Socket) => void,
    private readonly paused = false,
  ) {
    this.kept = "fd" in place;
    this.server = this.make();
  }

  /** @throws what the system says of the address */
  async listen(): Promise<AddressInfo> {
    const { place, server } = this;
    await new Promise<void>((ready, failed) =>
      server.once("error", failed).listen({ ...place, backlog: BACKLOG }, () => {
        server.off("error", failed);
        ready();
      }),
    );
    // Running out of file descriptors costs the connections that come meanwhile, and nothing else.
    server.on("error", () => {});
    return server.address() as AddressInfo;
  }

  /**
   * Takes no more connections; those that are open stay, and those that wait are taken before. Settles within a second or
   * so.
   */
  close(): Promise<void> {
    this.closing ??= this.server.listening ? this.closeEmpty() : Promise.resolve();
    return this.closing;
  }

  private make(): Server {
    return createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: this.paused }, (socket) => {
      if (!this.plug?.took(socket)) this.take(socket);
    });
  }

  private async closeEmpty(): Promise<void> {
    const address = this.server.address() as AddressInfo;
    const late = sleep(PATIENCE, true, { ref: false });
    // With the keeper's copy of the socket its queue stays.
    for (let tries = 0, over = this.kept || process.platform !== "linux"; !over && tries < TRIES; tries++) {
      const plug = new Plug(address);
      this.plug = plug;
      await new Promise<void>((connecting) => process.nextTick(connecting));
      this.shorten(SHORTEST);
      over = await Promise.race([plug.settled, late]);
      if (!over) this.shorten(BACKLOG);
      else this.server.close();
      plug.close();
    }
    this.server.close();
  }

  /** Says anew how many connections may wait. */
  private shorten(backlog: number): void {
    const next = this.make().on("error", () => {});
    // Both have the same socket now, and this one its connections.
    this.server = next.listen(this.server, backlog);
  }
}

/** The first of the file descriptors that systemd hands over (`sd_listen_fds(3)`). */
const FIRST = 3;

/**
 * The listening socket that systemd, or whoever does as it does, keeps for us under a name (`FileDescriptorName=`); one
 * without a name of ours is the public side's. Undefined where there is none.
 */
export function keptSocket(name: "listen" | "admin", env: NodeJS.ProcessEnv): { fd: number } | undefined {
  if (Number(env["LISTEN_PID"]) !== process.pid) return undefined;
  const count = Number(env["LISTEN_FDS"]) || 0;
  const names = (env["LISTEN_FDNAMES"] ?? "").split(":");
  for (let i = 0; i < count; i++) if ((names[i] === "admin" ? "admin" : "listen") === name) return { fd: FIRST + i };
  return undefined;
}
