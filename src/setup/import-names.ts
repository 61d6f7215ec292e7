import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The folder of modules that read other gateways' files. Not from the loader of plugins, which the help must not load. */
export const IMPORTS_FOLDER = fileURLToPath(new URL("../../plugins/imports", import.meta.url));

/** Returns the supported kinds of files: every module there except the shared one, and the parts of others (`NAME.PART.ts`). */
export const importNames = (): string[] =>
  readdirSync(IMPORTS_FOLDER)
    .flatMap((file) => /^([^.]+)\.ts$/.exec(file)?.[1] ?? [])
    .filter((name) => name !== "draft")
    .sort();
