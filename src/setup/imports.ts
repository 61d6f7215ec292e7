import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parse } from "yaml";
import { nearest } from "../config/suggest.ts";
import { loadVendors, type Vendor } from "../loader/vendors.ts";
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
    throw new UsageError(`the file is neither YAML nor JSON: ${(thrown as Error).message.split("\n", 1)[0]}`);
  }
  const module = (await import(pathToFileURL(join(IMPORTS_FOLDER, `${kind}.ts`)).href)) as {
    default(file: unknown, vendors: readonly Vendor[]): ImportResult;
  };
  const { providers, models, sections, lost } = module.default(parsed, loadVendors());
  if (models.length === 0)
    throw new UsageError(
      [`there is no model in it that could be served here.`, ...lost.map(({ path, why }) => `  ${path}: ${why}`)].join(
        "\n",
      ),
    );
  return { file: { about: [about], sections: { listen: "127.0.0.1:8080", ...sections }, providers, models }, lost };
}
