import { once } from "node:events";
import { createServer as createHttpServer, IncomingMessage, ServerResponse } from "node:http";
import { type AddressInfo, createServer, type LookupFunction, type Server, Socket } from "node:net";
import type { Test } from "tap";
import type { GatewayError } from "../../src/core/errors.ts";
import { Pools, type PoolsOptions } from "../../src/upstream/http1/pools.ts";
import { type ClientSide, UpstreamProxy } from "../../src/upstream/proxy.ts";
import type { OutgoingRequest } from "../../src/upstream/request.ts";
import type { UpstreamResponse } from "../../src/upstream/response.ts";

/** Something that stands in for a provider on a loopback port. */
export interface FakeUpstream {
  readonly origin: URL;
  /** Connections made to it so far. */
  readonly connections: number;
  /** Connections that are open now. */
  readonly open: number;
  /** Cuts all connections. */
  cut(): void;
  /** The same, and stops listening. */
  close(): Promise<void>;
}

/** A request as a raw upstream saw it. */
export interface RawRequest {
  /** The exact bytes up to and with the blank line, latin1. */
  head: string;
  /** The body without chunked framing; resolves when all of it has come. */
  body: Promise<Buffer>;
  /** Bytes of body, framing included, that have come so far. */
  readonly received: number;
  /** 1 for the first request of a connection. */
  nth: number;
  /** 1 for the first connection. */
  connection: number;
}

/** What a raw upstream does with a request. */
export type Script = (socket: Socket, request: RawRequest) => unknown;

/**
 * An upstream whose script owns the socket: it is called once per request, as soon as the head is in, and writes what it
 * likes. `socket.pause()` stops reading the request.
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

/** A request as an HTTP upstream saw it. */
export interface SeenRequest {
  method: string;
  url: string;
  /** Flat name, value list as it came. */
  rawHeaders: string[];
  body: Buffer;
}

/** An upstream that records what it got; answers `{}` unless told otherwise. */
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

/** A raw upstream and a UpstreamProxy to it, gone when the test is over. */
export async function proxied(t: Test, script: Script, options: PoolsOptions = {}) {
  const upstream = await rawUpstream(script);
  const pools = new Pools({ environment: {}, ...options });
  const proxy = new UpstreamProxy(pools);
  t.teardown(async () => {
    await pools.destroy();
    await upstream.close();
  });
  return { upstream, pools, proxy };
}

/** How a request fails; fails itself where it was answered. */
export function failed(sent: Promise<UpstreamResponse>): Promise<GatewayError> {
  return sent.then(
    () => Promise.reject(new Error("it was answered")),
    (error) => error,
  );
}

/** A lookup that holds every connection back until it is let go; `origin` names an upstream so that it is asked. */
export function heldLookup() {
  const { promise, resolve: go } = Promise.withResolvers<void>();
  let asked = 0;
  const lookup: LookupFunction = (_name, _options, done) => {
    asked++;
    promise.then(() => done(null, [{ address: "127.0.0.1", family: 4 }]));
  };
  return { lookup, go, asked: () => asked, origin: ({ port }: URL) => new URL(`http://provider.test:${port}`) };
}

/** A small whole answer. */
export const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/** The head of an answer that comes in chunks. */
export const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/** A request for an upstream: POST without a body and without limits, unless told otherwise. */
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

/** A client that stays until `leave()` is called, and says how many still want to hear of it. */
export function client(): ClientSide & { leave(): void; readonly listeners: number } {
  const listening = new Set<() => void>();
  const request = new IncomingMessage(new Socket());
  return {
    request,
    response: new ServerResponse(request),
    onAbort(leave) {
      listening.add(leave);
      return () => void listening.delete(leave);
    },
    leave() {
      for (const leave of listening) leave();
    },
    get listeners() {
      return listening.size;
    },
  };
}

/** Reads an answer to its end; `error` is how it failed, if it did. `calls` counts `end` and `fail`. */
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

/** Resolves once the condition holds; fails after five seconds. */
export async function until(condition: () => boolean, what = "the condition"): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
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

/** Cuts what a connection brings into requests; knows content-length and chunked. */
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

/** A whole chunked body at the start of the bytes, and how many bytes it took there. */
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
