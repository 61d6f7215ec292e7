import { Agent, request } from "node:http";
import { createRequire } from "node:module";
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

/** The parts of node's parser that it has for its own client only. */
interface NativeParser {
  initialize(type: number, resource: object, maxHeaderSize: number): void;
  execute(bytes: Buffer): number | Error;
  finish(): Error | undefined;
  close(): void;
  [event: number]: (...args: never[]) => unknown;
}

interface NativeParserClass {
  new (): NativeParser;
  readonly [constant: string]: number;
}

const { HTTPParser } = createRequire(import.meta.url)("_http_common") as { HTTPParser: NativeParserClass };

/** Parses bytes that should be one response, and the interim ones before it, with node's parser; undefined: they are not. */
export function readAtOnceByNode(method: string, bytes: Buffer): Pick<ReadResponse, "status" | "body"> | undefined {
  const parser = new HTTPParser();
  const on = (event: string) => HTTPParser[event] as number;
  let status = 0;
  let ended = 0;
  const body: Buffer[] = [];
  parser.initialize(on("RESPONSE"), {}, 64 * 1024);
  // With 1 as the answer, no body is expected.
  parser[on("kOnHeadersComplete")] = (...[, , , , , code]: number[]) => {
    if (ended === 0) status = code as number;
    return method === "HEAD" || status < 200 ? 1 : 0;
  };
  parser[on("kOnBody")] = (piece: Buffer) => void body.push(Buffer.from(piece));
  parser[on("kOnMessageComplete")] = () => {
    if (status >= 200) ended++;
  };
  const read = parser.execute(bytes);
  const fault = read instanceof Error ? read : parser.finish();
  parser.close();
  return fault || ended !== 1 ? undefined : { status, body: Buffer.concat(body) };
}
