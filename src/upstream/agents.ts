import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { type HttpProxy, Proxies } from "./http1/proxies.ts";

/** Milliseconds an unused connection is kept: less than the 60 to 75 s after which load balancers drop one unasked. */
const KEEP_ALIVE = 30_000;

/**
 * Node's own keep-alive agents, for what passes unread. One for each account, so that no two credentials ever share a
 * connection; HTTP_PROXY, HTTPS_PROXY and NO_PROXY are obeyed.
 */
export class Agents {
  private readonly agents = new Map<string, HttpAgent>();
  private readonly proxies: Proxies;

  /** @param environment where the proxy variables are looked up */
  constructor(private readonly environment: NodeJS.ProcessEnv) {
    this.proxies = new Proxies(environment);
  }

  /** @param account whose credential goes over its connections */
  of({ protocol }: URL, account: string): HttpAgent {
    const name = `${protocol} ${account}`;
    let agent = this.agents.get(name);
    if (!agent) {
      const options = { keepAlive: true, timeout: KEEP_ALIVE, proxyEnv: this.environment };
      agent = protocol === "https:" ? new HttpsAgent(options) : new HttpAgent(options);
      this.agents.set(name, agent);
    }
    return agent;
  }

  /** The proxy that takes requests for an address itself, where one does: for https it only opens a tunnel. */
  forwarder(target: URL): HttpProxy | undefined {
    return target.protocol === "http:" ? this.proxies.for(target) : undefined;
  }

  /** Closes every connection, also those in use. */
  close(): void {
    for (const agent of this.agents.values()) agent.destroy();
  }
}
