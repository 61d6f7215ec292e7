import type { Stores } from "../store/open.ts";
import { commandLine } from "./author.ts";

/** A key for the first run; undefined where there are keys. */
export async function firstKeyOf({ keys, audit }: Pick<Stores, "keys" | "audit">): Promise<string | undefined> {
  const key = await keys.ensureFirstKey();
  if (key === undefined) return undefined;
  const subject = (await keys.find(key))?.name ?? "";
  await audit.add({ time: Date.now(), ...commandLine(), action: "keys.create", subject, detail: {} });
  return key;
}
