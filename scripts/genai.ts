/**
 * Extracts what the gateway reads from the data of the installed package `@pydantic/genai-prices` (MIT), and writes the result
 * and the package's notice beside the code that reads them. `npm run prices` runs it too. The result is committed: the package
 * is many times as large, and would be loaded as code.
 */
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { waitForUpdate } from "@pydantic/genai-prices";
import { extractGenai, genaiExtractText } from "../src/prices/genai-extract.ts";
import type { GenaiVendor } from "../src/prices/genai-table.ts";
import { VENDORS } from "../src/prices/vendors.ts";

const PACKAGE = new URL("../node_modules/@pydantic/genai-prices/", import.meta.url);
const TARGET = new URL("../src/prices/", import.meta.url);

const { version } = JSON.parse(readFileSync(new URL("package.json", PACKAGE), "utf8")) as { version: string };
const cut = extractGenai((await waitForUpdate()) as unknown as GenaiVendor[], version, VENDORS);
writeFileSync(new URL("genai.json", TARGET), genaiExtractText(cut));
copyFileSync(new URL("LICENSE", PACKAGE), new URL("genai.LICENSE", TARGET));
const models = cut.vendors.reduce((sum, vendor) => sum + vendor.models.length, 0);
process.stdout.write(`genai-prices ${version}: ${models} models\n`);
