import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, relative, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { loadConfig } from "../config/load.ts";
import { ConfigError } from "../config/problems.ts";
import { suggestion } from "../config/suggest.ts";
import type { Config } from "../config/types.ts";
import { fileProblem } from "../core/file-problem.ts";
import { compileGlob } from "../core/glob.ts";
import { dryStartPlugins } from "../dry-start.ts";
import { findExtensions } from "../loaded-config.ts";
import { loadVendors } from "../loader/vendors.ts";
import { Catalogue } from "../prices/catalogue.ts";
import { fileFromOffers, formatGatewayFile, type NewFile } from "../setup/gateway-file.ts";
import { checkImportKind, readImport } from "../setup/imports.ts";
import { type ModelOffer, queryOffers, type VendorOffer } from "../setup/offers.ts";
import { openStores, runWithStores } from "../store/open.ts";
import { toProblem, UsageError } from "../text/format-error.ts";
import { countNoun, formatTable, groupDigits, numberColumns } from "../text/table.ts";
import { installedClientLines, KEY_VARIABLE, localUrl } from "./connect.ts";
import { createFirstKey } from "./first-key.ts";
import { curlLines, trialModels } from "./first-request.ts";
import { COMMAND, parseVerbArguments, printFailure, printJson, type Terminal } from "./verb.ts";

const OPTIONS = {
  from: { type: "string" },
  models: { type: "string" },
  out: { type: "string", default: "gateway.yaml" },
  force: { type: "boolean" },
  yes: { type: "boolean" },
  json: { type: "boolean" },
} as const;

/** Asks the user a question; undefined without a user. */
export type Prompt = ((question: string) => Promise<string>) | undefined;

/** Returns a function that asks in the terminal, if there is one. */
export function terminalPrompt(): Prompt {
  if (!process.stdin.isTTY || !process.stdout.isTTY) return undefined;
  return async (question) => {
    const lines = createInterface({ input: process.stdin, output: process.stdout });
    try {
      return await lines.question(question);
    } finally {
      lines.close();
    }
  };
}

/**
 * Runs the verb `init`. Returns the exit code.
 * @param starting the gateway starts afterwards, and prints the first steps itself
 * @throws UsageError
 */
export async function runInit(
  args: readonly string[],
  io: Terminal,
  { ask = terminalPrompt(), starting = false }: { ask?: Prompt; starting?: boolean } = {},
): Promise<number> {
  const { values, positionals } = parseVerbArguments(args, OPTIONS, 1);
  const { from, out, json = false } = values;
  const [named] = positionals;
  if ((from === undefined) !== (named === undefined))
    throw new UsageError(
      from === undefined ? `"${named}" is one word too many.` : `--from ${from} needs a file after it.`,
    );
  if (from !== undefined) checkImportKind(from);
  for (const option of ["out", "models"] as const)
    if (values[option] === "") throw new UsageError(`--${option} is empty: give it a value, or leave it out.`);
  const outputFile = out === "-" ? undefined : resolve(io.folder, out);
  const refuse = () => {
    io.err(`${out} exists: --force overwrites it, --out FILE writes another file.`);
    return 1;
  };
  if (outputFile !== undefined && existsSync(outputFile) && !values.force) return refuse();
  const quiet = json || out === "-";
  const print = (line: string) => (quiet ? undefined : io.out(line));
  const made =
    from === undefined
      ? await fromEnvironment(values, io, print, quiet ? undefined : ask)
      : await fromImport(from, named as string, io);
  const text = formatGatewayFile(made.file);
  if (outputFile === undefined) {
    if (json) {
      printJson({ file: null, text, found: made.found, lost: made.lost }, io);
      return 0;
    }
    io.out(text.trimEnd());
    for (const each of mergeLost(made.lost)) io.err(`no counterpart: ${each}`);
    return 0;
  }
  const unwritten = writeFile(outputFile, text, values.force);
  if (unwritten) return unwritten === "exists" ? refuse() : printFailure(unwritten, io);
  const { config, problems } = await checkFile(outputFile, io);
  const key = starting ? undefined : config && (await firstKey(config, io));
  if (json) {
    io.out(
      JSON.stringify(
        { file: outputFile, found: made.found, lost: made.lost, problems, key: key ?? null },
        undefined,
        2,
      ),
    );
    return problems.length > 0 ? 1 : 0;
  }
  io.out(`wrote ${relative(io.folder, outputFile) || basename(outputFile)}: ${text.split("\n").length - 1} lines`);
  for (const each of mergeLost(made.lost)) io.out(`  no counterpart  ${each}`);
  if (starting) return 0;
  for (const problem of problems) io.err(problem);
  if (config) for (const line of await nextSteps(config, key, io)) io.out(line);
  return problems.length > 0 ? 1 : 0;
}

/** Writes a file. Returns why it cannot: others may have created it during the questions. */
function writeFile(file: string, text: string, force = false): "exists" | Error | undefined {
  try {
    writeFileSync(file, text, { flag: force ? "w" : "wx" });
    return undefined;
  } catch (thrown) {
    const isTaken = (thrown as NodeJS.ErrnoException).code === "EEXIST";
    return isTaken ? "exists" : new Error(`${file} cannot be written: ${fileProblem(thrown, "folder")}.`);
  }
}

/** The content of a new gateway.yaml. */
interface NewConfig {
  file: NewFile;
  /** Parts of another gateway's file without a counterpart here. */
  lost: readonly { path: string; why: string }[];
  found: unknown;
}

/** Merges messages about several entries of a list into one line: `model_list.{1,4}.rpm: why`. */
function mergeLost(lost: NewConfig["lost"]): string[] {
  const lines = new Map<string, string[]>();
  for (const { path, why } of lost) {
    const [, before = path, number = "", after = ""] = /^(\w+\.)(\d+)(\..*)$/s.exec(path) ?? [];
    const line = `${before}\n${after}: ${why}`;
    lines.set(line, [...(lines.get(line) ?? []), number]);
  }
  return [...lines].map(([line, numbers]) =>
    line.replace("\n", () => (numbers.length > 1 ? `{${numbers.join(",")}}` : (numbers[0] ?? ""))),
  );
}

async function fromEnvironment(
  values: { models?: string | undefined; yes?: boolean | undefined },
  io: Terminal,
  print: (line: string) => void,
  ask: Prompt,
): Promise<NewConfig> {
  const { protocolList } = await findExtensions(io.folder);
  const vendors = loadVendors();
  const offers = await queryOffers(vendors, protocolList, io.env, (sellers) => Catalogue.for(sellers));
  if (offers.length === 0) {
    const variables = vendors.flatMap(({ variables }) => variables.slice(0, 1)).slice(0, 6);
    print(
      `The environment has no vendor's key (${variables.join(", ")}, …): the file has only the built-in provider demo.\n`,
    );
  }
  const all = offers.flatMap(({ models }) => models);
  for (const offer of offers) for (const line of offerLines(offer, all)) print(line);
  const chosen = await chooseModels(all, values, ask);
  const found = offers.map(({ vendor, variable, url, listing, models }) => ({
    vendor: vendor.id,
    variable: variable ?? null,
    url,
    problem: listing.problem ?? null,
    models: models.map(({ id, price, context }) => ({ id, price: price ?? null, context: context ?? null })),
    taken: models.filter((model) => chosen.has(model)).map(({ id }) => id),
  }));
  return { file: fileFromOffers(offers, chosen, COMMAND), lost: [], found };
}

/** Maximum number of one vendor's unmarked models shown. */
const MAX_CHOICES = 20;

function offerLines({ vendor, variable, listing, models }: VendorOffer, all: readonly ModelOffer[]): string[] {
  const where = variable === undefined ? "on this machine" : variable;
  if (!listing.models) return [`${vendor.name} (${where}): ${listing.problem}`, ""];
  const priced = models.filter(({ price, preselected }) => price || preselected);
  const some = (priced.length > 0 ? priced : models).slice(0, MAX_CHOICES);
  const columns = ["", { right: "#" }, "MODEL", ...numberColumns("CONTEXT", "INPUT", "OUTPUT")];
  const rows = some.map((model) => [
    model.preselected ? "*" : "",
    String(all.indexOf(model) + 1),
    model.id,
    model.context === undefined ? "-" : groupDigits(model.context),
    model.price?.input === undefined ? "-" : `$${model.price.input}`,
    model.price?.output === undefined ? "-" : `$${model.price.output}`,
  ]);
  const more = models.length > some.length ? [`     and ${models.length - some.length} more; choose them by name`] : [];
  const title = `${vendor.name} (${where}): ${countNoun(models.length, "model")}`;
  return [title, ...formatTable(columns, rows), ...more, ""];
}

/** @throws UsageError for a name that no vendor lists */
async function chooseModels(
  all: readonly ModelOffer[],
  { models, yes }: { models?: string | undefined; yes?: boolean | undefined },
  ask: Prompt,
): Promise<Set<ModelOffer>> {
  const marked = new Set(all.filter((model) => model.preselected));
  if (models !== undefined) return pickModels(all, models);
  if (yes || !ask || all.length === 0) return marked;
  for (let mistake = ""; ; ) {
    const answer = await ask(
      `${mistake}Which models? Numbers or names, separated by commas; Enter takes those with *: `,
    );
    if (answer.trim() === "") return marked;
    try {
      return pickModels(all, answer);
    } catch (thrown) {
      if (!(thrown instanceof UsageError)) throw thrown;
      mistake = `${thrown.message}\n`;
    }
  }
}

/** @throws UsageError */
function pickModels(all: readonly ModelOffer[], text: string): Set<ModelOffer> {
  const chosen = new Set<ModelOffer>();
  for (const name of text.split(/[\s,]+/).filter(Boolean)) {
    const pattern = compileGlob(name);
    const found = all.filter((model, at) => String(at + 1) === name || pattern.test(model.id));
    if (found.length === 0) {
      const ids = new Set(all.map(({ id }) => id));
      throw new UsageError(`no vendor found here lists a model "${name}"${suggestion(name, ids)}`);
    }
    for (const model of found) chosen.add(model);
  }
  return chosen;
}

/** @throws UsageError for a file that cannot be read, or is of another kind */
async function fromImport(kind: string, named: string, io: Terminal): Promise<NewConfig> {
  let text: string;
  try {
    text = readFileSync(resolve(io.folder, named), "utf8");
  } catch (thrown) {
    throw new UsageError(`${named}: ${fileProblem(thrown, "file")}`);
  }
  const { file, lost } = await readImport(
    kind,
    text,
    `Made by init --from ${kind} ${basename(named)}. Check changes with: ${COMMAND} check`,
  );
  const found = { providers: file.providers.length, models: file.models.length };
  return { file, lost, found };
}

/** Checks the file that was written, like the verb check. */
async function checkFile(file: string, io: Terminal): Promise<{ config?: Config; problems: string[] }> {
  const folder = dirname(file);
  try {
    const extensions = await findExtensions(folder);
    const config = await loadConfig(file, extensions, io.env, folder);
    const found = await dryStartPlugins(config, extensions);
    if (found.length > 0) throw new ConfigError(found.map(toProblem));
    return { config, problems: [] };
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    return { problems: [thrown.message] };
  }
}

/** Creates a key for the first run; undefined if there are keys. */
const firstKey = ({ store, keys }: Config, io: Terminal): Promise<string | undefined> =>
  runWithStores(openStores(store.ledger, keys, io.err, store), (stores) => createFirstKey(stores, io.err));

/** Returns the next steps, to paste. */
async function nextSteps(config: Config, key: string | undefined, io: Terminal): Promise<string[]> {
  const { listen } = config;
  const choose = await trialModels(config);
  const model = choose();
  const lines = ["", "start it:", "", `  ${COMMAND} run`];
  if (key !== undefined) lines.push("", `key, shown once: ${key}   (more with: ${COMMAND} keys create NAME)`);
  if (model !== undefined)
    lines.push("", "then try it:", "", ...curlLines(localUrl(listen), key ?? KEY_VARIABLE, model));
  // Clients would be configured with a model that does not exist.
  if (model === undefined)
    return [
      ...lines,
      "",
      `no model can be used yet: see ${COMMAND} check; then set up clients with ${COMMAND} connect`,
    ];
  return [...lines, ...installedClientLines({ address: localUrl(listen), key: key ?? KEY_VARIABLE }, choose, io)];
}
