import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { storePart } from "../config/store-part.ts";
import { loadVendors } from "../loader/vendors.ts";
import { type Ask, asker, run as init } from "./init.ts";
import { BUNDLED, type Terminal, type VerbPlace } from "./verb.ts";

/**
 * Who starts the gateway by hand for the first time is asked whether it shall have a gateway.yaml of its own: where there is none, and
 * in a checkout where a vendor's key is in the environment. Anybody else gets the one that came along.
 * @returns where gateway.yaml is then
 */
export async function firstRun(
  place: VerbPlace,
  io: Terminal,
  { ask = asker(), bundled = BUNDLED }: { ask?: Ask; bundled?: string } = {},
): Promise<VerbPlace> {
  if (place.file !== bundled || !ask) return place;
  const own = join(io.folder, "gateway.yaml");
  const isCheckout = own === bundled;
  const variables = loadVendors().flatMap(({ variables }) => variables.find((name) => io.env[name]) ?? []);
  if (isCheckout && (variables.length === 0 || !isNew(place, io) || !isInGit(own))) return place;
  const here = isCheckout
    ? "The gateway.yaml of this folder is the one that came along, which git keeps."
    : "There is no gateway.yaml in this folder.";
  const keys = variables.length > 0 ? `of ${variables.join(", ")}` : "of model servers on this machine";
  const answer = await ask(`${here}\nWrite one with models ${keys}, which are asked what they have? [Y/n] `);
  if (/^n/i.test(answer.trim())) return place;
  await init(isCheckout ? ["--force"] : [], io, { ask, starting: true });
  return { file: own, folder: io.folder };
}

/** Whether nothing has run here yet. */
function isNew({ file, folder }: VerbPlace, { env }: Terminal): boolean {
  const ledger = storePart(readFileSync(file, "utf8"), env, folder)?.store.ledger;
  return ledger !== undefined && !existsSync(ledger);
}

/** Whether git has a file as it is, so that nothing is lost where it is written over. */
function isInGit(file: string): boolean {
  const { status, stdout } = spawnSync("git", ["status", "--porcelain", "--ignored", "--", file], {
    cwd: dirname(file),
  });
  return status === 0 && stdout.length === 0;
}
