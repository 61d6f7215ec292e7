import type { LookupFunction, Socket } from "node:net";
import { Pool } from "./pool.ts";
import { Proxies } from "./proxies.ts";

export interface PoolsOptions {
  /** Maximum of connections per origin and credential; further requests wait for one. */
  connections?: number;
  /** Milliseconds for which an idle connection is kept. */
  keepAlive?: number;
  /** Resolves host names; Node's own lookup by default. */
  lookup?: LookupFunction;
  /** Creates connections inside the process, in place of network sockets. */
  connectInProcess?: (origin: string) => Socket;
  /** Where HTTPS_PROXY, HTTP_PROXY and NO_PROXY are looked up. */
  environment?: Readonly<Record<string, string | undefined>>;
}

/**
 * Kept-alive connections to providers, one pool for each origin and credential, so that a response meant for one account can
 * never arrive on a connection of another.
 *
 * HTTP/1.1 without pipelining: with one request per connection an abort closes a socket, which every vendor notices, and a slow
 * reader stalls only its own response. Idle connections are closed after 30 s, before load balancers in front of vendors drop
 * them silently after 60 to 75 s; a shorter `Keep-Alive: timeout=` of the provider is respected.
 */
export class Pools {
  private readonly pools = new Map<string, Pool>();
  /** The same pools by a provider's URL object: parsing an address costs more than this lookup. */
  private readonly byAddress = new WeakMap<URL, { credentialId: string; pool: Pool }[]>();
  private readonly proxies: Proxies;

  /** @throws Error for an invalid address in a proxy variable. */
  constructor(private readonly options: PoolsOptions = {}) {
    this.proxies = new Proxies(options.environment ?? process.env);
  }

  /** Connects to an origin without a proxy, because it is a server in this process. */
  exempt(origin: URL): void {
    this.proxies.exempt(origin);
  }

  /**
   * Returns the pool for an origin and a credential.
   * @param origin only scheme, host and port are used.
   * @param warm milliseconds after the last request for which a TLS connection is kept ready
   */
  pool(origin: URL, credentialId: string, warm = 0): Pool {
    const existing = this.byAddress.get(origin) ?? [];
    for (const entry of existing) if (entry.credentialId === credentialId) return entry.pool;
    const pool = this.findOrCreate(origin, credentialId, warm);
    this.byAddress.set(origin, [...existing, { credentialId, pool }]);
    return pool;
  }

  /**
   * Closes the pools of unused accounts as soon as their requests have ended.
   * @param used `ORIGIN ACCOUNT` of the accounts in use
   */
  async retain(used: ReadonlySet<string>): Promise<void> {
    const unused = [...this.pools].filter(([key]) => !used.has(key.slice(0, key.lastIndexOf(" "))));
    for (const [key] of unused) this.pools.delete(key);
    await Promise.all(unused.map(([, pool]) => pool.close()));
  }

  private findOrCreate(origin: URL, credentialId: string, warm: number): Pool {
    const key = `${origin.origin} ${credentialId} ${warm}`;
    return this.pools.getOrInsertComputed(key, () => {
      const { connections = 4096, keepAlive = 30_000, lookup, connectInProcess } = this.options;
      const proxy = this.proxies.for(origin);
      return new Pool(origin.origin, { connections, keepAlive, warm, lookup, connectInProcess, proxy });
    });
  }
}
