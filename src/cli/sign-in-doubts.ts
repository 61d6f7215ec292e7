import { openidClient } from "../admin/oidc.ts";
import { type Problem, warningAt } from "../config/load.ts";
import type { Config } from "../config/types.ts";
import { FileError } from "../core/errors.ts";

/** What a start would find missing for signing in at an identity provider, which is not asked itself. */
export async function signInDoubts(
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
