import { setTimeout as sleep } from "node:timers/promises";
import { errorAt, warningAt } from "../config/load.ts";
import type { Problem } from "../config/problems.ts";
import type { Config } from "../config/types.ts";
import { FileError } from "../core/errors.ts";
import { hasLimits } from "../core/limits.ts";
import { folderProblem, hasSeveralGateways, journalFolder } from "../store/journal/files.ts";
import { limitedKeys } from "../store/keys.ts";
import { leftBehindWarning } from "../store/left-behind.ts";
import { connectToRead, runWithStores } from "../store/open.ts";
import { isMissingPackage } from "../store/optional-package.ts";
import { COUNTED_TWICE } from "../store/other-gateways.ts";
import { checkDatabase, PostgresDatabase, unusableDatabase } from "../store/postgres/database.ts";
import type { PostgresSettings } from "../store/postgres/place.ts";
import { RedisServer, unusableRedis } from "../store/redis/server.ts";
import { sqliteAccessProblem, sqliteFileProblem } from "../store/sqlite/file-problem.ts";

/** Milliseconds between two checks: a killed gateway looks alive for a shorter time. */
const RECHECK_DELAY = 3000;

/** Returns an error if several gateways currently count limits, each in its own memory. */
export async function doubleCountErrors(
  config: Pick<Config, "file" | "text" | "store" | "limits" | "keys">,
): Promise<Problem[]> {
  const { ledger, limits, postgres } = config.store;
  const several = () => hasSeveralGateways(journalFolder(ledger));
  if (limits !== "memory" || postgres || !several() || !(await isLimited(config))) return [];
  await sleep(RECHECK_DELAY);
  return several() ? [errorAt(config, { path: ["store"], message: COUNTED_TWICE })] : [];
}

async function isLimited({ store, limits, keys }: Pick<Config, "store" | "limits" | "keys">): Promise<boolean> {
  if (hasLimits(limits)) return true;
  const stores = connectToRead(store, keys, () => {});
  return (await runWithStores(stores, ({ keys }) => limitedKeys(keys))).length > 0;
}

/** What stays in the default SQLite file where the ledger is an empty database now. */
export async function leftBehindWarnings(config: Pick<Config, "file" | "text" | "store">): Promise<Problem[]> {
  const message = await leftBehindWarning(config.file, config.store.postgres);
  return message === undefined ? [] : [warningAt(config, { path: ["store", "ledger"], message })];
}

/**
 * Returns warnings if PostgreSQL, Redis, the SQLite file or the folder of PostgreSQL's journals cannot be used from here; nothing is
 * written. Not errors of the file, which may be checked on another machine; a missing package is one, and a path that cannot be a
 * SQLite file's, because no start can succeed with them.
 */
export async function storeWarnings(config: Pick<Config, "file" | "text" | "store">): Promise<Problem[]> {
  const { ledger, postgres } = config.store;
  const message = postgres || ledger === ":memory:" ? undefined : sqliteFileProblem(ledger);
  if (message !== undefined) return [errorAt(config, { path: ["store", "ledger"], message })];
  const found = await checkStores(config);
  const servers = found.flatMap(({ setting, problem, isMissing }) => {
    const problemAt = isMissing ? errorAt : warningAt;
    return problem === undefined ? [] : [problemAt(config, { path: ["store", setting], message: problem })];
  });
  return [...servers, ...(postgres ? journalWarnings(config, postgres.journal) : fileWarnings(config, ledger))];
}

/** A start of this user's would end there; the gateway's user may be another one. */
function fileWarnings(config: Pick<Config, "file" | "text">, ledger: string): Problem[] {
  const problem = ledger === ":memory:" ? undefined : sqliteAccessProblem(ledger);
  const message = `${problem}, and a gateway that it starts ends at once: let it write there, or name another file with store.ledger`;
  return problem === undefined ? [] : [warningAt(config, { path: ["store", "ledger"], message })];
}

/** Without its folder a gateway serves, and keeps the rows in memory while PostgreSQL cannot be reached. */
function journalWarnings(config: Pick<Config, "file" | "text">, folder: string): Problem[] {
  const problem = folderProblem(folder);
  const message = `The folder of journals cannot be used: ${problem}. Let this user write it, or name another with store.journal.`;
  return problem === undefined ? [] : [warningAt(config, { path: ["store", "journal"], message })];
}

/** The result of connecting to a server that holds a part of the store. */
interface StoreCheck {
  /** The setting of gateway.yaml that names it, below `store`. */
  readonly setting: "ledger" | "limits";
  /** What is wrong with it, and what to do; absent: it can be used. */
  readonly problem?: string;
  /** Whether that is its package, which is not installed. */
  readonly isMissing?: boolean;
}

/** Checks whether the store's servers, if any, can be used. */
export async function checkStores({ store }: Pick<Config, "store">): Promise<StoreCheck[]> {
  const { postgres, limits } = store;
  const answer = async (setting: StoreCheck["setting"], check: Promise<void>): Promise<StoreCheck> => {
    try {
      await check;
      return { setting };
    } catch (thrown) {
      if (!(thrown instanceof FileError)) throw thrown;
      return { setting, problem: thrown.message, isMissing: isMissingPackage(thrown) };
    }
  };
  return Promise.all([
    ...(postgres ? [answer("ledger", checkPostgres(postgres))] : []),
    ...(/^rediss?:/.test(limits) ? [answer("limits", checkRedis(limits))] : []),
  ]);
}

async function checkRedis(url: string): Promise<void> {
  const server = await RedisServer.create(url);
  try {
    await server.connect();
    const warning = await server.evictionWarning();
    if (warning !== undefined) throw new FileError(warning);
  } catch (thrown) {
    throw thrown instanceof FileError ? thrown : unusableRedis(server, thrown);
  } finally {
    server.disconnect();
  }
}

async function checkPostgres(postgres: PostgresSettings): Promise<void> {
  const database = await PostgresDatabase.open(postgres, 1);
  try {
    await checkDatabase(database.query);
  } catch (thrown) {
    throw unusableDatabase(postgres, thrown);
  } finally {
    await database.close();
  }
}
