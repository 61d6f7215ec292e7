import { openidClient } from "../admin/oidc.ts";
import { warningAt } from "../config/load.ts";
import type { Problem } from "../config/problems.ts";
import type { Config } from "../config/types.ts";
import { FileError } from "../core/errors.ts";

/** Returns what a start would miss for sign-in with an identity provider, without contacting that. */
export async function signInWarnings(
  config: Pick<Config, "file" | "text" | "adminAccess">,
  load: () => Promise<unknown> = openidClient,
): Promise<Problem[]> {
  if (!config.adminAccess.oidc) return [];
  try {
    await load();
    return [];
  } catch (thrown) {
    if (!(thrown instanceof FileError)) throw thrown;
    return [warningAt(config, { path: ["admin", "oidc"], key: true, message: thrown.message })];
  }
}
