import { parseArgs } from "node:util";
import { unknown } from "../config/suggest.ts";
import type { KeyRecord, Keys, NewKey } from "../store/keys.ts";
import type { Ledger } from "../store/ledger.ts";
import { table, utc } from "./table.ts";
import { COMMAND, type Terminal } from "./verb.ts";
import { WHEN, when } from "./when.ts";

/** The lines of the overall help. */
export const help = `keys create NAME [--models a,b] [--expires 90d]
                               make a key; it is printed once
  keys list                    show all keys, never a key itself
  keys revoke ID|NAME          end a key at once`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} keys create NAME [--models a,b] [--expires WHEN] [--json]
       ${COMMAND} keys list [--json]
       ${COMMAND} keys revoke ID|NAME [--json]

  create   makes a key and prints it, this once
  list     shows all keys, those of gateway.yaml included, but never a key itself
  revoke   ends a key at once, also in a gateway that is running

  --models a,b     names of models the key may use; without it: all
  --expires WHEN   when it stops working: ${WHEN}
  --json           prints JSON`;

/** What the command line says is wrong with it, as opposed to what went wrong. */
class KeysMisuse extends Error {}

/**
 * The verb `keys`. Answers the exit code: 0 done, 1 could not be done, 2 not understood.
 * @param models those of gateway.yaml by their ids, which keys may be limited to
 */
export async function run(
  args: readonly string[],
  io: Terminal,
  stores: { keys: Keys; ledger: Ledger },
  models: readonly string[],
): Promise<number> {
  try {
    const { values, positionals } = read(args);
    const [verb, name] = positionals;
    if (verb !== "create" && (values.models !== undefined || values.expires !== undefined)) {
      throw new KeysMisuse("--models and --expires belong to keys create.");
    }
    if (verb === "list" && positionals.length === 1) return await list(values.json, io, stores.keys);
    if (positionals.length === 2 && name !== undefined) {
      if (verb === "revoke") return await revoke(name, values.json, io, stores.keys);
      if (verb === "create") return await create(wanted(name, values, models), values.json, io, stores.keys);
    }
    throw new KeysMisuse(wrongWords(verb));
  } catch (error) {
    io.err(error instanceof Error ? error.message : String(error));
    if (!(error instanceof KeysMisuse)) return 1;
    io.err(`\n${USAGE}`);
    return 2;
  }
}

function read(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        models: { type: "string" },
        expires: { type: "string" },
        json: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    throw new KeysMisuse(error instanceof Error ? error.message : String(error));
  }
}

function wrongWords(verb: string | undefined): string {
  if (verb === "create") return "keys create takes one name; put it in quotes when it has spaces.";
  if (verb === "revoke") return "keys revoke takes one id or name.";
  if (verb === "list") return "keys list takes no names.";
  return verb === undefined
    ? "keys needs a word: create, list or revoke."
    : `keys has no word ${JSON.stringify(verb)}.`;
}

function wanted(
  name: string,
  { models, expires }: { models?: string; expires?: string },
  known: readonly string[],
): NewKey {
  const key: NewKey = { name };
  if (models !== undefined) {
    key.models = models.split(",").map((model) => model.trim());
    if (key.models.includes(""))
      throw new KeysMisuse("--models takes names with commas between them, like fast,smart.");
    // Keys open models by id alone: with any other name, an alias included, this one would open nothing.
    for (const model of key.models)
      if (!known.includes(model)) throw new Error(`--models: ${unknown("model", model, known)}`);
  }
  if (expires !== undefined) {
    const now = Date.now();
    try {
      key.expires = when(expires, 1, now);
    } catch (error) {
      throw new KeysMisuse(`--expires: ${(error as Error).message}`);
    }
    if (key.expires <= now) throw new KeysMisuse(`--expires: ${utc(key.expires)} has passed.`);
  }
  return key;
}

async function create(key: NewKey, json: boolean, io: Terminal, keys: Keys): Promise<number> {
  const made = await keys.create(key);
  if (json) {
    io.out(JSON.stringify({ key: made.key, ...shown(made.record) }, undefined, 2));
    return 0;
  }
  // Alone on standard output, so that KEY=$(… keys create ci) works.
  io.out(made.key);
  io.err("Keep it now: only its hash is stored. Clients send it as their API key: Authorization: Bearer gw_…");
  return 0;
}

async function list(json: boolean, io: Terminal, keys: Keys): Promise<number> {
  const records = await keys.list();
  if (json) {
    io.out(JSON.stringify(records.map(shown), undefined, 2));
    return 0;
  }
  if (records.length === 0) {
    io.out(`No keys yet. Make one with: ${COMMAND} keys create NAME`);
    return 0;
  }
  const titles = ["ID", "NAME", "MODELS", "SOURCE", "CREATED", "EXPIRES", "REVOKED"];
  const rows = records.map((record) => [
    record.id,
    record.name,
    record.models?.join(",") ?? "all",
    record.source === "file" ? "gateway.yaml" : "store",
    record.source === "file" ? "-" : utc(record.created),
    record.expires === undefined ? "never" : utc(record.expires),
    record.revoked === undefined ? "-" : utc(record.revoked),
  ]);
  for (const line of table(
    titles.map((title) => ({ title })),
    rows,
  )) {
    io.out(line);
  }
  return 0;
}

async function revoke(idOrName: string, json: boolean, io: Terminal, keys: Keys): Promise<number> {
  const revoked = await keys.revoke(idOrName);
  if (revoked) {
    io.out(json ? JSON.stringify({ revoked: idOrName }) : `Revoked ${idOrName}.`);
    return 0;
  }
  const inFile = (await keys.list()).some(({ id, source }) => source === "file" && id === idOrName);
  throw new Error(
    inFile
      ? `The key ${idOrName} stands in gateway.yaml: remove it there.`
      : `There is no key ${idOrName} that could be revoked. See: ${COMMAND} keys list`,
  );
}

/** A record without its hash, in fixed order. */
function shown({ id, name, models, source, created, expires, revoked }: KeyRecord) {
  const time = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
  return {
    id,
    name,
    models: models ?? null,
    source,
    created: source === "file" ? null : time(created),
    expires: time(expires),
    revoked: time(revoked),
  };
}
