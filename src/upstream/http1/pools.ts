import type { LookupFunction, Socket } from "node:net";
import { Pool } from "./pool.ts";
import { Proxies } from "./proxies.ts";

export interface PoolsOptions {
  /** Connections per origin and credential at most; more requests wait for one. */
  connections?: number;
  /** Milliseconds an unused connection is kept. */
  keepAlive?: number;
  /** How names become addresses; Node's own otherwise. */
  lookup?: LookupFunction;
  /** Gives connections within the process, in place of the system's. */
  within?: (origin: string) => Socket;
  /** Where HTTPS_PROXY, HTTP_PROXY and NO_PROXY are looked up. */
  environment?: Readonly<Record<string, string | undefined>>;
}

/**
 * Kept-alive connections to providers, one pool for each origin and credential, so that a response meant for one account
 * can never arrive on a connection of another.
 *
 * HTTP/1.1 without pipelining: one request per connection makes an abort a closed socket, which every vendor notices, and
 * lets a slow reader stall only its own response. Unused connections go after 30 s, before the 60 to 75 s after which load
 * balancers in front of vendors drop them without asking; a shorter `Keep-Alive: timeout=` of the provider is obeyed.
 */
export class Pools {
  private readonly pools = new Map<string, Pool>();
  /** The same by the very address that a provider has: to take an address apart costs more than to find it. */
  private readonly byAddress = new WeakMap<URL, { credentialId: string; pool: Pool }[]>();
  private readonly proxies: Proxies;
  /** Origins that are reached without a proxy, whatever the environment says. */
  private readonly exempted = new Set<string>();

  /** @throws Error for a proxy variable that is no address. */
  constructor(private readonly options: PoolsOptions = {}) {
    this.proxies = new Proxies(options.environment ?? process.env);
  }

  /** Connects to an origin without a proxy: to a server in this process. */
  exempt({ origin }: URL): void {
    this.exempted.add(origin);
  }

  /**
   * @param origin scheme, host and port count; a path in it does not.
   * @param warm milliseconds after the last request for which a connection over TLS is kept ready
   */
  pool(origin: URL, credentialId: string, warm = 0): Pool {
    const known = this.byAddress.get(origin) ?? [];
    for (const each of known) if (each.credentialId === credentialId) return each.pool;
    const pool = this.find(origin, credentialId, warm);
    this.byAddress.set(origin, [...known, { credentialId, pool }]);
    return pool;
  }

  /** Closes the pools of accounts that nobody uses any more, as soon as their requests have ended. @param used `ORIGIN ACCOUNT` of the others */
  async retain(used: ReadonlySet<string>): Promise<void> {
    const unused = [...this.pools].filter(([key]) => !used.has(key.slice(0, key.lastIndexOf(" "))));
    for (const [key] of unused) this.pools.delete(key);
    await Promise.all(unused.map(([, pool]) => pool.close()));
  }

  /** Lets running requests end, takes no new ones. */
  async close(): Promise<void> {
    await Promise.all([...this.pools.values()].map((pool) => pool.close()));
  }

  /** Cuts everything at once. */
  async destroy(): Promise<void> {
    await Promise.all([...this.pools.values()].map((pool) => pool.destroy()));
  }

  private find(origin: URL, credentialId: string, warm: number): Pool {
    const key = `${origin.origin} ${credentialId} ${warm}`;
    let pool = this.pools.get(key);
    if (!pool) {
      const { connections = 4096, keepAlive = 30_000, lookup, within } = this.options;
      const proxy = this.exempted.has(origin.origin) ? undefined : this.proxies.for(origin);
      pool = new Pool(origin.origin, { connections, keepAlive, warm, lookup, within, proxy });
      this.pools.set(key, pool);
    }
    return pool;
  }
}
