import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { FileError, thrownMessage } from "../../core/errors.ts";
import { optionalPackage } from "../optional-package.ts";

/** Milliseconds to wait for a usable connection. */
const CONNECT_TIMEOUT = 3000;
/** Milliseconds without a reply after which a server counts as unreachable: longer than its occasional pauses. */
const REPLY_TIMEOUT = 1000;
/** Maximum milliseconds to wait for a reply while others arrive. */
export const REPLY_DEADLINE = 3000;

/** Lua scripts that run on the server atomically. */
const SCRIPTS = [
  "reserve",
  "settle",
  "report",
  "beat",
  "adopt",
  "gather",
  "repay",
  "pay",
  "seed",
  "recheck",
  "statuses",
  "look",
  "orphans",
] as const;
export type RedisScript = (typeof SCRIPTS)[number];

interface ScriptText {
  readonly text: string;
  /** The server's name for it. */
  readonly sha: string;
}

/** The used part of a connection of the package `redis`. */
interface RedisConnection {
  readonly isReady: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: string[]): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
}

interface RedisPackage {
  createClient(options: object): RedisConnection;
}

/** The server responds with an error that is not temporary: its password, permissions or mode. */
export class RedisRefusal extends Error {
  override readonly name = "RedisRefusal";
}

/** The server does not respond, or not in time. */
export class RedisUnavailable extends Error {
  override readonly name = "RedisUnavailable";
}

const scripts = new Map<RedisScript, ScriptText>();

/** A Redis or Valkey server, over one connection, which does not reconnect by itself. */
export class RedisServer {
  private connection: RedisConnection | undefined;
  /** The last error of the connection: commands that it ends only say that the client is closed. */
  private connectionError: unknown;
  /** When it last replied. */
  private repliedAt = 0;
  /** Its address for display: without its password. */
  readonly address: string;

  private readonly url: string;
  /** Paths of certificates by their parameter in the address. */
  private readonly certificateFiles: URLSearchParams;

  private constructor(
    address: string,
    private readonly client: RedisPackage,
  ) {
    const url = new URL(address);
    const { host, pathname } = url;
    this.address = `${host}${pathname.length > 1 ? pathname : ""}`;
    this.certificateFiles = new URLSearchParams(url.search);
    url.search = "";
    this.url = url.href;
  }

  /**
   * Does not connect yet.
   * @param url `redis://`, or `rediss://` with paths of certificates as query parameters, as built by `parseRedisAddress`
   * @throws FileError when the package is not installed
   */
  static async create(url: string): Promise<RedisServer> {
    const client = await optionalPackage<RedisPackage>("redis", () => import("redis"), "store: limits: redis://…");
    return new RedisServer(url, client);
  }

  get connected(): boolean {
    return this.connection?.isReady === true;
  }

  /** Returns socket options; files are read for each connection, as certificates are renewed. */
  private socketOptions(): object {
    // Our own timeout is shorter, and reports the reason.
    const common = { connectTimeout: 2 * CONNECT_TIMEOUT, reconnectStrategy: false };
    if (!this.url.startsWith("rediss:")) return common;
    const [ca, cert, key] = ["cacert", "cert", "key"].map((name) => {
      const file = this.certificateFiles.get(name);
      return file === null ? undefined : readFileSync(file);
    });
    return { ...common, tls: true, ...(ca && { ca }), ...(cert && { cert, key }) };
  }

  private createConnection(): RedisConnection {
    const connection = this.client.createClient({
      url: this.url,
      name: "model-gateway",
      // Supported by Redis 6, Valkey and proxies of both.
      RESP: 2,
      maintNotifications: "disabled",
      disableOfflineQueue: true,
      socket: this.socketOptions(),
      // Deadlines are kept here: the package's own cost one signal per command.
      commandOptions: { timeout: 0 },
    });
    this.connectionError = undefined;
    connection.on("error", (error: unknown) => {
      this.connectionError = error;
    });
    this.connection = connection;
    return connection;
  }

  /** @throws RedisRefusal, RedisUnavailable */
  async connect(): Promise<void> {
    this.disconnect();
    try {
      const connection = this.createConnection();
      await withReplyTimeout(connection.connect(), CONNECT_TIMEOUT);
      // A script loaded only on first use would run after commands sent later.
      const loaded = SCRIPTS.map((name) => connection.sendCommand(["SCRIPT", "LOAD", loadScript(name).text]));
      await withReplyTimeout(Promise.all(loaded), CONNECT_TIMEOUT);
    } catch (thrown) {
      this.disconnect();
      // A server without TLS takes the handshake for an incomplete command and waits.
      if (thrown instanceof RedisUnavailable && this.url.startsWith("rediss:"))
        throw new RedisUnavailable(`${thrown.message}; does it speak TLS? redis:// does without`, { cause: thrown });
      throw toRedisError(thrown, this.address, this.connectionError);
    }
  }

  /** Returns a warning where the server removes keys when its memory is full; undefined: it does not, or it does not tell. Never rejects. */
  async evictionWarning(): Promise<string | undefined> {
    const memory = await this.connection?.sendCommand(["INFO", "memory"]).catch(() => undefined);
    const value = (name: string) => new RegExp(`^${name}:(\\S+)`, "m").exec(String(memory))?.[1];
    const policy = value("maxmemory_policy");
    if (policy === undefined || policy === "noeviction" || value("maxmemory") === "0") return undefined;
    return `store: limits: ${this.address} removes keys when its memory is full (maxmemory-policy ${policy}), and with them what is spent and reserved, so that limits can be passed; set maxmemory-policy noeviction there`;
  }

  /** Closes the connection; pending commands fail. */
  disconnect(): void {
    const { connection } = this;
    this.connection = undefined;
    try {
      connection?.destroy();
    } catch {
      // It was closed already.
    }
  }

  /**
   * Runs a script. Commands of one turn of the event loop are sent together, in their order.
   * @param args the first names keys
   * @param deadline milliseconds
   * @throws RedisRefusal, RedisUnavailable
   */
  async run(name: RedisScript, args: readonly string[], deadline = REPLY_DEADLINE): Promise<unknown> {
    const { connection } = this;
    if (!connection) throw new RedisUnavailable("there is no connection");
    const { sha, text } = loadScript(name);
    const rest = ["1", `${args[0]}owners`, ...args];
    try {
      return await this.reply(connection.sendCommand(["EVALSHA", sha, ...rest]), deadline);
    } catch (thrown) {
      if (!thrownMessage(thrown).startsWith("NOSCRIPT")) throw toRedisError(thrown, this.address, this.connectionError);
    }
    try {
      return await this.reply(connection.sendCommand(["EVAL", text, ...rest]), deadline);
    } catch (thrown) {
      throw toRedisError(thrown, this.address, this.connectionError);
    }
  }

  /** @throws RedisUnavailable without a reply in time */
  private async reply(reply: Promise<unknown>, deadline: number): Promise<unknown> {
    const sentAt = performance.now();
    const remainingTime = () =>
      Math.min(Math.max(sentAt, this.repliedAt) + REPLY_TIMEOUT, sentAt + deadline) - performance.now();
    const value = await withReplyTimeout(reply, Math.min(REPLY_TIMEOUT, deadline), remainingTime);
    this.repliedAt = performance.now();
    return value;
  }
}

/** Returns a script including the common prelude. */
export function loadScript(name: RedisScript): ScriptText {
  return scripts.getOrInsertComputed(name, () => {
    const read = (file: string) => readFileSync(new URL(`./${file}.lua`, import.meta.url), "utf8");
    const text = `${read("prelude")}\n${read(name)}`;
    return { text, sha: createHash("sha1").update(text).digest("hex") };
  });
}

/**
 * @param remainingTime returns the further milliseconds to wait, called when the first are over
 * @throws RedisUnavailable without a reply in time
 */
function withReplyTimeout<T>(reply: Promise<T>, first: number, remainingTime: () => number = () => 0): Promise<T> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let timer: NodeJS.Timeout;
    let settled = false;
    const late = () => {
      if (settled) return;
      const more = remainingTime();
      if (more > 0) wait(more);
      else reject(new RedisUnavailable(`no reply within ${Math.round(performance.now() - began)} ms`));
    };
    // If this process itself was late, replies received meanwhile are read first.
    const wait = (time: number) => {
      timer = setTimeout(() => setImmediate(() => setImmediate(late)), time);
    };
    wait(first);
    reply.then(resolve, reject).finally(() => {
      settled = true;
      clearTimeout(timer);
    });
  });
}

/** The package's error for a command after the end of its connection. */
const CLOSED = "The client is closed";

/** Errors that retries do not fix, and what to do about them. */
const REFUSALS: readonly [RegExp, string][] = [
  [
    /^(?:WRONGPASS|NOAUTH|ERR AUTH|ERR invalid password|ERR invalid username)/i,
    "set user and password in the address: redis://USER:PASSWORD@HOST",
  ],
  [/^NOPERM/, "its user needs +@all (or eval, evalsha and what scripts use), and the keys ~{gateway}:*"],
  [
    /^(?:MOVED|CLUSTERDOWN|CROSSSLOT|ASK)\b/,
    "this is a Redis Cluster; limits need one server, or one address that leads to the primary",
  ],
  [
    /self.signed|unable to (?:verify|get)|certificate/i,
    "name who signs its certificate, rediss://HOST?cacert=FILE, and the host as the certificate does",
  ],
  [/wrong version number|packet length too long|tlsv1 alert/i, "is it TLS that is spoken there? redis:// does without"],
  [/DB index|SELECT is not allowed/i, "there is no database of that number"],
  [/unknown command/i, "limits need Redis 6 or newer, or Valkey, with scripts"],
];

/** Describes why a server cannot be used at startup, and what to do. */
export function unusableRedis({ address }: RedisServer, cause: unknown): FileError {
  const { message } = cause as Error;
  if (cause instanceof RedisRefusal) return new FileError(`store: limits: ${message}`, { cause });
  const hint = `start it${/ECONNRESET/.test(message) ? " (if it speaks TLS: rediss://)" : ""}, or set instances: N in gateway.yaml, and a start without it keeps to one part of N`;
  return new FileError(`store: limits: ${address} does not answer (${message}): ${hint}`, { cause });
}

/** @param lost why the connection ended, if it has */
function toRedisError(thrown: unknown, place: string, lost: unknown): Error {
  if (thrown instanceof RedisRefusal || thrown instanceof RedisUnavailable) return thrown;
  const isClosed = thrown instanceof Error && thrown.message === CLOSED;
  const { message, code, errors } = (isClosed && lost ? lost : thrown) as NodeJS.ErrnoException & { errors?: Error[] };
  const reason = message || errors?.[0]?.message || code || String(thrown);
  const hint = REFUSALS.find(([pattern]) => pattern.test(reason))?.[1];
  if (hint) return new RedisRefusal(`${place} says ${JSON.stringify(reason)}: ${hint}`, { cause: thrown });
  return new RedisUnavailable(reason, { cause: thrown });
}
