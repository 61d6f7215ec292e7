import type { IncomingMessage, ServerResponse } from "node:http";
import { ProxyServer, type ServerOptions } from "http-proxy-3";
import { BufferMemory } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import { Agents } from "./agents.ts";
import type { Pools } from "./http1/pools.ts";
import { type OutgoingPass, type PassObserver, PassThroughRequest } from "./pass.ts";
import { type AbortSource, type OutgoingRequest, UpstreamRequest } from "./request.ts";
import type { UpstreamResponse } from "./response.ts";
import { type Handshake, type SocketEnd, type SocketLimits, type SocketObserver, SocketRelay } from "./websocket.ts";

/** The client's side of an exchange: its request, its response, and notice when it leaves. */
export interface ClientSide extends AbortSource {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The proxy core: one http-proxy-3 server, which gets the client's own request and response. */
export class UpstreamProxy {
  // The target is the whole address, so that the path that was checked is the path that is requested.
  private readonly server = new ProxyServer({ ignorePath: true, changeOrigin: true });
  private readonly sockets = new Set<SocketRelay>();
  private draining = false;

  /** @param agents for pass-through requests; all others use the pools */
  constructor(
    private readonly pools: Pools,
    private readonly agents = new Agents(process.env),
    private readonly messages = new BufferMemory(),
  ) {
    // The library finds its passes by their function names, so none of ours may be called `stream`.
    this.server.before("web", "stream", sendAttempt);
    this.server.before("web", "stream", restoreFraming);
    this.server.on("proxyReq", (upstream, _request, _response, options) => {
      if (isPass(options)) options.pass.onUpstreamRequest(upstream);
    });
    this.server.on("proxyReqWs", (upstream, _request, _socket, options) => {
      if (isRelay(options)) options.relay.onUpstreamRequest(upstream);
    });
    // Without a listener the library throws. Each caller gets the error in its callback.
    this.server.on("error", () => {});
  }

  /**
   * Sends one attempt of an exchange whose body was read or changed; resolves when the head of the response has arrived. Writes
   * nothing to the client. Redirects are never followed.
   *
   * @throws GatewayError upstream_unreachable, upstream_failed, upstream_timeout, upstream_redirect, upstream_invalid,
   * client_gone, draining, or internal for a request that cannot be written.
   */
  send(outgoing: OutgoingRequest, client: ClientSide): Promise<UpstreamResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<UpstreamResponse>();
    const attempt = new UpstreamRequest(outgoing, this.pools, resolve, reject);
    const options: ExchangeOptions = { target: outgoing.origin, attempt, client };
    this.server.web(client.request, client.response, options);
    return promise;
  }

  /**
   * Hands a request to the library's own passes, which stream its body and the response unchanged and unbuffered. Settles when
   * the response has ended. Redirects are never followed.
   *
   * @throws GatewayError when the response is not complete. Before its head nothing has been written to the client; after it the
   * connection has been cut.
   */
  pass(outgoing: OutgoingPass, client: ClientSide, observer: PassObserver): Promise<void> {
    const { request, response } = client;
    const { target, headers, account, timeouts } = outgoing;
    const agent = this.agents.get(target, account, timeouts.connect);
    const withProxy = { ...outgoing, proxy: this.agents.proxyFor(target) };
    const passthrough = new PassThroughRequest(request, response, withProxy, observer, (pass) => {
      const { body } = pass;
      const options: PassOptions = { target, headers, agent, pass, ...(body && { buffer: body }) };
      this.server.web(request, response, options, (error) => pass.onError(error));
    });
    const listener = { onAbort: () => passthrough.abort() };
    client.addAbortListener(listener);
    return passthrough.run().finally(() => client.removeAbortListener(listener));
  }

  /**
   * Hands a WebSocket to the library. Settles when the client's connection is closed. A failed handshake is reported to the
   * observer, which responds to it.
   * @throws GatewayError draining
   */
  async connect(
    outgoing: OutgoingPass,
    handshake: Handshake,
    limits: SocketLimits,
    observer: SocketObserver,
  ): Promise<SocketEnd> {
    if (this.draining) throw new GatewayError("draining");
    const { target, headers, account, timeouts } = outgoing;
    const { request, socket, head } = handshake;
    const agent = this.agents.get(target, account, timeouts.connect, false);
    const withProxy = { ...outgoing, proxy: this.agents.proxyFor(target) };
    const relay = new SocketRelay(handshake, withProxy, limits, observer, this.messages);
    this.sockets.add(relay);
    const ended = relay.run(() => {
      const options: RelayOptions = { target, headers, agent, relay };
      this.server.ws(request, socket, head, options, (error) => relay.onError(error));
    });
    const end = await ended;
    this.sockets.delete(relay);
    return end;
  }

  /** Closes every WebSocket, now and from now on, with the code that makes clients reconnect. */
  drain(): void {
    this.draining = true;
    for (const relay of this.sockets) relay.close();
  }
}

/** What the options of one `web()` call pass to the functions below. */
interface ExchangeOptions extends ServerOptions {
  attempt: UpstreamRequest;
  client: ClientSide;
}

interface PassOptions extends ServerOptions {
  pass: PassThroughRequest;
}

interface RelayOptions extends ServerOptions {
  relay: SocketRelay;
}

const isExchange = (options: ServerOptions): options is ExchangeOptions => "attempt" in options;
const isPass = (options: ServerOptions): options is PassOptions => "pass" in options;
const isRelay = (options: ServerOptions): options is RelayOptions => "relay" in options;

/**
 * A pass before the library's own `stream`, which would send the original body and write the response at once. An attempt has a
 * body of its own and may be one of several; our own HTTP client sends it (docs/decisions/0008). True ends the passes.
 */
function sendAttempt(_request: IncomingMessage, _response: ServerResponse, options: ServerOptions): boolean {
  if (!isExchange(options)) return false;
  options.attempt.start(options.client);
  return true;
}

/** A pass after http-proxy-3's `deleteLength`, which corrects lengths without checking how the body is framed. */
function restoreFraming(_request: IncomingMessage, _response: ServerResponse, options: ServerOptions): boolean {
  if (isPass(options)) options.pass.restoreFraming(options);
  return false;
}
