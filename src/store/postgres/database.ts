import { checkServerIdentity } from "node:tls";
import type postgres from "postgres";
import { FileError, StoreAway } from "../../core/errors.ts";
import { inTime, SilentError } from "../../core/in-time.ts";
import { optionalPackage } from "../optional-package.ts";
import { type PostgresPlace, type PostgresTls, shownPlace } from "./place.ts";

/** Where our tables are; a database may hold others' too. */
export const SCHEMA = "model_gateway";

/** Milliseconds for an answer, where nothing else is said. */
const DEADLINE = 5_000;
/** Seconds between two tries to connect: a database that is back is found at once. */
const BACKOFF = 0.1;
/** Seconds that connections get to end what they do, once another of their kind has broken. */
const FINISHING = 5;
/** Milliseconds after which the server ends a transaction of ours that does nothing: it may hold others up. */
const IDLE = 30_000;

export type PostgresValue = string | number | null;
export type PostgresRow = Record<string, unknown>;

/** Asks one question, its values as `?` in the text; texts are prepared, so there should be few different ones. */
export type PostgresAsk = (text: string, ...values: readonly PostgresValue[]) => Promise<PostgresRow[]>;

/**
 * Connections to one database. They are made when they are needed, and again when they are lost; nothing waits longer than it
 * says: connections that have not answered by then are given up, all of them, for the network may have swallowed them.
 */
export class PostgresDatabase {
  private sql: postgres.Sql;
  /** For transactions, one after the other: one connection, and whether it was lost since the last one began. */
  private own: { sql: postgres.Sql; lost: boolean } | undefined;
  private transacting: Promise<unknown> = Promise.resolve();
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

  /** @throws PostgresError what the database says; StoreAway where it cannot be reached, or does not answer in time */
  readonly ask: PostgresAsk = (text, ...values) => this.within(DEADLINE, (ask) => ask(text, ...values));

  /** As `ask`, with a deadline of its own, in milliseconds. */
  within<T>(deadline: number, work: (ask: PostgresAsk) => Promise<T>): Promise<T> {
    return this.late(deadline, (sql) => work(askOf(sql)));
  }

  /** One transaction after the other: all of it holds, or, when `work` throws, nothing. It may ask others, but begin none. */
  transaction<T>(work: (ask: PostgresAsk) => Promise<T>, deadline: number = DEADLINE): Promise<T> {
    const done = this.transacting.then(() => this.transacted(work, deadline));
    this.transacting = done.catch(() => {});
    return done;
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
    await Promise.all([this.sql.end({ timeout: 1 }), this.own?.sql.end({ timeout: 1 })]);
  }

  private async late<T>(deadline: number, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
    const { sql } = this;
    try {
      return await inTime(deadline, work(sql));
    } catch (thrown) {
      if (isBroken(thrown)) this.replace(sql, thrown instanceof SilentError ? 0 : FINISHING);
      throw this.named(thrown);
    }
  }

  /** What broke may never work again: the rest of its kind may end what they do, and others come in their place. */
  private replace(sql: postgres.Sql, finishing: number): void {
    if (this.sql !== sql || this.closed) return;
    this.sql = this.connected();
    void sql.end({ timeout: finishing }).catch(() => {});
  }

  /** By hand, over a connection of its own: the package's own transactions go on writing to a connection that was lost. */
  private async transacted<T>(work: (ask: PostgresAsk) => Promise<T>, deadline: number): Promise<T> {
    this.own ??= this.ownConnection();
    const { own } = this;
    own.lost = false;
    const ask = askOf(own.sql, () => {
      // It would be connected again, and what follows hold without the rest.
      if (own.lost) throw new Error("the connection was lost on the way");
    });
    const all = async () => {
      await begun(ask, own);
      try {
        const result = await work(ask);
        await ask("commit");
        return result;
      } catch (thrown) {
        own.lost ||= isBroken(thrown);
        if (!own.lost) await ask("rollback");
        throw thrown;
      }
    };
    try {
      return await inTime(deadline, all());
    } catch (thrown) {
      own.lost ||= isBroken(thrown);
      if (own.lost) {
        this.own = undefined;
        void own.sql.end({ timeout: 0 }).catch(() => {});
      }
      throw this.named(thrown);
    }
  }

  /** What a database that is away says names neither itself nor the setting that it stands in. */
  private named(thrown: unknown): unknown {
    const code = postgresCode(thrown);
    if (thrown instanceof StoreAway) return thrown;
    const advice = ADVICE.get(code ?? "");
    if (advice !== undefined) {
      const told = `PostgreSQL at ${shownPlace(this.place)} (store: ledger): ${messageOf(thrown)}; ${advice}`;
      return Object.assign(new FileError(told, { cause: thrown }), { code });
    }
    if (!isBroken(thrown) && !AWAY.has(code ?? "")) return thrown;
    const away = `PostgreSQL at ${shownPlace(this.place)} (store: ledger): ${messageOf(thrown)}`;
    return new StoreAway(away, { cause: thrown, code });
  }

  private ownConnection(): { sql: postgres.Sql; lost: boolean } {
    const lose = () => {
      own.lost = true;
    };
    const own = { sql: this.connected(1, lose), lost: false };
    return own;
  }

  private connected(most = this.most, lost?: () => void): postgres.Sql {
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
      ...(lost && { onclose: lost }),
    });
  }
}

/** A connection that was lost before the first word of a transaction is made again, and nothing is lost with it. */
async function begun(ask: PostgresAsk, transaction: { lost: boolean }): Promise<void> {
  try {
    await ask("begin");
  } catch (thrown) {
    if (!transaction.lost) throw thrown;
    transaction.lost = false;
    await ask("begin");
  }
}

/** Whether a connection has broken on the way, or has not answered. */
const isBroken = (error: unknown): boolean => error instanceof SilentError || BROKEN.has(postgresCode(error) ?? "");
const BROKEN: ReadonlySet<string> = new Set([
  ...["CONNECTION_CLOSED", "CONNECTION_DESTROYED", "CONNECTION_ENDED", "CONNECT_TIMEOUT", "ECONNRESET", "EPIPE"],
  // The server ends it.
  ...["57P01", "57P02", "57P05", "25P03"],
]);

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
export const scriptOf = (ask: PostgresAsk): ((text: string) => Promise<void>) =>
  scripts.get(ask) as (text: string) => Promise<void>;

const scripts = new WeakMap<PostgresAsk, (text: string) => Promise<void>>();

/** @param check throws where nothing may be asked any more */
function askOf(sql: postgres.Sql, check: () => void = () => {}): PostgresAsk {
  const ask: PostgresAsk = async (text, ...values) => {
    check();
    return sql.unsafe(numbered(text), [...values], { prepare: true });
  };
  scripts.set(ask, async (text) => {
    check();
    await sql.unsafe(text);
  });
  return ask;
}

/** Whether there is a table of ours with that name, now: `to_regclass` may not have heard of what others have made. */
export async function tableExists(ask: PostgresAsk, name: string): Promise<boolean> {
  const found = await ask(
    "select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ?::text and c.relname = ?::text",
    ...[SCHEMA, name],
  );
  return found.length > 0;
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
  const named = error instanceof StoreAway || (error instanceof FileError && error.cause !== undefined);
  const reason = messageOf(named ? error.cause : error).replace(/\.$/, "");
  const hint = hintOf(place, postgresCode(error));
  const message = `The store ${shownPlace(place)} cannot be used: ${reason}${hint === undefined ? "" : `; ${hint}`}`;
  return new FileError(message.endsWith("?") ? message : `${message}.`, { cause: error });
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
  if (code === "25006" || code === "53100") return ADVICE.get(code);
  if (code === "53300") return "raise max_connections of the server, or have fewer instances";
  if (tls.mode !== "disable" && TLS.test(code))
    return tls.mode === "prefer" || code === "ECONNRESET"
      ? "does the server offer TLS? sslmode=disable does without"
      : "sslrootcert=FILE names who signed the server's certificate, sslmode=require does not ask";
  return undefined;
}

/** What to do where the server will not write, by its code. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ["25006", "name the server that can be written, or end its being read-only, and try again"],
  ["42501", "grant its user what is missing, and try again"],
  ["53100", "its disk is full: free room there and try again"],
]);

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
