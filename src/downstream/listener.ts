import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

/** Where connections come from: an address, or a socket that somebody else listens on and keeps. */
export type ListenPlace = { readonly host: string; readonly port: number } | { readonly fd: number };

/** Connections that wait to be taken. */
const BACKLOG = 4096;

/** A listening socket. */
export class Listener {
  private readonly server: Server;
  /** Whether others take the connections that come when this one is closed: the socket is somebody else's. */
  readonly kept: boolean;

  /**
   * @param take given each connection
   * @param paused nothing is read from connections, because another process will
   */
  constructor(
    private readonly place: ListenPlace,
    take: (socket: Socket) => void,
    paused = false,
  ) {
    this.kept = "fd" in place;
    this.server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: paused }, take);
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

  /** Takes no more connections; those that are open stay. */
  close(): void {
    if (this.server.listening) this.server.close();
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
