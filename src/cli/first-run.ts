import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readStorePart } from "../config/store-part.ts";
import { loadVendors } from "../loader/vendors.ts";
import { runInit as init, type Prompt, terminalPrompt } from "./init.ts";
import { BUNDLED_CONFIG, type ConfigLocation, type Terminal } from "./verb.ts";

/**
 * Offers to create a gateway.yaml when somebody starts the gateway in a terminal for the first time: if there is none, and in a
 * checkout with a vendor's key in the environment. Otherwise the bundled one is used.
 * @returns the place of gateway.yaml after that
 */
export async function firstRun(
  location: ConfigLocation,
  io: Terminal,
  { ask = terminalPrompt(), bundled = BUNDLED_CONFIG }: { ask?: Prompt; bundled?: string } = {},
): Promise<ConfigLocation> {
  if (location.file !== bundled || !ask) return location;
  const own = join(io.folder, "gateway.yaml");
  const isCheckout = own === bundled;
  const variables = loadVendors().flatMap(({ variables }) => variables.find((name) => io.env[name]) ?? []);
  if (isCheckout && (variables.length === 0 || !isNew(location, io) || !isInGit(own))) return location;
  const here = isCheckout
    ? "The gateway.yaml of this folder is the bundled one, which is under version control."
    : "There is no gateway.yaml in this folder.";
  const keys = variables.length > 0 ? `of ${variables.join(", ")}` : "of model servers on this machine";
  const answer = await ask(`${here}\nWrite one with models ${keys}, whose lists are requested now? [Y/n] `);
  if (/^n/i.test(answer.trim())) return location;
  await init(isCheckout ? ["--force"] : [], io, { ask, starting: true });
  return { file: own, folder: io.folder };
}

/** Reports whether nothing has run here yet. */
function isNew({ file, folder }: ConfigLocation, { env }: Terminal): boolean {
  const ledger = readStorePart(readFileSync(file, "utf8"), env, folder)?.store.ledger;
  return ledger !== undefined && !existsSync(ledger);
}

/** Reports whether git has the current content of a file, so that overwriting it loses nothing. */
function isInGit(file: string): boolean {
  const { status, stdout } = spawnSync("git", ["status", "--porcelain", "--ignored", "--", file], {
    cwd: dirname(file),
  });
  return status === 0 && stdout.length === 0;
}
