import type { LookupFunction } from "node:net";
import { Tunnel } from "../tunnel.ts";
import type { HttpRequest } from "./http-request.ts";
import { Pool } from "./pool.ts";

export interface PoolsOptions {
  /** Connections per origin and credential at most; more requests wait for one. */
  connections?: number;
  /** Milliseconds an unused connection is kept. */
  keepAlive?: number;
  /** How names become addresses; Node's own otherwise. */
  lookup?: LookupFunction;
  /** Where HTTPS_PROXY, HTTP_PROXY and NO_PROXY are looked up. */
  environment?: Readonly<Record<string, string | undefined>>;
}

/** The connections to one origin made for one credential. */
export interface RequestPool {
  readonly origin: string;
  /** How many connections were made so far; NaN where it cannot be known. */
  readonly made: number;
  /** Carries a call as soon as a connection can. @param alone on a connection of its own */
  send(call: HttpRequest, alone?: boolean): void;
  /** A call that has not started wants no connection any more. */
  cancel(call: HttpRequest): void;
  /** Lets running calls end, takes no new ones. */
  close(): Promise<void>;
  /** Cuts everything at once. */
  destroy(): Promise<void>;
}

/**
 * Kept-alive connections to providers, one lane for each origin and credential, so that an answer meant for one account
 * can never arrive on a connection of another.
 *
 * HTTP/1.1 without pipelining: one request per connection makes an abort a closed socket, which every vendor notices, and
 * lets a slow reader stall only its own answer. Unused connections go after 30 s, before the 60 to 75 s after which load
 * balancers in front of vendors drop them without asking; a shorter `Keep-Alive: timeout=` of the provider is obeyed.
 */
export class Pools {
  private readonly lanes = new Map<string, RequestPool>();
  /** The same by the very address that a provider has: to take an address apart costs more than to find it. */
  private readonly byAddress = new WeakMap<URL, { credentialId: string; connect: number; pool: RequestPool }[]>();
  private readonly options: PoolsOptions;
  private readonly environment: NonNullable<PoolsOptions["environment"]>;
  private readonly proxied: boolean;

  constructor(options: PoolsOptions = {}) {
    this.options = options;
    this.environment = options.environment ?? process.env;
    this.proxied = Boolean(this.variable("https_proxy") || this.variable("http_proxy"));
  }

  /** @param connect milliseconds after which a connection that does not come about is given up; 0: the system's limit. */
  lane(origin: URL, credentialId: string, connect: number): RequestPool {
    const known = this.byAddress.get(origin) ?? [];
    for (const each of known) if (each.credentialId === credentialId && each.connect === connect) return each.pool;
    const lane = this.find(origin, credentialId, connect);
    this.byAddress.set(origin, [...known, { credentialId, connect, pool: lane }]);
    return lane;
  }

  private find(origin: URL, credentialId: string, connect: number): RequestPool {
    const name = origin.origin;
    const key = `${name} ${connect} ${credentialId}`;
    let lane = this.lanes.get(key);
    if (!lane) {
      lane = this.proxied ? this.openProxied(name, connect) : this.open(name, connect);
      this.lanes.set(key, lane);
    }
    return lane;
  }

  /** Lets running requests end, takes no new ones. */
  async close(): Promise<void> {
    await Promise.all([...this.lanes.values()].map((lane) => lane.close()));
  }

  /** Cuts everything at once. */
  async destroy(): Promise<void> {
    await Promise.all([...this.lanes.values()].map((lane) => lane.destroy()));
  }

  private open(origin: string, connect: number): Pool {
    const { connections = 4096, keepAlive = 30_000, lookup } = this.options;
    return new Pool(origin, { connections, keepAlive, connect, lookup });
  }

  private openProxied(origin: string, connect: number): Tunnel {
    const { connections = 4096, keepAlive = 30_000, lookup } = this.options;
    return new Tunnel(origin, {
      connections,
      pipelining: 1,
      allowH2: false,
      autoSelectFamily: true,
      keepAliveTimeout: keepAlive,
      keepAliveMaxTimeout: keepAlive,
      connectTimeout: connect,
      // undici's own answer timeouts have a grain of a second; ours are exact.
      headersTimeout: 0,
      bodyTimeout: 0,
      ...(lookup ? { connect: { lookup } } : {}),
      httpProxy: this.variable("http_proxy"),
      httpsProxy: this.variable("https_proxy"),
      noProxy: this.variable("no_proxy"),
    });
  }

  private variable(name: string): string {
    return this.environment[name] ?? this.environment[name.toUpperCase()] ?? "";
  }
}
