import type { Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { newId } from "../core/id.ts";
import { Networks } from "../core/networks.ts";
import { createServer, type ServerResponse } from "../core/node-http.ts";
import type { Protocol } from "../core/protocol.ts";
import { takeRefusalLine } from "../core/refusal-lines.ts";
import type { Generation } from "../generation.ts";
import { runPassthrough } from "../pass.ts";
import { runExchange } from "../pipeline.ts";
import { runWebSocket } from "../websocket.ts";
import type { Query } from "../wire/query.ts";
import { type ClientConnection, type ConnectionLimits, Connections } from "./connections.ts";
import { type EarlyRequest, earlyFields, refuseEarly } from "./early-refusal.ts";
import { refuseExplanation, sendExplanation, wantsExplanation } from "./explanation.ts";
import { guard, type HeadLimits } from "./guard.ts";
import { HandshakeResponse, handshakeKey, takeSubprotocols } from "./handshake.ts";
import { IdleCollector } from "./idle-collector.ts";
import { discardRest, halfCloseEarly } from "./linger.ts";
import { Listener, type SocketAddress } from "./listener.ts";
import { type ArrivalFacts, createExchange, parseQuery, refuseRepeated } from "./new-exchange.ts";
import { Overload, type OverloadLimits, type WaitHandler, WaitingRequest } from "./overload.ts";
import { onParserError } from "./parser-errors.ts";
import { presentedKey, takeKeys } from "./presented-keys.ts";
import { repeatsCheckedMember } from "./query-names.ts";
import { createReceiveBody } from "./receive-body.ts";
import { endResponse, Reply, sendOverloaded } from "./reply.ts";
import { RunningExchanges } from "./running-exchanges.ts";
import { ServerRequest } from "./server-request.ts";
import { ServerStop, type StopTimeouts } from "./server-stop.ts";

/** Served without a key: the list of paths, the check that some clients send first, and the API description. */
const KEYLESS_PATHS = new Set(["/", "/api/hello", "/openapi.json"]);

/** Paths for load balancers that can reach no other listener; unless gateway.yaml mounts these paths itself. */
const PROBES = new Set(["/livez", "/readyz"]);

/** Bytes of a body that are discarded as they arrive, if it is not read. */
const LONG_BODY = 64 * 1024;

/** Limits of clients' connections and of the heads of their requests. */
export interface ServerLimits extends ConnectionLimits {
  /** Milliseconds that an idle connection is kept; more than nginx's 60 s, or nginx would reuse a closed one. 0: no limit. */
  readonly keepAlive: number;
  /** Milliseconds for a request's head; 0: no limit. */
  readonly head: number;
  readonly heads: HeadLimits;
  readonly overload: OverloadLimits;
}

const LIMITS: ServerLimits = {
  keepAlive: 75_000,
  head: 10_000,
  heads: { headers: 100, size: 16 * 1024, target: 8192 },
  perAddress: 256,
  trust: new Networks(),
  overload: { delay: 0, heap: 0 },
};

/** The public side: accepts connections, checks heads, creates exchanges. */
export class Downstream {
  private readonly server: Server<typeof ServerRequest>;
  private listener: Listener | undefined;
  /** Called with the code of each refusal of a request that did not become an exchange. */
  onRefused: (code: string) => void = () => {};
  /** Called for each preflight that was answered. */
  onPreflight: () => void = () => {};
  /** Called when a stop has begun and no more connections are accepted. */
  onDrain: () => void = () => {};
  readonly exchanges = new RunningExchanges();
  readonly stop: ServerStop;
  private refusesAll = false;
  private heads: HeadLimits;
  private readonly connections: Connections;
  private readonly overload: Overload;
  private readonly waitHandler: WaitHandler<QueuedArrival> = {
    callerOf: ({ arrival, known: { rawQuery, address } }) =>
      presentedKey(arrival.request.headerList) ?? (rawQuery.includes("key=") ? rawQuery : address),
    serve: (queued) => this.serveQueued(queued),
    refuse: (queued, retryAfter) => this.refuseOverloaded(queued, retryAfter),
  };

  /** @param current returns the generation for new requests */
  constructor(
    private readonly current: () => Generation,
    own: Partial<ServerLimits> = {},
  ) {
    const limits = { ...LIMITS, ...own };
    this.connections = new Connections(limits);
    this.heads = limits.heads;
    this.overload = new Overload(limits.overload, () => current().log);
    const acceptPaused = (socket: Socket) => {
      this.accept(socket);
      socket.resume();
    };
    this.overload.onConnection = acceptPaused;
    const collector = new IdleCollector(() => this.exchanges.areAwaited);
    this.overload.onSample = collector.check;
    this.exchanges.afterEnd = collector.onEnd;
    this.stop = new ServerStop(this.connections, this.exchanges, this.overload, () => this.drain());
    this.server = createServer(
      {
        noDelay: true,
        keepAliveTimeout: limits.keepAlive,
        headersTimeout: limits.head,
        requestTimeout: 0,
        connectionsCheckingInterval: 1000,
        maxHeaderSize: limits.heads.size,
        insecureHTTPParser: false,
        requireHostHeader: false,
        IncomingMessage: ServerRequest,
        // Any other upgrade is optional for the server (RFC 9110 §7.8): the request is served without it.
        shouldUpgradeCallback: (request) => this.mayUpgrade(request),
      },
      (request, response) => this.onRequest(request, response),
    );
    // No limit here, so that the guard sees and counts all header lines and node drops none.
    this.server.maxHeadersCount = 0;
    this.server.on("checkContinue", (request: ServerRequest, response: ServerResponse) =>
      this.onRequest(request, response, true),
    );
    this.server.on("checkExpectation", (request: ServerRequest, response: ServerResponse) =>
      this.onRequest(request, response),
    );
    this.server.on("upgrade", (request: ServerRequest, socket: Socket, head: Buffer) =>
      this.upgrade(request, socket, head),
    );
    this.server.on("connection", (socket: Socket) => {
      if (this.stop.hasBegun) this.stop.onConnection();
      if (!this.connections.accept(socket)) this.refuseConnection(socket, "too_many_connections");
    });
    this.server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => this.onClientError(error, socket));
    this.server.on("connect", (_request: ServerRequest, socket: Socket) =>
      this.onClientError(new Error("CONNECT"), socket),
    );
    // Connections are passed to node's server, which never listens itself; `listening` starts its check for slow heads.
    this.server.emit("listening");
  }

  /** @throws the system's error for the address */
  async listen(listenAddress: SocketAddress): Promise<AddressInfo> {
    this.listener = new Listener(listenAddress, (socket) => this.overload.addConnection(socket), true);
    const address = await this.listener.listen();
    this.overload.setAddress(address);
    return address;
  }

  /** Serves a connection. */
  accept(socket: Socket): void {
    this.server.emit("connection", socket);
  }

  /** Applies new limits, for requests from now on. */
  configure(own: Partial<ServerLimits>): void {
    const limits = { ...LIMITS, ...own };
    this.connections.configure(limits);
    this.heads = limits.heads;
    // Node reads it for each new connection.
    (this.server as { maxHeaderSize?: number }).maxHeaderSize = limits.heads.size;
    this.server.keepAliveTimeout = limits.keepAlive;
    this.server.headersTimeout = limits.head;
    this.overload.limits = limits.overload;
  }

  /** Refuses everything new from now on, as the process may be in an unknown state. */
  refuseAll(): void {
    this.refusesAll = true;
  }

  /**
   * Stops gracefully; see {@link ServerStop.run}. Never throws, never hangs.
   * @returns exchanges that could not be ended
   */
  async close(timeouts: StopTimeouts): Promise<Exchange[]> {
    await this.stop.run(timeouts, this.listener, this.refusesAll);
    this.server.close();
    this.overload.close();
    return this.exchanges.items().map(({ exchange }) => exchange);
  }

  private drain(): void {
    this.onDrain();
    for (const { proxy } of new Set([this.current(), ...this.exchanges.generations])) proxy.drain();
  }

  /** Reports whether a request may take over the connection: earlier responses are finished, and it has no body. */
  private mayUpgrade(request: ServerRequest): boolean {
    if (request.method !== "GET" || !wantsSocket(request) || !request.socket.writable) return false;
    const { lastResponse } = this.connections.get(request.socket);
    const { headerList } = request;
    return (
      (lastResponse === undefined || lastResponse.writableFinished) &&
      !headerList.has("content-length") &&
      !headerList.has("transfer-encoding")
    );
  }

  /** Serves the requests of a connection one after the other, however many are pipelined. */
  private onRequest(request: ServerRequest, response: ServerResponse, expectsContinue = false): void {
    const { socket } = request;
    const connection = this.connections.get(socket);
    // After a response that closes the connection, node may still parse pipelined requests, which must be ignored.
    if (!socket.writable) return;
    connection.headsReceived++;
    const arrival = { request, response, connection, expectsContinue, fresh: connection.lastResponse === undefined };
    if (response.socket) {
      connection.lastResponse = response;
      this.serve(arrival);
    } else if (!connection.enqueue(response, () => this.serve(arrival)) && !socket.destroyed) {
      this.refuseConnection(socket, "too_many_pipelined");
    }
  }

  /** Closes a connection without a response. */
  private refuseConnection(socket: Socket, code: string): void {
    const { log } = this.current();
    if (takeRefusalLine(log)) log.info({ address: this.connections.get(socket).address, error: { code } }, "refused");
    this.onRefused(code);
    socket.destroy();
  }

  private arrivalFacts(request: ServerRequest, connection: ClientConnection): RequestFacts {
    const time = Date.now();
    const { url = "" } = request;
    const mark = url.indexOf("?");
    const rawPath = mark < 0 ? url : url.slice(0, mark);
    const rawQuery = mark < 0 ? "" : url.slice(mark + 1);
    const address = this.connections.clientAddress(connection, request.headerList);
    return { id: newId(time), time, arrivedAt: performance.now(), address, rawPath, rawQuery };
  }

  private serve(arrival: RequestArrival): void {
    const { request, response } = arrival;
    const generation = this.current();
    const headers = request.headerList;
    const known = this.arrivalFacts(request, arrival.connection);
    const { arrivedAt } = known;
    if (this.stop.hasBegun) this.stop.onRequest(response, arrivedAt);
    // Node's parser loses bytes that follow an upgrade in the same packet: no further request may be read from the connection.
    if (headers.has("upgrade")) response.shouldKeepAlive = false;
    const queued = { arrival, known, generation };
    try {
      if (this.respondDirectly(arrival, generation, known)) return;
    } catch (thrown) {
      this.refuse(queued, thrown);
      return;
    }
    request.hold();
    const since = arrival.fresh ? this.overload.waitingSince(arrivedAt) : arrivedAt;
    this.overload.add(new WaitingRequest(since, queued, this.waitHandler));
  }

  private serveQueued(queued: QueuedArrival): void {
    try {
      this.beginExchange(queued.arrival, this.current(), queued.known);
    } catch (thrown) {
      this.refuse(queued, thrown);
    }
  }

  private refuse({ arrival: { request, response }, known, generation }: QueuedArrival, thrown: unknown): void {
    const error = GatewayError.from(thrown);
    refuseEarly(request, response, generation, error, known);
    this.onRefused(error.code);
  }

  private refuseOverloaded(
    { arrival: { request, response }, known, generation }: QueuedArrival,
    retryAfter: number,
  ): void {
    const dialect = generation.paths.dialect(known.rawPath, request.headerList);
    sendOverloaded(request, response, dialect, known.id, retryAfter);
    this.onRefused("overloaded");
  }

  /**
   * Responds to a request that needs no exchange: a preflight, or one for a page, a probe or a path without a key.
   * @returns whether it has responded
   * @throws GatewayError if the request is refused
   */
  private respondDirectly({ request, response }: RequestArrival, generation: Generation, known: EarlyRequest): boolean {
    const { rawPath: path, id } = known;
    const { cors, pages, paths, log, redactor } = generation;
    const headers = request.headerList;
    // First of all, so that a page's scripts can also read the reason of a refusal.
    const preflight = cors?.admit(request, headers, response);
    if (this.refusesAll) throw new GatewayError("draining");
    guard(request, headers, this.heads);
    // These responses do not read the body, and the client should stop sending a long one. A connection that is closed while the
    // rest of a short one is on its way is reset, and the response may be lost.
    if ((preflight || isGet(request)) && hasLongBody(request)) response.shouldKeepAlive = false;
    if (preflight) {
      cors?.answerPreflight(headers, response, id);
      if (takeRefusalLine(log))
        log.info(earlyFields(request, known, { status: response.statusCode }, redactor), "preflight");
      this.onPreflight();
      return true;
    }
    if (!isGet(request)) return false;
    if (pages?.serve(path, request, response, id)) return true;
    if (PROBES.has(path) && !paths.servedPaths().includes(path))
      sendProbeResponse(response, id, path === "/livez" || !this.stop.hasBegun);
    else if (KEYLESS_PATHS.has(path)) generation.sendSummary(response, id, path);
    else return false;
    return true;
  }

  /**
   * Creates an exchange for a request at its turn in the queue.
   * @throws GatewayError if it is refused
   */
  private beginExchange(
    { request, response, expectsContinue }: RequestArrival,
    generation: Generation,
    known: RequestFacts,
  ): void {
    const headers = request.headerList;
    const query = parseQuery(known.rawQuery);
    if (wantsSocket(request)) throw new GatewayError("upgrade_required");
    const destination = generation.paths.find(request.method ?? "", known.rawPath, query, headers);
    const { pass: passes, chain } = destination;
    if (passes) refuseExplanation(headers);
    refuseRepeated(query, passes ? ["key"] : undefined);
    const uploader = passes?.path.takeTicket(passes.below, query, known.time);
    const keys = takeKeys(headers, query);
    const dropped = passes || query.isEmpty ? NOTHING : dropRepeatedMembers(query, destination.protocol);
    const origin = passes && this.connections.origin(this.connections.get(request.socket), headers);
    const exchange = createExchange(request, query, destination, passes ? { ...known, origin, uploader } : known, keys);
    for (const name of dropped) exchange.dropped.push(`?${name}`);
    if (!request.complete)
      response.prependOnceListener("finish", () => {
        // A client that was too slow is not waited for again.
        if (exchange.error?.code !== "body_timeout") halfCloseEarly(request, response);
      });
    // Not `on`: the connection keeps its last response, and with the listener the exchange.
    response.once("close", () => {
      if (!response.writableFinished) exchange.abort();
      else if (!request.complete && !request.destroyed) discardRest(request);
    });
    if (response.destroyed) exchange.abort();
    const reply = new Reply(exchange, request, response, generation, expectsContinue);
    const receive = createReceiveBody(exchange, reply, generation, destination.deployment !== undefined);
    this.exchanges.add(
      { exchange, generation, reply },
      response,
      passes
        ? runPassthrough(exchange, chain, generation, passes, reply)
        : wantsExplanation(headers)
          ? sendExplanation(exchange, chain, generation, receive, reply)
          : runExchange(exchange, chain, generation, receive, reply),
    );
  }

  /** Handles a request for a WebSocket, whose socket node has released. */
  private upgrade(request: ServerRequest, socket: Socket, head: Buffer): void {
    const generation = this.current();
    const headers = request.headerList;
    const connection = this.connections.get(request.socket);
    const known = this.arrivalFacts(request, connection);
    connection.headsReceived++;
    // The connection is no HTTP connection any more, and is not idle.
    connection.lastResponse = undefined;
    const response = new HandshakeResponse(request);
    const serve = () => {
      try {
        if (this.refusesAll) throw new GatewayError("draining");
        guard(request, headers, this.heads);
        this.beginSocketExchange(request, socket, head, response, known);
      } catch (thrown) {
        refuse(GatewayError.from(thrown));
      }
    };
    const refuse = (error: GatewayError) => {
      refuseEarly(request, response, generation, error, known);
      this.onRefused(error.code);
      response.send(socket);
    };
    const handler: WaitHandler<undefined> = {
      callerOf: () => presentedKey(headers) ?? known.address,
      serve,
      refuse: (_, retryAfter) => refuse(new GatewayError("overloaded", { retryAfter })),
    };
    this.overload.add(new WaitingRequest(known.arrivedAt, undefined, handler));
  }

  /**
   * Creates an exchange for a handshake at its turn in the queue.
   * @throws GatewayError if it is refused
   */
  private beginSocketExchange(
    request: ServerRequest,
    socket: Socket,
    head: Buffer,
    response: HandshakeResponse,
    known: RequestFacts,
  ): void {
    const generation = this.current();
    const headers = request.headerList;
    const asked = parseQuery(known.rawQuery);
    const destination = generation.paths.findSocket(known.rawPath, asked);
    if (!destination) throw new GatewayError("upgrade_required");
    refuseExplanation(headers);
    const { protocol, pass: passes, query = asked } = destination;
    refuseRepeated(query, passes ? ["key"] : ["key", protocol.socket?.modelParameter ?? "model"]);
    const key = handshakeKey(headers);
    const offer = takeSubprotocols(headers, generation.paths.socketProtocols);
    const keys = [...new Set([...takeKeys(headers, query), ...offer.keys])];
    const exchange = createExchange(request, query, destination, known, keys);
    socket.once("close", () => exchange.abort());
    if (socket.destroyed) exchange.abort();
    const handshake = {
      request,
      socket,
      head,
      key,
      protocols: offer.protocols,
      defaultProtocol: offer.defaultProtocol,
    };
    const life = runWebSocket(exchange, destination, generation, handshake, response);
    this.exchanges.add({ exchange, generation, reply: undefined }, socket, life);
  }

  private onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    onParserError(error, socket, this.connections.get(socket), this.current(), (code) => this.onRefused(code));
  }
}

/** A request on its connection. */
interface RequestArrival {
  request: ServerRequest;
  response: ServerResponse;
  connection: ClientConnection;
  /** Whether the client waits for `100 Continue`. */
  expectsContinue: boolean;
  /** Whether it is the first one on its connection. */
  fresh: boolean;
}

/** What is known of a request on its arrival, and the parts of the request target as they were received. */
interface RequestFacts extends ArrivalFacts {
  rawPath: string;
  rawQuery: string;
}

const NOTHING: readonly string[] = [];

/** Removes query parameters that repeat members of the body by which a request is checked, and returns their names. */
const dropRepeatedMembers = (query: Query, protocol: Protocol): string[] =>
  query.removeWhere((name) => repeatsCheckedMember(name, protocol));

/** A request that waits for its turn. */
interface QueuedArrival {
  readonly arrival: RequestArrival;
  readonly known: RequestFacts;
  /** That of its arrival, in which it is refused. */
  readonly generation: Generation;
}

/** Reports whether the process accepts requests, and nothing else, as it needs no authentication. */
function sendProbeResponse(response: ServerResponse, id: string, well: boolean): void {
  const body = well ? "ok\n" : "stopping\n";
  const head = ["content-type", "text/plain", "content-length", String(body.length), "cache-control", "no-store"];
  endResponse(response.writeHead(well ? 200 : 503, [...head, "x-request-id", id]), body);
}

/** Reports whether a request has a body that is long, may be, or may never come. */
const hasLongBody = ({ headerList }: ServerRequest): boolean =>
  headerList.has("transfer-encoding") ||
  Number(headerList.get("content-length") ?? 0) > (headerList.has("expect") ? 0 : LONG_BODY);

const isGet = ({ method }: ServerRequest): boolean => method === "GET" || method === "HEAD";

const wantsSocket = ({ headerList }: ServerRequest): boolean =>
  headerList.get("upgrade")?.toLowerCase() === "websocket";
