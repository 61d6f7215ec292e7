import type { IncomingMessage, ServerResponse } from "node:http";
import { createProxyServer, type ProxyServer } from "http-proxy-3";
import { GatewayError } from "../core/errors.ts";
import type { Pools } from "./http1/pools.ts";
import { type AbortSource, type OutgoingRequest, UpstreamRequest } from "./request.ts";
import type { UpstreamResponse } from "./response.ts";

/**
 * Brings requests to providers: http-proxy-3, with a pass of ours in front of its own last one. That one would take the
 * request apart and ask with node's client; ours hands over to a dispatch, which writes our bytes and reads the answer for
 * a third of the CPU, measured, and sees every abort and every cut. http-proxy-3 never sees a header or a body: what it is
 * given stands in for a request and a response.
 */
export class Forward {
  private readonly proxy: ProxyServer;

  constructor(private readonly pools: Pools) {
    this.proxy = createProxyServer({ target: TARGET as URL });
    this.proxy.before("web", "stream", carry as never);
  }

  /**
   * Sends one request and answers when the head of the answer is in. Redirects are never followed.
   *
   * @throws GatewayError upstream_unreachable, upstream_failed, upstream_timeout, upstream_redirect, upstream_invalid,
   * client_gone, draining, or internal for a request that cannot be written.
   */
  send(outgoing: OutgoingRequest, leaving: AbortSource): Promise<UpstreamResponse> {
    return new Promise((accept, refuse) => {
      const dispatch = new UpstreamRequest(outgoing, this.pools, accept, refuse);
      const crossing = new Crossing(dispatch, leaving);
      this.proxy.web(crossing as unknown as IncomingMessage, RESPONSE as ServerResponse, (error) => {
        dispatch.destroy();
        refuse(GatewayError.from(error));
      });
    });
  }

  /** Waits for the attempts that run, then closes all connections. */
  close(): Promise<void> {
    return this.pools.close();
  }
}

/** As much of a request as http-proxy-3 looks at, and what crosses in it. Nothing that goes out: the dispatch has that. */
class Crossing {
  readonly method = "POST";
  readonly url = "/";

  constructor(
    readonly dispatch: UpstreamRequest,
    readonly leaving: AbortSource,
  ) {}
}

/** As much of an address as http-proxy-3 looks at. */
const TARGET: Partial<URL> = { protocol: "http:", host: "upstream", hostname: "upstream", port: "80" };

/** A response to which http-proxy-3 has nothing left to do. */
const RESPONSE = {};

/** Ends the passes: true is how a pass says that it has done all there is to do. */
function carry({ dispatch, leaving }: Crossing): true {
  dispatch.start(leaving);
  return true;
}
