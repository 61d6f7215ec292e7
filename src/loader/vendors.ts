import { join } from "node:path";
import { z } from "zod";
import { compileGlob } from "../core/glob.ts";
import { PLUGINS_FOLDER } from "./discover.ts";
import { readYamlFolder } from "./yaml-folder.ts";

const nonEmpty = z.string().min(1);

/** The schema of a file in `plugins/vendors/`; the README there describes each member. */
const VendorFile = z.strictObject({
  name: nonEmpty,
  order: z.number().default(100),
  variables: z.array(nonEmpty),
  base: z.array(nonEmpty).default([]),
  provider: z.looseObject({
    url: nonEmpty,
    speaks: z.array(nonEmpty).optional(),
    protocol: nonEmpty.optional(),
  }),
  suggest: z.array(z.looseObject({ id: nonEmpty })).default([]),
  facts: z.array(z.strictObject({ ids: z.array(nonEmpty), facts: z.record(nonEmpty, z.unknown()) })).default([]),
  also: z.array(nonEmpty).default([]),
});

/** A vendor that `init` and `doctor` know. */
export type Vendor = z.output<typeof VendorFile> & {
  /** Its file's name without the extension: its provider's name in gateway.yaml. */
  readonly id: string;
};

/**
 * Loads the known vendors, sorted by order and id.
 * @throws PluginError with file and reason.
 */
export const loadVendors = (folder = join(PLUGINS_FOLDER, "vendors")): Vendor[] => readYamlFolder(folder, VendorFile);

/** Returns the protocols that a vendor speaks, best first. */
export const vendorProtocols = ({ provider: { speaks, protocol } }: Vendor): readonly string[] =>
  speaks ?? (protocol === undefined ? [] : [protocol]);

/** Returns the `facts` in gateway.yaml of a vendor's model, by its generation; empty: none are known. */
export const vendorFacts = ({ facts }: Vendor, model: string): Readonly<Record<string, unknown>> =>
  facts.find(({ ids }) => ids.some((id) => compileGlob(id).test(model)))?.facts ?? {};
