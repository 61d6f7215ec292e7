import * as build from "./build.ts";
import { YamlSource } from "./positions.ts";
import type { Finding } from "./problems.ts";
import { FileSchema } from "./schema.ts";
import { isMap, type YamlValue } from "./tree.ts";
import type { Config } from "./types.ts";
import { ValueReader } from "./values.ts";

/** The part of a gateway.yaml about the store, and the keys in it. */
export interface StorePart extends Pick<Config, "store" | "keys"> {
  /** Set if the keys in it are invalid: there are more than these. */
  readonly keysInvalid?: true;
  /** Undefined: it is invalid. */
  readonly timezone?: string;
}

/**
 * Reads the store part of a file with errors elsewhere: revoking a key must not wait until a model's price is corrected.
 * @param text the file's content
 * @param folder the base of relative paths in it
 * @returns undefined if the store part is invalid, or the YAML cannot be parsed
 */
export function readStorePart(text: string, env: NodeJS.ProcessEnv, folder: string): StorePart | undefined {
  const { values, problems } = new YamlSource("gateway.yaml", text);
  if (problems.some(({ severity }) => severity === "error")) return undefined;
  const { store, keys, timezone } = isMap(values) ? values : {};
  const zone = FileSchema.shape.timezone.safeParse(timezone ?? undefined);
  const days = zone.success ? { timezone: zone.data } : {};
  // An empty section counts as absent.
  const stored = store === undefined || store === null ? {} : { store };
  const whole = parsePart(keys === undefined || keys === null ? stored : { ...stored, keys }, env, folder);
  if (whole) return { ...whole, ...days };
  const part = parsePart(stored, env, folder);
  return part && { ...part, ...days, keysInvalid: true };
}

const StorePartSchema = FileSchema.pick({ store: true, keys: true });

/** @returns undefined if anything is invalid */
function parsePart(part: YamlValue, env: NodeJS.ProcessEnv, folder: string): StorePart | undefined {
  const shape = StorePartSchema.safeParse(part);
  const findings: Finding[] = [];
  const { values } = new ValueReader(part, env, folder, (finding) => void findings.push(finding));
  const { store, limits } = values;
  if (!shape.success || !store || limits === undefined) return undefined;
  if (findings.some(({ severity }) => severity !== "warning")) return undefined;
  return { store: { ...shape.data.store, ...store, limits }, keys: build.configuredKeys(shape.data, values) };
}
