import { type Problem, warningAt } from "../config/load.ts";
import type { Config } from "../config/types.ts";
import { FileError } from "../core/errors.ts";
import { PostgresDatabase, unusableDatabase } from "../store/postgres/database.ts";

/**
 * What a start from here would find wrong with the database, which is only asked whether it is there. No mistake of the file:
 * it may be checked where its database cannot be reached.
 */
export async function storeDoubts(config: Pick<Config, "file" | "text" | "store">): Promise<Problem[]> {
  const { postgres } = config.store;
  if (!postgres) return [];
  try {
    const database = await PostgresDatabase.open(postgres, 1);
    try {
      await database.ask("select 1");
    } catch (thrown) {
      throw unusableDatabase(postgres, thrown);
    } finally {
      await database.close();
    }
    return [];
  } catch (thrown) {
    if (!(thrown instanceof FileError)) throw thrown;
    return [warningAt(config, { path: ["store", "ledger"], message: thrown.message })];
  }
}
