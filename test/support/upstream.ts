import { once } from "node:events";
import { createServer as createHttpServer, IncomingMessage, ServerResponse } from "node:http";
import { type AddressInfo, createServer, type LookupFunction, type Server, Socket } from "node:net";
import type { GatewayError } from "../../src/core/errors.ts";
import type { AbortListener } from "../../src/core/exchange.ts";
import type { ClientSide } from "../../src/upstream/proxy.ts";
import type { OutgoingRequest } from "../../src/upstream/request.ts";
import type { UpstreamResponse } from "../../src/upstream/response.ts";

/** A fake provider on a loopback port. */
export interface FakeUpstream {
  readonly origin: URL;
  /** Connections made to it so far. */
  readonly connections: number;
  /** Connections that are open now. */
  readonly open: number;
  /** Cuts all connections. */
  cut(): void;
  /** Cuts all connections and stops listening. */
  close(): Promise<void>;
}

/** A request as a raw upstream received it. */
export interface RawRequest {
  /** The exact bytes up to and including the blank line, latin1. */
  head: string;
  /** The body without chunked framing; resolves when it is complete. */
  body: Promise<Buffer>;
  /** Bytes of the body received so far, framing included. */
  readonly received: number;
  /** 1 for the first request of a connection. */
  nth: number;
  /** 1 for the first connection. */
  connection: number;
}

/** The reaction of a raw upstream to a request. */
export type Script = (socket: Socket, request: RawRequest) => unknown;

/**
 * Starts an upstream whose script owns the socket: it is called once per request, as soon as the head is complete, and writes
 * anything. `socket.pause()` stops reading the request.
 */
export async function rawUpstream(script: Script): Promise<FakeUpstream> {
  const sockets = new Set<Socket>();
  const fake = { connections: 0, open: 0 };
  const server = createServer({ allowHalfOpen: false }, (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    new Requests(socket, fake.connections, script);
  });
  return listening(server, fake, () => {
    for (const socket of sockets) socket.destroy();
  });
}

/** A request as an HTTP upstream received it. */
export interface SeenRequest {
  method: string;
  url: string;
  /** Flat list of names and values, unchanged. */
  rawHeaders: string[];
  body: Buffer;
}

/** Starts an upstream that records its requests; responds `{}` by default. */
export async function httpUpstream(
  answer: (request: SeenRequest, reply: ServerResponse) => unknown = (_, reply) =>
    reply.setHeader("content-type", "application/json").end("{}"),
): Promise<FakeUpstream & { seen: SeenRequest[] }> {
  const fake = { connections: 0, open: 0, seen: [] as SeenRequest[] };
  const server = createHttpServer({ keepAliveTimeout: 60_000 }, async (message: IncomingMessage, reply) => {
    const pieces: Buffer[] = [];
    try {
      for await (const piece of message) pieces.push(piece);
    } catch {
      return;
    }
    const { method = "", url = "", rawHeaders } = message;
    const request = { method, url, rawHeaders, body: Buffer.concat(pieces) };
    fake.seen.push(request);
    await answer(request, reply);
  });
  return listening(server, fake, () => server.closeAllConnections());
}

/** Returns the error of a request; rejects if it succeeded. */
export function failed(sent: Promise<UpstreamResponse>): Promise<GatewayError> {
  return sent.then(
    () => Promise.reject(new Error("it was answered")),
    (error) => error,
  );
}

/** A lookup that delays every connection until `go()`; `origin` gives an upstream a name to look up. */
export function delayedLookup() {
  const { promise, resolve: go } = Promise.withResolvers<void>();
  let asked = 0;
  const lookup: LookupFunction = (_name, _options, done) => {
    asked++;
    promise.then(() => done(null, [{ address: "127.0.0.1", family: 4 }]));
  };
  return { lookup, go, asked: () => asked, origin: ({ port }: URL) => new URL(`http://provider.test:${port}`) };
}

/** A small complete response. */
export const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/** The head of a chunked response. */
export const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/** Returns a request for an upstream: by default POST without a body and without limits. */
export function outgoing(origin: URL, changes: Partial<OutgoingRequest> = {}): OutgoingRequest {
  return {
    origin,
    method: "POST",
    path: "/v1/things",
    headers: [],
    body: undefined,
    length: undefined,
    credentialId: "one",
    timeouts: { connect: 0, first_byte: 0, idle: 0, total: 0 },
    ...changes,
  };
}

/** Returns a client that stays connected until `leave()` is called, and counts its listeners. */
export function client(): ClientSide & { leave(): void; readonly listeners: number } {
  const listening = new Set<AbortListener>();
  const request = new IncomingMessage(new Socket());
  return {
    request,
    response: new ServerResponse(request),
    addAbortListener: (listener) => void listening.add(listener),
    removeAbortListener: (listener) => void listening.delete(listener),
    leave() {
      for (const listener of listening) listener.onAbort();
    },
    get listeners() {
      return listening.size;
    },
  };
}

/** Reads a response to its end; `error` is its failure, if any. `calls` counts `end` and `fail`. */
export async function whole(
  upstream: UpstreamResponse,
): Promise<{ body: Buffer; error?: GatewayError; calls: number }> {
  const pieces: Buffer[] = [];
  const { promise, resolve } = Promise.withResolvers<GatewayError | undefined>();
  let calls = 0;
  const over = (error?: GatewayError) => {
    calls++;
    resolve(error);
  };
  upstream.read({ chunk: (bytes) => pieces.push(bytes) > 0, end: over, fail: over });
  const error = await promise;
  await new Promise((next) => setImmediate(next));
  return { body: Buffer.concat(pieces), calls, ...(error ? { error } : {}) };
}

async function listening<T extends { connections: number; open: number }>(
  server: Server,
  fake: T,
  cut: () => void,
): Promise<T & FakeUpstream> {
  server.prependListener("connection", (socket: Socket) => {
    fake.connections++;
    fake.open++;
    socket.on("close", () => fake.open--);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    const closed = once(server, "close");
    server.close();
    cut();
    await closed;
  };
  return Object.assign(fake as T & FakeUpstream, { origin: new URL(`http://127.0.0.1:${port}`), cut, close });
}

/** Splits the bytes of a connection into requests; supports content-length and chunked. */
class Requests {
  private rest = Buffer.alloc(0);
  private count = 0;
  private current: { request: RawRequest & { received: number }; length: number; done(body: Buffer): void } | undefined;

  constructor(
    private readonly socket: Socket,
    private readonly connection: number,
    private readonly script: Script,
  ) {
    socket.on("data", (bytes: Buffer) => {
      this.rest = Buffer.concat([this.rest, bytes]);
      if (this.current) this.current.request.received += bytes.length;
      while (this.current ? this.body() : this.head());
    });
  }

  private head(): boolean {
    const end = this.rest.indexOf("\r\n\r\n");
    if (end < 0) return false;
    const head = this.rest.toString("latin1", 0, end + 4);
    this.rest = this.rest.subarray(end + 4);
    const length = /\r\ntransfer-encoding: chunked\r\n/i.test(head)
      ? -1
      : Number(/\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? 0);
    const { promise: body, resolve } = Promise.withResolvers<Buffer>();
    const request = { head, body, received: this.rest.length, nth: ++this.count, connection: this.connection };
    this.current = { request, length, done: resolve };
    this.script(this.socket, request);
    return true;
  }

  private body(): boolean {
    const { length, done } = this.current as NonNullable<typeof this.current>;
    const taken = length < 0 ? dechunk(this.rest) : { body: this.rest.subarray(0, length), size: length };
    if (!taken || this.rest.length < taken.size) return false;
    this.rest = this.rest.subarray(taken.size);
    this.current = undefined;
    done(taken.body);
    return true;
  }
}

/** Decodes a complete chunked body at the start of the bytes, and returns its encoded size. */
function dechunk(bytes: Buffer): { body: Buffer; size: number } | undefined {
  const pieces: Buffer[] = [];
  for (let at = 0; ; ) {
    const line = bytes.indexOf("\r\n", at);
    if (line < 0) return undefined;
    const size = Number.parseInt(bytes.toString("latin1", at, line), 16);
    at = line + 2 + size + 2;
    if (bytes.length < at) return undefined;
    if (size === 0) return { body: Buffer.concat(pieces), size: at };
    pieces.push(bytes.subarray(line + 2, line + 2 + size));
  }
}
