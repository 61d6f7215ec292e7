import type { IncomingMessage, ServerResponse } from "node:http";
import type { Stream } from "node:stream";
import { createProxyServer, type ProxyServer } from "http-proxy-3";
import { GatewayError } from "../errors.ts";
import { Dispatch, type Leaving, type Outgoing, type Upstream } from "./dispatch.ts";
import type { Pools } from "./pools.ts";

export type { Leaving, Outgoing, Sink, Upstream } from "./dispatch.ts";

/**
 * Brings requests to providers: http-proxy-3, with its transport replaced through its own `fetch` option by a dispatch on
 * a pool of connections that writes our bytes and reads the answer (half the CPU of its native path, measured; and unlike
 * both of its own paths it sees every abort and every cut). http-proxy-3 never sees a header or a body: what it is given
 * stands in for a request and a response.
 */
export class Forward {
  private readonly proxy: ProxyServer;

  constructor(private readonly pools: Pools) {
    this.proxy = createProxyServer({
      target: TARGET as URL,
      selfHandleResponse: true,
      toProxy: true,
      prependPath: false,
      agent: UNUSED,
      fetch: run as unknown as typeof fetch,
      fetchOptions: {},
    });
  }

  /**
   * Sends one request and answers when the head of the answer is in. Redirects are never followed.
   *
   * @throws GatewayError upstream_unreachable, upstream_failed, upstream_timeout, upstream_redirect, upstream_invalid,
   * client_gone, draining, or internal for a request that cannot be written.
   */
  send(outgoing: Outgoing, leaving: Leaving): Promise<Upstream> {
    return new Promise((accept, refuse) => {
      const dispatch = new Dispatch(outgoing, this.pools, accept, refuse);
      const crossing: Crossing = { dispatch, leaving };
      this.proxy.web(
        REQUEST as unknown as IncomingMessage,
        RESPONSE as unknown as ServerResponse,
        { buffer: crossing as unknown as Stream },
        (error) => {
          dispatch.destroy();
          refuse(GatewayError.from(error));
        },
      );
    });
  }

  /** Waits for the attempts that run, then closes all connections. */
  close(): Promise<void> {
    return this.pools.close();
  }
}

/** What http-proxy-3 hands from `web()` to `fetch` as the request's body. */
interface Crossing {
  dispatch: Dispatch;
  leaving: Leaving;
}

/** As much of a request as http-proxy-3 looks at. It holds nothing that goes out: the dispatch has all of that. */
const REQUEST = { method: "POST", url: "/", headers: {}, httpVersionMajor: 1, on: () => REQUEST };

/** As much of an address as http-proxy-3 looks at; a real URL would be taken apart anew for each request. */
const TARGET: Partial<URL> = {
  protocol: "http:",
  host: "upstream",
  hostname: "upstream",
  port: "80",
  href: "http://upstream/",
};

/** As much of a response as http-proxy-3 looks at: one to which nothing is left to do. */
const RESPONSE = { headersSent: true, writableEnded: true };

/** Spares http-proxy-3 the `connection: close` that it sets where there is no agent. */
const UNUSED = {};

/** What http-proxy-3 takes for the fetched response. The real one goes to the caller alone. */
const DONE = { status: 200, statusText: "", headers: { entries: (): [] => [] }, body: null };

/**
 * Stands in for `fetch`, and is done as soon as the request is handed over: were http-proxy-3 left waiting for the end,
 * its promise would keep all of an exchange alive beyond young-generation collections (a third of the CPU, measured).
 */
function run(_url: string, { body }: { body: Crossing }): typeof DONE {
  body.dispatch.start(body.leaving);
  return DONE;
}
