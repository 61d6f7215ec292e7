import { setTimeout as sleep } from "node:timers/promises";
import { errorAt, type Problem, warningAt } from "../config/load.ts";
import type { Config } from "../config/types.ts";
import { FileError } from "../core/errors.ts";
import { hasLimits } from "../core/limits.ts";
import { hasSeveral, journalFolder } from "../store/journal/files.ts";
import { leftBehind } from "../store/left-behind.ts";
import { connectToRead } from "../store/open.ts";
import { COUNTED_TWICE } from "../store/other-gateways.ts";
import { PostgresDatabase, unusableDatabase } from "../store/postgres/database.ts";
import type { PostgresPlace } from "../store/postgres/place.ts";
import { RedisServer, unusableRedis } from "../store/redis/server.ts";
import { isWorker } from "../workers/worker-process.ts";

/** Milliseconds between two checks: a killed gateway looks alive for a shorter time. */
const AGAIN = 3000;

/**
 * Returns an error if several gateways currently count limits, each in its own memory.
 * @param again milliseconds until the second check
 */
export async function countedTwice(
  config: Pick<Config, "file" | "text" | "store" | "limits" | "keys">,
  again = AGAIN,
): Promise<Problem[]> {
  const { ledger, limits, postgres } = config.store;
  const several = () => hasSeveral(journalFolder(ledger), isWorker);
  if (limits !== "memory" || postgres || !several() || !(await isLimited(config))) return [];
  await sleep(again);
  return several() ? [errorAt(config, { path: ["store"], message: COUNTED_TWICE })] : [];
}

async function isLimited({ store, limits, keys }: Pick<Config, "store" | "limits" | "keys">): Promise<boolean> {
  if (hasLimits(limits)) return true;
  const stores = await connectToRead(store, keys, () => {});
  try {
    return (await stores.keys.list()).some((key) => key.limits && !key.revoked);
  } finally {
    await stores.close();
  }
}

/** What stays in the default SQLite file where the ledger is an empty database now. */
export async function leftBehindDoubts(config: Pick<Config, "file" | "text" | "store">): Promise<Problem[]> {
  const message = await leftBehind(config.file, config.store.postgres);
  return message === undefined ? [] : [warningAt(config, { path: ["store", "ledger"], message })];
}

/**
 * Returns warnings if PostgreSQL or Redis cannot be used from here; it only connects to them. Not errors of the file, which may
 * be checked where they are unreachable.
 */
export async function storeDoubts(config: Pick<Config, "file" | "text" | "store">): Promise<Problem[]> {
  const found = await storeAnswers(config);
  return found.flatMap(({ setting, problem }) =>
    problem === undefined ? [] : [warningAt(config, { path: ["store", setting], message: problem })],
  );
}

/** The result of connecting to a server that holds a part of the store. */
export interface StoreAnswer {
  /** The setting of gateway.yaml that names it, below `store`. */
  readonly setting: "ledger" | "limits";
  /** What is wrong with it, and what to do; absent: it can be used. */
  readonly problem?: string;
}

/** Checks whether the store's servers, if any, can be used. */
export async function storeAnswers({ store }: Pick<Config, "store">): Promise<StoreAnswer[]> {
  const { postgres, limits } = store;
  const answer = async (setting: StoreAnswer["setting"], asked: Promise<void>): Promise<StoreAnswer> => {
    try {
      await asked;
      return { setting };
    } catch (thrown) {
      if (!(thrown instanceof FileError)) throw thrown;
      return { setting, problem: thrown.message };
    }
  };
  return Promise.all([
    ...(postgres ? [answer("ledger", askPostgres(postgres))] : []),
    ...(/^rediss?:/.test(limits) ? [answer("limits", askRedis(limits))] : []),
  ]);
}

async function askRedis(url: string): Promise<void> {
  const server = await RedisServer.of(url);
  try {
    await server.connect();
  } catch (thrown) {
    throw unusableRedis(server, thrown);
  } finally {
    server.disconnect();
  }
}

async function askPostgres(postgres: PostgresPlace): Promise<void> {
  const database = await PostgresDatabase.open(postgres, 1);
  try {
    await database.ask("select 1");
  } catch (thrown) {
    throw unusableDatabase(postgres, thrown);
  } finally {
    await database.close();
  }
}
