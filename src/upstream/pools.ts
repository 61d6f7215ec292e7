import type { LookupFunction } from "node:net";
import { Client, type Dispatcher, EnvHttpProxyAgent, Pool } from "undici";

export interface PoolOptions {
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
export interface Lane {
  readonly origin: string;
  readonly dispatcher: Dispatcher;
  /**
   * How many connections were made so far. Unchanged between dispatch and start of a request, it proves that the request
   * went out on a connection that had served another before. NaN (never equal to itself) where it cannot be known.
   */
  made: number;
}

/** Larger heads are refused; vendors' are below 4 KiB. */
const HEAD_LIMIT = 64 * 1024;

/**
 * Kept-alive connections to providers, one pool for each origin and credential, so that an answer meant for one account
 * can never arrive on a connection of another.
 *
 * HTTP/1.1 without pipelining: one request per connection makes an abort a closed socket, which every vendor notices, and
 * lets a slow reader stall only its own answer. Unused connections go after 30 s, before the 60 to 75 s after which load
 * balancers in front of vendors drop them without asking; a shorter `Keep-Alive: timeout=` of the provider is obeyed.
 * undici's own answer timeouts are off: they have a grain of a second, ours are exact.
 */
export class Pools {
  private readonly lanes = new Map<string, Lane>();
  private readonly options: PoolOptions;
  private readonly environment: NonNullable<PoolOptions["environment"]>;
  private readonly proxied: boolean;

  constructor(options: PoolOptions = {}) {
    this.options = options;
    this.environment = options.environment ?? process.env;
    this.proxied = Boolean(this.variable("https_proxy") || this.variable("http_proxy"));
  }

  /** @param connect milliseconds after which a connection that does not come about is given up; 0: the system's limit. */
  lane(origin: URL, credentialId: string, connect: number): Lane {
    const name = origin.origin;
    const key = `${name} ${connect} ${credentialId}`;
    let lane = this.lanes.get(key);
    if (!lane) {
      lane = this.proxied ? this.openProxied(name, connect) : this.open(name, connect);
      this.lanes.set(key, lane);
    }
    return lane;
  }

  /** A connection for one request only, closed after it. */
  single(origin: string, connect: number): { dispatcher: Dispatcher; close(): void } {
    const { connections: _, ...options } = this.settings(connect);
    const dispatcher = new Client(origin, options);
    return { dispatcher, close: () => void dispatcher.close() };
  }

  /** Lets running requests end, takes no new ones. */
  async close(): Promise<void> {
    await Promise.all([...this.lanes.values()].map((lane) => lane.dispatcher.close()));
  }

  /** Cuts everything at once. */
  async destroy(): Promise<void> {
    await Promise.all([...this.lanes.values()].map((lane) => lane.dispatcher.destroy()));
  }

  private open(origin: string, connect: number): Lane {
    const dispatcher = new Pool(origin, this.settings(connect));
    const lane: Lane = { origin, dispatcher, made: 0 };
    dispatcher.on("connect", () => lane.made++);
    return lane;
  }

  private openProxied(origin: string, connect: number): Lane {
    const dispatcher = new EnvHttpProxyAgent({
      ...this.settings(connect),
      httpProxy: this.variable("http_proxy"),
      httpsProxy: this.variable("https_proxy"),
      noProxy: this.variable("no_proxy"),
    });
    return { origin, dispatcher, made: Number.NaN };
  }

  private settings(connect: number): Pool.Options & { connections: number } {
    const { connections = 4096, keepAlive = 30_000, lookup } = this.options;
    return {
      connections,
      pipelining: 1,
      allowH2: false,
      autoSelectFamily: true,
      keepAliveTimeout: keepAlive,
      keepAliveMaxTimeout: keepAlive,
      connectTimeout: connect,
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: HEAD_LIMIT,
      ...(lookup ? { connect: { lookup } } : {}),
    };
  }

  private variable(name: string): string {
    return this.environment[name] ?? this.environment[name.toUpperCase()] ?? "";
  }
}
