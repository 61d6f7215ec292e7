import type { Config } from "../config/types.ts";
import { thrownMessage } from "../core/errors.ts";
import { leftBehindWarning } from "../store/left-behind.ts";
import type { Stores } from "../store/open.ts";
import { cliAuthor } from "./author.ts";

/**
 * Creates a key for the first run; undefined if there are keys, also in the file of which `leftBehindWarning` warns: in a database
 * with a key, that file could no longer be imported, and nothing would warn of it.
 * @param warn called if it cannot be added to the audit trail: it is returned nevertheless, as no other first key will be
 * created
 */
export async function createFirstKey(
  { keys, audit }: Pick<Stores, "keys" | "audit">,
  warn: (message: string) => void,
  config?: Pick<Config, "file" | "store">,
): Promise<string | undefined> {
  if (config && (await leftBehindWarning(config.file, config.store.postgres)) !== undefined) return undefined;
  const key = await keys.ensureFirstKey();
  if (key === undefined) return undefined;
  const keyName = (await keys.find(key))?.name ?? "";
  try {
    await audit.add({ time: Date.now(), ...cliAuthor(), action: "keys.create", subject: keyName, detail: {} });
  } catch (thrown) {
    warn(`A first key was made, but this is missing in the audit trail: ${thrownMessage(thrown)}`);
  }
  return key;
}
