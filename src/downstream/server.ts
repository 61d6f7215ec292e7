import { createServer, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { GatewayError } from "../core/errors.ts";
import { Exchange } from "../core/exchange.ts";
import { newId } from "../core/id.ts";
import type { Generation } from "../generation.ts";
import { pass } from "../pass.ts";
import { live } from "../pipeline.ts";
import { websocket } from "../websocket.ts";
import { Query } from "../wire/query.ts";
import { credentials } from "./credentials.ts";
import { guard, holdsKey } from "./guard.ts";
import { HandshakeResponse, handshakeKey, readOffer } from "./handshake.ts";
import { Incoming } from "./incoming.ts";
import type { RouteMatch } from "./paths.ts";
import { receiver } from "./receive.ts";
import { Reply, refuse } from "./reply.ts";

/** What GET / and the preflights of some clients ask for; answered without a key. */
const GREETINGS = new Set(["/", "/api/hello"]);

export interface ServerLimits {
  /** Milliseconds an idle connection is kept; above nginx's 60 s, or nginx meets a closed one. */
  keepAlive: number;
  /** Milliseconds for a request's head. */
  head: number;
  /** Connections that one address may hold. */
  perAddress: number;
  /** Addresses that this does not concern; those of this machine. */
  exempt?: RegExp;
}

const LIMITS: ServerLimits = { keepAlive: 75_000, head: 10_000, perAddress: 256 };
/** A reverse proxy on this machine, which speaks for all of its clients. */
const LOCAL = /^(?:::1|(?:::ffff:)?127\.\d+\.\d+\.\d+)$/;

/** The public side: takes connections, checks heads, makes exchanges of them. */
export class Downstream {
  private readonly server: Server<typeof Incoming>;
  private running = 0;
  private draining = false;
  private drained: (() => void) | undefined;
  /** Connections by the address they come from. */
  private readonly addresses = new Map<string, number>();
  /** What each connection was last asked. */
  private readonly last = new WeakMap<Socket, ServerResponse>();

  /** @param current the generation that new requests belong to. */
  constructor(
    private readonly current: () => Generation,
    limits: ServerLimits = LIMITS,
  ) {
    this.server = createServer(
      {
        noDelay: true,
        keepAliveTimeout: limits.keepAlive,
        headersTimeout: limits.head,
        requestTimeout: 0,
        connectionsCheckingInterval: 1000,
        maxHeaderSize: 16 * 1024,
        insecureHTTPParser: false,
        requireHostHeader: false,
        IncomingMessage: Incoming,
        // Any other upgrade is an offer that nobody has to take: the request is answered as if it were not there.
        shouldUpgradeCallback: (request) => request.method === "GET" && wantsSocket(request),
      },
      (request, response) => this.take(request, response),
    );
    // A higher count than the guard's, so that the guard sees all lines and nothing is dropped unseen.
    this.server.maxHeadersCount = 0;
    this.server.on("checkContinue", (request: Incoming, response: ServerResponse) =>
      this.take(request, response, true),
    );
    this.server.on("checkExpectation", (request: Incoming, response: ServerResponse) => this.take(request, response));
    this.server.on("upgrade", (request: Incoming, socket: Socket, head: Buffer) => this.upgrade(request, socket, head));
    this.server.on("connection", (socket: Socket) => this.count(socket, limits));
    this.server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => this.malformed(error, socket));
    this.server.on("connect", (_request: Incoming, socket: Socket) => this.malformed(new Error("CONNECT"), socket));
  }

  async listen(host: string, port: number): Promise<AddressInfo> {
    await new Promise<void>((ready, failed) =>
      this.server.once("error", failed).listen({ host, port, backlog: 4096 }, ready),
    );
    return this.server.address() as AddressInfo;
  }

  /** Exchanges that have not ended. */
  get active(): number {
    return this.running;
  }

  /** Answers everything new with a refusal, and waits up to `grace` milliseconds until what runs has ended. */
  async drain(grace: number): Promise<void> {
    this.draining = true;
    this.current().proxy.drain();
    const { promise, resolve } = Promise.withResolvers<void>();
    const limit = setTimeout(resolve, grace);
    this.drained = resolve;
    if (this.running === 0) resolve();
    await promise;
    clearTimeout(limit);
  }

  /** Takes no new connections, waits for open exchanges up to `grace` milliseconds, then breaks them off. */
  async close(grace: number): Promise<void> {
    if (!this.server.listening) return;
    this.current().proxy.drain();
    const closed = new Promise<void>((done) => this.server.close(() => done()));
    this.server.closeIdleConnections();
    const idle = setInterval(() => this.server.closeIdleConnections(), 50);
    const limit = setTimeout(() => this.server.closeAllConnections(), grace);
    await closed;
    clearInterval(idle);
    clearTimeout(limit);
  }

  /** Closes a connection of an address that has too many; one on this machine is a proxy, and may. */
  private count(socket: Socket, { perAddress, exempt = LOCAL }: ServerLimits): void {
    const address = socket.remoteAddress ?? "";
    if (exempt.test(address)) return;
    const open = (this.addresses.get(address) ?? 0) + 1;
    this.addresses.set(address, open);
    socket.once("close", () => {
      const left = (this.addresses.get(address) ?? 1) - 1;
      if (left === 0) this.addresses.delete(address);
      else this.addresses.set(address, left);
    });
    if (open > perAddress) socket.destroy();
  }

  private take(request: Incoming, response: ServerResponse, waiting = false): void {
    const time = Date.now();
    const id = newId(time);
    const generation = this.current();
    const [raw = "", text = ""] = split(request.url ?? "");
    const headers = request.lines;
    this.last.set(request.socket, response);
    // Whatever followed an upgrade in the same packet is lost in node's parser: nothing more may be read behind it.
    if (headers.has("upgrade")) response.shouldKeepAlive = false;
    try {
      if (this.draining) throw new GatewayError("draining");
      guard(request, headers);
      if (GREETINGS.has(raw) && (request.method === "GET" || request.method === "HEAD")) {
        generation.greet(response, id);
        return;
      }
      const query = queryOf(text);
      if (wantsSocket(request)) throw new GatewayError("upgrade_required");
      const destination = generation.paths.find(request.method ?? "", raw, query, headers);
      const { pass: passes } = destination;
      once(query, passes ? ["key"] : undefined);
      const exchange = begin(request, query, destination, id, time, credentials(headers, query));
      response.on("close", () => {
        if (!response.writableFinished) exchange.abort();
      });
      const reply = new Reply(exchange, request, response);
      const { chain } = destination;
      const receive = receiver(exchange, request, response, generation.limits, waiting);
      this.run(
        generation,
        destination.pass
          ? pass(exchange, chain, generation, destination.pass, reply, waiting)
          : live(exchange, chain, generation, receive, reply),
      );
    } catch (thrown) {
      refuseEarly(request, response, generation, raw, GatewayError.from(thrown), id);
    }
  }

  /** A request to speak WebSocket on this connection, which node has let go. */
  private upgrade(request: Incoming, socket: Socket, head: Buffer): void {
    // Node has taken its own listener away; without any an error would end the process.
    socket.on("error", () => {});
    const time = Date.now();
    const id = newId(time);
    const generation = this.current();
    const [raw = "", text = ""] = split(request.url ?? "");
    const headers = request.lines;
    const response = new HandshakeResponse(request);
    try {
      if (this.draining) throw new GatewayError("draining");
      guard(request, headers);
      const query = queryOf(text);
      const destination = generation.paths.socket(raw, query);
      if (!destination) throw new GatewayError("upgrade_required");
      const { protocol, pass: passes } = destination;
      once(query, passes ? ["key"] : ["key", protocol.socket?.model ?? "model"]);
      const key = handshakeKey(headers);
      const offer = readOffer(headers, generation.paths.socketWords);
      const keys = [...new Set([...credentials(headers, query), ...offer.keys])];
      const exchange = begin(request, query, destination, id, time, keys);
      socket.once("close", () => exchange.abort());
      const handshake = { request, socket, head, key, protocols: offer.protocols, chosen: offer.chosen };
      this.run(generation, websocket(exchange, destination, generation, handshake, response));
    } catch (thrown) {
      refuseEarly(request, response, generation, raw, GatewayError.from(thrown), id);
      response.send(socket);
    }
  }

  private run(generation: Generation, exchange: Promise<void>): void {
    this.running++;
    generation.hold();
    exchange.then(() => {
      this.running--;
      if (this.running === 0) this.drained?.();
      generation.release();
    });
  }

  /** What node's parser refused; nobody can say in which dialect, so plain JSON that all of them have in common. */
  private malformed(error: NodeJS.ErrnoException, socket: Socket): void {
    const last = this.last.get(socket);
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    if (last && !mayRefuse(last)) {
      socket.destroySoon();
      return;
    }
    const { common, log } = this.current();
    const id = newId(Date.now());
    const refusal = faultOf(error, last);
    const body = common.error(refusal, id);
    const lines = [
      `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
      "content-type: application/json",
      `x-request-id: ${id}`,
      "x-should-retry: false",
      "connection: close",
      `content-length: ${Buffer.byteLength(body)}`,
    ];
    socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
    socket.destroySoon();
    log.info({ id, status: refusal.status, error: { code: refusal.code, cause: error.code } }, "refused");
  }
}

/**
 * Whether a refusal may be written to a connection: not inside an answer on its way, nor before its turn, where it would
 * be read as part of that answer or as another one.
 */
const mayRefuse = (last: ServerResponse): boolean =>
  last.headersSent ? last.req.complete && last.writableFinished : last.socket !== null;

/** @param last what the connection was asked before. */
function faultOf({ code }: NodeJS.ErrnoException, last: ServerResponse | undefined): GatewayError {
  if (code === "HPE_HEADER_OVERFLOW") return new GatewayError("headers_too_large");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new GatewayError("body_timeout");
  const longer = last?.req.complete && !last.headersSent;
  return new GatewayError(
    "bad_request",
    longer ? { hint: "The body is longer than content-length says: count bytes, not characters." } : {},
  );
}

/** @param names those that the gateway reads; undefined: all @throws GatewayError bad_target where one occurs twice */
function once(query: Query, names: readonly string[] | undefined): void {
  const repeated = query.repeated(names);
  if (repeated === undefined) return;
  throw new GatewayError("bad_target", {
    message: `The query parameter "${repeated}" occurs twice.`,
    hint: "Send it once.",
  });
}

/** @throws GatewayError misplaced_key */
function begin(
  request: Incoming,
  query: Query,
  { path, protocol, operation, strict = false, pathModel, notice }: RouteMatch,
  id: string,
  time: number,
  keys: readonly string[],
): Exchange {
  if (holdsKey(path, keys)) throw new GatewayError("misplaced_key");
  const { method = "", lines: headers } = request;
  const clock = performance.now();
  const arrival = {
    id,
    time,
    clock,
    method,
    path,
    query,
    credentials: keys,
    headers,
    protocol,
    operation,
    strict,
    pathModel,
  };
  const exchange = new Exchange(arrival);
  if (notice) exchange.notices.push(notice);
  return exchange;
}

/** Answers a request that never became an exchange. */
function refuseEarly(
  request: Incoming,
  response: ServerResponse,
  { paths, log }: Generation,
  path: string,
  error: GatewayError,
  id: string,
): void {
  const extra = error.code === "websocket_only" ? ["upgrade", "websocket"] : [];
  refuse(request, response, paths.dialect(path, request.lines), error, id, extra);
  const fields = { id, method: request.method, status: error.status, error: { code: error.code } };
  const secret = error.code === "misplaced_key" || holdsKey(path, credentials(request.lines, new Query()));
  log.info(secret ? fields : { ...fields, path }, "refused");
}

const wantsSocket = ({ lines }: Incoming): boolean => lines.get("upgrade")?.toLowerCase() === "websocket";

function split(target: string): [string, string] {
  const mark = target.indexOf("?");
  return mark < 0 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)];
}

function queryOf(text: string): Query {
  try {
    return new Query(text);
  } catch {
    throw new GatewayError("bad_target", { message: "The query has a broken escape." });
  }
}
