import { openidClient } from "../admin/oidc.ts";
import type { Problem } from "../config/load.ts";
import type { Config } from "../config/types.ts";
import { FileError } from "../core/errors.ts";

/** What a start would find missing for signing in at an identity provider, which is not asked itself. */
export async function signInDoubts(
  { file, adminAccess: { oidc } }: Pick<Config, "file" | "adminAccess">,
  load: () => Promise<unknown> = openidClient,
): Promise<Problem[]> {
  if (!oidc) return [];
  try {
    await load();
    return [];
  } catch (thrown) {
    if (!(thrown instanceof FileError)) throw thrown;
    return [{ file, line: 1, column: 1, message: thrown.message, frame: "", severity: "warning" }];
  }
}
