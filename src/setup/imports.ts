import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { parse } from "yaml";
import { nearest } from "../config/suggest.ts";
import { thrownMessage } from "../core/errors.ts";
import { loadVendors, type Vendor, vendorFacts } from "../loader/vendors.ts";
import { UsageError } from "../text/format-error.ts";
import type { NewEntry, NewFile } from "./gateway-file.ts";
import { IMPORTS_FOLDER, importNames } from "./import-names.ts";

/** The result of a module of `plugins/imports/` for another gateway's file. */
interface ImportResult {
  providers: NewEntry[];
  models: NewEntry[];
  sections: Record<string, unknown>;
  lost: { path: string; why: string }[];
}

/** @throws UsageError for an unknown kind of file */
export function checkImportKind(kind: string): void {
  const names = importNames();
  if (names.includes(kind)) return;
  const near = nearest(kind, names);
  throw new UsageError(
    `--from ${kind}: ${near === undefined ? "" : `did you mean ${near}? `}known: ${names.join(", ")}`,
  );
}

/**
 * Converts another gateway's file to a gateway.yaml.
 * @param about the first line of the new file
 * @throws UsageError for an unknown kind, a file that is neither YAML nor JSON, or one without any model of that kind
 */
export async function readImport(
  kind: string,
  text: string,
  about: string,
): Promise<{ file: NewFile; lost: ImportResult["lost"] }> {
  checkImportKind(kind);
  let parsed: unknown;
  try {
    parsed = parse(text);
  } catch (thrown) {
    throw new UsageError(`the file is neither YAML nor JSON: ${thrownMessage(thrown).split("\n", 1)[0]}`);
  }
  const module = (await import(pathToFileURL(join(IMPORTS_FOLDER, `${kind}.ts`)).href)) as {
    default(file: unknown, vendors: readonly Vendor[]): ImportResult;
  };
  const vendors = loadVendors();
  const { providers, models, sections, lost } = module.default(parsed, vendors);
  if (models.length === 0)
    throw new UsageError(
      [`there is no model in it that could be served here.`, ...lost.map(({ path, why }) => `  ${path}: ${why}`)].join(
        "\n",
      ),
    );
  const complete = models.map((model) => withFacts(model, providers, vendors));
  return {
    file: { about: [about], sections: { listen: "127.0.0.1:8080", ...sections }, providers, models: complete },
    lost,
  };
}

type NewTarget = string | Readonly<{ to: string }>;

/** Adds the facts of a model's generation: to the model if they apply to all its targets, or else to each target. */
function withFacts(model: NewEntry, providers: readonly NewEntry[], vendors: readonly Vendor[]): NewEntry {
  const targets = model.entry["targets"] as readonly NewTarget[];
  const facts = targets.map((target) => factsOf(typeof target === "string" ? target : target.to, providers, vendors));
  if (facts.every((each) => Object.keys(each).length === 0)) return model;
  if (facts.every((each) => isDeepStrictEqual(each, facts[0])))
    return { ...model, entry: { facts: facts[0], ...model.entry } };
  const own = targets.map((target, at) => {
    const known = facts[at] ?? {};
    if (Object.keys(known).length === 0) return target;
    return { ...(typeof target === "string" ? { to: target } : target), facts: known };
  });
  return { ...model, entry: { ...model.entry, targets: own } };
}

/** Returns what is known about the model of a target, if its provider has the address or the name of a known vendor. */
function factsOf(target: string, providers: readonly NewEntry[], vendors: readonly Vendor[]) {
  const [name = ""] = target.split(":", 1);
  const { url, vendor: named } = providers.find((each) => each.name === name)?.entry ?? {};
  const host = URL.parse(String(url))?.host;
  const vendor = vendors.find(({ id, provider }) => id === named || URL.parse(provider.url)?.host === host);
  return vendor ? vendorFacts(vendor, target.slice(name.length + 1)) : {};
}
