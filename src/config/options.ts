import type { ZodSafeParseResult, ZodType } from "zod";
import type { ConfigPath, Report } from "./problems.ts";
import { resolveReferences, unresolvedReason } from "./references.ts";
import { isOptionSecret } from "./secrets.ts";
import { atPath, entries, isMap, items, type YamlValue } from "./tree.ts";

/** A plugin's options with their references resolved. */
interface ResolvedOptions {
  values: YamlValue;
  /** Values of references, each with its text in the file, which messages show in place of the secret. */
  secrets: Map<string, string>;
  /** Paths of resolved references, which are texts. */
  references: ConfigPath[];
  /** Paths of references without a value, which are reported. */
  broken: ConfigPath[];
}

/** A sum of money, like `$50/month`. */
const MONEY = /^\$\d/;

/**
 * Resolves texts like `$NAME`, `${NAME:-default}` and `$file:/path` in a plugin's options, at any depth.
 * @param base the path of the options in the file
 */
export function resolveOptions(
  options: YamlValue,
  base: ConfigPath,
  { env, folder, report }: { env: NodeJS.ProcessEnv; folder: string; report: Report },
): ResolvedOptions {
  const secrets = new Map<string, string>();
  const references: ConfigPath[] = [];
  const broken: ConfigPath[] = [];
  const resolveValue = (value: YamlValue, path: ConfigPath): YamlValue => {
    if (Array.isArray(value)) return items(value).map(([i, item]) => resolveValue(item, [...path, i]));
    if (isMap(value))
      return Object.fromEntries(entries(value).map(([name, v]) => [name, resolveValue(v, [...path, name])]));
    if (typeof value !== "string" || !value.includes("$") || MONEY.test(value)) return value;
    const found = resolveReferences(value, env, folder);
    if ("value" in found) {
      if (found.value !== value) {
        secrets.set(found.value, value);
        references.push(path);
      }
      return found.value;
    }
    broken.push(path);
    report({ path: [...base, ...path], message: unresolvedReason(found) });
    return value;
  };
  return { values: resolveValue(options, []), secrets, references, broken };
}

/**
 * Returns the texts of a plugin's options that its error messages must not repeat, with their replacements.
 * @param secrets values of references, with their texts
 */
export function optionSecrets(options: YamlValue, secrets: ReadonlyMap<string, string>): Map<string, string> {
  const replacements = new Map(secrets);
  const collect = (value: YamlValue, path: ConfigPath): void => {
    if (Array.isArray(value)) for (const [i, item] of items(value)) collect(item, [...path, i]);
    else if (isMap(value)) for (const [name, each] of entries(value)) collect(each, [...path, name]);
    else if (typeof value === "string" && isOptionSecret(path, value)) replacements.set(value, STARS);
  };
  collect(options, []);
  return replacements;
}

/** The replacement for a literal secret in the file. */
const STARS = "***";

/**
 * Validates options against their schema. A reference's value is a text, unless the schema expects a number or a boolean and the
 * text is one.
 */
export async function parseOptions(
  schema: ZodType,
  { values, references }: Pick<ResolvedOptions, "values" | "references">,
): Promise<ZodSafeParseResult<unknown>> {
  const read = await schema.safeParseAsync(values);
  const texts = new Set(references.map((path) => path.join("\0")));
  let changed = false;
  for (const issue of read.error?.issues ?? []) {
    if (issue.code !== "invalid_type" || !texts.has(issue.path.join("\0"))) continue;
    const path = issue.path as ConfigPath;
    const above = atPath(values, ...path.slice(0, -1)) as Record<string | number, YamlValue>;
    const name = path.at(-1) as string | number;
    const typed = toTyped(issue.expected, String(above[name]));
    if (typed === undefined) continue;
    above[name] = typed;
    changed = true;
  }
  return changed ? schema.safeParseAsync(values) : read;
}

function toTyped(expected: string, text: string): number | boolean | undefined {
  if (expected === "boolean") return text === "true" ? true : text === "false" ? false : undefined;
  const isNumber = (expected === "number" || expected === "int") && /^-?\d+(?:\.\d+)?$/.test(text);
  return isNumber ? Number(text) : undefined;
}
