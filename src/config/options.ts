import type { ConfigPath, Report } from "./problems.ts";
import { reveal, whyNot } from "./secrets.ts";
import { entries, isMap, items, type Tree } from "./tree.ts";

/** A plugin's options with what their references stand for. */
export interface RevealedOptions {
  values: Tree;
  /** What was put in, with the text that stands for it in the file: no message may repeat a secret. */
  secrets: Map<string, string>;
  /** Places of references that stand for nothing; that is reported. */
  broken: ConfigPath[];
}

/** An amount of money, like `$50/month`. */
const MONEY = /^\$\d/;

/**
 * Puts in what texts like `$NAME`, `${NAME:-default}` and `$file:/path` of a plugin's options stand for, at any depth.
 * @param base where the options stand in the file.
 */
export function revealOptions(
  options: Tree,
  base: ConfigPath,
  { env, folder, report }: { env: NodeJS.ProcessEnv; folder: string; report: Report },
): RevealedOptions {
  const secrets = new Map<string, string>();
  const broken: ConfigPath[] = [];
  const revealed = (value: Tree, path: ConfigPath): Tree => {
    if (Array.isArray(value)) return items(value).map(([i, item]) => revealed(item, [...path, i]));
    if (isMap(value))
      return Object.fromEntries(entries(value).map(([name, v]) => [name, revealed(v, [...path, name])]));
    if (typeof value !== "string" || !value.includes("$") || MONEY.test(value)) return value;
    const found = reveal(value, env, folder);
    if ("value" in found) {
      if (found.value !== value) secrets.set(found.value, value);
      return found.value;
    }
    broken.push(path);
    report({ path: [...base, ...path], message: whyNot(found) });
    return value;
  };
  return { values: revealed(options, []), secrets, broken };
}
