import { randomBytes } from "node:crypto";
import { constants, copyFileSync, existsSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { FileError, thrownMessage } from "../core/errors.ts";
import { makeFolder } from "./make-folder.ts";
import type { PostgresDatabase } from "./postgres/database.ts";
import { sleepSync } from "./sleep-sync.ts";
import { newPartFile } from "./sqlite/part-file.ts";

/**
 * How often, and after how many milliseconds, a file is read again that another process has created but not written, as on file
 * systems without hard links.
 */
const [RETRIES, RETRY_DELAY] = [50, 20] as const;

/**
 * Returns the secret for sealing envelopes if gateway.yaml has none: created once and stored beside the ledger, readable by its
 * owner only, so that conversations survive a restart.
 * @param ledger the ledger's SQLite file, or `:memory:`, for which the secret is not stored
 * @param warn called when other users can read the file, and when a secret that was in use is missing
 * @throws FileError when it can neither be read nor created.
 */
export function loadOrCreateSecret(ledger: string, warn: (message: string) => void): Buffer {
  if (ledger === ":memory:") return randomBytes(32);
  const file = `${ledger}.secret`;
  try {
    makeFolder(dirname(file));
    if (!existsSync(file) && createSecret(file) && hasExchanges(ledger))
      warn(
        `The secret ${file} was missing, and a new one was made, but the ledger has older exchanges: ${CONSEQUENCES}`,
      );
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    throw new FileError(
      `The secret for envelopes cannot be written to ${file}: ${code === "ENOSPC" ? `the disk is full; free space in ${dirname(file)} and try again` : message}`,
    );
  }
  const secret = parseSecret(file);
  if (process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0)
    warn(`Other users of this machine can read the secret ${file}: chmod 600 ${file}`);
  return secret;
}

/**
 * Creates a secret's file, which gets its name once it is complete: a process killed here leaves no part of it.
 * @returns false if another process has just created one
 */
function createSecret(file: string): boolean {
  const part = newPartFile(file);
  try {
    writeFileSync(part, `${randomBytes(32).toString("hex")}\n`, { mode: 0o600, flush: true });
    linkOrCopy(part, file);
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
    return false;
  } finally {
    rmSync(part, { force: true });
  }
}

/** Gives a file another name, or copies it where there are no hard links. @throws the system's error, EEXIST for a name in use */
function linkOrCopy(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch {
    copyFileSync(file, name, constants.COPYFILE_EXCL);
  }
}

/** Returns the secret beside a ledger; undefined: there is none. @throws FileError when it cannot be read */
export const readSecret = (ledger: string): Buffer | undefined =>
  existsSync(`${ledger}.secret`) ? parseSecret(`${ledger}.secret`) : undefined;

/** The consequences of a lost secret, and what to do. */
const CONSEQUENCES =
  "envelopes (gw1state…) of earlier conversations are refused (400 invalid_field), earlier item ids are unknown, and users of the console have to sign in again. Restore the old file (store backup keeps it as FILE.secret), and restart.";

/** Describes a secret missing beside a used ledger, before a new one is created; undefined: it is not missing. */
export function missingSecretWarning(ledger: string): string | undefined {
  if (ledger === ":memory:" || existsSync(`${ledger}.secret`) || !hasExchanges(ledger)) return undefined;
  return `it is missing; the next start makes a new one, after which ${CONSEQUENCES}`;
}

/** Reports whether a ledger's file contains exchanges, in which the secret may have been used. */
function hasExchanges(ledger: string): boolean {
  if (!existsSync(ledger)) return false;
  try {
    const database = new DatabaseSync(ledger, { readOnly: true, timeout: 1000 });
    try {
      return database.prepare("select 1 from usage_hour limit 1").get() !== undefined;
    } finally {
      database.close();
    }
  } catch {
    // An unreadable ledger is reported elsewhere.
    return false;
  }
}

function parseSecret(file: string): Buffer {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
    for (let left = RETRIES; text === "" && left > 0; left--) {
      sleepSync(RETRY_DELAY);
      text = readFileSync(file, "utf8");
    }
  } catch (thrown) {
    throw new FileError(`The secret for envelopes cannot be read: ${thrownMessage(thrown)}`);
  }
  if (!isEnvelopeSecret(text))
    throw new FileError(`${file} contains no secret (64 hexadecimal digits). Remove it, and a new one is made.`);
  return Buffer.from(text.trim(), "hex");
}

/** Reports whether a file's text is a secret. */
export const isEnvelopeSecret = (text: string): boolean => Buffer.from(text.trim(), "hex").length === 32;

/** Returns the secret in a database: the first instance creates it for all. @throws Error of the database */
export async function databaseSecret({ query }: Pick<PostgresDatabase, "query">): Promise<Buffer> {
  await query(
    "insert into secret values ('envelopes', ?::text) on conflict do nothing",
    randomBytes(32).toString("hex"),
  );
  const [row] = await query("select value from secret where name = 'envelopes'");
  return Buffer.from(String(row?.["value"]), "hex");
}
