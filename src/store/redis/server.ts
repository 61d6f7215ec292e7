import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { FileError } from "../../core/errors.ts";
import { optionalPackage } from "../optional-package.ts";

/** Milliseconds to wait for a connection that is ready. */
const CONNECTING = 3000;
/** Milliseconds after which a server is away that says nothing: longer than one rests now and then. */
const SILENCE = 1000;
/** Milliseconds to wait for a reply at most, while others come. */
export const DEADLINE = 3000;

/** Lua that runs on the server in one step. */
const SCRIPTS = ["reserve", "settle", "beat", "adopt", "repay", "pay", "seed", "standings", "look"] as const;
export type RedisScript = (typeof SCRIPTS)[number];

interface ScriptText {
  readonly text: string;
  /** What the server knows it by. */
  readonly sha: string;
}

/** What is used of a connection of the package `redis`. */
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

/** The server answers, and with what is no passing fault: its password, its rights, its kind. */
export class RedisRefusal extends Error {
  override readonly name = "RedisRefusal";
}

/** The server does not answer, or not in time. */
export class RedisAway extends Error {
  override readonly name = "RedisAway";
}

const scripts = new Map<RedisScript, ScriptText>();

/** A server of Redis or Valkey, over one connection, which is not made anew by itself. */
export class RedisServer {
  private connection: RedisConnection | undefined;
  /** When it last said something. */
  private heardAt = 0;
  /** Where it is, for people: without its password. */
  readonly place: string;

  private readonly url: string;
  /** Files of certificates by what they are to the address. */
  private readonly files: URLSearchParams;

  private constructor(
    address: string,
    private readonly client: RedisPackage,
  ) {
    const url = new URL(address);
    const { host, pathname } = url;
    this.place = `${host}${pathname.length > 1 ? pathname : ""}`;
    this.files = new URLSearchParams(url.search);
    url.search = "";
    this.url = url.href;
  }

  /**
   * Connects to nothing yet.
   * @param url `redis://`, or `rediss://` with files of certificates behind the `?`, as `redisAddress` makes it
   * @throws FileError when the package is not installed
   */
  static async of(url: string): Promise<RedisServer> {
    const client = await optionalPackage<RedisPackage>("redis", () => import("redis"), "store: limits: redis://…");
    return new RedisServer(url, client);
  }

  get connected(): boolean {
    return this.connection?.isReady === true;
  }

  /** What a connection is told; the files are read for each anew, for certificates are renewed. */
  private socket(): object {
    // Ours ends first, and says why.
    const told = { connectTimeout: 2 * CONNECTING, reconnectStrategy: false };
    if (!this.url.startsWith("rediss:")) return told;
    const [ca, cert, key] = ["cacert", "cert", "key"].map((name) => {
      const file = this.files.get(name);
      return file === null ? undefined : readFileSync(file);
    });
    return { ...told, tls: true, ...(ca && { ca }), ...(cert && { cert, key }) };
  }

  private opened(): RedisConnection {
    const connection = this.client.createClient({
      url: this.url,
      name: "model-gateway",
      // What Redis 6, Valkey and proxies of both speak alike.
      RESP: 2,
      maintNotifications: "disabled",
      disableOfflineQueue: true,
      socket: this.socket(),
      // Deadlines are kept here: one of its own for each command costs a signal each.
      commandOptions: { timeout: 0 },
    });
    connection.on("error", () => {});
    this.connection = connection;
    return connection;
  }

  /** @throws RedisRefusal, RedisAway */
  async connect(): Promise<void> {
    this.disconnect();
    try {
      const connection = this.opened();
      await within(connection.connect(), CONNECTING);
      // One that is not there when it is asked for would run behind what was sent after it.
      const loaded = SCRIPTS.map((name) => connection.sendCommand(["SCRIPT", "LOAD", scriptOf(name).text]));
      await within(Promise.all(loaded), CONNECTING);
    } catch (thrown) {
      this.disconnect();
      // A server without TLS waits for the rest of what it takes for a command.
      if (thrown instanceof RedisAway && this.url.startsWith("rediss:"))
        throw new RedisAway(`${thrown.message}; does it speak TLS? redis:// does without`, { cause: thrown });
      throw failure(thrown, this.place);
    }
  }

  /** What has not been answered fails. */
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
   * Runs a script. Commands of one turn of the event loop leave together, in their order.
   * @param args the first names keys
   * @param deadline milliseconds
   * @throws RedisRefusal, RedisAway
   */
  async run(name: RedisScript, args: readonly string[], deadline = DEADLINE): Promise<unknown> {
    const { connection } = this;
    if (!connection) throw new RedisAway("there is no connection");
    const { sha, text } = scriptOf(name);
    const rest = ["1", `${args[0]}owners`, ...args];
    try {
      return await this.reply(connection.sendCommand(["EVALSHA", sha, ...rest]), deadline);
    } catch (thrown) {
      if (!(thrown as Error).message.startsWith("NOSCRIPT")) throw failure(thrown, this.place);
    }
    try {
      return await this.reply(connection.sendCommand(["EVAL", text, ...rest]), deadline);
    } catch (thrown) {
      throw failure(thrown, this.place);
    }
  }

  /** @throws RedisAway where none comes in time */
  private async reply(reply: Promise<unknown>, deadline: number): Promise<unknown> {
    const asked = performance.now();
    const patience = () => Math.min(Math.max(asked, this.heardAt) + SILENCE, asked + deadline) - performance.now();
    const value = await within(reply, Math.min(SILENCE, deadline), patience);
    this.heardAt = performance.now();
    return value;
  }
}

/** A script with what all begin with. */
export function scriptOf(name: RedisScript): ScriptText {
  const known = scripts.get(name);
  if (known) return known;
  const read = (file: string) => readFileSync(new URL(`./${file}.lua`, import.meta.url), "utf8");
  const text = `${read("prelude")}\n${read(name)}`;
  const made = { text, sha: createHash("sha1").update(text).digest("hex") };
  scripts.set(name, made);
  return made;
}

/**
 * @param patience milliseconds to wait on, asked when the first are over
 * @throws RedisAway when there is no reply in time
 */
function within<T>(reply: Promise<T>, first: number, patience: () => number = () => 0): Promise<T> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let timer: NodeJS.Timeout;
    const late = () => {
      const more = patience();
      if (more > 0) wait(more);
      else reject(new RedisAway(`no reply within ${Math.round(performance.now() - began)} ms`));
    };
    // Where this process itself was late, what has come meanwhile is read first.
    const wait = (time: number) => {
      timer = setTimeout(() => setImmediate(() => setImmediate(late)), time);
    };
    wait(first);
    reply.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** What no waiting heals, and what to do about it. */
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

/** What is wrong with a server that cannot be used at a start, and what to do. */
export function unusableRedis({ place }: RedisServer, cause: unknown): FileError {
  const { message } = cause as Error;
  if (cause instanceof RedisRefusal) return new FileError(`store: limits: ${message}`, { cause });
  const hint = "start it, or set instances: N in gateway.yaml, and a start without it keeps to one part of N";
  return new FileError(`store: limits: ${place} does not answer (${message}): ${hint}`, { cause });
}

function failure(thrown: unknown, place: string): Error {
  if (thrown instanceof RedisRefusal || thrown instanceof RedisAway) return thrown;
  const { message, code, errors } = thrown as NodeJS.ErrnoException & { errors?: Error[] };
  const reason = message || errors?.[0]?.message || code || String(thrown);
  const hint = REFUSALS.find(([pattern]) => pattern.test(reason))?.[1];
  if (hint) return new RedisRefusal(`${place} says ${JSON.stringify(reason)}: ${hint}`, { cause: thrown });
  return new RedisAway(reason, { cause: thrown });
}
