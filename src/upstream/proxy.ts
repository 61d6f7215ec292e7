import type { IncomingMessage, ServerResponse } from "node:http";
import { ProxyServer, type ServerOptions } from "http-proxy-3";
import type { Pools } from "./http1/pools.ts";
import { type AbortSource, type OutgoingRequest, UpstreamRequest } from "./request.ts";
import type { UpstreamResponse } from "./response.ts";

/** Whom an exchange is answered: the request as it came, the response to it, and word of the client's leaving. */
export interface ClientSide extends AbortSource {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The proxy core: one http-proxy-3 server, which is given the client's own request and response. */
export class UpstreamProxy {
  private readonly server = new ProxyServer();

  constructor(private readonly pools: Pools) {
    this.server.before("web", "stream", exchange);
    // Without a listener the library throws.
    this.server.on("error", () => {});
  }

  /**
   * Sends one attempt of an exchange, whose body was read or changed, and answers when the head of the response is in;
   * nothing is written to the client. Redirects are never followed.
   *
   * @throws GatewayError upstream_unreachable, upstream_failed, upstream_timeout, upstream_redirect, upstream_invalid,
   * client_gone, draining, or internal for a request that cannot be written.
   */
  send(outgoing: OutgoingRequest, client: ClientSide): Promise<UpstreamResponse> {
    return new Promise((accept, refuse) => {
      const attempt = new UpstreamRequest(outgoing, this.pools, accept, refuse);
      const options: ExchangeOptions = { target: outgoing.origin, attempt, client };
      this.server.web(client.request, client.response, options);
    });
  }

  /** Waits for the attempts that run, then closes all connections. */
  close(): Promise<void> {
    return this.pools.close();
  }
}

/** What the options of one `web()` call bring to the pass below. */
interface ExchangeOptions extends ServerOptions {
  attempt: UpstreamRequest;
  client: ClientSide;
}

const isExchange = (options: ServerOptions): options is ExchangeOptions => "attempt" in options;

/**
 * A pass in front of the library's own `stream`, which would send the body as it came and write the response down at once.
 * An attempt has a body of its own, and may be one of several; it goes out through our own client (docs/decisions/0008).
 * True ends the passes.
 */
function exchange(_request: IncomingMessage, _response: ServerResponse, options: ServerOptions): boolean {
  if (!isExchange(options)) return false;
  options.attempt.start(options.client);
  return true;
}
