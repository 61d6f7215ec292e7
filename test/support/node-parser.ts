import { Agent, request } from "node:http";
import { Duplex } from "node:stream";

/** What a client made of the bytes that came on a connection, which then ended. */
export interface ReadResponse {
  /** 0: there was no head. */
  status: number;
  /** Flat name, value list as it came. */
  headers: string[];
  body: Buffer;
  /** The response came to its end. */
  whole: boolean;
  /** The connection may be used again. */
  reusable: boolean;
  /** Why not, in the client's own words. */
  error: string | undefined;
}

/** A connection on which the answer to any request is what was given, in these very pieces, and then the end. */
class Scripted extends Duplex {
  constructor(private readonly pieces: readonly Buffer[]) {
    super();
  }

  override _write(_bytes: unknown, _encoding: unknown, next: () => void): void {
    next();
    setImmediate(() => {
      for (const piece of this.pieces) this.push(piece);
      this.push(null);
    });
  }

  override _read(): void {}
  // As much of a socket as node's client asks for.
  setKeepAlive(): void {}
  setTimeout(): void {}
  ref(): void {}
  unref(): void {}
}

class ScriptedAgent extends Agent {
  kept = false;
  constructor(private readonly socket: Duplex) {
    super({ keepAlive: true });
  }

  override createConnection(): Duplex {
    return this.socket;
  }

  override keepSocketAlive(): boolean {
    this.kept = true;
    return false;
  }
}

/** How node's own client reads a response. */
export function readByNode(method: string, pieces: readonly Buffer[]): Promise<ReadResponse> {
  return new Promise((resolve) => {
    const socket = new Scripted(pieces);
    const agent = new ScriptedAgent(socket);
    const seen: ReadResponse = {
      ...{ status: 0, headers: [], body: Buffer.alloc(0), whole: false, reusable: false, error: undefined },
    };
    const sent = request({ method, agent, host: "h", maxHeaderSize: 64 * 1024, insecureHTTPParser: false });
    const body: Buffer[] = [];
    let whole = () => false;
    sent.on("response", (response) => {
      seen.status = response.statusCode as number;
      seen.headers = response.rawHeaders;
      whole = () => response.complete;
      response.on("data", (bytes: Buffer) => body.push(bytes)).on("error", () => {});
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      seen.error ??= error.code ?? error.message;
    });
    socket.on("error", () => {});
    socket.on("close", () =>
      setImmediate(() => resolve({ ...seen, body: Buffer.concat(body), whole: whole(), reusable: agent.kept })),
    );
    sent.end();
  });
}
