import { checkServerIdentity } from "node:tls";
import type postgres from "postgres";
import { FileError } from "../core/errors.ts";
import { optionalPackage } from "./optional-package.ts";
import { type PostgresPlace, type PostgresTls, shownPlace } from "./postgres-place.ts";

/** Where our tables are; a database may hold others' too. */
export const SCHEMA = "model_gateway";

/** Milliseconds for an answer, where nothing else is said. */
const DEADLINE = 5_000;
/** Seconds between two tries to connect: a database that is back is found at once. */
const BACKOFF = 0.1;
/** Milliseconds after which the server ends a transaction of ours that does nothing: it may hold others up. */
const IDLE = 30_000;

export type PostgresValue = string | number | null;
export type PostgresRow = Record<string, unknown>;

/** Asks one question, its values as `?` in the text; texts are prepared, so there should be few different ones. */
export type PostgresAsk = (text: string, ...values: readonly PostgresValue[]) => Promise<PostgresRow[]>;

type Sql = postgres.Sql | postgres.TransactionSql;

/**
 * Connections to one database. They are made when they are needed, and again when they are lost; nothing waits longer than it
 * says: connections that have not answered by then are given up, all of them, for the network may have swallowed them.
 */
export class PostgresDatabase {
  private sql: postgres.Sql;
  private closed = false;

  private constructor(
    readonly place: PostgresPlace,
    private readonly connect: typeof postgres,
    private readonly most: number,
    private readonly durable: boolean,
  ) {
    this.sql = this.connected();
  }

  /**
   * @param most connections at a time
   * @param durable whether what is written survives a power cut there, whatever the server says to others
   * @throws FileError where the package that speaks to PostgreSQL is not installed; the database itself is not asked yet
   */
  static async open(place: PostgresPlace, most: number, durable = false): Promise<PostgresDatabase> {
    const { default: connect } = await optionalPackage<{ default: typeof postgres }>(
      "postgres",
      () => import("postgres"),
      "A ledger in PostgreSQL",
    );
    return new PostgresDatabase(place, connect, most, durable);
  }

  /** @throws PostgresError what the database says; Error where it cannot be reached, or does not answer in time */
  readonly ask: PostgresAsk = (text, ...values) => this.within(DEADLINE, (ask) => ask(text, ...values));

  /** As `ask`, with a deadline of its own, in milliseconds. */
  within<T>(deadline: number, work: (ask: PostgresAsk) => Promise<T>): Promise<T> {
    return this.late(deadline, (sql) => work(askOf(sql)));
  }

  /** One transaction: all of it holds, or, when `work` throws, nothing. */
  transaction<T>(work: (ask: PostgresAsk) => Promise<T>, deadline: number = DEADLINE): Promise<T> {
    return this.late(
      deadline,
      async (sql) => (await sql.begin(async (own) => ({ value: await work(askOf(own)) }))).value,
    );
  }

  /**
   * Hears what is told in a channel, over a connection of its own that is made again whenever it is lost. Never throws.
   * @param ready told when hearing has begun, also again: something may have been told in between
   * @returns ends it
   */
  listen(channel: string, heard: () => void, ready: () => void): () => void {
    const sql = this.connected(1);
    // The package connects again by itself, for as long as this is not ended.
    sql.listen(channel, heard, ready).catch(() => {});
    return () => void sql.end({ timeout: 0 }).catch(() => {});
  }

  /** Ends all connections; what runs gets a moment. */
  async close(): Promise<void> {
    this.closed = true;
    await this.sql.end({ timeout: 1 });
  }

  private async late<T>(deadline: number, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
    const { sql } = this;
    const silent = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      silent.reject(new Error(`it has not answered in ${deadline} ms`));
      if (this.sql !== sql || this.closed) return;
      this.sql = this.connected();
      void sql.end({ timeout: 0 }).catch(() => {});
    }, deadline);
    try {
      return await Promise.race([work(sql), silent.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  private connected(most = this.most): postgres.Sql {
    const { host, port, user, password, database, tls, application, connectTimeout } = this.place;
    return this.connect({
      ...{ host, port, user, database, max: most, connect_timeout: connectTimeout },
      ...(password === undefined ? {} : { password }),
      ...{ ssl: tlsOptions(tls, host), backoff: () => BACKOFF, idle_timeout: 0, max_lifetime: 0, fetch_types: false },
      connection: {
        application_name: application,
        search_path: SCHEMA,
        idle_in_transaction_session_timeout: IDLE,
        ...(this.durable ? { synchronous_commit: "on" } : {}),
      },
      onnotice: () => {},
    });
  }
}

/** A text with `$1` for each `?`, as PostgreSQL wants them. */
export function numbered(text: string): string {
  let found = texts.get(text);
  if (found === undefined) {
    let count = 0;
    found = text.replaceAll("?", () => `$${++count}`);
    texts.set(text, found);
  }
  return found;
}

const texts = new Map<string, string>();

/** A text as PostgreSQL takes it: without NUL, and with no half of a character. */
export const storable = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");

/** Runs several statements, as a file of them. */
export const scriptOf = (ask: PostgresAsk): ((text: string) => Promise<void>) => {
  const sql = sqls.get(ask) as Sql;
  return async (text) => void (await sql.unsafe(text));
};

/** Whether there is a table of ours with that name, now: `to_regclass` may not have heard of what others have made. */
export async function tableExists(ask: PostgresAsk, name: string): Promise<boolean> {
  const found = await ask(
    "select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ?::text and c.relname = ?::text",
    ...[SCHEMA, name],
  );
  return found.length > 0;
}

const sqls = new WeakMap<PostgresAsk, Sql>();

function askOf(sql: Sql): PostgresAsk {
  const ask: PostgresAsk = (text, ...values) => sql.unsafe(numbered(text), [...values], { prepare: true });
  sqls.set(ask, sql);
  return ask;
}

/** What node's TLS is told; a mode that asks for TLS never goes on without. */
function tlsOptions({ mode, ca, cert, key }: PostgresTls, host: string): false | "prefer" | object {
  if (mode === "disable") return false;
  if (mode === "prefer") return "prefer";
  const own = { ...(cert === undefined ? {} : { cert, key }), ...(ca === undefined ? {} : { ca }) };
  if (mode === "require") return { ...own, rejectUnauthorized: false };
  const identity = mode === "verify-ca" ? () => undefined : (_: string, shown: object) => identityOf(host, shown);
  return { ...own, rejectUnauthorized: true, checkServerIdentity: identity };
}

const identityOf = (host: string, shown: object): Error | undefined =>
  checkServerIdentity(host, shown as Parameters<typeof checkServerIdentity>[1]);

/** The code of what PostgreSQL or the system says; undefined of any other error. */
export function postgresCode(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** Why a database cannot be used, and how to mend that. The password is not in it. */
export function unusableDatabase(place: PostgresPlace, error: unknown): FileError {
  const reason = messageOf(error).replace(/\.$/, "");
  const hint = hintOf(place, postgresCode(error));
  return new FileError(
    `The store ${shownPlace(place)} cannot be used: ${reason}${hint === undefined ? "" : `; ${hint}`}.`,
    {
      cause: error,
    },
  );
}

/** What is said of several addresses of a host has no words of its own. */
const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)) || (postgresCode(error) ?? "it cannot be reached");

function hintOf({ user, database, tls }: PostgresPlace, code = ""): string | undefined {
  if (AWAY.has(code)) return "is PostgreSQL running there?";
  if (code === "28P01") return `the password of ${user} in store.ledger is wrong or missing`;
  if (code === "28000") return "pg_hba.conf of the server lets nobody in like that";
  if (code === "3D000") return `make it: create database "${database}" owner "${user}"`;
  if (code === "42501")
    return `grant create on database "${database}" to "${user}", or make it the owner of schema ${SCHEMA}`;
  if (code === "53300") return "raise max_connections of the server, or have fewer instances";
  if (tls.mode !== "disable" && TLS.test(code))
    return tls.mode === "prefer" || code === "ECONNRESET"
      ? "does the server offer TLS? sslmode=disable does without"
      : "sslrootcert=FILE names who signed the server's certificate, sslmode=require does not ask";
  return undefined;
}

/** Codes for a server that is not there, or not yet. */
export const AWAY: ReadonlySet<string> = new Set([
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

/** Codes of what goes wrong with TLS. */
const TLS = /CERT|SIGNATURE|ISSUER|ALTNAME|^ERR_(?:SSL|TLS)|^EPROTO$|^ECONNRESET$/;
