import type { Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { GatewayError } from "../core/errors.ts";
import { Exchange, type ExchangeStart } from "../core/exchange.ts";
import { newId } from "../core/id.ts";
import { Networks } from "../core/networks.ts";
import { createServer, type ServerResponse, STATUS_CODES } from "../core/node-http.ts";
import type { Redactor } from "../core/redactor.ts";
import { waitUntil } from "../core/timeout.ts";
import type { Generation } from "../generation.ts";
import { runPassthrough } from "../pass.ts";
import { runExchange } from "../pipeline.ts";
import { runWebSocket } from "../websocket.ts";
import { HTTP2_MESSAGE, HTTP2_PREFACE, http2Refusal } from "../wire/http2-refusal.ts";
import { Query } from "../wire/query.ts";
import { type ClientConnection, type ConnectionLimits, Connections, isForwardingHeader } from "./connections.ts";
import { refuseExplanation, sendExplanation, wantsExplanation } from "./explanation.ts";
import { containsKey, guard } from "./guard.ts";
import { HandshakeResponse, handshakeKey, takeSubprotocols } from "./handshake.ts";
import { Listener, type SocketAddress } from "./listener.ts";
import { Overload, type OverloadLimits, WaitingRequest } from "./overload.ts";
import type { RouteMatch } from "./paths.ts";
import { presentedKey, takeKeys } from "./presented-keys.ts";
import { repeatsCheckedMember } from "./query-names.ts";
import { createReceiveBody } from "./receive-body.ts";
import { endResponse, Reply, sendErrorResponse, sendOverloaded } from "./reply.ts";
import { ServerRequest } from "./server-request.ts";
import { wantsStrict } from "./strict-header.ts";
import { UnorderedList } from "./unordered-list.ts";

/** Served without a key: the list of paths, the check that some clients send first, and the API description. */
const KEYLESS_PATHS = new Set(["/", "/api/hello", "/openapi.json"]);

/** Paths for load balancers that can reach no other listener; unless gateway.yaml mounts these paths itself. */
const PROBES = new Set(["/livez", "/readyz"]);

export interface ServerLimits extends ConnectionLimits {
  /** Milliseconds that an idle connection is kept; more than nginx's 60 s, or nginx would reuse a closed one. 0: no limit. */
  readonly keepAlive: number;
  /** Milliseconds for a request's head; 0: no limit. */
  readonly head: number;
  readonly overload: OverloadLimits;
}

const LIMITS: ServerLimits = {
  keepAlive: 75_000,
  head: 10_000,
  perAddress: 256,
  trust: new Networks(),
  overload: { delay: 0, heap: 0 },
};

/** How long a stop waits, in milliseconds. */
export interface StopTimeouts {
  /** For new connections and for requests on idle ones, if no other process accepts them. */
  linger?: number | undefined;
  /** For everything that runs. */
  drain: number;
  /** Aborts the wait. */
  signal?: AbortSignal | undefined;
}

/** Milliseconds for the last bytes of responses to reach their clients, and for clients to close. */
const LAST_BYTES = 1000;

/** An exchange that has not ended. */
export interface RunningExchange {
  readonly exchange: Exchange;
  readonly generation: Generation;
  /** Sends its response; undefined for a WebSocket. */
  readonly reply: Reply | undefined;
}

/** The public side: accepts connections, checks heads, creates exchanges. */
export class Downstream {
  private readonly server: Server<typeof ServerRequest>;
  private listener: Listener | undefined;
  /** Called for each exchange that has ended and is recorded. */
  onEnded: (exchange: Exchange) => void = () => {};
  /** Called with the code of each refusal of a request that did not become an exchange. */
  onRefused: (code: string) => void = () => {};
  /** Called for each preflight that was answered. */
  onPreflight: () => void = () => {};
  /** Called when a stop has begun and no more connections are accepted. */
  onDrain: () => void = () => {};
  private readonly running = new UnorderedList<RunningExchange>();
  /** The gateway is stopping: connections end with their next response. */
  private stopBegun = false;
  private draining = false;
  private endsIdle = false;
  /** `performance.now()` when a stop last had something to wait for. */
  private busyAt = 0;
  private readonly connections: Connections;
  private readonly overload: Overload;

  /** @param current returns the generation for new requests */
  constructor(
    private readonly current: () => Generation,
    own: Partial<ServerLimits> = {},
  ) {
    const limits = { ...LIMITS, ...own };
    this.connections = new Connections(limits);
    this.overload = new Overload(limits.overload, () => current().log);
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
    this.server.on("connection", (socket: Socket) => this.connections.accept(socket));
    this.server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => this.onClientError(error, socket));
    this.server.on("connect", (_request: ServerRequest, socket: Socket) =>
      this.onClientError(new Error("CONNECT"), socket),
    );
    // Connections are passed to node's server, which never listens itself; `listening` starts its check for slow heads.
    this.server.emit("listening");
  }

  /** @throws the system's error for the address */
  async listen(listenAddress: SocketAddress): Promise<AddressInfo> {
    this.listener = new Listener(listenAddress, (socket) => {
      if (!this.overload.countConnection(socket)) this.accept(socket);
    });
    const address = await this.listener.listen();
    this.overload.setAddress(address);
    return address;
  }

  /** Serves a connection. */
  accept(socket: Socket): void {
    this.server.emit("connection", socket);
  }

  /** Number of exchanges that have not ended. */
  get active(): number {
    return this.running.size;
  }

  /** Exchanges that have not ended, each with the generation it began with. */
  get exchanges(): readonly RunningExchange[] {
    return this.running.items();
  }

  /**
   * Breaks off an exchange.
   * @returns whether it is running
   */
  cancel(id: string): boolean {
    let found = false;
    this.interruptWhere((exchange) => {
      if (exchange.id !== id) return undefined;
      found = true;
      return new GatewayError("cancelled");
    });
    return found;
  }

  /** Applies new limits, for requests from now on. */
  configure(own: Partial<ServerLimits>): void {
    const limits = { ...LIMITS, ...own };
    this.connections.limits = limits;
    this.server.keepAliveTimeout = limits.keepAlive;
    this.server.headersTimeout = limits.head;
    this.overload.limits = limits.overload;
  }

  /** Breaks off what still runs with a generation; clients of WebSockets are told to reconnect. */
  retire(generation: Generation): void {
    generation.proxy.drain();
    const error = () => new GatewayError("interrupted", { message: "The gateway's configuration has been replaced." });
    this.interruptWhere((_exchange, { generation: own, reply }) => (own === generation && reply ? error() : undefined));
    setTimeout(
      () => this.interruptWhere((_exchange, each) => (each.generation === generation ? error() : undefined)),
      LAST_BYTES,
    ).unref();
  }

  /** Whether a stop has begun. */
  get isStopping(): boolean {
    return this.stopBegun;
  }

  /** Prepares a stop: from now on responses close their connections. */
  prepareStop(): void {
    this.stopBegun = true;
    this.connections.closeAfterResponses();
  }

  /** Ends idle connections, and from now on each that becomes idle while this process stops. */
  endIdle(): void {
    this.endsIdle = true;
    this.connections.endIdle();
  }

  /** Refuses everything new from now on, as the process may be in an unknown state. */
  refuseAll(): void {
    this.draining = true;
  }

  /**
   * Breaks off running exchanges; their clients get an error in their own protocol.
   * @param why returns the error; undefined: that one continues
   */
  interruptWhere(why: (exchange: Exchange, running: RunningExchange) => GatewayError | undefined): void {
    for (const each of this.running.items()) {
      const error = why(each.exchange, each);
      if (error) each.exchange.interrupt(error);
    }
    // Exchanges that do not notice the interruption themselves: their client has not sent the whole request.
    setImmediate(() => {
      for (const { exchange, reply } of this.running.items())
        if (exchange.interruption && reply && !reply.response.headersSent) reply.refuse(exchange.interruption);
    });
  }

  /**
   * Stops gracefully. For the time of `linger` everything continues, but each response closes its connection. Then no connections
   * are accepted and clients of WebSockets are told to reconnect; running exchanges continue, and requests on idle connections
   * are served, until none has arrived for that time. At the limit the rest is interrupted, each exchange in its own protocol.
   * Idle connections are closed last, with a FIN from this side, so that none is reset. Never throws, never hangs.
   * @returns exchanges that could not be ended
   */
  async close({ linger = 0, drain, signal }: StopTimeouts): Promise<Exchange[]> {
    const { connections, listener } = this;
    const limit = performance.now() + drain;
    const late = () => performance.now() >= limit || signal?.aborted === true;
    this.prepareStop();
    this.busyAt = performance.now();
    const began = this.busyAt;
    if (listener && !listener.isInherited) await waitUntil(() => late() || performance.now() - began >= linger);
    // While everything is refused, an error response is better than a refused connection.
    if (!this.draining || listener?.isInherited) await listener?.close();
    this.onDrain();
    for (const { proxy } of new Set([this.current(), ...this.generations])) proxy.drain();
    do {
      await waitUntil(() => late() || this.isQuiet(linger));
      // What arrived while the process waited for a core has not been read yet.
      await nextTurn();
    } while (!late() && !this.isQuiet(linger));
    await listener?.close();
    if (this.running.size > 0) await this.interruptAll();
    connections.end();
    await waitUntil(() => connections.size === 0, LAST_BYTES);
    connections.destroy();
    await waitUntil(() => this.running.size === 0, LAST_BYTES);
    this.server.close();
    this.overload.close();
    return this.running.items().map(({ exchange }) => exchange);
  }

  private get generations(): Generation[] {
    return this.running.items().map(({ generation }) => generation);
  }

  /** Reports whether nothing runs, nothing is being sent to a client, and no request is likely to arrive on open connections. */
  private isQuiet(linger: number): boolean {
    if (this.endsIdle) this.connections.endIdle();
    if (this.running.size > 0 || this.overload.waiting > 0 || this.connections.isSending) {
      this.busyAt = performance.now();
      return false;
    }
    if (this.connections.size === 0) return true;
    // A client that has just connected is about to send a request.
    const wait = this.connections.hasUnused ? Math.max(linger, LAST_BYTES) : linger;
    return performance.now() - this.busyAt >= wait;
  }

  /** Interrupts all remaining exchanges. */
  private async interruptAll(): Promise<void> {
    this.interruptWhere(() => new GatewayError("interrupted"));
    await waitUntil(() => this.running.size === 0 && !this.connections.isSending, LAST_BYTES);
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
  private onRequest(request: ServerRequest, response: ServerResponse, waiting = false): void {
    const { socket } = request;
    const connection = this.connections.get(socket);
    // After a response that closes the connection, node may still parse pipelined requests, which must be ignored.
    if (!socket.writable) return;
    connection.headsReceived++;
    const arrival = { request, response, connection, waiting, fresh: connection.lastResponse === undefined };
    if (response.socket) {
      connection.lastResponse = response;
      this.serve(arrival);
    } else if (!connection.enqueue(response, () => this.serve(arrival)) && !socket.destroyed) {
      this.current().log.info({ address: connection.address, error: { code: "too_many_pipelined" } }, "refused");
      this.onRefused("too_many_pipelined");
      socket.destroy();
    }
  }

  private serve(arrival: RequestArrival): void {
    const { request, response } = arrival;
    const time = Date.now();
    const id = newId(time);
    const arrivedAt = performance.now();
    const generation = this.current();
    const [raw = "", text = ""] = splitTarget(request.url ?? "");
    const headers = request.headerList;
    const address = this.connections.clientAddress(arrival.connection, headers);
    if (this.stopBegun) {
      this.busyAt = arrivedAt;
      response.shouldKeepAlive = false;
    }
    // Node's parser loses bytes that follow an upgrade in the same packet: no further request may be read from the connection.
    if (headers.has("upgrade")) response.shouldKeepAlive = false;
    const refuse = (thrown: unknown) => {
      const error = GatewayError.from(thrown);
      refuseEarly(request, response, generation, raw, error, id, address);
      this.onRefused(error.code);
    };
    try {
      // First of all, so that a page's scripts can also read the reason of a refusal.
      const preflight = generation.cors?.admit(request, headers, response);
      if (this.draining) throw new GatewayError("draining");
      guard(request, headers);
      // These responses do not read the body, and the client should stop sending it.
      if ((preflight || isGet(request)) && hasBody(request)) response.shouldKeepAlive = false;
      if (preflight) {
        generation.cors?.answerPreflight(headers, response, id);
        const { log, redactor } = generation;
        log.info(earlyFields(request, raw, { id, address, status: response.statusCode }, redactor), "preflight");
        this.onPreflight();
        return;
      }
      if (isGet(request) && generation.pages?.serve(raw, request, response, id)) return;
      if (PROBES.has(raw) && isGet(request) && !generation.paths.servedPaths().includes(raw)) {
        sendProbeResponse(response, id, raw === "/livez" || !this.stopBegun);
        return;
      }
      if (KEYLESS_PATHS.has(raw) && isGet(request)) {
        generation.sendSummary(response, id, raw);
        return;
      }
    } catch (thrown) {
      refuse(thrown);
      return;
    }
    request.hold();
    const serve = () => {
      try {
        this.beginExchange(arrival, this.current(), { raw, text }, { id, time, arrivedAt, address });
      } catch (thrown) {
        refuse(thrown);
      }
    };
    const refuseOverloaded = (retryAfter: number) => {
      sendOverloaded(request, response, generation.paths.dialect(raw, headers), id, retryAfter);
      this.onRefused("overloaded");
    };
    const since = arrival.fresh ? this.overload.waitingSince(arrivedAt) : arrivedAt;
    const caller = () => presentedKey(headers) ?? (text.includes("key=") ? text : address);
    this.overload.add(new WaitingRequest(since, caller, serve, refuseOverloaded));
  }

  /**
   * Creates an exchange for a request at its turn in the queue.
   * @throws GatewayError if it is refused
   */
  private beginExchange(
    { request, response, waiting }: RequestArrival,
    generation: Generation,
    { raw, text }: RequestTarget,
    known: ArrivalFacts,
  ): void {
    const headers = request.headerList;
    const query = parseQuery(text);
    if (wantsSocket(request)) throw new GatewayError("upgrade_required");
    const destination = generation.paths.find(request.method ?? "", raw, query, headers);
    const { pass: passes, chain } = destination;
    if (passes) refuseExplanation(headers);
    refuseRepeated(query, passes ? ["key"] : undefined);
    const uploader = passes?.path.takeTicket(passes.below, query, known.time);
    const keys = takeKeys(headers, query);
    const judged = (name: string) => repeatsCheckedMember(name, destination.protocol);
    const dropped = passes ? [] : query.removeWhere(judged).map((name) => `?${name}`);
    const origin = passes && this.connections.origin(this.connections.get(request.socket), headers);
    const exchange = createExchange(request, query, destination, passes ? { ...known, origin, uploader } : known, keys);
    exchange.dropped.push(...dropped);
    response.once("close", () => {
      if (!response.writableFinished) exchange.abort();
    });
    if (response.destroyed) exchange.abort();
    const reply = new Reply(exchange, request, response, generation);
    const receive = createReceiveBody(exchange, request, response, generation, waiting);
    this.run(
      { exchange, generation, reply },
      response,
      passes
        ? runPassthrough(exchange, chain, generation, passes, reply, waiting)
        : wantsExplanation(headers)
          ? sendExplanation(exchange, chain, generation, receive, reply)
          : runExchange(exchange, chain, generation, receive, reply),
    );
  }

  /** Handles a request for a WebSocket, whose socket node has released. */
  private upgrade(request: ServerRequest, socket: Socket, head: Buffer): void {
    const time = Date.now();
    const id = newId(time);
    const arrivedAt = performance.now();
    const generation = this.current();
    const [raw = "", text = ""] = splitTarget(request.url ?? "");
    const headers = request.headerList;
    const connection = this.connections.get(request.socket);
    connection.headsReceived++;
    const address = this.connections.clientAddress(connection, headers);
    // The connection is no HTTP connection any more, and is not idle.
    connection.lastResponse = undefined;
    const response = new HandshakeResponse(request);
    const serve = () => {
      try {
        if (this.draining) throw new GatewayError("draining");
        guard(request, headers);
        this.beginSocketExchange(request, socket, head, response, { id, time, arrivedAt, address, raw, text });
      } catch (thrown) {
        refuse(GatewayError.from(thrown));
      }
    };
    const refuse = (error: GatewayError) => {
      refuseEarly(request, response, generation, raw, error, id, address);
      this.onRefused(error.code);
      response.send(socket);
    };
    const caller = () => presentedKey(headers) ?? address;
    const turnAway = (retryAfter: number) => refuse(new GatewayError("overloaded", { retryAfter }));
    this.overload.add(new WaitingRequest(arrivedAt, caller, serve, turnAway));
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
    { raw, text, ...known }: RequestTarget & ArrivalFacts,
  ): void {
    const generation = this.current();
    const headers = request.headerList;
    const query = parseQuery(text);
    const destination = generation.paths.findSocket(raw, query);
    if (!destination) throw new GatewayError("upgrade_required");
    refuseExplanation(headers);
    const { protocol, pass: passes } = destination;
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
    this.run({ exchange, generation, reply: undefined }, socket, life);
  }

  /** @param client closed if the exchange fails unexpectedly, which must not end the process */
  private run(running: RunningExchange, client: { destroy(): unknown }, life: Promise<void>): void {
    const { exchange, generation } = running;
    const entry = this.running.add(running);
    generation.hold();
    const fail = (thrown: unknown): void => {
      const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
      generation.log.error({ id: exchange.id, cause }, "a request failed, and its connection is closed");
      client.destroy();
    };
    const end = (): void => {
      this.running.remove(entry);
      generation.release();
      try {
        this.onEnded(exchange);
      } catch (thrown) {
        fail(thrown);
      }
    };
    life.then(end, (thrown: unknown) => {
      fail(thrown);
      end();
    });
  }

  /** Handles what node's parser refused, or did not receive in time. */
  private onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code !== TIMEOUT) {
      this.refuseHead(error, socket);
      return;
    }
    const connection = this.connections.get(socket);
    const { headsReceived } = connection;
    if (connection.busy) {
      // The client has not finished a further head. Node reports that only once, so the connection ends after the responses that
      // are queued.
      if (connection.lastResponse) connection.lastResponse.shouldKeepAlive = false;
      return;
    }
    // Node checks the timeout before it reads: if this process was busy, the head may already be in the socket.
    setImmediate(() => {
      if (connection.headsReceived === headsReceived) this.refuseHead(error, socket);
    });
  }

  /** Refuses a head. The client's protocol is unknown, so the body is JSON of the common protocol. */
  private refuseHead(error: NodeJS.ErrnoException, socket: Socket): void {
    const { lastResponse, address } = this.connections.get(socket);
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    if (lastResponse && !mayRefuse(lastResponse)) {
      socket.destroySoon();
      return;
    }
    const { common, log } = this.current();
    const id = newId(Date.now());
    const refusal = headError(error, lastResponse);
    const body = common.error(refusal, id);
    const head = [
      `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
      "content-type: application/json",
      `x-request-id: ${id}`,
      "x-should-retry: false",
      "connection: close",
      `content-length: ${Buffer.byteLength(body)}`,
    ];
    const speaksHttp2 = error.code === HTTP2_PREFACE && !lastResponse;
    socket.end(speaksHttp2 ? http2Refusal() : `${head.join("\r\n")}\r\n\r\n${body}`);
    socket.destroySoon();
    log.info({ id, address, status: refusal.status, error: { code: refusal.code, cause: error.code } }, "refused");
    this.onRefused(refusal.code);
  }
}

/** A request on its connection. */
interface RequestArrival {
  request: ServerRequest;
  response: ServerResponse;
  connection: ClientConnection;
  /** Whether the client waits for `100 Continue`. */
  waiting: boolean;
  /** Whether it is the first one on its connection. */
  fresh: boolean;
}

/** The original request target. */
interface RequestTarget {
  /** The path. */
  raw: string;
  /** The query. */
  text: string;
}

/** What is known about a request before it is parsed. */
type ArrivalFacts = Pick<ExchangeStart, "id" | "time" | "arrivedAt" | "origin" | "uploader"> & { address: string };

/** Node's error code for a head that has not arrived in time. */
const TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT";

/**
 * Reports whether an error may be written to a connection: not inside an unfinished response, nor before its turn, where it would
 * be read as part of that response or as the response to another request.
 */
const mayRefuse = (last: ServerResponse): boolean =>
  last.headersSent ? last.req.complete && last.writableFinished : last.socket !== null;

/** @param last the previous response on the connection */
function headError({ code }: NodeJS.ErrnoException, last: ServerResponse | undefined): GatewayError {
  if (code === "HPE_HEADER_OVERFLOW") return new GatewayError("headers_too_large");
  if (code === TIMEOUT)
    return new GatewayError("body_timeout", { message: "The head of the request did not arrive in time." });
  if (code === HTTP2_PREFACE) return new GatewayError("bad_request", { message: HTTP2_MESSAGE });
  const longer = last?.req.complete && !last.headersSent;
  return new GatewayError(
    "bad_request",
    longer ? { hint: "The body is longer than content-length says: count bytes, not characters." } : {},
  );
}

/**
 * @param names those that the gateway reads; undefined: all
 * @throws GatewayError `bad_target` where one occurs twice
 */
function refuseRepeated(query: Query, names: readonly string[] | undefined): void {
  const repeated = query.repeated(names);
  if (repeated === undefined) return;
  throw new GatewayError("bad_target", {
    message: `The query parameter "${repeated}" occurs twice.`,
    hint: "Send it once.",
  });
}

/** @throws GatewayError `misplaced_key`, `invalid_field` */
function createExchange(
  request: ServerRequest,
  query: Query,
  { path, protocol, operation, strict: strictPath = false, pathModel, notice }: RouteMatch,
  known: ArrivalFacts,
  keys: readonly string[],
): Exchange {
  if (containsKey(path, keys)) throw new GatewayError("misplaced_key");
  const { method = "", headerList: headers } = request;
  const strict = wantsStrict(headers) || strictPath;
  headers.deleteWhere(isForwardingHeader);
  const arrival = {
    ...known,
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

/** Sends an error for a request that never became an exchange. */
function refuseEarly(
  request: ServerRequest,
  response: ServerResponse,
  { paths, log, redactor }: Generation,
  path: string,
  error: GatewayError,
  id: string,
  address: string,
): void {
  const extra = error.code === "websocket_only" ? ["upgrade", "websocket"] : [];
  sendErrorResponse(request, response, paths.dialect(path, request.headerList), error, id, extra);
  const known = { id, address, status: error.status, error: { code: error.code } };
  // Load shedding logs a summary: a line for each refusal would add load.
  if (error.code !== "overloaded") log.info(earlyFields(request, path, known, redactor), "refused");
}

/** Returns the log fields for a request that never became an exchange; the path is left out if it contains a key. */
function earlyFields(
  { method, headerList }: ServerRequest,
  path: string,
  { id, address, ...more }: { id: string; address: string; status: number; error?: { code: string } },
  redactor: Redactor,
): object {
  const fields = { id, address, method, ...more };
  const secret = more.error?.code === "misplaced_key" || containsKey(path, takeKeys(headerList, new Query()));
  return secret ? fields : { ...fields, path: redactor.path(withoutUserInfo(path)) };
}

/** Returns a request target without user name and password. */
const withoutUserInfo = (path: string): string => path.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1");

/** Reports whether the process accepts requests, and nothing else, as it needs no authentication. */
function sendProbeResponse(response: ServerResponse, id: string, well: boolean): void {
  const body = well ? "ok\n" : "stopping\n";
  const head = ["content-type", "text/plain", "content-length", String(body.length), "cache-control", "no-store"];
  endResponse(response.writeHead(well ? 200 : 503, [...head, "x-request-id", id]), body);
}

const hasBody = ({ headerList }: ServerRequest): boolean =>
  headerList.has("transfer-encoding") || Number(headerList.get("content-length") ?? 0) > 0;

const isGet = ({ method }: ServerRequest): boolean => method === "GET" || method === "HEAD";

const wantsSocket = ({ headerList }: ServerRequest): boolean =>
  headerList.get("upgrade")?.toLowerCase() === "websocket";

function splitTarget(target: string): [string, string] {
  const mark = target.indexOf("?");
  return mark < 0 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)];
}

function parseQuery(text: string): Query {
  try {
    return new Query(text);
  } catch {
    throw new GatewayError("bad_target", { message: "The query has a broken escape." });
  }
}
