import { readFileSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";

/** How the connection to PostgreSQL is encrypted; the modes and their checks are those of PostgreSQL's own clients. */
export interface PostgresTls {
  readonly mode: "disable" | "prefer" | "require" | "verify-ca" | "verify-full";
  /** Certificates in PEM: the authorities trusted for the server's, and our own with its key. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** A PostgreSQL database and how to connect to it. Plain values, as they are sent to a thread. */
export interface PostgresSettings {
  /** A host's name or address, or the folder of a socket. */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password?: string;
  readonly database: string;
  readonly tls: PostgresTls;
  /** The application name that the server shows for our connections. */
  readonly application: string;
  /** Connect timeout in seconds. */
  readonly connectTimeout: number;
}

/** Where the stores are. */
export interface StoreLocation {
  /** The absolute path of a SQLite file, or `:memory:`; or the address of a database, without its password. */
  readonly ledger: string;
  /** How to connect to that database, and the absolute path of the folder of this machine's journals. */
  readonly postgres?: PostgresSettings & { readonly journal: string };
}

/** Settings of a store besides its place. */
export interface StoreOptions {
  /** What rows survive once the last byte of a response has been sent. Default: `process`. */
  readonly durability?: "process" | "power";
  /** Milliseconds for which rows are kept, in whole days; 0 or absent: forever. */
  readonly keep?: number;
}

const FORM = "write it like postgres://USER:PASSWORD@HOST:5432/DATABASE";
const PORT = 5432;
const CONNECT_TIMEOUT = 5;

/** The allowed query parameters. */
const KNOWN = [
  ...["sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "connect_timeout"],
  ...["host", "port", "user", "password"],
];

/** A mistake in an address. */
class AddressError extends Error {}

/**
 * Parses the address of a database in the syntax of PostgreSQL's own clients, or describes its mistake without repeating the
 * address, which may contain a password. Unsupported settings are mistakes.
 * @param folder base of relative paths of certificates
 */
export function parsePostgresUrl(text: string, folder: string): PostgresSettings | string {
  try {
    return parseAddress(text, folder);
  } catch (thrown) {
    if (thrown instanceof AddressError) return thrown.message;
    throw thrown;
  }
}

/** Returns the address without its password, for display and to be pasted into PostgreSQL's own clients. */
export function displayUrl({ host, port, user, database }: PostgresSettings): string {
  const part = encodeURIComponent;
  // A socket's name contains the port.
  const more = port === PORT ? "" : `&port=${port}`;
  if (isAbsolute(host)) return `postgres:///${part(database)}?host=${host}${more}&user=${part(user)}`;
  return `postgres://${part(user)}@${host.includes(":") ? `[${host}]` : host}:${port}/${part(database)}`;
}

function parseAddress(text: string, folder: string): PostgresSettings {
  const url = URL.parse(text);
  if (!url)
    throw new AddressError(`not an address of a database; ${FORM}, with %40 for @, %23 for #, %2F for / in a password`);
  if (url.hash !== "")
    throw new AddressError("an address of a database has no # part; in a password it is written %23");
  const query = parseQuery(url);
  const plain = (value: string, name: string): string => query.get(name) ?? decodePart(value);
  const host = plain(url.hostname.replaceAll(/^\[|\]$/g, ""), "host");
  if (host === "") throw new AddressError(`the address of the database names no host; ${FORM}`);
  if (host.includes(","))
    throw new AddressError("an address of a database names one host; several need a balancer before them");
  const user = plain(url.username, "user");
  const password = plain(url.password, "password");
  const database = decodePart(url.pathname.slice(1));
  if (user === "" || database === "")
    throw new AddressError(`the address of the database names no ${user === "" ? "user" : "database"}; ${FORM}`);
  return {
    host,
    port: parseInteger(plain(url.port, "port"), "port", PORT, 65_535),
    user,
    ...(password === "" ? {} : { password }),
    database,
    tls: parseTls(query, isAbsolute(host), folder),
    application: query.get("application_name") ?? "model-gateway",
    connectTimeout: parseInteger(query.get("connect_timeout") ?? "", "connect_timeout", CONNECT_TIMEOUT, 300),
  };
}

function parseQuery({ searchParams }: URL): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, value] of searchParams) {
    if (!KNOWN.includes(name))
      throw new AddressError(
        `${JSON.stringify(name)} of the database's address is not known here; known are ${KNOWN.join(", ")}`,
      );
    if (found.has(name)) throw new AddressError(`the address of the database says ${name} twice`);
    found.set(name, value);
  }
  return found;
}

function parseTls(query: ReadonlyMap<string, string>, socket: boolean, folder: string): PostgresTls {
  const mode = query.get("sslmode") ?? (socket ? "disable" : "prefer");
  const files = ["sslrootcert", "sslcert", "sslkey"].filter((name) => query.has(name));
  if (mode !== "disable" && mode !== "prefer" && mode !== "require" && mode !== "verify-ca" && mode !== "verify-full")
    throw new AddressError(
      `sslmode=${mode === "allow" ? mode : "…"} is not done here; write disable, prefer, require, verify-ca or verify-full`,
    );
  if (socket && (mode !== "disable" || files.length > 0))
    throw new AddressError("a socket of this machine has no TLS; leave sslmode and its files out");
  if (files.length > 0 && (mode === "disable" || mode === "prefer"))
    throw new AddressError(`${files[0]} needs sslmode=require, verify-ca or verify-full`);
  if (query.has("sslcert") !== query.has("sslkey")) throw new AddressError("sslcert and sslkey come together");
  const pem = (name: string) => {
    const file = query.get(name);
    return file === undefined ? undefined : readPem(resolve(folder, file), name);
  };
  const [ca, cert, key] = [pem("sslrootcert"), pem("sslcert"), pem("sslkey")];
  return {
    // With a root certificate the server's is verified, as PostgreSQL's own clients do it.
    mode: mode === "require" && ca !== undefined ? "verify-ca" : mode,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
}

function readPem(file: string, name: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    throw new AddressError(`${name}: ${file} cannot be read: ${(thrown as NodeJS.ErrnoException).code}`);
  }
}

function parseInteger(text: string, name: string, otherwise: number, maximum: number): number {
  if (text === "") return otherwise;
  const number = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > maximum)
    throw new AddressError(`${name} of the database's address is a whole number up to ${maximum}`);
  return number;
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new AddressError("a % in the database's address begins no escape; written as itself it is %25");
  }
}
