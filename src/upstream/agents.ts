import { type AgentOptions, Agent as HttpsAgent } from "node:https";
import type { Duplex } from "node:stream";
import { FileError, thrownMessage } from "../core/errors.ts";
import { Agent as HttpAgent } from "../core/node-http.ts";
import { type HttpProxy, Proxies } from "./http1/proxies.ts";

/** Milliseconds for which an idle connection is kept: less than the 60 to 75 s after which load balancers drop one silently. */
const KEEP_ALIVE = 30_000;

/** Closes a connection on which a proxy, or TLS through it, takes too long: Node does not, even when the request is destroyed. */
class TunnelAgent extends HttpsAgent {
  constructor(
    options: AgentOptions,
    private readonly limit: number,
  ) {
    super(options);
  }

  override createConnection(...[options, done]: Parameters<HttpsAgent["createConnection"]>): Duplex | null | undefined {
    let timer: NodeJS.Timeout | undefined;
    const socket = super.createConnection(options, (error, stream) => {
      clearTimeout(timer);
      done?.(error, stream);
    });
    if (this.limit > 0) timer = setTimeout(() => socket?.destroy(), this.limit).unref();
    return socket;
  }
}

/**
 * Makes something that reads the proxy variables.
 * @throws FileError for an invalid address in one of them: a mistake of the operator's, which needs no stack
 */
export function readingProxies<Result>(make: () => Result): Result {
  try {
    return make();
  } catch (thrown) {
    throw new FileError(thrownMessage(thrown), { cause: thrown });
  }
}

/**
 * Node's own keep-alive agents, for pass-through requests. One for each account, so that no two credentials ever share a
 * connection; HTTP_PROXY, HTTPS_PROXY and NO_PROXY are respected.
 */
export class Agents {
  private readonly agents = new Map<string, HttpAgent>();
  private readonly proxies: Proxies;

  /**
   * @param environment where the proxy variables are looked up
   * @throws FileError for an invalid address in one of them
   */
  constructor(environment: NodeJS.ProcessEnv) {
    this.proxies = readingProxies(() => new Proxies(environment));
  }

  /**
   * Returns the agent for an account.
   * @param account whose credential is sent on its connections, all to one provider
   * @param connect milliseconds for a proxy to open a tunnel; 0: no limit
   * @param keepAlive false: a new connection, for a handshake that cannot be repeated
   */
  get(target: URL, account: string, connect = 0, keepAlive = true): HttpAgent {
    const { protocol } = target;
    const proxy = this.proxies.for(target);
    const name = `${protocol} ${proxy !== undefined} ${keepAlive} ${connect} ${account}`;
    return this.agents.getOrInsertComputed(name, () => {
      // Not the environment itself, which Node reads differently: https has no fallback there, a scheme is required, and a host in
      // NO_PROXY does not stand for its subdomains.
      const proxyEnv = proxy ? { http_proxy: proxy.address, https_proxy: proxy.address } : {};
      const options = { keepAlive, timeout: KEEP_ALIVE, proxyEnv };
      if (protocol === "http:") return new HttpAgent(options);
      // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
      const verified = { ...options, rejectUnauthorized: true };
      return proxy ? new TunnelAgent(verified, connect) : new HttpsAgent(verified);
    });
  }

  /** Connects to an origin without a proxy, because it is a server in this process. */
  exempt(origin: URL): void {
    this.proxies.exempt(origin);
  }

  /** Returns the proxy in front of an address: it takes http requests itself, and opens a tunnel for https. */
  proxyFor(target: URL): HttpProxy | undefined {
    return this.proxies.for(target);
  }

  /** Closes the connections of unused accounts. @param used names of the accounts still in use */
  retain(used: ReadonlySet<string>): void {
    for (const [name, agent] of this.agents) {
      if (used.has(name.split(" ").slice(4).join(" "))) continue;
      this.agents.delete(name);
      agent.destroy();
    }
  }

  /** Closes every connection, also those in use. */
  close(): void {
    for (const agent of this.agents.values()) agent.destroy();
  }
}
