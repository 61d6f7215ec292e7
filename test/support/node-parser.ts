import { Agent, request } from "node:http";
import { Duplex } from "node:stream";

/** A client's result of parsing the bytes of a connection, which then ended. */
export interface ReadResponse {
  /** 0: there was no head. */
  status: number;
  /** Flat list of names and values, unchanged. */
  headers: string[];
  body: Buffer;
  /** Whether the response is complete. */
  whole: boolean;
  /** Whether the connection may be reused. */
  reusable: boolean;
  /** Why not: the client's error. */
  error: string | undefined;
}

/** A connection that responds to any request with exactly these pieces, and then ends. */
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
  // The socket methods that node's client calls.
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

/** Parses a response with node's own client. */
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
