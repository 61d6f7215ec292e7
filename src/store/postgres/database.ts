import { checkServerIdentity } from "node:tls";
import type postgres from "postgres";
import { FileError, StoreUnavailableError, thrownMessage } from "../../core/errors.ts";
import { TimeoutError, withTimeout } from "../../core/timeout.ts";
import { sanitizeText } from "../../wire/utf8.ts";
import { optionalPackage } from "../optional-package.ts";
import type { SqlRunner, SqlValue } from "../sql-runner.ts";
import { displayUrl, type PostgresSettings, type PostgresTls } from "./place.ts";

/** The schema of our tables; a database may contain others too. */
export const SCHEMA = "model_gateway";

/** Default deadline of a query, in milliseconds. */
const DEADLINE = 5_000;
/** Seconds between attempts to connect, so that a recovered database is found quickly. */
const BACKOFF = 0.1;
/** Milliseconds until notifications are requested again. */
const LISTEN_RETRY = 250;
/** Seconds for other connections to finish their queries after one of them has broken. */
const FINISH_TIMEOUT = 5;
/** Connections for queries that may take long. */
const LONG_CONNECTIONS = 2;
/** Milliseconds after which the server aborts an idle transaction of ours, as it may block others. */
const IDLE_TRANSACTION_TIMEOUT = 30_000;

export type PostgresRow = Record<string, unknown>;

/** Runs one query, with `?` for values, whose texts need not be storable; texts are prepared, so there should be few different ones. */
export type PostgresQuery = (text: string, ...values: readonly SqlValue[]) => Promise<PostgresRow[]>;

/** Queries of one transaction; `script` runs several statements, like a file of them. */
export type PostgresTransaction = PostgresQuery & { script(text: string): Promise<void> };

/** Connections for short queries, and those for long ones: a short query that shared them could wait until its deadline. */
interface PostgresPools {
  readonly short: postgres.Sql;
  readonly long: postgres.Sql;
}

/**
 * Connections to one database. They are opened on demand, and again after a loss. Every query has a deadline: if it is missed,
 * all connections are replaced, as the network may be dropping their packets.
 */
export class PostgresDatabase implements SqlRunner {
  private pools: PostgresPools;
  /** The connection for transactions, one after the other, and whether it was lost since the last one began. */
  private transactionConnection: { sql: postgres.Sql; lost: boolean } | undefined;
  private lastTransaction: Promise<unknown> = Promise.resolve();
  /** Functions that replace connections which listen. */
  private readonly restartListening = new Set<() => void>();
  private closed = false;

  private constructor(
    readonly settings: PostgresSettings,
    private readonly connect: typeof postgres,
    private readonly maxConnections: number,
    private readonly durable: boolean,
  ) {
    this.pools = this.createPools();
  }

  /**
   * @param maxConnections for short queries
   * @param durable whether commits survive a power cut of the server, regardless of the server's default
   * @throws FileError if the package for PostgreSQL is not installed; the database is not contacted yet
   */
  static async open(settings: PostgresSettings, maxConnections: number, durable = false): Promise<PostgresDatabase> {
    const { default: connect } = await optionalPackage<{ default: typeof postgres }>(
      "postgres",
      () => import("postgres"),
      "A ledger in PostgreSQL",
    );
    return new PostgresDatabase(settings, connect, maxConnections, durable);
  }

  /**
   * @throws PostgresError of the database; StoreUnavailableError if it cannot be reached, refuses the login, or does not respond in
   * time
   */
  readonly query: PostgresQuery = (text, ...values) => this.withDeadline(DEADLINE, (ask) => ask(text, ...values));

  /** Runs queries like `query`, with their own deadline in milliseconds. */
  withDeadline<T>(deadline: number, work: (ask: PostgresQuery) => Promise<T>): Promise<T> {
    return this.runWithin(deadline, this.pools, "short", work);
  }

  /** Does the same for queries that may take longer than others can wait. */
  runLong<T>(deadline: number, work: (ask: PostgresQuery) => Promise<T>): Promise<T> {
    return this.runWithin(deadline, this.pools, "long", work);
  }

  /**
   * Runs one transaction after the other: all of it is committed or, if `work` throws, nothing. `work` must not begin another
   * transaction.
   */
  transaction<T>(work: (ask: PostgresTransaction) => Promise<T>, deadline: number = DEADLINE): Promise<T> {
    const done = this.lastTransaction.then(() => this.runTransaction(work, deadline));
    this.lastTransaction = done.catch(() => {});
    return done;
  }

  /**
   * Listens to a channel over a separate connection, which is replaced whenever it is lost, or the server refuses to notify, as a
   * standby does. Never throws.
   * @param ready called at each (re)connect: notifications may have been missed before
   * @returns a function that ends it
   */
  listen(channel: string, onNotification: () => void, ready: () => void): () => void {
    let current: postgres.Sql | undefined;
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      clearTimeout(timer);
      void current?.end({ timeout: 0 }).catch(() => {});
      current = undefined;
    };
    const restart = () => {
      end();
      timer = setTimeout(begin, LISTEN_RETRY).unref();
    };
    const begin = () => {
      const again = () => {
        if (current === sql) restart();
      };
      const sql = this.createPool(1, { onclose: again, onnotify: onNotification });
      current = sql;
      // Not by the package's own method, which gives up where the server refuses it after a reconnect.
      sql.unsafe(`listen "${channel}"`).then(() => current === sql && ready(), again);
    };
    begin();
    this.restartListening.add(restart);
    return () => {
      this.restartListening.delete(restart);
      end();
    };
  }

  /** Whether it is being closed, or is. */
  get isClosed(): boolean {
    return this.closed;
  }

  /** Closes all connections after a short grace period. */
  async close(): Promise<void> {
    this.closed = true;
    const all = [this.pools.short, this.pools.long, this.transactionConnection?.sql];
    await Promise.all(all.map((sql) => sql?.end({ timeout: 1 })));
  }

  private async runWithin<T>(
    deadline: number,
    pools: PostgresPools,
    kind: keyof PostgresPools,
    work: (ask: PostgresQuery) => Promise<T>,
  ): Promise<T> {
    try {
      return await withTimeout(deadline, work(queryOn(pools[kind])));
    } catch (thrown) {
      if (isBroken(thrown)) this.replace(pools, thrown instanceof TimeoutError ? 0 : FINISH_TIMEOUT);
      throw this.describeError(thrown);
    }
  }

  /** Replaces all connections when one has broken: the others may finish their queries. */
  private replace(pools: PostgresPools, finishing: number): void {
    if (this.pools !== pools || this.closed) return;
    this.pools = this.createPools();
    // A connection whose packets are dropped receives nothing, and fails at nothing.
    if (finishing === 0) for (const restart of this.restartListening) restart();
    for (const sql of [pools.short, pools.long]) void sql.end({ timeout: finishing }).catch(() => {});
  }

  private createPools(): PostgresPools {
    return { short: this.createPool(this.maxConnections), long: this.createPool(LONG_CONNECTIONS) };
  }

  /** Implemented here, on a separate connection: the package's own transactions continue on a connection that was lost. */
  private async runTransaction<T>(work: (ask: PostgresTransaction) => Promise<T>, deadline: number): Promise<T> {
    this.transactionConnection ??= this.ownConnection();
    const { transactionConnection } = this;
    transactionConnection.lost = false;
    const ask = queryOn(transactionConnection.sql, () => {
      // It would reconnect, and the rest of the transaction be committed without its beginning.
      if (transactionConnection.lost) throw new Error("the connection was lost on the way");
    });
    const all = async () => {
      await beginTransaction(ask, transactionConnection);
      try {
        const result = await work(ask);
        await ask("commit");
        return result;
      } catch (thrown) {
        transactionConnection.lost ||= isBroken(thrown);
        if (!transactionConnection.lost) await ask("rollback");
        throw thrown;
      }
    };
    try {
      return await withTimeout(deadline, all());
    } catch (thrown) {
      transactionConnection.lost ||= isBroken(thrown);
      if (transactionConnection.lost) {
        this.transactionConnection = undefined;
        void transactionConnection.sql.end({ timeout: 0 }).catch(() => {});
      }
      throw this.describeError(thrown);
    }
  }

  /** Errors of a database that is unreachable, or lets nobody in, name neither the server nor the setting it comes from. */
  private describeError(thrown: unknown): unknown {
    const code = postgresCode(thrown);
    // In a transaction, by a query outside of it.
    if (thrown instanceof StoreUnavailableError || thrown instanceof FileError) return thrown;
    const advice = ADVICE.get(code ?? "");
    if (advice !== undefined) {
      const message = `PostgreSQL at ${displayUrl(this.settings)} (store: ledger): ${errorReason(thrown)}; ${advice}`;
      return Object.assign(new FileError(message, { cause: thrown }), { code });
    }
    const isRefused = LOGIN_REFUSED.has(code ?? "");
    if (!isBroken(thrown) && !isRefused && !isUnreachable(code)) return thrown;
    const hint = isRefused ? `; ${hintOf(this.settings, code)}` : "";
    const away = `PostgreSQL at ${displayUrl(this.settings)} (store: ledger): ${errorReason(thrown)}${hint}`;
    return new StoreUnavailableError(away, { cause: thrown, code });
  }

  private ownConnection(): { sql: postgres.Sql; lost: boolean } {
    const lose = () => {
      own.lost = true;
    };
    const own = { sql: this.createPool(1, { onclose: lose }), lost: false };
    return own;
  }

  private createPool(max: number, events: { onclose?: () => void; onnotify?: () => void } = {}): postgres.Sql {
    const { host, port, user, password, database, tls, application, connectTimeout } = this.settings;
    return this.connect({
      ...{ host, port, user, database, max, connect_timeout: connectTimeout },
      ...(password === undefined ? {} : { password }),
      ...{ ssl: tlsOptions(tls, host), backoff: () => BACKOFF, idle_timeout: 0, max_lifetime: 0, fetch_types: false },
      connection: {
        application_name: application,
        search_path: SCHEMA,
        idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT,
        ...(this.durable ? { synchronous_commit: "on" } : {}),
      },
      onnotice: () => {},
      ...events,
    });
  }
}

/** Whatever the default of the database: a stricter one hides what other connections commit meanwhile, as new kinds of rows. */
const BEGIN = "begin isolation level read committed";

/** Begins a transaction; a connection lost before its first statement is reopened, as nothing is lost then. */
async function beginTransaction(ask: PostgresQuery, transaction: { lost: boolean }): Promise<void> {
  try {
    await ask(BEGIN);
  } catch (thrown) {
    if (!transaction.lost) throw thrown;
    transaction.lost = false;
    await ask(BEGIN);
  }
}

/** Reports whether a connection has broken during a query, or has not responded. */
const isBroken = (error: unknown): boolean =>
  error instanceof TimeoutError || BROKEN.has(postgresCode(error) ?? "") || POOLER.test(postgresCode(error) ?? "");
/** The class of codes with which a pooler answers that cannot reach its server, or does not want to; it then closes the connection. */
const POOLER = /^08/;
const BROKEN: ReadonlySet<string> = new Set([
  ...["CONNECTION_CLOSED", "CONNECTION_DESTROYED", "CONNECTION_ENDED", "CONNECT_TIMEOUT", "ECONNRESET", "EPIPE"],
  // The server closes it, or is a standby: a new connection may lead to the one that was promoted.
  ...["57P01", "57P02", "57P05", "25P03", "25006"],
]);

/** Replaces each `?` with `$1`, `$2` and so on, as PostgreSQL requires. */
export const numberPlaceholders = (text: string): string =>
  numberedTexts.getOrInsertComputed(text, () => {
    let count = 0;
    return text.replaceAll("?", () => `$${++count}`);
  });

const numberedTexts = new Map<string, string>();

/** Returns the value as PostgreSQL can store it: not all texts of a plugin or client can be. */
export const sanitizeValue = <Value>(value: Value): Value | string =>
  typeof value === "string" ? sanitizeText(value) : value;

/** @param check throws when no further query is allowed */
function queryOn(sql: postgres.Sql, check: () => void = () => {}): PostgresTransaction {
  const ask: PostgresQuery = async (text, ...values) => {
    check();
    return sql.unsafe(numberPlaceholders(text), values.map(sanitizeValue), { prepare: true });
  };
  const script = async (text: string) => {
    check();
    await sql.unsafe(text);
  };
  return Object.assign(ask, { script });
}

/**
 * Checks that the database can store every text, and that our schema is in use.
 * @throws Error with advice
 */
export async function checkDatabase(ask: PostgresQuery): Promise<void> {
  const [row] = await ask(
    "select current_setting('server_encoding') as encoding, current_setting('search_path') as path",
  );
  const { encoding, path } = row as { encoding: string; path: string };
  // Its rows with other characters would be refused, and lost.
  if (encoding !== "UTF8" && encoding !== "SQL_ASCII")
    throw new Error(`its encoding is ${encoding}, which lacks most characters: make it with encoding 'UTF8'`);
  if (!/^\s*"?model_gateway"?\s*(?:,|$)/.test(path))
    throw new Error(
      `its search_path is ${path}, as a pooler ignores the one that was asked for: alter database … set search_path = ${SCHEMA}`,
    );
}

/** Reports whether we have a table of that name now: `to_regclass` may not see what other sessions have just created. */
export async function tableExists(ask: PostgresQuery, name: string): Promise<boolean> {
  const found = await ask(
    "select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ?::text and c.relname = ?::text",
    ...[SCHEMA, name],
  );
  return found.length > 0;
}

/** Returns the options for node's TLS; a mode that requires TLS never continues without it. */
function tlsOptions({ mode, ca, cert, key }: PostgresTls, host: string): false | "prefer" | object {
  if (mode === "disable") return false;
  if (mode === "prefer") return "prefer";
  const own = { ...(cert === undefined ? {} : { cert, key }), ...(ca === undefined ? {} : { ca }) };
  if (mode === "require") return { ...own, rejectUnauthorized: false };
  const identity = mode === "verify-ca" ? () => undefined : (_: string, shown: object) => checkIdentity(host, shown);
  return { ...own, rejectUnauthorized: true, checkServerIdentity: identity };
}

const checkIdentity = (host: string, shown: object): Error | undefined =>
  checkServerIdentity(host, shown as Parameters<typeof checkServerIdentity>[1]);

/** Returns the code of an error of PostgreSQL or the system; undefined for any other error. */
export function postgresCode(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** Returns an error that says why a database cannot be used and how to fix that. It does not contain the password. */
export function unusableDatabase(settings: PostgresSettings, error: unknown): FileError {
  const named = error instanceof StoreUnavailableError || (error instanceof FileError && error.cause !== undefined);
  const reason = errorReason(named ? error.cause : error).replace(/\.$/, "");
  const hint = hintOf(settings, postgresCode(error));
  const message = `The store ${displayUrl(settings)} cannot be used: ${reason}${hint === undefined ? "" : `; ${hint}`}`;
  return new FileError(message.endsWith("?") ? message : `${message}.`, { cause: error });
}

/** An error about several addresses of a host has no message of its own. */
const errorReason = (error: unknown): string => thrownMessage(error) || (postgresCode(error) ?? "it cannot be reached");

function hintOf({ user, database, tls }: PostgresSettings, code = ""): string | undefined {
  if (POOLER.test(code))
    return "a pooler in front of PostgreSQL says so; docs/store.md lists the settings that it needs";
  if (isUnreachable(code)) return "is PostgreSQL running there?";
  if (code === "28P01")
    return `the password of ${user} in store.ledger is wrong or missing: correct it, and restart the gateway`;
  if (code === "28000") return "pg_hba.conf of the server lets nobody in like that";
  if (code === "3D000") return `make it: create database "${database}" owner "${user}"`;
  if (code === "55000") return `let connections in: alter database "${database}" allow_connections true`;
  if (code === "42501")
    return `grant create on database "${database}" to "${user}", or make it the owner of schema ${SCHEMA}`;
  if (code === "25006" || code === "53100") return ADVICE.get(code);
  if (code === "53300") return "raise max_connections of the server, or have fewer instances";
  if (tls.mode !== "disable" && TLS.test(code))
    return tls.mode === "prefer" || code === "ECONNRESET"
      ? "does the server offer TLS? sslmode=disable does without"
      : "sslrootcert=FILE names who signed the server's certificate, sslmode=require does not ask";
  return undefined;
}

/** Advice for codes with which the server refuses writes. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ["25006", "name the server that can be written, or end its being read-only, and try again"],
  ["42501", "grant its user what is missing, and try again"],
  ["53100", "its disk is full: free room there and try again"],
]);

/** Codes of a server that refuses the connection: it may have accepted earlier ones, before a password was changed. */
const LOGIN_REFUSED: ReadonlySet<string> = new Set(["28P01", "28000", "3D000", "53300", "55000"]);

/** Whether it is the code of a server that is down, or not up yet. */
const isUnreachable = (code = ""): boolean => UNREACHABLE_CODES.has(code) || POOLER.test(code);
/** Reports whether a server is down, not up yet, or has just ended its connections: it may be restarting. */
export const mayBeRestarting = (error: unknown): boolean => {
  const code = postgresCode(error);
  return isUnreachable(code) || CONNECTIONS_ENDED.has(code ?? "");
};
const CONNECTIONS_ENDED: ReadonlySet<string> = new Set(["ECONNRESET", "EPIPE", "57P01", "57P02"]);
const UNREACHABLE_CODES: ReadonlySet<string> = new Set([
  ...[
    "ECONNREFUSED",
    "ENOENT",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ETIMEDOUT",
    "CONNECT_TIMEOUT",
  ],
  ...["57P03", "CONNECTION_CLOSED"],
]);

/** Codes of TLS errors. */
const TLS = /CERT|SIGNATURE|ISSUER|ALTNAME|^ERR_(?:SSL|TLS)|^EPROTO$|^ECONNRESET$/;
