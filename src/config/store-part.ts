import * as build from "./build.ts";
import { YamlSource } from "./positions.ts";
import type { Finding } from "./problems.ts";
import { FileSchema } from "./schema.ts";
import { isMap, type Tree } from "./tree.ts";
import type { Config } from "./types.ts";
import { ValueReader } from "./values.ts";

/** What a gateway.yaml says of where state is kept, and the keys in it. */
export interface StorePart extends Pick<Config, "store" | "keys"> {
  /** The keys in it are wrong themselves: there are more than these. */
  readonly withoutKeys?: true;
  /** Undefined: it is wrong. */
  readonly timezone?: string;
}

/**
 * Reads that of a file in which something else is wrong: who revokes a key has no time to mend a model's price first.
 * @param text what the file says
 * @param folder where relative paths in it start
 * @returns undefined where what it says of the store is wrong, or the YAML cannot be read
 */
export function storePart(text: string, env: NodeJS.ProcessEnv, folder: string): StorePart | undefined {
  const { values, problems } = new YamlSource("gateway.yaml", text);
  if (problems.some(({ severity }) => severity === "error")) return undefined;
  const { store, keys, timezone } = isMap(values) ? values : {};
  const zone = FileSchema.shape.timezone.safeParse(timezone ?? undefined);
  const days = zone.success ? { timezone: zone.data } : {};
  // A section with nothing in it is as good as left out.
  const stored = store === undefined || store === null ? {} : { store };
  const whole = read(keys === undefined || keys === null ? stored : { ...stored, keys }, env, folder);
  if (whole) return { ...whole, ...days };
  const part = read(stored, env, folder);
  return part && { ...part, ...days, withoutKeys: true };
}

const StorePartSchema = FileSchema.pick({ store: true, keys: true });

/** @returns undefined where anything is wrong */
function read(part: Tree, env: NodeJS.ProcessEnv, folder: string): StorePart | undefined {
  const shape = StorePartSchema.safeParse(part);
  const findings: Finding[] = [];
  const { values } = new ValueReader(part, env, folder, (finding) => void findings.push(finding));
  const { store, limits } = values;
  if (!shape.success || !store || limits === undefined) return undefined;
  if (findings.some(({ severity }) => severity !== "warning")) return undefined;
  return { store: { ...shape.data.store, ...store, limits }, keys: build.keys(shape.data, values) };
}
