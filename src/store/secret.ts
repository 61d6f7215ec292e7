import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { FileError } from "../core/errors.ts";
import type { PostgresDatabase } from "./postgres/database.ts";

/**
 * The secret that envelopes are sealed with where gateway.yaml gives none: made once and kept beside the ledger, readable
 * by its owner only, so that conversations go on after a restart.
 * @param ledger the ledger's SQLite file, or `:memory:`, which keeps no secret either
 * @param warn told when other users can read the file, and when one that was in use is gone
 * @throws FileError when it can neither be read nor made.
 */
export function keptSecret(ledger: string, warn: (message: string) => void): Buffer {
  if (ledger === ":memory:") return randomBytes(32);
  const file = `${ledger}.secret`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    // The one who comes first makes it, also of several processes that start at a time.
    writeFileSync(file, `${randomBytes(32).toString("hex")}\n`, { flag: "wx", mode: 0o600 });
    if (hasExchanges(ledger))
      warn(
        `The secret ${file} was missing and is made anew, though the ledger has exchanges from before it: ${WITHOUT}`,
      );
  } catch (thrown) {
    const { code, syscall, message } = thrown as NodeJS.ErrnoException;
    // Half a secret is none, and the next start would find it.
    if (syscall === "write") rmSync(file, { force: true });
    if (code !== "EEXIST")
      throw new FileError(
        `The secret for envelopes cannot be kept in ${file}: ${code === "ENOSPC" ? `the disk is full; free room on ${dirname(file)} and try again` : message}`,
      );
  }
  const secret = Buffer.from(read(file).trim(), "hex");
  if (secret.length !== 32)
    throw new FileError(`${file} holds no secret: 64 hexadecimal digits. Remove it to have one made.`);
  if (process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0)
    warn(`Other users of this machine can read the secret ${file}: chmod 600 ${file}`);
  return secret;
}

/** What becomes of what was sealed and marked with a secret that is gone, and what to do. */
const WITHOUT =
  "envelopes (gw1state…) in conversations that go on are refused (400 invalid_field), ids of items from before are unknown, and who was signed in at the console has to sign in again. Put the former file back (store backup keeps it as FILE.secret), and restart.";

/** What is wrong with the secret beside a ledger that is in use, while nothing has made another one; undefined: nothing. */
export function missingSecret(ledger: string): string | undefined {
  if (ledger === ":memory:" || existsSync(`${ledger}.secret`) || !hasExchanges(ledger)) return undefined;
  return `it is missing, and the next start makes another one, after which ${WITHOUT}`;
}

/** Whether exchanges have been put into a ledger's file, with which secrets were given away perhaps. */
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
    // One that cannot be read is told elsewhere.
    return false;
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    throw new FileError(`The secret for envelopes cannot be read: ${(thrown as Error).message}`);
  }
}

/** The same in a database: the first instance that comes makes it for all. @throws Error when that cannot be asked */
export async function sharedSecret({ ask }: Pick<PostgresDatabase, "ask">): Promise<Buffer> {
  await ask("insert into secret values ('envelopes', ?::text) on conflict do nothing", randomBytes(32).toString("hex"));
  const [row] = await ask("select value from secret where name = 'envelopes'");
  return Buffer.from(String(row?.["value"]), "hex");
}
